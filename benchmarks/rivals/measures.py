"""What is measured of a store: each figure a number in its own unit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from time import monotonic, perf_counter
from typing import NamedTuple, TypeVar

from benchmarks.gauges import percentile
from benchmarks.rivals.processes import ServerError, cpu_ns
from benchmarks.rivals.stores import Blocking, Store

T = TypeVar("T")

KEYS = 1000
VALUE_CHARS = 100
VALUE = "x" * VALUE_CHARS
IN_FLIGHT = 16
CROWD = 8
CROWD_TIMEOUT_S = 120.0
KILL_AFTER_S = 0.5
LOAD_TIMEOUT_S = 20.0
RETRY_S = 0.005


class Figure(NamedTuple):
    """``is_better_low``: how to read a ratio."""

    name: str
    unit: str
    is_better_low: bool = True


WRITE_P50 = Figure("durable write, one client, p50", "µs")
WRITE_P99 = Figure("durable write, one client, p99", "µs")
READ_P50 = Figure("read, one client, p50", "µs")
READ_P99 = Figure("read, one client, p99", "µs")
WRITES = Figure(f"durable writes, {IN_FLIGHT} in flight", "writes/s", is_better_low=False)
IN_FLIGHT_P99 = Figure(f"durable write, {IN_FLIGHT} in flight, p99", "µs")
CROWD_WRITES = Figure(f"durable writes, {CROWD} client processes, one in flight each", "writes/s", is_better_low=False)
CROWD_P99 = Figure("p99 of those", "µs")
LOST_BY_KILL = Figure("acknowledged writes lost by kill -9", "writes")
LOST_BY_RESTART = Figure("acknowledged writes lost by a restart", "writes")
RESTART = Figure(f"from start to first read, {KEYS:,} keys", "ms")
DISK = Figure("disk after all these writes", "MiB")
MEMORY = Figure("memory after all these writes", "MiB")
DISTANCE_P50 = Figure("write at one client to event at another, p50", "µs")
DISTANCE_P99 = Figure("write at one client to event at another, p99", "µs")
SERVER_CPU = Figure(f"CPU of the server, a durable write with {IN_FLIGHT} in flight", "µs")
MIRROR_READ = Figure("read of a copy in the client's own process, p50", "µs")
CATCH_UP = Figure("catch-up after 20,000 missed overwrites of 1,000 keys; of Redis, fetching the keys", "ms")
CATCH_UP_BYTES = Figure("bytes of that", "KiB")
APPENDS_RATE = Figure("catch-up after 20,000 missed appends", "changes/s", is_better_low=False)
APPENDS_BYTES = Figure("bytes of that, for each byte that was appended", "times")
FLOOR_P50 = Figure("floor, p50", "µs")

Figures = dict[Figure, float]


def one_client(client: Blocking, count: int) -> Figures:
    """Writes, then reads, one after another."""
    writes = _latencies(lambda number: client.set(f"k{number % KEYS}", VALUE), count)
    return _one_client(writes, _latencies(lambda number: client.get(f"k{number % KEYS}"), count))


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
    return _one_client(writes, reads)


def _one_client(writes: list[float], reads: list[float]) -> Figures:
    return {
        WRITE_P50: percentile(writes, 0.5) * 1e6,
        WRITE_P99: percentile(writes, 0.99) * 1e6,
        READ_P50: percentile(reads, 0.5) * 1e6,
        READ_P99: percentile(reads, 0.99) * 1e6,
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
    times = []

    async def write() -> None:
        for number in numbers:
            start_s = perf_counter()
            await store.set(f"k{number % KEYS}", VALUE)
            times.append(perf_counter() - start_s)

    start_s, before_ns = monotonic(), cpu_ns(store.pid)
    await asyncio.gather(*(write() for _ in range(IN_FLIGHT)))
    took_s = monotonic() - start_s
    return {
        WRITES: count / took_s,
        IN_FLIGHT_P99: percentile(times, 0.99) * 1e6,
        SERVER_CPU: (cpu_ns(store.pid) - before_ns) / 1000 / count,
    }


def crowd(opener: Callable[[], Blocking], count: int) -> Figures:
    """:data:`CROWD` processes that begin together; each writes one value after another.

    :raises ServerError: one of them has ended, or could not begin.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])  # once, and not by each process of each crowd
    with ProcessPoolExecutor(CROWD, context, _join_crowd, (context.Barrier(CROWD),)) as pool:
        try:
            found = list(pool.map(_of_crowd, [opener] * CROWD, [count] * CROWD))
        except RuntimeError as error:  # of a broken barrier, or pool
            raise ServerError(f"one of {CROWD} client processes has failed: {error!r}") from None
    took_s = max(end_s for _, end_s, _ in found) - min(start_s for start_s, _, _ in found)
    times = [time_s for _, _, of_one in found for time_s in of_one]
    return {CROWD_WRITES: len(times) / took_s, CROWD_P99: percentile(times, 0.99) * 1e6}


_barrier: Barrier


def _join_crowd(barrier: Barrier) -> None:
    global _barrier  # noqa: PLW0603  # of a process of the pool, which is given it once
    _barrier = barrier


def _of_crowd(opener: Callable[[], Blocking], count: int) -> tuple[float, float, list[float]]:
    """When one of them began and ended, and how long each write took."""
    client = opener()
    client.set("k0", VALUE)
    _barrier.wait(CROWD_TIMEOUT_S)
    start_s = monotonic()
    times = _latencies(lambda number: client.set(f"k{number % KEYS}", VALUE), count)
    return start_s, monotonic(), times


async def within(step: str, limit_s: float, work: Awaitable[T]) -> T:
    """What ``work`` gives. If it takes longer it is cancelled, and not waited for: a client may ignore that.

    :raises ServerError: it took too long; says what did.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=limit_s)
    finally:
        if not task.done():
            task.cancel()
    if not task.done():
        raise ServerError(f"{step}: not done within {limit_s:.0f} s")
    return task.result()


class _Writers:
    """As many as may be in flight, each of which writes one value after another until told to stop."""

    def __init__(self, store: Store) -> None:
        self.acknowledged: dict[str, str] = {}
        self._store = store
        self._is_stopped = False
        self._tasks = [asyncio.create_task(self._write_on(number)) for number in range(IN_FLIGHT)]

    async def _write_on(self, number: int) -> None:
        count = 0
        while not self._is_stopped:  # and not for ever: a client that retries by itself may lose a cancellation
            count += 1
            key = f"loss-{number}-{count % 500}"
            await self._store.set(key, str(count))
            self.acknowledged[key] = str(count)

    async def stop(self) -> None:
        self._is_stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks, timeout=LOAD_TIMEOUT_S)
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.exception()  # of a server that was killed; asked for, so that nobody complains that nobody did


async def losses(store: Store, kill_after_s: float = KILL_AFTER_S) -> Figures:
    """Write as fast as it goes, end the server in the midst, and look for what had been acknowledged."""
    found: Figures = {}
    for figure, kill in ((LOST_BY_KILL, True), (LOST_BY_RESTART, False)):
        writers = _Writers(store)
        await asyncio.sleep(kill_after_s)
        took_s = await store.restart(kill=kill)
        await writers.stop()
        with suppress(Exception):  # of a connection that is gone
            await within("closing the old connection", LOAD_TIMEOUT_S, store.disconnect())
        start_s = monotonic()
        await store.connect()
        await within("the first read after a restart", LOAD_TIMEOUT_S, _first_read(store))
        if not kill:
            found[RESTART] = (took_s + monotonic() - start_s) * 1000
        held = {key: await store.get(key) for key in writers.acknowledged}
        found[figure] = sum(int(held[key] or -1) < int(value) for key, value in writers.acknowledged.items())
    return found


async def _first_read(store: Store) -> None:
    while True:
        try:
            await store.get("k0")
        except Exception:  # noqa: BLE001  # whatever its client raises while it loads
            await asyncio.sleep(RETRY_S)
        else:
            return


def sizes(store: Store) -> Figures:
    """Disk and memory now."""
    return {DISK: store.disk_bytes() / 2**20, MEMORY: store.rss_bytes() / 2**20}
