"""What is measured of a store: each figure a number in its own unit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, perf_counter
from typing import NamedTuple

from benchmarks.gauges import percentile
from benchmarks.rivals.stores import Blocking, Store

KEYS = 1000
VALUE = "x" * 100
IN_FLIGHT = 16
KILL_AFTER_S = 0.5


class Figure(NamedTuple):
    """``is_better_low``: how to read a ratio."""

    name: str
    unit: str
    is_better_low: bool = True


WRITE_P50 = Figure("durable write, one client, p50", "µs")
WRITE_P99 = Figure("durable write, one client, p99", "µs")
READ_P50 = Figure("read, one client, p50", "µs")
WRITES = Figure(f"durable writes, {IN_FLIGHT} in flight", "writes/s", is_better_low=False)
LOST_BY_KILL = Figure("acknowledged writes lost by kill -9", "writes")
LOST_BY_RESTART = Figure("acknowledged writes lost by a restart", "writes")
RESTART = Figure(f"from start to first read, {KEYS:,} keys", "ms")
DISK = Figure("disk after all these writes", "MiB")
MEMORY = Figure("memory after all these writes", "MiB")
DISTANCE_P50 = Figure("write at one client to event at another, p50", "µs")
DISTANCE_P99 = Figure("write at one client to event at another, p99", "µs")
FLOOR_P50 = Figure("p50", "µs")

Figures = dict[Figure, float]


def one_client(client: Blocking, count: int) -> Figures:
    """Writes, then reads, one after another."""
    writes = _latencies(lambda number: client.set(f"k{number % KEYS}", VALUE), count)
    reads = _latencies(lambda number: client.get(f"k{number % KEYS}"), count)
    return {
        WRITE_P50: percentile(writes, 0.5) * 1e6,
        WRITE_P99: percentile(writes, 0.99) * 1e6,
        READ_P50: percentile(reads, 0.5) * 1e6,
    }


async def one_client_async(store: Store, count: int) -> Figures:
    """The same for a system whose Python client is asyncio's."""
    writes, reads = [], []
    for number in range(count):
        start_s = perf_counter()
        await store.set(f"k{number % KEYS}", VALUE)
        writes.append(perf_counter() - start_s)
    for number in range(count):
        start_s = perf_counter()
        await store.get(f"k{number % KEYS}")
        reads.append(perf_counter() - start_s)
    return {
        WRITE_P50: percentile(writes, 0.5) * 1e6,
        WRITE_P99: percentile(writes, 0.99) * 1e6,
        READ_P50: percentile(reads, 0.5) * 1e6,
    }


def _latencies(call: Callable[[int], object], count: int) -> list[float]:
    found = []
    for number in range(count):
        start_s = perf_counter()
        call(number)
        found.append(perf_counter() - start_s)
    return found


async def in_flight(store: Store, count: int) -> Figures:
    """As many writes a second as it takes with :data:`IN_FLIGHT` on their way."""
    numbers = iter(range(count))

    async def write() -> None:
        for number in numbers:
            await store.set(f"k{number % KEYS}", VALUE)

    start_s = monotonic()
    await asyncio.gather(*(write() for _ in range(IN_FLIGHT)))
    return {WRITES: count / (monotonic() - start_s)}


async def losses(store: Store) -> Figures:
    """Write as fast as it goes, end the server in the midst, and look for what had been acknowledged."""
    found: Figures = {}
    for figure, kill in ((LOST_BY_KILL, True), (LOST_BY_RESTART, False)):
        acknowledged: dict[str, str] = {}
        writers = [asyncio.create_task(_write_on(store, number, acknowledged)) for number in range(IN_FLIGHT)]
        await asyncio.sleep(KILL_AFTER_S)
        start_s = monotonic()
        await store.restart(kill=kill)
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        with suppress(Exception):  # of a connection that is gone
            await store.disconnect()
        await store.connect()
        while True:
            try:
                await store.get("k0")
                break
            except Exception:  # noqa: BLE001  # whatever its client raises while it loads
                await asyncio.sleep(0.005)
        if not kill:
            found[RESTART] = (monotonic() - start_s) * 1000
        held = {key: await store.get(key) for key in acknowledged}
        found[figure] = sum(int(held[key] or -1) < int(value) for key, value in acknowledged.items())
    return found


async def _write_on(store: Store, number: int, acknowledged: dict[str, str]) -> None:
    count = 0
    while True:
        count += 1
        key = f"loss-{number}-{count % 500}"
        await store.set(key, str(count))
        acknowledged[key] = str(count)


def sizes(store: Store) -> Figures:
    """Disk and memory now."""
    return {DISK: store.disk_bytes() / 2**20, MEMORY: store.rss_bytes() / 2**20}
