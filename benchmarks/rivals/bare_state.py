"""The whole state of a bare server, for another one that dials for it: one websocket, and a message each way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import msgpack
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

if TYPE_CHECKING:
    from benchmarks.rivals.bare_server import Server

_pack = msgpack.Packer().pack


class State:
    """Of one server. Who dials :attr:`port` is given it."""

    def __init__(self, server: Server) -> None:
        self.port = 0
        self._server = server

    async def listen(self) -> None:
        """On a port that is free."""
        listening = await serve(self._give, "127.0.0.1", 0, compression=None)
        self.port = next(iter(listening.sockets)).getsockname()[1]

    async def _give(self, line: ServerConnection) -> None:
        await line.recv()  # what the other one has
        await line.send(_pack([*self._server.values.items()]))

    def fetch(self, port: int) -> None:
        """Take over that of another server."""
        self._fetching = asyncio.create_task(self._fetch(port))

    async def _fetch(self, port: int) -> None:
        async with connect(f"ws://127.0.0.1:{port}", compression=None) as line:
            await line.send(_pack(None))
            self._server.take_over(msgpack.unpackb(cast(bytes, await line.recv()), use_list=False))
