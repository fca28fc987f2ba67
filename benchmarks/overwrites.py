"""Overwrite a few keys very often on linked daemons, and check that what they take up does not grow with the writes.

A writer at each daemon sets random keys, all of them the same keys, as fast as it can. Where two of them meet, the key
has siblings until a writer that is told so reads it and resolves them. In the end all daemons must hold the same, and
no more than a new daemon that was given only the final content; the log and the history must have kept to their caps;
and after a warm-up neither memory nor files may have grown.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, dataclass, field
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any

import click
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.daemons import DaemonError, Daemons
from benchmarks.gauges import MIB, Live, Reading, default_space, differences, live, read, slope
from benchmarks.progress import shown_progress
from crdtsync.client import AsyncClient
from crdtsync.core.background.trimming import CHANGE_HASHES_MAX
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from pathlib import Path

_WIDTH_CHARS = 120
PREFIX = "k/"
REQUEST_TIMEOUT_S = 120.0
BATCH_WRITES = 500
POLL_S = 0.1
SETTLE_S = 30.0
"""So long may trimming go on after the last write, on a slow machine."""

WARM_UP_SHARE = 6
"""The first sixth of the writes fills caps and caches; what grows after it grows with the writes."""
RSS_GROWTH_BYTES_MIN = 4 * MIB
RSS_GROWTH_PER_WRITE_MAX = 16
"""Less than one small object a write; below ``RSS_GROWTH_BYTES_MIN`` in all it is the allocator's noise."""
RSS_WRITES_MIN = 50_000
"""In fewer, caches still fill: the daemons remember replies and hashes of some thousand writes."""
FILE_GROWTH_MAX = 1.1
FILE_GROWTH_BYTES_MIN = 4 * MIB
"""What is in the WAL is no part of the file yet: so much may come over at any time."""
HASH_ROW_BYTES_MAX = 80
"""What the hash of a trimmed change takes in the database. They have a cap of their own (CHANGE_HASHES_MAX)."""
CAP_OVERSHOOT_MAX = 1.25
TRIM_LAG_BYTES_MAX = MIB
"""A cap may be exceeded so far while writes come in: trimming goes in slices. At the end it must hold."""
PINNED_CAPS_MAX = 2
"""The log is pinned while a snapshot may be asked for, up to twice its cap; making one takes memory, once."""


@dataclass(frozen=True, slots=True)
class Options:
    """How much to write, and within what."""

    writes: int = 300_000
    keys: int = 1000
    nodes: int = 3
    value_bytes: int = 100
    in_flight: int = 64
    sample_writes: int = 10_000
    log_bytes_max: int = 8 * MIB
    history_bytes_max: int = 8 * MIB
    seed: int = 0
    timeout_s: float = 3600.0

    @property
    def warm_up_writes(self) -> int:
        """After so many, nothing may grow any more."""
        return self.writes // WARM_UP_SHARE

    @property
    def caps(self) -> dict[str, int]:
        """By the name of what each is about in a reading."""
        return {"log_bytes": self.log_bytes_max, "history_bytes": self.history_bytes_max}

    @property
    def settings(self) -> dict[str, object]:
        """Of the daemons."""
        return {f"{name}_max": cap_bytes for name, cap_bytes in self.caps.items()}


@dataclass(slots=True)
class Result:
    """What was measured, and what of it must not be."""

    options: Options
    seconds: float = 0.0
    conflicts: int = 0
    """How many writes resolved siblings."""
    settled_s: float = 0.0
    """From the last reply until every node held everything."""
    samples: list[Reading] = field(default_factory=list)
    final: list[Reading] = field(default_factory=list)
    live: dict[str, Live] = field(default_factory=dict)
    pinned: list[str] = field(default_factory=list)
    """The nodes that gave others a snapshot, because they fell behind the log: then it is kept for a while."""
    fresh: Reading | None = None
    fresh_live: Live | None = None
    faults: list[str] = field(default_factory=list)

    def of(self, node: str, *, warm: bool = False) -> list[Reading]:
        """The samples of one node; ``warm``: only those after the warm-up."""
        least = self.options.warm_up_writes if warm else 0
        return [sample for sample in self.samples if sample.node == node and sample.writes >= least]

    def rss_slope(self, node: str) -> float:
        """Bytes of memory for each write, after the warm-up."""
        return slope((sample.writes, sample.rss_bytes) for sample in self.of(node, warm=True))

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            **asdict(self),
            "writes_per_s": self.options.writes / self.seconds,
            "rss_bytes_per_write": {reading.node: self.rss_slope(reading.node) for reading in self.final},
            "passed": not self.faults,
        }


class Tally:
    """Tickets for the writes, and a count of those that are acknowledged."""

    def __init__(self, writes: int) -> None:
        self.writes = writes
        self.done = 0
        self.conflicts = 0
        self._taken = 0
        self._mark = writes
        self._reached = asyncio.Event()

    def take(self) -> int | None:
        """The number of the next write; None when there are no more to do."""
        if self._taken >= self.writes:
            return None
        self._taken += 1
        return self._taken

    def count(self) -> None:
        """A write is acknowledged."""
        self.done += 1
        if self.done >= self._mark:
            self._reached.set()

    async def reaches(self, count: int) -> None:
        """Wait until so many are acknowledged; one waits at a time."""
        self._mark = min(count, self.writes)
        self._reached.clear()
        if self.done < self._mark:
            await self._reached.wait()


class Writer:
    """An agent at one daemon that overwrites, and resolves the conflicts that it is told of."""

    def __init__(self, number: int, socket: Path, options: Options, tally: Tally) -> None:
        self.client = AsyncClient(socket, agent=f"writer-{number}", timeout=REQUEST_TIMEOUT_S)
        self._rng = Random(f"{options.seed} {number}")
        self._options = options
        self._tally = tally
        self._resolving: set[str] = set()

    async def run(self) -> None:
        """Write until there are no tickets left."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._options.in_flight):
                group.create_task(self._write())

    async def _write(self) -> None:
        while (number := self._tally.take()) is not None:
            key = f"{PREFIX}{self._rng.randrange(self._options.keys):06}"
            written = await self.client.set(key, self._value(number), seen=None)
            self._tally.count()
            if written.siblings and key not in self._resolving:
                self._resolving.add(key)
                await self._resolve(key)
                self._resolving.remove(key)

    async def _resolve(self, key: str) -> None:
        entry = await self.client.entry(key)
        number = self._tally.take() if entry is not None and entry.siblings else None
        if entry is None or number is None:
            return
        await self.client.set(key, entry.value, seen=entry.version)
        self._tally.conflicts += 1
        self._tally.count()

    def _value(self, number: int) -> dict[str, Any]:
        plain = {"number": number, "text": ""}
        return {**plain, "text": f"{self._rng.getrandbits(4 * self._options.value_bytes):x}"[: self._text_chars]}

    @property
    def _text_chars(self) -> int:
        return max(0, self._options.value_bytes - 22)  # what msgpack takes for the rest of the value


async def run(options: Options, *, quiet: bool = False) -> Result:
    """Do it all on new daemons.

    :raises DaemonError, CrdtSyncError: a daemon failed.
    :raises TimeoutError: it took longer than ``options.timeout_s``.
    """
    result = Result(options)
    async with asyncio.timeout(options.timeout_s), Daemons(options.nodes, options.settings) as fleet:
        tally = Tally(options.writes)
        writers = [Writer(i, daemon.socket, options, tally) for i, daemon in enumerate(fleet.daemons)]
        clients = [writer.client for writer in writers]
        with shown_progress("overwrites", options.writes, lambda: tally.done, quiet=quiet):
            await _write(result, fleet, writers, tally)
        await _settle(result, clients)
        await _resolve_all(clients[0])
        await _settle(result, clients)
        result.pinned = [daemon.name for daemon in fleet.daemons if daemon.logged("snapshot_started")]
        await _trimmed(result, fleet, clients)
        result.final = [
            await read(daemon, client, tally.done) for daemon, client in zip(fleet.daemons, clients, strict=True)
        ]
        content = [list(await client.items(PREFIX)) for client in clients]
        if any(found != content[0] for found in content):
            result.faults.append("the nodes show different values")
        result.live = {daemon.name: live(daemon) for daemon in fleet.daemons}
        result.faults += [f"{daemon.name} logged a bug: {bug}" for daemon in fleet.daemons for bug in daemon.bugs()]
        for client in clients:
            await client.close()
        await _compare_with_fresh(result, fleet, content[0])
    judge(result)
    return result


async def _write(result: Result, fleet: Daemons, writers: list[Writer], tally: Tally) -> None:
    start_s = monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(_sample(result, fleet, tally))
        for writer in writers:
            group.create_task(writer.run())
    result.seconds = monotonic() - start_s
    result.conflicts = tally.conflicts


async def _sample(result: Result, fleet: Daemons, tally: Tally) -> None:
    """Read every daemon after every so many writes."""
    clients = [AsyncClient(daemon.socket, agent="observer", timeout=REQUEST_TIMEOUT_S) for daemon in fleet.daemons]
    step = result.options.sample_writes
    for count in range(step, result.options.writes + 1, step):
        await tally.reaches(count)
        for daemon, client in zip(fleet.daemons, clients, strict=True):
            result.samples.append(await read(daemon, client, tally.done))
    for client in clients:
        await client.close()


async def _settle(result: Result, clients: list[AsyncClient]) -> None:
    """Wait until every node holds what every writer has written."""
    start_s = monotonic()
    for client in clients:
        for other in clients:
            if other.last_token is not None:
                await client.wait(other.last_token)
    result.settled_s = max(result.settled_s, monotonic() - start_s)


async def _trimmed(result: Result, fleet: Daemons, clients: list[AsyncClient]) -> None:
    """Wait until all rows are in their tables, and what is over a cap has gone; who judges says if it has not."""
    options, end_s = result.options, monotonic() + SETTLE_S
    while monotonic() < end_s:
        await asyncio.sleep(POLL_S)
        are_kept = []
        for daemon, client in zip(fleet.daemons, clients, strict=True):
            space, factor = await default_space(client), _caps_factor(result, daemon.name)
            are_kept += [space[name] <= cap_bytes * factor for name, cap_bytes in options.caps.items()]
        if all(are_kept) and len({live(daemon) for daemon in fleet.daemons}) == 1:
            return


def _caps_factor(result: Result, node: str) -> int:
    return PINNED_CAPS_MAX if node in result.pinned else 1


async def _resolve_all(client: AsyncClient) -> None:
    """What the writers left as siblings when they ran out of tickets."""
    for entry in await client.entries(PREFIX):
        if entry.siblings:
            await client.set(entry.key, entry.value, seen=entry.version)


async def _compare_with_fresh(result: Result, fleet: Daemons, content: list[tuple[str, Any]]) -> None:
    """What a daemon takes up that was only ever given the final content."""
    daemon = fleet.add("fresh")
    await daemon.start()
    async with AsyncClient(daemon.socket, agent="writer-0", timeout=REQUEST_TIMEOUT_S) as client:
        for start in range(0, len(content), BATCH_WRITES):
            async with client.batch() as batch:
                for key, value in content[start : start + BATCH_WRITES]:
                    batch.set(key, value)
        result.fresh = await read(daemon, client)
    result.fresh_live = live(daemon)


# -- the judge -----------------------------------------------------------------------------------------------------


def judge(result: Result) -> None:
    """Add what must not be to the faults."""
    options, fresh, fresh_live = result.options, result.fresh, result.fresh_live
    assert fresh is not None
    result.faults += differences(result.final)
    for reading in result.final:
        node = reading.node
        factor = _caps_factor(result, node)
        counts = {"keys": reading.keys, "entries": reading.entries}
        result.faults += [
            f"{node} has {count:,} {name}, and a new daemon with the same content {getattr(fresh, name):,}"
            for name, count in counts.items()
            if count != getattr(fresh, name)
        ]
        if result.live[node] != fresh_live:
            result.faults.append(f"{node} stores {result.live[node]}, and a new daemon with its content {fresh_live}")
        for name, cap_bytes in options.caps.items():
            most_bytes = max((getattr(sample, name) for sample in result.of(node)), default=0)
            if most_bytes > cap_bytes * CAP_OVERSHOOT_MAX * factor + TRIM_LAG_BYTES_MAX:
                result.faults.append(f"{node} had {name} {most_bytes:,} while the cap was {cap_bytes:,}")
            if getattr(reading, name) > cap_bytes * factor:
                result.faults.append(f"{node} ends with {name} {getattr(reading, name):,}; the cap is {cap_bytes:,}")
        result.faults += _growth(result, node)


def _growth(result: Result, node: str) -> list[str]:
    """What grew with the writes after the warm-up, and must not."""
    samples = result.of(node, warm=True)
    if len(samples) < 2:
        return []
    found = []
    writes = samples[-1].writes - samples[0].writes
    is_pinned = node in result.pinned
    grown_bytes = result.rss_slope(node) * writes - is_pinned * RSS_GROWTH_BYTES_MIN
    if writes >= RSS_WRITES_MIN and grown_bytes > max(RSS_GROWTH_BYTES_MIN, RSS_GROWTH_PER_WRITE_MAX * writes):
        found.append(f"{node}'s memory grew by {grown_bytes:,.0f} bytes in {writes:,} writes after the warm-up")
    first, last = samples[0], samples[-1]
    hash_bytes = max(0, last.hash_rows - first.hash_rows) * HASH_ROW_BYTES_MAX
    allowed_bytes = max(first.file_bytes * FILE_GROWTH_MAX, first.file_bytes + FILE_GROWTH_BYTES_MIN)
    allowed_bytes += first.wal_bytes + _unfilled_bytes(first, result.options)
    allowed_bytes += is_pinned * PINNED_CAPS_MAX * result.options.log_bytes_max
    if last.file_bytes > allowed_bytes + hash_bytes:
        found.append(
            f"{node}'s database grew from {first.file_bytes:,} to {last.file_bytes:,} bytes after the warm-up, "
            f"{hash_bytes:,} of them for hashes of trimmed changes"
        )
    if last.hash_rows > CHANGE_HASHES_MAX * CAP_OVERSHOOT_MAX:
        found.append(f"{node} keeps {last.hash_rows:,} hashes of trimmed changes; the cap is {CHANGE_HASHES_MAX:,}")
    return found


def _unfilled_bytes(reading: Reading, options: Options) -> int:
    """How far log and history may still grow until they reach their caps."""
    return sum(max(0, cap_bytes - getattr(reading, name)) for name, cap_bytes in options.caps.items())


# -- talking -------------------------------------------------------------------------------------------------------


def show(result: Result) -> None:
    """For people, on stdout."""
    options, fresh = result.options, result.fresh
    assert fresh is not None
    console = Console(highlight=False, soft_wrap=True, width=_WIDTH_CHARS)
    rate = options.writes / result.seconds
    console.print(
        f"{options.writes:,} overwrites of {options.keys:,} keys on {options.nodes} daemons in {result.seconds:.0f} s: "
        f"{rate:,.0f} writes/s, {result.conflicts:,} of them resolved siblings; "
        f"all held everything {result.settled_s * 1000:.0f} ms after the last reply"
    )
    table = Table(
        "node", "at writes", "memory", "database", "WAL", "log", "history", "hashes", "entries", "siblings", box=None
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for reading in _told(result):
        sizes = (reading.rss_bytes, reading.file_bytes, reading.wal_bytes, reading.log_bytes, reading.history_bytes)
        cells = [f"{size / MIB:.1f} MiB" for size in sizes]
        counts = [f"{count:,}" for count in (reading.hash_rows, reading.entries, reading.siblings)]
        table.add_row(reading.node, f"{reading.writes:,}", *cells, *counts)
    console.print(table)
    for reading in result.final:
        per_thousand = result.rss_slope(reading.node) * 1000
        console.print(f"  {reading.node}: memory {per_thousand:+,.0f} bytes per 1,000 writes after the warm-up")
    console.print(f"  live state: {result.live}; of the new daemon: {result.fresh_live}")
    for fault in result.faults:
        console.print(f"  FAULT: {fault}")
    if not result.faults:
        console.print("  passed: equal digests, no more live state than a new daemon, caps kept, nothing grew")


def _told(result: Result) -> list[Reading]:
    """The samples worth a line: some of each node, the end, and the new daemon."""
    told = []
    for reading in result.final:
        samples = result.of(reading.node)
        told += [*samples[:: max(1, len(samples) // 6)], reading]
    return [*told, result.fresh] if result.fresh is not None else told


_DEFAULTS = Options()


@click.command(help=__doc__)
@click.option("--writes", type=click.IntRange(1), default=_DEFAULTS.writes, show_default=True)
@click.option("--keys", type=click.IntRange(1), default=_DEFAULTS.keys, show_default=True)
@click.option("--nodes", type=click.IntRange(1), default=_DEFAULTS.nodes, show_default=True)
@click.option("--value-bytes", type=click.IntRange(24), default=_DEFAULTS.value_bytes, show_default=True)
@click.option("--in-flight", type=click.IntRange(1, 1000), default=_DEFAULTS.in_flight, show_default=True,
              help="Writes on their way, of each writer.")  # fmt: skip
@click.option("--sample-writes", type=click.IntRange(1), default=_DEFAULTS.sample_writes, show_default=True,
              help="Measure after every so many.")  # fmt: skip
@click.option("--log-bytes-max", type=click.IntRange(1), default=_DEFAULTS.log_bytes_max, show_default=True,
              help="The daemons' setting.")  # fmt: skip
@click.option("--history-bytes-max", type=click.IntRange(1), default=_DEFAULTS.history_bytes_max, show_default=True,
              help="The daemons' setting.")  # fmt: skip
@click.option("--seed", type=int, default=_DEFAULTS.seed, help="Of keys and values.")
@click.option("--timeout", "timeout_s", type=float, default=_DEFAULTS.timeout_s, metavar="SECONDS",
              help="Give up after this.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def main(as_json: bool, **given: Any) -> None:
    """Entry point; see the module."""
    options = Options(**given)
    try:
        result = uvloop.run(run(options))
    except TimeoutError:
        raise click.ClickException(f"it took over {options.timeout_s:.0f} s") from None
    except (DaemonError, CrdtSyncError) as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(result.to_json()))
    else:
        show(result)
    sys.exit(1 if result.faults else 0)
