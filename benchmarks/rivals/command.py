"""The command: rounds over all systems, a table, plots."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click
import uvloop
from rich.console import Console

from benchmarks.fleet import FleetError
from benchmarks.gauges import percentile
from benchmarks.rivals import catching_up, floors, install, measures, page, report
from benchmarks.rivals.documents import DISTANT, Distant, latencies
from benchmarks.rivals.processes import ServerError
from benchmarks.rivals.stores import Crdtsync, Etcd, Nats, Redis, Store
from crdtsync.errors import CrdtSyncError

STORES: dict[str, Callable[[], Store]] = {
    "crdtsync": Crdtsync,
    "redis": lambda: Redis("always"),
    "redis-everysec": lambda: Redis("everysec"),
    "etcd": Etcd,
    "nats": Nats,
}
NEEDS = {"redis": "redis-server", "redis-everysec": "redis-server", "etcd": "etcd", "nats": "nats-server"}
LINES = {line.name.split()[0].rstrip(",").lower(): line for line in DISTANT}
ASYNC_ONLY = {"nats"}
FAILURES = (TimeoutError, OSError, ServerError, FleetError, CrdtSyncError)
STEP_TIMEOUT_S = 30.0
"""Of one step, and :data:`WRITE_TIMEOUT_S` more for each write in it; nothing may hang the benchmark."""
WRITE_TIMEOUT_S = 0.05
CATCH_UP_TIMEOUT_S = 240.0
MIRROR_ROUNDS = 20
ECHO = "echo of uvloop and msgpack"


class Options(NamedTuple):
    """How much of what."""

    rounds: int = 5
    writes: int = 2000
    systems: tuple[str, ...] = ()
    kill_after_s: float = measures.KILL_AFTER_S
    missed: int = 20_000

    @property
    def step_timeout_s(self) -> float:
        """How long one step may take."""
        return STEP_TIMEOUT_S + WRITE_TIMEOUT_S * self.writes

    def has(self, name: str) -> bool:
        """Whether this system is measured."""
        return not self.systems or name in self.systems


class Sample(NamedTuple):
    """One figure of one system in one round."""

    system: str
    figure: measures.Figure
    value: float


async def run(options: Options, console: Console) -> list[Sample]:
    """All rounds. A system that fails is told, and left out of that round."""
    samples: list[Sample] = []
    for number in range(options.rounds):
        for name, make in STORES.items():
            if options.has(name):
                console.print(f"round {number + 1} of {options.rounds}: {name}")
                samples += await _measured(name, make(), options, console)
        for name, line in LINES.items():
            if options.has(name):
                console.print(f"round {number + 1} of {options.rounds}: from client to client, {name}")
                samples += await _distance(line, options, console)
        if options.missed:
            console.print(f"round {number + 1} of {options.rounds}: catching up")
            samples += await _caught_up(options, console)
        samples += await asyncio.to_thread(_floors, options.writes)
    return samples


async def _measured(name: str, store: Store, options: Options, console: Console) -> list[Sample]:
    found: measures.Figures = {}

    async def step(what: str, work: Awaitable[measures.Figures | None]) -> None:
        figures = await measures.within(what, options.step_timeout_s, work)
        if figures is not None:
            found.update(figures)

    with tempfile.TemporaryDirectory(prefix="rival-", ignore_cleanup_errors=True) as directory:
        try:
            await step("its start", store.start(Path(directory)))
            try:
                await step("connecting", store.connect())
                if name in ASYNC_ONLY:
                    await step("one client", measures.one_client_async(store, options.writes))
                else:
                    await step("one client", asyncio.to_thread(_one_client, store, options.writes))
                await step("writes in flight", measures.in_flight(store, options.writes * 4))
                if isinstance(store, Crdtsync):
                    await step("reads of a copy", asyncio.to_thread(_mirror_reads, store, options.writes))
                found |= measures.sizes(store)
                await step("kill and restart", measures.losses(store, options.kill_after_s))
                await step("disconnecting", store.disconnect())
            finally:
                await store.stop()
        except FAILURES as error:
            console.print(f"  {store.name} failed: {error}")
    return [Sample(store.name, figure, value) for figure, value in found.items()]


def _one_client(store: Store, writes: int) -> measures.Figures:
    return measures.one_client(store.blocking(), writes)


def _mirror_reads(store: Crdtsync, count: int) -> measures.Figures:
    times = store.mirror_reads([f"k{number}" for number in range(min(count, measures.KEYS))], MIRROR_ROUNDS)
    return {measures.MIRROR_READ: percentile(times, 0.5) * 1e6}


async def _distance(distant: Distant, options: Options, console: Console) -> list[Sample]:
    with tempfile.TemporaryDirectory(prefix="rival-", ignore_cleanup_errors=True) as directory:
        try:
            async with asyncio.timeout(STEP_TIMEOUT_S) as limit, distant.line(Path(directory)) as pair:
                limit.reschedule(None)
                work = latencies(pair, options.writes // 4)
                found = await measures.within("write to event", options.step_timeout_s, work)
        except FAILURES as error:
            console.print(f"  {distant.name} failed: {error}")
            return []
    figures = {
        measures.DISTANCE_P50: percentile(found, 0.5) * 1e6,
        measures.DISTANCE_P99: percentile(found, 0.99) * 1e6,
    }
    return [Sample(distant.name, figure, value) for figure, value in figures.items()]


def _floors(count: int) -> list[Sample]:
    with tempfile.TemporaryDirectory(prefix="rival-") as directory:
        echoes = floors.echo(Path(directory), count, measures.IN_FLIGHT)
        found = {
            ECHO: echoes.times,
            "append and fdatasync": floors.fsync(Path(directory), count),
            "Y.Map, one set in memory": floors.yjs_map(count),
        }
    samples = [Sample(name, measures.FLOOR_P50, percentile(times, 0.5) * 1e6) for name, times in found.items()]
    return [*samples, Sample(ECHO, measures.SERVER_CPU, echoes.server_s * 1e6)]


async def _caught_up(options: Options, console: Console) -> list[Sample]:
    found: dict[str, measures.Figures] = {}
    with tempfile.TemporaryDirectory(prefix="rival-", ignore_cleanup_errors=True) as directory:
        try:
            if options.has("crdtsync"):
                work = catching_up.crdtsync(options.missed)
                found["crdtsync"] = await measures.within("catching up", CATCH_UP_TIMEOUT_S, work)
            if options.has("redis"):
                work = catching_up.redis(Path(directory))
                found[report.BASE] = await measures.within("fetching keys", CATCH_UP_TIMEOUT_S, work)
        except FAILURES as error:
            console.print(f"  catching up failed: {error}")
    return [Sample(name, figure, value) for name, figures in found.items() for figure, value in figures.items()]


def medians(samples: list[Sample]) -> dict[measures.Figure, dict[str, float]]:
    """By figure and system."""
    found: dict[measures.Figure, dict[str, list[float]]] = {}
    for sample in samples:
        found.setdefault(sample.figure, {}).setdefault(sample.system, []).append(sample.value)
    return {figure: {name: median(values) for name, values in by.items()} for figure, by in found.items()}


@click.command(help=__doc__)
@click.option("--rounds", type=click.IntRange(1), default=Options._field_defaults["rounds"], show_default=True)
@click.option("--writes", type=click.IntRange(40), default=Options._field_defaults["writes"], show_default=True,
              help="Of each client in each round.")  # fmt: skip
@click.option("--system", "systems", multiple=True, type=click.Choice(sorted({*STORES, *LINES})),
              help="Only these. Repeatable.")  # fmt: skip
@click.option("--kill-after", "kill_after_s", type=click.FloatRange(0.05), default=measures.KILL_AFTER_S,
              show_default=True, help="Seconds of writing before each kill and restart.")  # fmt: skip
@click.option("--missed", type=click.IntRange(0), default=Options._field_defaults["missed"], show_default=True,
              help="Overwrites that a host is away for; 0: leave that out.")  # fmt: skip
@click.option("--write-docs", is_flag=True, help="Write docs/performance.md and its plots.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False),
              help="Write rivals.md and the plots into this folder.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object of medians.")
def main(
    rounds: int,
    writes: int,
    systems: tuple[str, ...],
    kill_after_s: float,
    missed: int,
    write_docs: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Entry point; see the package."""
    options = Options(rounds, writes, systems, kill_after_s, missed)
    console = Console(stderr=True, highlight=False)
    load_before = os.getloadavg()[0]
    try:
        install.install_programs({program for name, program in NEEDS.items() if options.has(name)})
        install.install_python()
        install.compile_project()
        if any(options.has(name) for name in ("y-websocket", "hocuspocus")):
            install.install_programs({"npm"})
            install.install_node()
        found = medians(uvloop.run(run(options, console)))
    except install.InstallError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps({figure.name: by for figure, by in found.items()}))
    else:
        click.echo(report.table(found, options.rounds))
    if write_docs:
        page.write(found, page.Run(rounds, writes, load_before, os.getloadavg()[0]))
    if out is not None:
        report.write(out, found, options.rounds)
    if any(by.get("crdtsync", 0) for figure, by in found.items() if figure in report.MUST_BE_ZERO):
        sys.exit(1)
