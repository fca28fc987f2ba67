"""What many keys cost: memory, a restart, and a write beside so many others; the last also a bare server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from statistics import median
from time import monotonic
from typing import NamedTuple, Protocol

from benchmarks.daemons import Daemon, Daemons
from benchmarks.gauges import percentile
from benchmarks.rivals.floors import BareRows
from benchmarks.rivals.measures import IN_FLIGHT, KEYS, VALUE, Figure, Figures
from benchmarks.rivals.processes import cpu_ns, rss_bytes
from crdtsync.client import AsyncClient
from crdtsync.errors import CrdtSyncError

BATCH_WRITES = 1000
TURNS = 5
"""The small daemon and the large one are written to in turns, so many of each."""
RESTARTS = 3
"""Of which the median is taken, where there are not so many keys."""
CALL_TIMEOUT_S = 120.0
RETRY_S = 0.002

MANY, MOST = 100_000, 1_000_000
KEY_MEMORY = Figure("memory for each key, with a value of 100 bytes", "B")
GROWTH_CPU = Figure(f"growth of a write's CPU from {KEYS:,} to {MOST:,} keys", "times")
GROWTH_P50 = Figure(f"growth of a write's time from {KEYS:,} to {MOST:,} keys, one client, p50", "times")


def restart_of(keys: int) -> Figure:
    """From the start of the process, killed before, until its first reply."""
    return Figure(f"from start to first read, {keys:,} keys", "s")


async def measure(many: int = MANY, most: int = MOST, writes: int = 2000, restarts: int = RESTARTS) -> Figures:
    """Fill one daemon with ``many`` keys, then with ``most``; another one has only a few."""
    async with AsyncExitStack() as stack:
        small, large = [(await stack.enter_async_context(Daemons(1)))[0] for _ in range(2)]
        async with _client(small) as client:
            await fill(client, 0, KEYS)
        async with _client(large) as client:
            await fill(client, 0, KEYS)
            before_bytes = rss_bytes(large.pid)
            await fill(client, KEYS, many)
        found = {restart_of(MANY): await _restarts(large, restarts)}
        async with _client(large) as client:
            await fill(client, many, most)
        key_bytes = (rss_bytes(large.pid) - before_bytes) / (most - KEYS)
        async with _client(small) as few_client, _client(large) as many_client:
            few, lots = _Written(few_client, small.pid, KEYS), _Written(many_client, large.pid, most)
            growth = await _growth(few, lots, writes)
        found[restart_of(MOST)] = await _restarts(large, 1)
        return {**found, KEY_MEMORY: key_bytes, **growth}


def _client(daemon: Daemon) -> AsyncClient:
    return AsyncClient(daemon.socket, timeout=CALL_TIMEOUT_S)


async def fill(client: AsyncClient, first: int, end: int) -> None:
    """Write the keys of these numbers, many in a change."""
    for start in range(first, end, BATCH_WRITES):
        async with client.batch() as batch:
            for number in range(start, min(end, start + BATCH_WRITES)):
                batch.set(f"k{number}", VALUE)


async def _restarts(daemon: Daemon, count: int) -> float:
    """Median of the seconds from a start to the first reply, after ``kill -9``."""
    found = []
    for _ in range(count):
        await daemon.kill()
        start_s = monotonic()
        reading = asyncio.create_task(_first_read(daemon))
        await daemon.start()
        await reading
        found.append(monotonic() - start_s)
    return median(found)


async def _first_read(daemon: Daemon) -> None:
    while True:
        try:
            async with AsyncClient(daemon.socket, timeout=CALL_TIMEOUT_S) as client:
                await client.get("k0")
        except (CrdtSyncError, OSError):
            await asyncio.sleep(RETRY_S)
        else:
            return


async def floor(directory: Path, most: int = MOST, writes: int = 2000) -> Figures:
    """The growth of bare servers that write the daemon's rows."""
    async with AsyncExitStack() as stack:

        async def filled(keys: int) -> _Written:
            server = BareRows()
            await server.start(directory / str(keys))
            stack.push_async_callback(server.stop)
            await server.connect()
            await server.fill(keys, VALUE)
            return _Written(server, server.pid, keys)

        return await _growth(await filled(KEYS), await filled(most), writes)


class _Client(Protocol):
    async def set(self, key: str, value: str) -> object: ...


class _Written(NamedTuple):
    client: _Client
    pid: int | None
    keys: int


async def _growth(few: _Written, many: _Written, writes: int) -> Figures:
    """By how much a write to one of many keys takes longer than to one of few."""
    cpu: tuple[list[float], list[float]] = ([], [])
    times: tuple[list[float], list[float]] = ([], [])
    random = Random(0)
    for _ in range(TURNS):
        for place, (client, pid, keys) in enumerate((few, many)):
            numbers = iter([random.randrange(keys) for _ in range(writes)])
            before_ns = cpu_ns(pid)
            await asyncio.gather(*(_write(client, numbers) for _ in range(IN_FLIGHT)))
            cpu[place].append((cpu_ns(pid) - before_ns) / writes)
            found = []
            for _ in range(max(1, writes // 4)):
                start_s = monotonic()
                await client.set(f"k{random.randrange(keys)}", VALUE)
                found.append(monotonic() - start_s)
            times[place].append(percentile(found, 0.5))
    return {
        GROWTH_CPU: median(cpu[1]) / median(cpu[0]),
        GROWTH_P50: median(times[1]) / median(times[0]),
    }


async def _write(client: _Client, numbers: Iterator[int]) -> None:
    for number in numbers:
        await client.set(f"k{number}", VALUE)
