"""The command: rounds over all systems, a table, plots."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from statistics import median
from time import monotonic
from typing import NamedTuple

import click
import uvloop
from rich.console import Console

from benchmarks.daemons import DaemonError
from benchmarks.gauges import percentile
from benchmarks.replay import ReplayError
from benchmarks.rivals import (
    attached,
    catching_up,
    floors,
    install,
    keystrokes,
    large,
    measures,
    overwritten,
    page,
    report,
)
from benchmarks.rivals.documents import DISTANT, Distant, latencies
from benchmarks.rivals.processes import ServerError
from benchmarks.rivals.quiet import WAIT_S, Quiet
from benchmarks.rivals.stores import Crdtsync, Etcd, Nats, Redis, Store
from benchmarks.traces import TraceError
from crdtsync.errors import CrdtSyncError

STORES: dict[str, Callable[[], Store]] = {
    "crdtsync": Crdtsync,
    "redis": lambda: Redis("always"),
    "redis-everysec": lambda: Redis("everysec"),
    "etcd": Etcd,
    "nats": Nats,
    "bare": floors.Bare,
    "bare-rows": floors.BareRows,
}
NEEDS = {"redis": "redis-server", "redis-everysec": "redis-server", "etcd": "etcd", "nats": "nats-server"}
LINES = {line.name.split()[0].rstrip(",").lower(): line for line in DISTANT} | {"bare": floors.BareLine()}
ASYNC_ONLY = {"nats"}
NEVER_RESTARTED = {"bare-rows"}
FAILURES = (TimeoutError, OSError, ServerError, DaemonError, CrdtSyncError)
STEP_TIMEOUT_S = 30.0
"""Of one step, and :data:`WRITE_TIMEOUT_S` more for each write in it; nothing may hang the benchmark."""
WRITE_TIMEOUT_S = 0.05
CATCH_UP_TIMEOUT_S = 240.0
ALONE_TIMEOUT_S = 900.0
US = "crdtsync"
MIRROR_ROUNDS = 20


class Options(NamedTuple):
    """How much of what."""

    rounds: int = 5
    writes: int = 2000
    systems: tuple[str, ...] = ()
    kill_after_s: float = measures.KILL_AFTER_S
    missed: int = 20_000
    keys: int = large.MOST
    overwrites: int = overwritten.LAST
    agents: int = 200
    traces: tuple[Path, ...] = ()
    edits: int | None = None

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


async def run(options: Options, console: Console, quiet: Quiet) -> list[Sample]:
    """All rounds. A system that fails is told, and left out of that round."""
    samples: list[Sample] = []
    for number in range(options.rounds):
        await quiet.wait()
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


Found = Mapping[measures.Figure, Mapping[str, float]]


def _alone(options: Options) -> dict[str, Callable[[], Awaitable[Found]]]:
    """What is measured once, of crdtsync by itself, and of a floor."""

    async def ours(work: Awaitable[measures.Figures]) -> Found:
        return {figure: {US: value} for figure, value in (await work).items()}

    async def typed() -> Found:
        return await keystrokes.measure(options.traces, options.edits)

    async def many_keys() -> Found:
        restarts = large.RESTARTS if most == large.MOST else 1
        many, writes = max(measures.KEYS, most // 10), min(2000, max(50, most // 20))
        by = {US: await large.measure(many, most, writes, restarts)}
        with tempfile.TemporaryDirectory(prefix="rival-", ignore_cleanup_errors=True) as directory:
            by[floors.BareRows.name] = await large.floor(Path(directory), most, writes)
        return {figure: {name: some[figure] for name, some in by.items() if figure in some} for figure in by[US]}

    found: dict[str, Callable[[], Awaitable[Found]]] = {}
    most, last, agents = options.keys, options.overwrites, options.agents
    if most:
        found["many keys"] = many_keys
    if last:
        found["overwrites"] = lambda: ours(overwritten.measure(last // 5, last))
    if agents:
        found["agents and peers"] = lambda: ours(attached.measure(agents, peers=min(8, agents)))
    if options.edits != 0:
        found["texts"] = typed
    return found if options.has(US) else {}


async def run_alone(options: Options, console: Console, took_s: dict[str, float], quiet: Quiet) -> list[Sample]:
    """Each of these once; what fails is told, and left out."""
    samples: list[Sample] = []
    for name, work in _alone(options).items():
        await quiet.wait()
        console.print(f"crdtsync alone: {name}")
        start_s = monotonic()
        try:
            found = await measures.within(name, ALONE_TIMEOUT_S, work())
            samples += [Sample(system, figure, value) for figure, by in found.items() for system, value in by.items()]
        except (*FAILURES, TraceError, ReplayError) as error:
            console.print(f"  {name} failed: {error}")
        took_s[name] = monotonic() - start_s
    return samples


async def run_all(options: Options, console: Console, took_s: dict[str, float], quiet: Quiet) -> list[Sample]:
    """Beside others, then alone. ``took_s`` is told how long each part took."""
    start_s = monotonic()
    samples = await run(options, console, quiet)
    took_s["beside others"] = monotonic() - start_s
    return samples + await run_alone(options, console, took_s, quiet)


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
                if name not in ASYNC_ONLY:
                    crowd = asyncio.to_thread(measures.crowd, store.opener(), options.writes // 4)
                    found |= await measures.within("a crowd", measures.CROWD_TIMEOUT_S, crowd)
                if isinstance(store, Crdtsync):
                    await step("reads of a copy", asyncio.to_thread(_mirror_reads, store, options.writes))
                found |= measures.sizes(store)
                if name not in NEVER_RESTARTED:
                    await step("kill and restart", measures.losses(store, options.kill_after_s))
                await step("disconnecting", store.disconnect())
            finally:
                await store.stop()
        except FAILURES as error:
            console.print(f"  {store.name} failed: {error}")
    return [Sample(store.name, figure, value) for figure, value in found.items()]


def _one_client(store: Store, writes: int) -> measures.Figures:
    return measures.one_client(store.opener()(), writes)


def _mirror_reads(store: Crdtsync, count: int) -> measures.Figures:
    times = store.mirror_reads([f"k{number}" for number in range(min(count, measures.KEYS))], MIRROR_ROUNDS)
    return {measures.MIRROR_READ: percentile(times, 0.5) * 1e6}


async def _distance(distant: Distant, options: Options, console: Console) -> list[Sample]:
    with tempfile.TemporaryDirectory(prefix="rival-", ignore_cleanup_errors=True) as directory:
        try:
            async with asyncio.timeout(STEP_TIMEOUT_S) as limit, distant.line(Path(directory)) as pair:
                limit.reschedule(None)
                work = latencies(pair, options.writes // 2)
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
        found = {
            "append and fdatasync": floors.fsync(Path(directory), count),
            "Y.Map, one set in memory": floors.yjs_map(count),
        }
    return [Sample(name, measures.FLOOR_P50, percentile(times, 0.5) * 1e6) for name, times in found.items()]


async def _caught_up(options: Options, console: Console) -> list[Sample]:
    found: dict[str, measures.Figures] = {}
    with tempfile.TemporaryDirectory(prefix="rival-", ignore_cleanup_errors=True) as directory:
        try:
            if options.has("crdtsync"):
                work = catching_up.crdtsync(options.missed)
                found[US] = await measures.within("catching up", CATCH_UP_TIMEOUT_S, work)
                work = catching_up.appends(options.missed)
                found[US] |= await measures.within("catching up with appends", CATCH_UP_TIMEOUT_S, work)
            if options.has("redis"):
                work = catching_up.redis(Path(directory))
                found[report.BASE] = await measures.within("fetching keys", CATCH_UP_TIMEOUT_S, work)
            if options.has("bare-rows"):
                work = catching_up.floor(Path(directory) / "bare")
                found[floors.BareRows.name] = await measures.within("storing the state", CATCH_UP_TIMEOUT_S, work)
        except FAILURES as error:
            console.print(f"  catching up failed: {error}")
    return [Sample(name, figure, value) for name, figures in found.items() for figure, value in figures.items()]


def shortened(options: Options) -> str:
    """What figures of a run that was asked for less name wrongly; empty: nothing."""
    full = Options()
    less = [
        f"{getattr(full, name):,} {what} were {getattr(options, name):,}"
        for name, what in (("missed", "missed changes"), ("keys", "keys"), ("overwrites", "overwrites"))
        if getattr(options, name) not in (0, getattr(full, name))
    ]
    return f"In this run {', '.join(less)}, and what is a part of that likewise less." if less else ""


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
@click.option("--keys", type=click.IntRange(0), default=Options._field_defaults["keys"], show_default=True,
              help="The most keys that a daemon is given; 0: leave that out.")  # fmt: skip
@click.option("--overwrites", type=click.IntRange(0), default=Options._field_defaults["overwrites"], show_default=True,
              help="Of 1,000 keys, to see what they leave behind; 0: leave that out.")  # fmt: skip
@click.option("--agents", type=click.IntRange(0), default=Options._field_defaults["agents"], show_default=True,
              help="Idle ones, to see what one takes, and peers likewise; 0: leave that out.")  # fmt: skip
@click.option("--trace", "traces", multiple=True, type=click.Path(path_type=Path), metavar="PATH",
              help="A concurrent trace of josephg/editing-traces, not a made-up session. Repeatable.")  # fmt: skip
@click.option("--edits", type=click.IntRange(0), help="Only so many of each trace; 0: leave that out.")
@click.option("--wait", "wait_s", type=click.FloatRange(0), default=WAIT_S, show_default=True,
              help="Seconds in all to wait for a quiet machine before a round or a part begins.")  # fmt: skip
@click.option("--write-docs", is_flag=True, help="Write docs/explanation/performance.md and its plots.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False),
              help="Write rivals.md and the plots into this folder.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object of medians.")
def main(
    rounds: int,
    writes: int,
    systems: tuple[str, ...],
    kill_after_s: float,
    missed: int,
    keys: int,
    overwrites: int,
    agents: int,
    traces: tuple[Path, ...],
    edits: int | None,
    wait_s: float,
    write_docs: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Entry point; see the package."""
    options = Options(rounds, writes, systems, kill_after_s, missed, keys, overwrites, agents, traces, edits)
    took_s: dict[str, float] = {}
    console = Console(stderr=True, highlight=False)
    quiet = Quiet(wait_s, console.print)
    try:
        install.install_programs({program for name, program in NEEDS.items() if options.has(name)})
        install.install_python()
        install.compile_project()
        if any(options.has(name) for name in ("y-websocket", "hocuspocus")):
            install.install_programs({"npm"})
            install.install_node()
        found = medians(uvloop.run(run_all(options, console, took_s, quiet)))
    except install.InstallError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps({figure.name: by for figure, by in found.items()}))
    else:
        click.echo("\n\n".join(filter(None, (shortened(options), report.table(found, options.rounds)))))
    if write_docs:
        page.write(found, page.Run(rounds, writes, quiet.busiest, took_s, shortened(options)))
    if out is not None:
        report.write(out, found, options.rounds)
    if any(by.get("crdtsync", 0) for figure, by in found.items() if figure in report.MUST_BE_ZERO):
        sys.exit(1)
