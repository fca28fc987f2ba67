"""The barest server of this kind: it keeps what is set, on disk before it replies, and tells whoever watches.

What comes together is one durable append: to a table of SQLite, or, between two hosts, to a file as the daemon's
journal is one. A change goes to the other host in a frame of a websocket, without a handshake. There is no change, no
version, no history and no retry.

    python -m benchmarks.rivals.bare_server SOCKET            # one host
    python -m benchmarks.rivals.bare_server SOCKET listen PORT
    python -m benchmarks.rivals.bare_server SOCKET dial PORT
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgpack
import uvloop
from crdtsyncd.peers.websocket_frames import Splitter, message_frame, whole_message
from crdtsyncd.storage.open_database import extend_wal

_END_OF_HANDSHAKE = b"\r\n\r\n"
_FILE_BYTES = 16 * 1024 * 1024
_pack = msgpack.Packer().pack

Rows = list[tuple[str, str]]


def table() -> tuple[dict[str, str], Callable[[Rows], None]]:
    """What a table holds, and what adds to it."""
    db = sqlite3.connect("bare.db", isolation_level=None)
    db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
    extend_wal(Path("bare.db"))  # else each commit waits for the file system's journal too, until it is as long

    def keep(rows: Rows) -> None:
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", rows)
        db.execute("COMMIT")

    return dict(db.execute("SELECT key, value FROM entries")), keep


def file() -> tuple[dict[str, str], Callable[[Rows], None]]:
    """The same with a file that is as long as it will ever be, for that flushes fastest. Nothing reads it."""
    descriptor = os.open("bare.log", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(descriptor, bytes(_FILE_BYTES))
    os.fsync(descriptor)
    place = 0

    def keep(rows: Rows) -> None:
        nonlocal place
        row = _pack(rows)
        if place + len(row) > _FILE_BYTES:
            place = 0
        os.pwrite(descriptor, row, place)
        os.fdatasync(descriptor)
        place += len(row)

    return {}, keep


class Server:
    """What all its connections share."""

    def __init__(self, values: dict[str, str], keep: Callable[[Rows], None]) -> None:
        self.values = values
        self.watchers: list[asyncio.Transport] = []
        self.host: asyncio.Transport | None = None
        self._keep = keep
        self._rows: Rows = []
        self._writers: list[asyncio.Transport] = []
        self._is_due = False

    def write(self, rows: Rows, writer: asyncio.Transport | None) -> None:
        """See to it that rows are on disk soon, with all that come at the same moment."""
        self._rows += rows
        if writer is not None:
            self._writers.append(writer)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._commit)

    def _commit(self) -> None:
        rows, self._rows = self._rows, []
        writers, self._writers = self._writers, []
        self._is_due = False
        self._keep(rows)
        if self.host is not None:
            self.host.write(message_frame(_pack(rows), is_masked=True))
        replies: dict[asyncio.Transport, int] = {}
        for writer in writers:
            replies[writer] = replies.get(writer, 0) + 1
        for writer, count in replies.items():
            writer.write(_pack(None) * count)
        self.values.update(rows)
        for watcher in self.watchers:
            watcher.write(_pack(rows))


class _Agent(asyncio.Protocol):
    """``["set", key, value]`` is answered once it is on disk, ``["get", key]`` at once; ``["watch"]`` never ends."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._frames = msgpack.Unpacker()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own does not always say so

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)
        for request, *arguments in self._frames:
            if request == "set":
                self._server.write([(arguments[0], arguments[1])], self._transport)
            elif request == "get":
                self._transport.write(_pack(self._server.values.get(arguments[0])))
            else:
                self._server.watchers.append(self._transport)
                self._transport.write(_pack(None))


class _Host(asyncio.Protocol):
    """What the other host sends: rows."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._splitter = Splitter()
        self._splitter.split(_END_OF_HANDSHAKE)

    def data_received(self, data: bytes) -> None:
        for frame, _ in self._splitter.split(data):
            message = whole_message(frame, is_masked=True)
            assert message is not None, "frames this short come whole"
            self._server.write([(key, value) for key, value in msgpack.unpackb(message)], None)


async def main(path: str, role: str = "", port: str = "") -> None:
    """Serve until killed."""
    server = Server(*(file() if role else table()))
    loop = asyncio.get_running_loop()
    if role == "listen":
        await loop.create_server(lambda: _Host(server), "127.0.0.1", int(port))
    elif role == "dial":
        server.host, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", int(port))
    await (await loop.create_unix_server(lambda: _Agent(server), path)).serve_forever()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
