"""The command: rounds over all systems, a table, plots."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click
import uvloop
from rich.console import Console

from benchmarks.fleet import FleetError
from benchmarks.gauges import percentile
from benchmarks.rivals import floors, install, measures, report
from benchmarks.rivals.documents import DISTANT, Distant, latencies
from benchmarks.rivals.processes import ServerError
from benchmarks.rivals.stores import Crdtsync, Etcd, Nats, Redis, Store

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
SYSTEM_TIMEOUT_S = 300.0


class Options(NamedTuple):
    """How much of what."""

    rounds: int = 5
    writes: int = 2000
    systems: tuple[str, ...] = ()

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
        samples += await asyncio.to_thread(_floors, options.writes)
    return samples


async def _measured(name: str, store: Store, options: Options, console: Console) -> list[Sample]:
    found: measures.Figures = {}
    with tempfile.TemporaryDirectory(prefix="rival-", ignore_cleanup_errors=True) as directory:
        try:
            async with asyncio.timeout(SYSTEM_TIMEOUT_S):
                await store.start(Path(directory))
                try:
                    await store.connect()
                    if name in ASYNC_ONLY:
                        found |= await measures.one_client_async(store, options.writes)
                    else:
                        found |= await asyncio.to_thread(measures.one_client, store.blocking(), options.writes)
                    found |= await measures.in_flight(store, options.writes * 4)
                    found |= measures.sizes(store)
                    found |= await measures.losses(store)
                    await store.disconnect()
                finally:
                    await store.stop()
        except (TimeoutError, OSError, ServerError, FleetError) as error:
            console.print(f"  {store.name} failed: {error}")
    return [Sample(store.name, figure, value) for figure, value in found.items()]


async def _distance(distant: Distant, options: Options, console: Console) -> list[Sample]:
    with tempfile.TemporaryDirectory(prefix="rival-", ignore_cleanup_errors=True) as directory:
        try:
            async with asyncio.timeout(SYSTEM_TIMEOUT_S), distant.line(Path(directory)) as pair:
                found = await latencies(pair, options.writes // 4)
        except (TimeoutError, OSError, ServerError, FleetError) as error:
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
            "echo of uvloop and msgpack": floors.echo(Path(directory), count),
            "append and fdatasync": floors.fsync(Path(directory), count),
            "Y.Map, one set in memory": floors.yjs_map(count),
        }
    return [Sample(name, measures.FLOOR_P50, percentile(times, 0.5) * 1e6) for name, times in found.items()]


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
@click.option("--out", type=click.Path(path_type=Path, file_okay=False),
              help="Write rivals.md and the plots into this folder.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object of medians.")
def main(rounds: int, writes: int, systems: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Entry point; see the package."""
    options = Options(rounds, writes, systems)
    console = Console(stderr=True, highlight=False)
    try:
        install.install_programs({program for name, program in NEEDS.items() if options.has(name)})
        install.install_python()
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
    if out is not None:
        report.write(out, found, options.rounds)
    if any(by.get("crdtsync", 0) for figure, by in found.items() if figure in report.MUST_BE_ZERO):
        sys.exit(1)
