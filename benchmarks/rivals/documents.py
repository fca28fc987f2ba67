"""From a write of one client to the event at another: crdtsync over two daemons, and servers of Yjs documents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from pycrdt import Doc, Map, YMessageType, create_sync_message, create_update_message, handle_sync_message
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.daemons import Daemons
from benchmarks.rivals.install import HERE, NODE_MODULES, PYTHON
from benchmarks.rivals.processes import Process, free_port
from benchmarks.rivals.stores import Redis
from crdtsync.client import AsyncClient

WARM_UP = 100
"""So many writes are not counted: connections, caches and interpreters settle first."""


class Line(Protocol):
    """Two clients, of which one hears what the other writes."""

    async def send(self, key: str, value: str) -> None:
        """Write at the one."""

    async def heard(self) -> None:
        """The next event at the other."""


class Distant(Protocol):
    """A system with a line. ``durability``: what is on disk when the event comes."""

    name: str
    durability: str

    def line(self, directory: Path) -> Any:
        """An async context manager that makes a :class:`Line`."""


async def latencies(line: Line, count: int) -> list[float]:
    """Seconds from the call that writes to the event at the other client, one write at a time."""
    found = []
    for number in range(min(WARM_UP, count) + count):
        start_s = perf_counter()
        sending = asyncio.create_task(line.send(f"k{number % 1000}", f"{number:0100}"))
        await line.heard()
        found.append(perf_counter() - start_s)
        await sending
    return found[-count:]


# -- crdtsync -------------------------------------------------------------------------------------------------------


class CrdtsyncLine:
    """Two daemons; an agent at each."""

    name = "crdtsync, two daemons"
    durability = "fsync on both hosts"

    @asynccontextmanager
    async def line(self, directory: Path) -> AsyncIterator[Line]:
        """See :class:`Distant`."""
        del directory
        async with Daemons(2) as fleet, AsyncClient(fleet[0].socket) as near, AsyncClient(fleet[1].socket) as far:
            token = await near.set("ready", 1)
            await far.wait(token, timeout=30)
            events = far.watch("k", after=far.last_token)
            yield _Agents(near, events)


class _Agents:
    def __init__(self, near: AsyncClient, events: Any) -> None:
        self._near = near
        self._events = aiter(events)

    async def send(self, key: str, value: str) -> None:
        await self._near.set(key, value)

    async def heard(self) -> None:
        await anext(self._events)


# -- Redis ----------------------------------------------------------------------------------------------------------


class RedisLine:
    """One Redis that keeps what is set and tells a subscriber: the two commands in one pipeline."""

    name = "Redis always, set and publish"
    durability = "fsync on its only host"

    @asynccontextmanager
    async def line(self, directory: Path) -> AsyncIterator[Line]:
        """See :class:`Distant`."""
        redis = Redis("always")
        await redis.start(directory)
        try:
            yield await _Published.begin(redis)
        finally:
            await redis.stop()


class _Published:
    def __init__(self, near: Any, channel: Any) -> None:
        self._near = near
        self._channel = channel

    @classmethod
    async def begin(cls, redis: Redis) -> _Published:
        await redis.connect()
        channel = redis.client.pubsub(ignore_subscribe_messages=True)
        await channel.subscribe("k")
        await channel.get_message(timeout=5)
        return cls(redis.client, channel)

    async def send(self, key: str, value: str) -> None:
        async with self._near.pipeline(transaction=False) as pipeline:
            pipeline.set(key, value)
            pipeline.publish("k", value)
            await pipeline.execute()

    async def heard(self) -> None:
        while await self._channel.get_message(timeout=30) is None:
            pass


# -- servers of Yjs documents -----------------------------------------------------------------------------------------


class YjsLine:
    """A server of Yjs documents in memory, between two clients that have a ``Y.Map`` each."""

    durability = "nothing"

    def __init__(self, name: str, command: list[str], path: str = "/bench") -> None:
        self.name = name
        self._command = command
        self._path = path

    @asynccontextmanager
    async def line(self, directory: Path) -> AsyncIterator[Line]:
        """See :class:`Distant`."""
        port = free_port()
        process = Process([part.format(port=port) for part in self._command], directory, port)
        await process.start()
        url = f"ws://127.0.0.1:{port}{self._path}"
        try:
            async with connect(url, compression=None) as near, connect(url, compression=None) as far:
                pair = _Replicas(_Replica(near, self._prefix), _Replica(far, self._prefix))
                yield await pair.begin()
                await pair.end()
        finally:
            await process.end()

    @property
    def _prefix(self) -> bytes:
        """Hocuspocus has the name of the document before each message."""
        return b"\x05bench" if "hocuspocus" in self.name.lower() else b""


class _Replica:
    def __init__(self, connection: ClientConnection, prefix: bytes) -> None:
        self.doc: Doc[Any] = Doc()
        self.values: Map[Any] = self.doc.get("m", type=Map)
        self.changed = asyncio.Event()
        self._connection = connection
        self._prefix = prefix

    async def send(self, message: bytes) -> None:
        await self._connection.send(self._prefix + message)

    async def run(self) -> None:
        if self._prefix:
            await self.send(b"\x02\x00\x05token")  # its way of signing in
        await self.send(create_sync_message(self.doc))
        async for message in self._connection:
            assert isinstance(message, bytes)
            body = message[len(self._prefix) :]
            if body[0] != YMessageType.SYNC:
                continue
            reply = handle_sync_message(body[1:], self.doc)
            if reply is not None:
                await self.send(reply)
            self.changed.set()


class _Replicas:
    def __init__(self, near: _Replica, far: _Replica) -> None:
        self._near = near
        self._far = far
        self._tasks: list[asyncio.Task[None]] = []
        self._number = 0

    async def begin(self) -> _Replicas:
        self._tasks = [asyncio.create_task(each.run()) for each in (self._near, self._far)]
        async with asyncio.timeout(20):
            await asyncio.gather(self._near.changed.wait(), self._far.changed.wait())
            await asyncio.sleep(0.2)
            await self.send("k0", "first")
            await self.heard()
        return self

    async def send(self, key: str, value: str) -> None:
        before = self._near.doc.get_state()
        self._near.values[key] = value
        await self._near.send(create_update_message(self._near.doc.get_update(before)))
        self._number += 1

    async def heard(self) -> None:
        self._far.changed.clear()
        before = self._far.doc.get_state()
        while self._far.doc.get_state() == before:
            await self._far.changed.wait()
            self._far.changed.clear()

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


_Y_WEBSOCKET = str(NODE_MODULES / "y-websocket/bin/server.cjs")

DISTANT: list[Distant] = [
    CrdtsyncLine(),
    RedisLine(),
    YjsLine(
        "y-websocket",
        ["env", "HOST=127.0.0.1", "PORT={port}", "node", str(NODE_MODULES / "y-websocket/bin/server.cjs")],
    ),
    YjsLine("Hocuspocus", ["node", str(NODE_MODULES.parent / "hocuspocus.mjs"), "{port}"]),
    YjsLine("pycrdt-websocket", [str(PYTHON), str(HERE / "yjs_server.py"), "{port}"]),
]
