"""The barest server of this kind: it keeps what is set, on disk before it replies, and tells whoever watches.

What comes together is one durable append: a row of a table with two columns, or the rows of the daemon
(:mod:`benchmarks.rivals.bare_rows`). A change goes to the other host as it is, over one connection. The other host can
dial for the whole state, too. There is no decision, no version and no retry.

    python -m benchmarks.rivals.bare_server SOCKET table
    python -m benchmarks.rivals.bare_server SOCKET rows            # the daemon's
    python -m benchmarks.rivals.bare_server SOCKET listen PORT     # the daemon's, of two hosts
    python -m benchmarks.rivals.bare_server SOCKET dial PORT
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgpack
import uvloop

if TYPE_CHECKING:
    from benchmarks.rivals.bare_rows import DaemonRows, Rows
    from benchmarks.rivals.bare_state import State

_FILLED_AT_ONCE = 10_000
_WAL_BYTES = 4 * 1024 * 1024
_pack = msgpack.Packer().pack

_NOTHING = _pack(None)


class Table:
    """One row for each key, with its value."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("bare.db", isolation_level=None)
        self._db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        self._db.execute("CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
        with Path("bare.db-wal").open("ab") as wal:  # else each commit waits for the file system's journal too
            wal.write(bytes(max(0, _WAL_BYTES - wal.tell())))

    def keep(self, rows: Rows, *, are_ours: bool) -> list[bytes]:
        """Make values durable. Returns what those are told who wrote them here."""
        self.take_over(rows)
        return [_NOTHING] * len(rows) if are_ours else []

    def take_over(self, rows: Rows) -> None:
        """The same of values that nobody here wrote."""
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", rows)
        self._db.execute("COMMIT")

    def values(self) -> dict[str, str]:
        """All there are."""
        return dict(self._db.execute("SELECT key, value FROM entries"))


class Server:
    """What all its connections share."""

    def __init__(self, disk: Table | DaemonRows) -> None:
        self.values = disk.values()
        self.watchers: list[asyncio.Transport] = []
        self.host: asyncio.Transport | None = None
        self.state: State | None = None
        self._disk = disk
        self._rows: list[tuple[str, str]] = []
        self._writers: list[asyncio.Transport] = []  # one for each row; none where they come from another host
        self._is_due = False

    def write(self, rows: Rows, writer: asyncio.Transport | None) -> None:
        """See to it that rows are on disk soon, with all that come at the same moment."""
        self._rows += rows
        if writer is not None:
            self._writers += [writer] * len(rows)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._commit)

    def _commit(self) -> None:
        rows, self._rows = self._rows, []
        writers, self._writers = self._writers, []
        self._is_due = False
        replies = self._disk.keep(rows, are_ours=bool(writers))
        if self.host is not None:
            self.host.write(_pack(rows))
        told: dict[asyncio.Transport, list[bytes]] = {}
        for writer, reply in zip(writers, replies, strict=True):
            told.setdefault(writer, []).append(reply)
        for writer, some in told.items():
            writer.write(b"".join(some))
        self._tell(rows)

    def take_over(self, rows: Rows) -> None:
        """The state that another host has, at once."""
        self._disk.take_over(rows)
        self._tell(rows)

    def _tell(self, rows: Rows) -> None:
        self.values.update(rows)
        for watcher in self.watchers:
            watcher.write(_pack(rows))

    def fill(self, keys: int, value: str) -> None:
        """Give keys k0, k1 … a value."""
        for start in range(0, keys, _FILLED_AT_ONCE):
            self.take_over([(f"k{number}", value) for number in range(start, min(keys, start + _FILLED_AT_ONCE))])


class _Agent(asyncio.Protocol):
    """``["set", key, value]`` is answered once it is on disk, all else at once; what ``["watch"]`` asks for never
    ends.
    """

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
                continue
            found: object = None
            if request == "get":
                found = self._server.values.get(arguments[0])
            elif request == "fill":
                self._server.fill(arguments[0], arguments[1])
            elif request == "state port" and self._server.state is not None:
                found = self._server.state.port
            elif request == "fetch" and self._server.state is not None:
                self._server.state.fetch(arguments[0])
            else:
                self._server.watchers.append(self._transport)
            self._transport.write(_pack(found))


class _Host(asyncio.Protocol):
    """The changes that the other host sends."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._frames = msgpack.Unpacker(use_list=False)

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)
        for rows in self._frames:
            self._server.write(rows, None)


def _daemon_rows() -> DaemonRows:
    from benchmarks.rivals.bare_rows import DaemonRows  # noqa: PLC0415  # a start without it has nothing of ours

    return DaemonRows()


async def main(path: str, role: str, port: str = "") -> None:
    """Serve until killed."""
    server = Server(Table() if role == "table" else _daemon_rows())
    loop = asyncio.get_running_loop()
    if role in ("listen", "dial"):
        from benchmarks.rivals.bare_state import State  # noqa: PLC0415  # a start without it has nothing of ours

        server.state = State(server)
        await server.state.listen()
    if role == "listen":
        await loop.create_server(lambda: _Host(server), "127.0.0.1", int(port))
    elif role == "dial":
        server.host, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", int(port))
    await (await loop.create_unix_server(lambda: _Agent(server), path)).serve_forever()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
