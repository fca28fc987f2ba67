"""What it costs to look at shared state, and to be told of it: mirrors against requests, and watches by the number.

One daemon. First one client reads and writes, with and without a mirror. Then writers set keys while nobody, one, or
many watch them, in a process that only reads: what the daemon's processor time grows by, for each event and watcher,
is what a watcher costs. At last many that read nothing: what of the daemon's memory they take.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

import click
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.daemons import DaemonError, Daemons
from benchmarks.gauges import MIB, cpu_s, percentile, rss_bytes
from crdtsync.client import AsyncClient, Client
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from benchmarks.daemons import Daemon

PREFIX = "key/"
KEYS = 1000
IN_FLIGHT = 16
READY_S = 60.0
_LOOKUPS = 200_000


@dataclass(frozen=True, slots=True)
class Options:
    """How much."""

    writes: int = 5000
    value_bytes: int = 100
    watchers: tuple[int, ...] = (1, 50, 200)
    requests: int = 2000
    idle: int = 100


@dataclass(frozen=True, slots=True)
class Reading:
    """One client, µs each."""

    dict_us: float
    mirror_us: float
    get_us: float
    get_p99_us: float
    set_us: float
    set_mirrored_us: float


@dataclass(frozen=True, slots=True)
class FanOut:
    """So many watchers while keys are written."""

    how: str
    watchers: int
    writes_per_s: float
    events_per_s: float
    cpu_us_per_write: float
    """Of the daemon, all in all."""
    cpu_us_per_event: float
    """Of the daemon: what an event costs for each one who is told it."""
    bytes_per_event: float


@dataclass(slots=True)
class Result:
    """Everything that was measured."""

    options: Options
    reading: Reading | None = None
    fan_outs: list[FanOut] = field(default_factory=list)
    idle_rss_bytes: dict[str, int] = field(default_factory=dict)
    """By how they watch: what the daemon's memory grew by while they read nothing."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


async def run(options: Options) -> Result:
    """Measure."""
    result = Result(options)
    async with Daemons(1) as fleet:
        daemon = fleet[0]
        await _write(daemon, KEYS, options)
        result.reading = await asyncio.to_thread(_reading, daemon, options)
        await _write(daemon, options.writes, options)  # warm
        alone = await _fan_out(daemon, "watch", 0, options, None)
        result.fan_outs.append(alone)
        for how in ("watch", "states", "elsewhere"):
            for count in options.watchers if how != "elsewhere" else options.watchers[-1:]:
                result.fan_outs.append(await _fan_out(daemon, how, count, options, alone))
    for how in ("nobody", "idle"):
        async with Daemons(1) as fleet:
            result.idle_rss_bytes[how] = await _idle(fleet[0], options, 0 if how == "nobody" else options.idle)
    return result


def _reading(daemon: Daemon, options: Options) -> Reading:
    with Client(daemon.socket, agent="reader") as state:
        key = f"{PREFIX}{0:06}"
        plain = {key: "x"}
        gets = _timed(options.requests, lambda: state.get(key))
        sets = _timed(options.requests, lambda: state.set(key, "x"))
        with state.mirror(PREFIX) as mirror:
            mirrored = _timed(options.requests, lambda: state.set(key, "x"))
            return Reading(
                dict_us=_each(lambda: plain[key]),
                mirror_us=_each(lambda: mirror[key]),
                get_us=percentile(gets, 0.5),
                get_p99_us=percentile(gets, 0.99),
                set_us=percentile(sets, 0.5),
                set_mirrored_us=percentile(mirrored, 0.5),
            )


def _timed(count: int, work: Callable[[], object]) -> list[float]:
    found = []
    for _ in range(count):
        start_s = perf_counter()
        work()
        found.append((perf_counter() - start_s) * 1e6)
    return found


def _each(work: Callable[[], object]) -> float:
    start_s = perf_counter()
    for _ in range(_LOOKUPS):
        work()
    return (perf_counter() - start_s) / _LOOKUPS * 1e6


async def _write(daemon: Daemon, writes: int, options: Options) -> float:
    """How long it took."""
    value, numbers = "x" * options.value_bytes, iter(range(writes))
    async with AsyncClient(daemon.socket, agent="writer") as state:

        async def one() -> None:
            for number in numbers:
                await state.set(f"{PREFIX}{number % KEYS:06}", value)

        start_s = monotonic()
        await asyncio.gather(*(one() for _ in range(IN_FLIGHT)))
        return monotonic() - start_s


@asynccontextmanager
async def _watchers(daemon: Daemon, how: str, count: int) -> AsyncIterator[list[int]]:
    """A process with so many watchers; afterwards how many bytes they have read."""
    read_bytes: list[int] = []
    if not count:
        yield read_bytes
        return
    prefix, kind = ("other/", "watch") if how == "elsewhere" else (PREFIX, how)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.readers", str(daemon.socket), str(count), prefix, kind,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(READY_S):
            if await process.stdout.readline() != b"ready\n":
                raise DaemonError("the watchers did not begin")
        yield read_bytes
        process.stdin.close()
        async with asyncio.timeout(READY_S):
            read_bytes.append(int(await process.stdout.readline()))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _fan_out(daemon: Daemon, how: str, count: int, options: Options, alone: FanOut | None) -> FanOut:
    async with _watchers(daemon, how, count) as read_bytes:
        before_s = cpu_s(daemon.pid)
        took_s = await _write(daemon, options.writes, options)
        await asyncio.sleep(0.2)  # the rest is told
        used_us = (cpu_s(daemon.pid) - before_s) / options.writes * 1e6
    events = options.writes * count
    return FanOut(
        how=how,
        watchers=count,
        writes_per_s=options.writes / took_s,
        events_per_s=0 if how == "elsewhere" else events / took_s,
        cpu_us_per_write=used_us,
        cpu_us_per_event=(used_us - alone.cpu_us_per_write) / count if alone is not None else 0,
        bytes_per_event=sum(read_bytes) / max(events, 1),
    )


async def _idle(daemon: Daemon, options: Options, count: int) -> int:
    """What memory grows by while megabytes are written that so many watchers do not read."""
    large = Options(writes=options.writes, value_bytes=2000)
    async with _watchers(daemon, "idle", count):
        before_bytes = rss_bytes(daemon.pid)
        await _write(daemon, large.writes, large)
        return rss_bytes(daemon.pid) - before_bytes


def show(result: Result) -> None:
    """For people, on stdout."""
    console = Console(highlight=False, soft_wrap=True, width=120)
    reading = result.reading
    assert reading is not None
    console.print(
        f"one client, µs: dict {reading.dict_us:.3f}, mirror {reading.mirror_us:.3f}, get {reading.get_us:.0f} "
        f"(p99 {reading.get_p99_us:.0f}), set {reading.set_us:.0f}, set with a mirror {reading.set_mirrored_us:.0f}"
    )
    table = Table(
        "watchers", "how", "writes/s", "events/s", "daemon µs/write", "µs/event and watcher", "bytes/event", box=None
    )
    for each in result.fan_outs:
        table.add_row(
            str(each.watchers), each.how, f"{each.writes_per_s:,.0f}", f"{each.events_per_s:,.0f}",
            f"{each.cpu_us_per_write:.0f}", f"{each.cpu_us_per_event:.2f}", f"{each.bytes_per_event:.0f}",
        )  # fmt: skip
    console.print(table)
    for how, size_bytes in result.idle_rss_bytes.items():
        console.print(f"  memory grew by {size_bytes / MIB:.1f} MiB, watched by {how}")


_DEFAULTS = Options()


@click.command(help=__doc__)
@click.option("--writes", type=click.IntRange(1), default=_DEFAULTS.writes, show_default=True)
@click.option("--value-bytes", type=click.IntRange(1), default=_DEFAULTS.value_bytes, show_default=True)
@click.option("--watchers", type=click.IntRange(1), multiple=True, default=_DEFAULTS.watchers, show_default=True)
@click.option("--requests", type=click.IntRange(1), default=_DEFAULTS.requests, show_default=True)
@click.option("--idle", type=click.IntRange(1), default=_DEFAULTS.idle, show_default=True,
              help="Watchers that read nothing.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def main(as_json: bool, **given: Any) -> None:
    """Entry point; see the module."""
    options = Options(**given)
    try:
        result = uvloop.run(run(options))
    except (DaemonError, CrdtSyncError) as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(result.to_json()))
    else:
        show(result)
