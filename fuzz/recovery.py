"""A data directory whose files were flipped, cut, filled with zeros or exchanged: it is served, or refused in words.

The daemon's own driver opens it, on an event loop and without sockets; an agent reads and writes. Whatever becomes of
it, no exception may come out that a person would see as a bug, and no request may go without an answer. The files are
those that a killed daemon left: rows of the journal wait in it, and there is a write-ahead log.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import random
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any, Final

import msgpack
from crdtsyncd.config.model import Config
from crdtsyncd.loop import driver as driver_module
from crdtsyncd.loop import recovery as recovery_module
from crdtsyncd.loop.driver import Driver
from crdtsyncd.security.node_key import load_or_make_key
from crdtsyncd.security.trusted_members import Trust
from crdtsyncd.storage.database import Store

from crdtsync.core.access.agent import User
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.errors import CrdtSyncError
from fuzz.mutation import packed
from fuzz.workers import Job
from tests.crash.child import Child
from tests.harness.raw import RawAgent

PAGE_BYTES: Final = 4096
FILES: Final = ("crdtsync.db", "crdtsync.db-wal", "crdtsync.db-commits")


class Broken(Exception):  # an outcome, not an error of the fuzzer
    """The directory was refused, or the daemon ended, with a sentence."""


class BugFound(Exception):
    """Something that nobody should see."""


class Recovery:
    """The template, and what is done with copies of it."""

    def __init__(self) -> None:
        self._base = Path(tempfile.mkdtemp(prefix="csr", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        atexit.register(shutil.rmtree, self._base, ignore_errors=True)
        child = Child(self._base / "t")
        child.start()
        agent = child.attach()
        assert agent is not None, child.tail()
        with agent:
            _fill(agent)
        child.kill()
        self._template = {name: (child.data / name).read_bytes() for name in FILES}
        self._others = {path.name: path.read_bytes() for path in child.data.iterdir() if path.name not in FILES}
        child.close()
        self._count = 0

    def sizes(self) -> dict[str, int]:
        """Of the files."""
        return {name: len(data) for name, data in self._template.items()}

    def take(self, data: bytes) -> None:
        """Open what the edits make of the template."""
        place = self._base / "c"
        shutil.rmtree(place, ignore_errors=True)
        (place / "data").mkdir(parents=True)
        (place / "run").mkdir()
        for name, content in self._edited(data).items():
            (place / "data" / name).write_bytes(content)
        for name, content in self._others.items():
            if not name.endswith("-shm"):
                (place / "data" / name).write_bytes(content)
        asyncio.run(_serve(place))
        self._count += 1
        if self._count % 16 == 0:
            gc.collect()  # a driver is a circle, and what it froze was old when it ended

    def _edited(self, data: bytes) -> dict[str, bytes]:
        files = {name: bytearray(content) for name, content in self._template.items()}
        for file, operation, place, value in _edits(data):
            content = files[FILES[file % len(FILES)]]
            if not content:
                continue
            at = place % len(content)
            page = at // PAGE_BYTES * PAGE_BYTES
            match operation % 6:
                case 0:
                    content[at] ^= 1 << value % 8
                case 1:
                    content[at] = value % 256
                case 2:
                    del content[at:]
                case 3:
                    content[at : at + value % 600] = bytes(min(value % 600, len(content) - at))
                case 4:
                    other = value % len(content) // PAGE_BYTES * PAGE_BYTES
                    content[page : page + PAGE_BYTES] = content[other : other + PAGE_BYTES]
                case 5:
                    content[at : at + 8] = value.to_bytes(8, "big")
        return {name: bytes(content) for name, content in files.items()}

    def edits(self, rng: random.Random) -> bytes:
        """An input: a list of edits. Half of them are where there is something."""
        sizes = list(self.sizes().values())
        made = []
        for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
            file = rng.randrange(len(FILES))
            operation = rng.choices(range(6), (6, 6, 1, 2, 2, 2))[0]
            at = rng.randrange(max(sizes[file], 1))
            if rng.random() < 0.5:
                at = self._something(file, at)
            made.append([file, operation, at, rng.randrange(2**48)])
        return packed(made)

    def _something(self, file: int, at: int) -> int:
        content = self._template[FILES[file]]
        while at < len(content) and not content[at]:
            at += 1
        return at if at < len(content) else 0


def _edits(data: bytes) -> list[tuple[int, int, int, int]]:
    try:
        found = msgpack.unpackb(data)
        return [(int(a), int(b), int(c), int(d)) for a, b, c, d in found]
    except (ValueError, TypeError, msgpack.exceptions.UnpackException):
        return []


def _fill(agent: RawAgent) -> None:
    """Some of everything; the last writes wait in the journal."""
    first = agent.write("set", key="k/0", value="first")["version"]
    for value in ("a", "b"):
        agent.write("set", key="k/0", value=value, seen=first)
    for number in range(40):
        agent.write("set", key=f"k/{number}", value="x" * (number * 13), confidence=0.5)
        agent.write("append", key="log", value=number)
        agent.write("incr", key="spent", by=1)
        agent.write("add", key="tags", value=number)
    agent.write("trim", key="log", keep=20)
    agent.write("delete", key="k/7")
    agent.write("merge", key="map", fields={"a": packed(1), "b": packed("x")})
    for number in range(6):
        agent.write("set", key=f"late/{number}", value=number)


class _Agent:
    """Stands for a connection."""

    def __init__(self) -> None:
        self.conn = 0
        self.replies: dict[int, Any] = {}
        self.is_closed = False
        self.backlog_requests = self.unread_bytes = 0

    def write(self, data: bytes) -> None:
        """What the driver sends."""
        while data:
            size = int.from_bytes(data[:4], "big")
            request, status, content = msgpack.unpackb(data[4 : 4 + size], strict_map_key=False)
            self.replies[request] = (status, content)
            data = data[4 + size :]

    def close(self) -> None:
        """The driver does that when it ends."""
        self.is_closed = True


REQUESTS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("get", {"key": "k/1"}), ("entry", {"key": "k/0"}), ("scan", {"prefix": "", "values": True}),
    ("log", {"key": "log"}), ("get", {"key": "spent"}), ("history", {"key": "k/0"}), ("history", {"prefix": "k/"}),
    ("set", {"key": "new", "value": packed(1), "n": 1}), ("append", {"key": "log", "value": packed(1), "n": 2}),
    ("set", {"key": "k/1", "value": packed(2), "n": 3}), ("delete", {"key": "k/2", "n": 4}), ("status", {}),
    ("get", {"key": "new"}),
)  # fmt: skip
_LOGGED: list[str] = []


def _note(event: str, **fields: object) -> None:
    if event == "bug":
        _LOGGED.append(str(fields))


async def _serve(place: Path) -> None:
    _LOGGED.clear()
    config = Config(data_dir=place / "data", socket=place / "run" / "a", insecure_loopback=True, ballast_bytes=0,
                    free_bytes_min=0)  # fmt: skip

    def open_store(cluster: bytes) -> Store:
        return Store(config.data_dir, place / "run", lambda: os.urandom(16).hex(), cluster)

    try:
        store = open_store(LOOPBACK_CLUSTER)
    except CrdtSyncError as error:
        raise Broken(error.message) from None
    try:
        await _talk(
            Driver(
                config, store, open_store, Trust(lambda: load_or_make_key(config.data_dir), store.cluster, True), "0"
            )
        )
    except CrdtSyncError as error:
        raise Broken(error.message) from None
    except sqlite3.Error as error:
        raise Broken(store.unreadable(error).message) from None
    finally:
        store.close()
        gc.unfreeze()
        gc.enable()  # a driver leaves the collector off
    if _LOGGED:
        raise BugFound(_LOGGED[0][-1500:])


async def _talk(driver: Driver) -> None:
    agent: Any = _Agent()
    agent.conn = driver.agent_opened(agent, User(0), 1)
    hello = {"protocol": 1, "client": bytes(16), "agent": "a", "space": "default"}
    for number, (operation, arguments) in enumerate([("hello", hello), *REQUESTS], 1):
        driver.agent_frame(agent.conn, packed([number, operation, arguments]))
        driver.agent_served()
        for _ in range(50):
            await asyncio.sleep(0)
            if number in agent.replies or driver.failed.done():
                break
        if driver.failed.done():
            raise Broken(driver.failed.result())
        if number not in agent.replies:
            raise BugFound(f"{operation} was not answered")
    driver.store.settle()
    await driver.finish()


def recovery(rng: random.Random) -> Job:
    """The target."""
    for module in (driver_module, recovery_module):
        vars(module)["log"] = _note
    made = Recovery()
    return Job(lambda: made.edits(rng), made.take, (Broken,))
