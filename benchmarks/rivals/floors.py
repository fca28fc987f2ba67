"""What no system of this kind can be faster than: a bare server, two of them, an fsync, a Yjs map."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import msgpack
from pycrdt import Doc, Map

from benchmarks.rivals.processes import Process, free_port
from benchmarks.rivals.stores import CALL_TIMEOUT_S, Blocking, Served

ROOT = Path(__file__).parents[2]
_pack = msgpack.Packer().pack


def _server(directory: Path, *role: str) -> Process:
    path = str(directory / "s")
    # It finds this package although it runs where its files are to be.
    command = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "benchmarks.rivals.bare_server", path, *role]
    return Process(command, directory, path)


class Bare(Served):
    """A server of a few lines: uvloop, msgpack and a table of SQLite (``synchronous=FULL``)."""

    name = "floor: bare server"
    durability = "fsync before the reply"
    _role = "table"

    async def start(self, directory: Path) -> None:
        """See :class:`benchmarks.rivals.stores.Store`."""
        self.process = _server(directory, self._role)
        await self.process.start()

    def opener(self) -> Callable[[], Blocking]:
        """See :class:`benchmarks.rivals.stores.Store`."""
        return partial(_BareClient, str(self.process.address))

    async def connect(self) -> None:
        """See :class:`benchmarks.rivals.stores.Store`."""
        self._client = await _BareAgent.connect(str(self.process.address))

    async def disconnect(self) -> None:
        """See :class:`benchmarks.rivals.stores.Store`."""
        self._client.close()

    async def set(self, key: str, value: str) -> object:
        """See :class:`benchmarks.rivals.stores.Store`."""
        return await self._client.call("set", key, value)

    async def get(self, key: str) -> str | None:
        """See :class:`benchmarks.rivals.stores.Store`."""
        found: str | None = await self._client.call("get", key)
        return found

    async def fill(self, keys: int, value: str) -> None:
        """Give so many keys a value."""
        await self._client.call("fill", keys, value)


class BareRows(Bare):
    """The same with the daemon's rows, tables and journal. It is not started again after an end."""

    name = "floor: bare server, our rows"
    _role = "rows"


class _BareClient:
    """For one thread."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(CALL_TIMEOUT_S)
        self._socket.connect(path)
        self._frames = msgpack.Unpacker()

    def _call(self, *request: str) -> object:
        self._socket.sendall(_pack(request))
        self._frames.feed(self._socket.recv(65536))
        return self._frames.unpack()  # one reply, which is short

    def set(self, key: str, value: str) -> object:
        return self._call("set", key, value)

    def get(self, key: str) -> object:
        return self._call("get", key)


class _BareAgent(asyncio.Protocol):
    """For one event loop. Replies come in the order of requests; what nobody has asked for is an event."""

    def __init__(self) -> None:
        self._frames = msgpack.Unpacker()
        self._asked: deque[asyncio.Future[Any]] = deque()
        self.event = asyncio.Event()

    @classmethod
    async def connect(cls, path: str) -> _BareAgent:
        """A new connection."""
        _, agent = await asyncio.get_running_loop().create_unix_connection(cls, path)
        return agent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)
        for frame in self._frames:
            if self._asked:
                self._asked.popleft().set_result(frame)
            else:
                self.event.set()

    def connection_lost(self, _exc: Exception | None) -> None:
        for future in self._asked:
            if not future.done():
                future.set_exception(ConnectionResetError("the bare server has ended"))

    async def call(self, *request: str | int) -> Any:
        """Ask, and wait for the reply."""
        if self._transport.is_closing():
            raise ConnectionResetError("the bare server has ended")
        future = asyncio.get_running_loop().create_future()
        self._asked.append(future)
        self._transport.write(_pack(request))
        return await future

    def close(self) -> None:
        """End the connection."""
        self._transport.close()


class BareLine:
    """Two bare servers that write the daemon's rows, and a client at each."""

    name = "floor: two bare servers"
    durability = "fsync on both hosts"

    @asynccontextmanager
    async def line(self, directory: Path) -> AsyncIterator[BareAgents]:
        """See :class:`benchmarks.rivals.documents.Distant`."""
        port = str(free_port())
        far, near = _server(directory / "far", "listen", port), _server(directory / "near", "dial", port)
        try:
            await far.start()
            await near.start()
            ends = [await _BareAgent.connect(str(process.address)) for process in (near, far)]
            await ends[1].call("watch")
            yield BareAgents(*ends)
            for end in ends:
                end.close()
        finally:
            await near.end()
            await far.end()


class BareAgents:
    """One at each of two hosts."""

    def __init__(self, near: _BareAgent, far: _BareAgent) -> None:
        self._near = near
        self._far = far

    async def fill(self, keys: int, value: str) -> None:
        """Give so many keys a value, at each host."""
        for agent in (self._near, self._far):
            await agent.call("fill", keys, value)

    async def state_port(self) -> int:
        """Where the one host gives its whole state to who dials."""
        port: int = await self._near.call("state port")
        return port

    async def fetch(self, port: int) -> None:
        """Have the other host dial there and take it over."""
        await self._far.call("fetch", port)

    async def send(self, key: str, value: str) -> None:
        """See :class:`benchmarks.rivals.documents.Line`."""
        await self._near.call("set", key, value)

    async def heard(self) -> None:
        """See :class:`benchmarks.rivals.documents.Line`."""
        await self._far.event.wait()
        self._far.event.clear()


def fsync(directory: Path, count: int) -> list[float]:
    """Append of 150 bytes to a file, and ``fdatasync``; seconds each."""
    file = os.open(directory / "fsync", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return _timed(lambda: _append(file), count)
    finally:
        os.close(file)


def _append(file: int) -> None:
    os.write(file, b"x" * 150)
    if sys.platform == "linux":
        os.fdatasync(file)
    else:
        os.fsync(file)


def yjs_map(count: int) -> list[float]:
    """One key of a ``Y.Map`` of 1,000 set, in memory; seconds each."""
    doc: Doc[Map[str]] = Doc()
    values = doc.get("m", type=Map)
    for number in range(1000):
        values[f"k{number}"] = "x" * 100
    numbers = iter(range(count))

    def put() -> None:
        values[f"k{next(numbers) % 1000}"] = "y" * 100

    return _timed(put, count)


def _timed(step: Callable[[], object], count: int) -> list[float]:
    found = []
    for _ in range(count):
        start_s = perf_counter()
        step()
        found.append(perf_counter() - start_s)
    return found
