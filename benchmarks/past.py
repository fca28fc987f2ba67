"""``./dev bench past``: large values, blobs, checkpoints and reads of the past, beside plain files and SQLite.

Each figure is the median of some rounds, and what it is compared with is measured in the same rounds: look at the
ratios.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

import click

from benchmarks.daemons import Daemon, Daemons
from benchmarks.gauges import private_bytes
from crdtsync.client import AsyncClient

MIB = 1024 * 1024
VALUE_BYTES = 50_000
BATCH = 20
SMALL_BATCH = 500
HEAD = "| what | crdtsync | beside | ratio | target | |\n|---|---|---|---|---|---|"


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
        beside = f"{self.beside}: {_time(self.theirs)}"
        return (
            f"| {self.what} | {_time(self.ours)} | {beside} | {ratio:.2g}× | {target} | {_kept(ratio, self.target)} |"
        )


class Amount(NamedTuple):
    """A row that is compared with nothing: what takes how much, and how much it may take."""

    what: str
    ours: float
    unit: str
    target: float

    def line(self) -> str:
        """As a row in Markdown."""
        kept = _kept(self.ours, self.target)
        return f"| {self.what} | {self.ours:,.4g} {self.unit} | | | ≤ {self.target:,g} {self.unit} | {kept} |"


def _kept(value: float, target: float | None) -> str:
    return "" if target is None else "kept" if value <= target else "missed"


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


def stored_in_sqlite(source: Path, place: Path) -> float:
    """How long SQLite takes to store bytes, flushed after each MiB: less than that a put cannot take as long as they
    stand in a database.
    """
    with TemporaryDirectory(dir=place) as directory, closing(sqlite3.connect(Path(directory) / "once.db")) as db:
        db.isolation_level = None
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 1000"):
            db.execute(f"PRAGMA {pragma}")
        db.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, v BLOB)")
        with source.open("rb") as file:
            started_s = perf_counter()
            while piece := file.read(MIB):
                db.execute("BEGIN")
                db.execute("INSERT INTO t (v) VALUES (?)", (piece,))
                db.execute("COMMIT")
            return perf_counter() - started_s


def served(database: Path, values: int) -> list[float]:
    """How long another process takes to read each row, hash it, and hand it over through a socket, and no more."""
    here, there = socket.socketpair()
    server = get_context("fork").Process(target=_serve, args=(database, here, there), daemon=True)
    server.start()
    there.close()
    taken, buffer = [], memoryview(bytearray(VALUE_BYTES))
    for n in range(values):
        started_s = perf_counter()
        here.send(f"{n}".encode())
        got = 0
        while got < VALUE_BYTES:
            got += here.recv_into(buffer[got:])
        taken.append(perf_counter() - started_s)
    here.close()
    server.join()
    return taken


def _serve(database: Path, theirs: socket.socket, own: socket.socket) -> None:
    theirs.close()
    with closing(sqlite3.connect(database)) as db:
        while key := own.recv(16):
            (value,) = db.execute("SELECT v FROM t WHERE k = ?", (key.decode(),)).fetchone()
            blake2b(value, digest_size=32).digest()
            own.sendall(value)


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
    puts, gets, copies, stored, sent = [], [], [], [], []
    for number in range(rounds):
        copies.append(copied(source, place / "copy"))
        stored.append(stored_in_sqlite(source, place))
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
        Figure("the same", median(puts), "in SQLite, flushed after each MiB", median(stored), None),
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
    elsewhere = served(place / "rows.db", values)
    for start in range(0, values, BATCH):
        async with client.batch() as batch:
            for n in range(start, min(values, start + BATCH)):
                batch.set(f"cold/{n}", os.urandom(VALUE_BYTES))
    ours = [await timed(lambda: client.get(f"cold/{n}")) for n in range(values)]  # noqa: B023
    small = [await timed(lambda: client.get("small")) for _ in range(values)]
    return [
        Figure("get of 50 kB, in no cache", median(ours), "a row of SQLite in the same process", median(theirs), 3),
        Figure("the same", median(ours), "a row of another process, hashed", median(elsewhere), None),
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


async def of_many_keys(client: AsyncClient, pid: int | None, keys: int) -> list[Amount]:
    """What keys with small values take of the memory."""
    before_bytes = private_bytes(pid)
    for start in range(0, keys, SMALL_BATCH):
        async with client.batch() as batch:
            for n in range(start, min(keys, start + SMALL_BATCH)):
                batch.set(f"fill/{n}", "x" * 1000)
    await asyncio.sleep(2)
    return [Amount(f"memory of a key with 1 kB, of {keys:,}", (private_bytes(pid) - before_bytes) / keys, "bytes", 500)]


async def first_read(daemon: Daemon, key: str) -> float:
    """Start a daemon that was stopped; how long it is from there to the end of a read."""
    started_s = perf_counter()
    await daemon.start()
    async with AsyncClient(socket=daemon.socket, agent="bench") as client:
        await client.get(key)
    return perf_counter() - started_s


async def of_much(gigabytes: float) -> list[Figure | Amount]:
    """What values of 50 kB take of the memory, and how soon one of them is read after a start."""
    count, size = int(gigabytes * 1e9 / VALUE_BYTES), f"{gigabytes:g} GB of values of 50 kB"
    async with Daemons(1, {"free_bytes_min": 0}) as fleet:
        await fleet[0].stop()
        empty_s = await first_read(fleet[0], "much/0")
        async with AsyncClient(socket=fleet[0].socket, agent="bench") as client:
            for start in range(0, count, BATCH):
                async with client.batch() as batch:
                    for n in range(start, min(count, start + BATCH)):
                        batch.set(f"much/{n}", os.urandom(VALUE_BYTES))
            for n in range(0, count, max(1, count // 2_000)):  # 100 MB: the cache is full
                await client.get(f"much/{n}")
        written_bytes = private_bytes(fleet[0].pid)
        await fleet[0].stop()
        first_s = await first_read(fleet[0], f"much/{count // 2}")
    return [
        Amount(f"memory with {size}, 100 MB of them read", written_bytes / 1e6, "MB", 200),
        Amount(f"from the start with {size} to the first read", first_s, "s", 2),
        Figure("the same", first_s, "with nothing", empty_s, None),
    ]


async def of_many_spaces(spaces: int, idle_s: float) -> list[Amount]:
    """What spaces that nobody uses take of the memory, and how soon they are there when somebody does."""
    used = min(100, spaces)
    async with Daemons(1, {"free_bytes_min": 0}) as fleet:
        async with AsyncClient(socket=fleet[0].socket, agent="bench") as client:
            for n in range(spaces):
                await client.create_space(f"s{n}")
                await client.session(space=f"s{n}").set("doc", os.urandom(VALUE_BYTES))
        await fleet[0].stop()
        await fleet[0].start()
        async with AsyncClient(socket=fleet[0].socket, agent="bench") as client:
            until_s = perf_counter() + idle_s
            while perf_counter() < until_s:
                for n in range(used):
                    await client.session(space=f"s{n}").get("doc")
                await asyncio.sleep(5)
            memory_bytes = private_bytes(fleet[0].pid)
            sleepers = [client.session(space=f"s{n}") for n in range(used, spaces, max(1, spaces // 200))]
            woken = [await timed(lambda: sleeper.get("doc")) for sleeper in sleepers]  # noqa: B023
    return [
        Amount(f"memory with {spaces:,} spaces of 50 kB, {used} in use", memory_bytes / 1e6, "MB", 120),
        Amount("the first read of one that was not: median", median(woken) * 1e3, "ms", 20),
        Amount("the first read of one that was not: slowest", max(woken) * 1e3, "ms", 20),
    ]


async def measure(keys: int, megabytes: int, values: int, rounds: int) -> list[Figure | Amount]:
    """All that is measured with two linked daemons."""
    settings = {"free_bytes_min": 0, "value_cache_bytes": 1, "log_bytes_max": 8 * 1024 * 1024}
    with TemporaryDirectory(prefix="crdtsync-bench-") as directory:
        place = Path(directory)
        async with (
            Daemons(2, settings) as fleet,
            AsyncClient(socket=fleet[0].socket, agent="bench") as here,
            AsyncClient(socket=fleet[1].socket, agent="bench") as there,
        ):
            await here.set("small", "x" * 1000)
            figures: list[Figure | Amount] = [*await of_blobs([here, there], place, megabytes, rounds)]
            figures += await of_cold_values(here, place, values)
            memory = await of_many_keys(here, fleet[0].pid, keys)
            figures += await of_the_past(here, fleet[0].database, place, keys, 10 * rounds)
            return figures + memory


def show(figures: Sequence[Figure | Amount]) -> None:
    """The table, and how busy the machine is."""
    print(HEAD)
    for figure in figures:
        print(figure.line())
    print(f"load {os.getloadavg()[0]:.1f}")


@click.command()
@click.option("--keys", default=100_000, show_default=True, help="With 1 kB each, of which a checkpoint is made.")
@click.option("--megabytes", default=100, show_default=True, help="Size of a blob.")
@click.option("--values", default=500, show_default=True, help="Of 50 kB, read once each.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--gigabytes", type=float, help="So much in values of 50 kB instead: takes twice that on the disk.")
@click.option("--spaces", type=int, help="So many spaces of 50 kB instead.")
@click.option(
    "--idle",
    "idle_s",
    default=60.0,
    show_default=True,
    help="Seconds from the start of a daemon until its memory is looked at.",
)
def main(
    keys: int, megabytes: int, values: int, rounds: int, gigabytes: float | None, spaces: int | None, idle_s: float
) -> None:
    """Measure large values, blobs, checkpoints and reads of the past, beside files and SQLite."""
    if gigabytes is not None:
        show(asyncio.run(of_much(gigabytes)))
    if spaces is not None:
        show(asyncio.run(of_many_spaces(spaces, idle_s)))
    if gigabytes is None and spaces is None:
        show(asyncio.run(measure(keys, megabytes, values, rounds)))
