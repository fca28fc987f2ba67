"""What very many overwrites of few keys leave behind on disk and in memory; of crdtsync alone."""

from __future__ import annotations

import asyncio

from benchmarks.daemons import Daemons
from benchmarks.gauges import live
from benchmarks.rivals.measures import KEYS, VALUE, Figure, Figures
from benchmarks.rivals.processes import disk_bytes, rss_bytes
from crdtsync.client import AsyncClient
from crdtsync.core.background.trimming import CHANGE_HASHES_MAX

CAP_BYTES = 8 * 1024 * 1024
"""Of the log, and of the history: small, so that the first of the two counts is beyond them."""
HASH_BYTES = 80
"""What the hash of a change that the log no longer holds takes on disk."""
WAL_BYTES = 4 * 1024 * 1024
INDEX_SHARE = 1.6
"""What rows of the log and the history take with their indexes and pages that are not full."""
BUDGET_BYTES = INDEX_SHARE * 2 * CAP_BYTES + HASH_BYTES * CHANGE_HASHES_MAX + WAL_BYTES + 1024 * KEYS
BATCH_WRITES = 50
IN_FLIGHT = 16
CALL_TIMEOUT_S = 120.0

FIRST, LAST = 200_000, 1_000_000
GROWTH = Figure(f"memory that {FIRST:,} to {LAST:,} overwrites of {KEYS:,} keys add", "MB")
BUDGET = Figure("disk after those, beside what caps and live state may take", "times")
LIVE = Figure("live state after those, in bytes, beside a fresh one", "times")
DISK_FIRST = Figure(f"disk after {FIRST:,} overwrites", "MB")
DISK_LAST = Figure(f"disk after {LAST:,} overwrites", "MB")


async def measure(first: int = FIRST, last: int = LAST) -> Figures:
    """Overwrite the keys ``first`` times, look, go on to ``last``, look again; and at a new daemon with the end."""
    settings = {"log_bytes_max": CAP_BYTES, "history_bytes_max": CAP_BYTES}
    async with Daemons(1, settings) as fleet:
        daemon = fleet[0]
        async with AsyncClient(daemon.socket, timeout=CALL_TIMEOUT_S) as client:
            await _overwrite(client, 0, first)
            rss, disk = rss_bytes(daemon.pid), disk_bytes(daemon.database.parent)
            await _overwrite(client, first, last)
            grown = rss_bytes(daemon.pid) - rss
            disk_last = disk_bytes(daemon.database.parent)
        await daemon.stop()
        held = live(daemon)
        fresh = fleet.add("fresh")
        await fresh.start()
        async with AsyncClient(fresh.socket, timeout=CALL_TIMEOUT_S) as client:
            await _overwrite(client, last - KEYS, last)
        await fresh.stop()
        expected = live(fresh)
    return {
        GROWTH: grown / 1e6,
        BUDGET: disk_last / BUDGET_BYTES,
        LIVE: held.bytes / expected.bytes,
        DISK_FIRST: disk / 1e6,
        DISK_LAST: disk_last / 1e6,
    }


async def _overwrite(client: AsyncClient, first: int, end: int) -> None:
    numbers = iter(range(first, end, BATCH_WRITES))

    async def write() -> None:
        for start in numbers:
            sets = [
                client.set(f"k{number % KEYS}", f"{number:07}{VALUE}")
                for number in range(start, min(end, start + BATCH_WRITES))
            ]
            await asyncio.gather(*sets)

    await asyncio.gather(*(write() for _ in range(IN_FLIGHT)))
