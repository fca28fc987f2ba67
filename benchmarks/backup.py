"""``./dev bench backup``: how long a writer waits while a backup is taken, and how long that takes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import click

from benchmarks.daemons import Daemons
from crdtsync.client import AsyncClient

VALUE_BYTES = 100_000
BATCH = 20
QUIET_S = 5.0


class Writer:
    """Writes one key after the other, and notes how long each took."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self.waits_s: list[float] = []
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        number = 0
        while True:
            started_s = monotonic()
            await self._client.set(f"beat/{number % 100}", number)
            self.waits_s.append(monotonic() - started_s)
            number += 1
            await asyncio.sleep(0.002)

    def take(self) -> list[float]:
        """The waits since the last call."""
        waits_s, self.waits_s = self.waits_s, []
        return waits_s

    def stop(self) -> None:
        """Write no more."""
        self._task.cancel()


def _shown(waits_s: list[float]) -> str:
    ordered = sorted(waits_s)
    at = [ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000 for part in (0.5, 0.99, 1)]
    return f"{len(ordered):,} writes, median {at[0]:.1f} ms, p99 {at[1]:.1f} ms, longest {at[2]:.1f} ms"


async def measure(megabytes: int) -> None:
    """Fill a database, then write with and without a backup beside it."""
    settings = {"log_bytes_max": 64 * 1024 * 1024, "free_bytes_min": 0}
    async with Daemons(1, settings) as fleet, AsyncClient(socket=fleet[0].socket, agent="bench") as client:
        for number in range(0, megabytes * 10, BATCH):
            async with client.batch() as batch:
                for offset in range(BATCH):
                    batch.set(f"fill/{number + offset}", os.urandom(VALUE_BYTES))
        async with AsyncClient(socket=fleet[0].socket, agent="writer") as other:
            writer = Writer(other)
            await asyncio.sleep(QUIET_S)
            print(f"alone:         {_shown(writer.take())}")
            with TemporaryDirectory(prefix="crdtsync-bench-") as place:
                started_s = monotonic()
                about = await client.backup(Path(place) / "backup")
                took_s = monotonic() - started_s
            print(f"with a backup: {_shown(writer.take())}")
            print(f"backup: {about['bytes'] / 1e6:.0f} MB in {took_s:.1f} s; load {os.getloadavg()[0]:.1f}")
            writer.stop()


@click.command()
@click.option("--megabytes", default=200, show_default=True, help="Size of the live state.")
def main(megabytes: int) -> None:
    """Take a backup while an agent writes, and compare how long its writes take with and without."""
    asyncio.run(measure(megabytes))
