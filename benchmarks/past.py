"""``./dev bench past``: large values, blobs, checkpoints and reads of the past, beside plain files and SQLite.

Each figure is the median of some rounds, and what it is compared with is measured in the same rounds: look at the
ratios.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

import click

from benchmarks.daemons import Daemons
from benchmarks.gauges import private_bytes
from crdtsync.client import AsyncClient

VALUE_BYTES = 50_000
BATCH = 20
SMALL_BATCH = 500


class Figure(NamedTuple):
    """One row of the table: what took how long, beside what, and how many times as long it may take."""

    what: str
    ours: float
    beside: str
    theirs: float
    target: float | None

    def line(self) -> str:
        """As a row in Markdown."""
        ratio = self.ours / self.theirs
        target = "" if self.target is None else f"≤ {self.target:g}×"
        return f"| {self.what} | {_time(self.ours)} | {self.beside}: {_time(self.theirs)} | {ratio:.2g}× | {target} |"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs" if seconds < 0.01 else f"{seconds * 1e3:,.0f} ms"


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    """How long it takes."""
    started_s = perf_counter()
    await call()
    return perf_counter() - started_s


def copied(source: Path, target: Path) -> float:
    """How long a copy takes, flushed to the disk."""
    started_s = perf_counter()
    shutil.copyfile(source, target)
    with target.open("rb+") as file:
        os.fsync(file.fileno())
    return perf_counter() - started_s


async def read_all(client: AsyncClient, key: str) -> None:
    """All bytes of a blob."""
    blob = await client.get_blob(key)
    assert blob is not None
    async for _ in blob:
        pass


async def of_blobs(clients: list[AsyncClient], place: Path, megabytes: int, rounds: int) -> list[Figure]:
    """Blobs beside files, and their way to a peer."""
    here, there = clients
    source = place / "source"
    source.write_bytes(os.urandom(megabytes * 1_000_000))
    puts, gets, copies, sent = [], [], [], []
    for number in range(rounds):
        copies.append(copied(source, place / "copy"))
        started_s = perf_counter()
        token = await here.put_blob(f"blob/{number}", source, timeout=60)
        puts.append(perf_counter() - started_s)
        await there.wait(token, timeout=120)
        sent.append(perf_counter() - started_s)
        gets.append(await timed(lambda: read_all(here, f"blob/{number}")))  # noqa: B023  # awaited at once
        await here.delete(f"blob/{number}")
    what, copy_s = f"blob of {megabytes} MB", median(copies)
    return [
        Figure(f"put a {what}", median(puts), "copy and fsync", copy_s, 4),
        Figure(f"get a {what}", median(gets), "copy and fsync", copy_s, 2),
        Figure(f"put a {what}, until it is on a peer", median(sent), "50 MB/s", megabytes / 50, 1),
    ]


async def of_cold_values(client: AsyncClient, place: Path, values: int) -> list[Figure]:
    """Values that no cache holds, beside rows of that size."""
    with closing(sqlite3.connect(place / "rows.db")) as db:
        db.execute("CREATE TABLE t (k TEXT PRIMARY KEY, v BLOB) WITHOUT ROWID")
        db.executemany("INSERT INTO t VALUES (?, ?)", ((f"{n}", os.urandom(VALUE_BYTES)) for n in range(values)))
        db.commit()
        theirs = []
        for n in range(values):
            started_s = perf_counter()
            db.execute("SELECT v FROM t WHERE k = ?", (f"{n}",)).fetchone()
            theirs.append(perf_counter() - started_s)
    for start in range(0, values, BATCH):
        async with client.batch() as batch:
            for n in range(start, min(values, start + BATCH)):
                batch.set(f"cold/{n}", os.urandom(VALUE_BYTES))
    ours = [await timed(lambda: client.get(f"cold/{n}")) for n in range(values)]  # noqa: B023
    small = [await timed(lambda: client.get("small")) for _ in range(values)]
    return [
        Figure("get of 50 kB, in no cache", median(ours), "a row of SQLite in the same process", median(theirs), 3),
        Figure("the same", median(ours), "a get of 1 kB", median(small), None),
    ]


async def of_the_past(client: AsyncClient, database: Path, place: Path, keys: int, rounds: int) -> list[Figure]:
    """Checkpoints beside a write and a copy of the database; reads as of a point beside reads of now."""
    writes, made, reads, at_checkpoint, at_token = ([] for _ in range(5))
    for n in range(rounds):
        writes.append(await timed(lambda: client.set("beat", n)))  # noqa: B023
        made.append(await timed(lambda: client.checkpoint(f"c{n}")))  # noqa: B023
    await client.set("fill/7", "changed")
    token = await client.now()
    copy_s = copied(database, place / "copy.db")
    for n in range(10 * rounds):
        key = f"fill/{n * 37 % keys}"
        reads.append(await timed(lambda: client.get(key)))  # noqa: B023
        at_checkpoint.append(await timed(lambda: client.get(key, at="checkpoint:c0")))  # noqa: B023
        at_token.append(await timed(lambda: client.get(key, at=token)))  # noqa: B023
    return [
        Figure(f"checkpoint of {keys:,} keys", median(made), "a durable write", median(writes), 2),
        Figure("the same", median(made), "a copy of the database", copy_s, 0.01),
        Figure("get as of a checkpoint", median(at_checkpoint), "get", median(reads), 5),
        Figure("get as of a token", median(at_token), "get", median(reads), 5),
    ]


async def measure(keys: int, megabytes: int, values: int, rounds: int) -> None:
    """All of it, and print the table."""
    settings = {"free_bytes_min": 0, "value_cache_bytes": 1, "log_bytes_max": 8 * 1024 * 1024}
    with TemporaryDirectory(prefix="crdtsync-bench-") as directory:
        place = Path(directory)
        async with (
            Daemons(2, settings) as fleet,
            AsyncClient(socket=fleet[0].socket, agent="bench") as here,
            AsyncClient(socket=fleet[1].socket, agent="bench") as there,
        ):
            await here.set("small", "x" * 1000)
            figures = await of_blobs([here, there], place, megabytes, rounds)
            figures += await of_cold_values(here, place, values)
            assert fleet[0].pid is not None
            before_bytes = private_bytes(fleet[0].pid)
            for start in range(0, keys, SMALL_BATCH):
                async with here.batch() as batch:
                    for n in range(start, min(keys, start + SMALL_BATCH)):
                        batch.set(f"fill/{n}", "x" * 1000)
            await asyncio.sleep(2)
            key_bytes = (private_bytes(fleet[0].pid) - before_bytes) / keys
            figures += await of_the_past(here, fleet[0].database, place, keys, 10 * rounds)
    print("| what | crdtsync | beside | ratio | target |\n|---|---|---|---|---|")
    for figure in figures:
        print(figure.line())
    print(f"memory of a key with 1 kB, of {keys:,}: {key_bytes:.0f} bytes; load {os.getloadavg()[0]:.1f}")


@click.command()
@click.option("--keys", default=100_000, show_default=True, help="With 1 kB each, of which a checkpoint is made.")
@click.option("--megabytes", default=100, show_default=True, help="Size of a blob.")
@click.option("--values", default=500, show_default=True, help="Of 50 kB, read once each.")
@click.option("--rounds", default=5, show_default=True)
def main(keys: int, megabytes: int, values: int, rounds: int) -> None:
    """Measure large values, blobs, checkpoints and reads of the past, beside files and SQLite."""
    asyncio.run(measure(keys, megabytes, values, rounds))
