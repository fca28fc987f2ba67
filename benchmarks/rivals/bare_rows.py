"""What the daemon writes for a ``set``, and nothing but the writing: the same rows, on the same way.

Each group of writes is a record of the journal's file with one flush. Its rows follow into the daemon's tables and
indexes, in slices and transactions as long as the daemon's, and a thread moves the write-ahead log. The last value of
a key is what the next one replaces: nobody decides that, checks rights or bounds, or reads any of it. There is no start
after a crash.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any

import msgpack
from crdtsyncd.storage.journal.file import GENERATION_BYTES, JournalFile, JournalState
from crdtsyncd.storage.journal.journal import META_NAME, SLICE_CHANGES, TRANSACTION_CHANGES
from crdtsyncd.storage.open_database import WAL_CHECKPOINT_BYTES, connect, extend_wal, prepare, set_up

Rows = Sequence[tuple[str, str]]

_DATABASE, _WAL, _JOURNAL = Path("crdtsync.db"), Path("crdtsync.db-wal"), Path("crdtsync.db-commits")
_WRITER, _AGENT, _CLIENT, _SLOTS = 1 << 52, "user.agent", bytes(range(16)), 1024
_VERSION, _TOKEN, _DOT = "v1." + "x" * 26, "c1." + "x" * 27, f"{_WRITER}.1000.0"  # as long as the daemon's
_CHANGE = "INSERT INTO changes VALUES (?, 1, ?, ?, ?, ?, ?)"
_ENTRY = (
    "INSERT INTO entries (row, space, writer, seq, n, key, kind, hlc, agent, value, value_hash, seen) "
    "VALUES (?, 1, ?, ?, 0, ?, 0, ?, ?, ?, ?, ?)"
)
_MARK = "UPDATE entries SET position = ?, time_ms = ?, by_n = 0, fate = 1 WHERE row = ? AND position IS NULL"
_REMOVAL = (
    "INSERT INTO removals (space, key, writer, seq, n, removes, position, time_ms, hlc, agent, operation) "
    "VALUES (1, ?, ?, ?, 0, ?, ?, ?, ?, ?, 'set')"
)
_OUTCOME = "INSERT OR REPLACE INTO outcomes (client, slot, number, time_ms, reply) VALUES (?, ?, ?, ?, ?)"
_TABLES = (_CHANGE, _ENTRY, _MARK, _REMOVAL, _OUTCOME)
_HEAD = "INSERT OR REPLACE INTO heads VALUES (1, ?, ?, ?, ?)"
_SPACE = "UPDATE spaces SET hlc = ?, log_changes = log_changes + ?, log_bytes = log_bytes + 300 WHERE id = 1"
_pack = msgpack.Packer().pack


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _wal_bytes() -> int:
    return _WAL.stat().st_size


class DaemonRows:
    """The files of a daemon in the directory of this process, made anew."""

    def __init__(self) -> None:
        self._db, self._checkpointer = connect(_DATABASE), connect(_DATABASE)
        for db in (self._db, self._checkpointer):
            set_up(db)
        prepare(self._db)
        extend_wal(_DATABASE)
        self._db.execute("INSERT INTO spaces (id, name, epoch) VALUES (1, 'default', 0)")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._journal = JournalFile(_JOURNAL)
        self._generation = os.urandom(GENERATION_BYTES)
        self._journal.begin(self._generation, b"")
        self._numbers = count(1)
        self._live: dict[str, tuple[int, bytes]] = {}  # of each key its row, which is that of its change too; its value
        self._waiting: list[list[Any]] = [[] for _ in _TABLES]  # rows that only the journal has
        self._waiting_changes = self._taken_changes = self._emptied_bytes = 0
        self._slice: asyncio.Handle | None = None
        self._checkpoint: asyncio.Task[None] | None = None

    def keep(self, rows: Rows, *, are_ours: bool) -> list[bytes]:
        """Make values durable. Returns what those are told who wrote them here."""
        record: list[list[Any]] = [[] for _ in _TABLES]
        changes, entries, marks, removals, outcomes = record
        now_ms = time.time_ns() // 1_000_000
        hlc = (now_ms << 16).to_bytes(8, "big")
        for (key, text), number in zip(rows, self._numbers, strict=False):
            value = _pack(text)
            before, before_value = self._live.get(key, (0, b""))
            self._live[key] = number, value
            hashed = _hash(value)
            removed = [_WRITER, before, 0] if before else None
            operation = [key, None, 0, True, removed, None, True]
            header = _pack([1, _WRITER, number, [], hashed, now_ms << 16, _AGENT, _CLIENT, [operation], None])
            changes.append((number, _WRITER, number, _hash(header + hashed), _pack([header, value]), now_ms))
            removes = _pack(removed)
            entries.append((number, _WRITER, number, key, hlc, _AGENT, value, hashed, removes))
            replaced: dict[str, object] | None = None
            if before:
                marks.append((number, now_ms, before))
                removals.append((key, _WRITER, number, removes, number, now_ms, hlc, _AGENT))
                replaced = {"kind": "register", "value": before_value, "dot": _DOT, "agent": _AGENT, "node": "node-0"}
                replaced |= {"time": now_ms, "confidence": None, "meta": None, "ttl": None}
            if not are_ours:
                continue
            reply = {"behind": False, "replaced": replaced, "siblings": 0, "version": _VERSION, "token": _TOKEN}
            outcomes.append((_CLIENT, number % _SLOTS, number, now_ms, _pack(reply)))
        data = _pack(record)
        if not self._journal.has_room(data):
            self._move_log()
        self._journal.write(data)
        self._journal.flush()
        for waiting, some in zip(self._waiting, record, strict=True):
            waiting.extend(some)
        self._waiting_changes += 1 + len(rows)
        if self._waiting_changes >= SLICE_CHANGES and self._slice is None:
            self._slice = asyncio.get_running_loop().call_soon(self._bring_slice_in)
        return [b"\x93\x01\x00" + reply for *_, reply in outcomes]

    def take_over(self, rows: Rows) -> None:
        """Values that come as the state of another host: one commit of them, and marks on those before."""
        self._end()
        now_ms = time.time_ns() // 1_000_000
        entries, marks = [], []
        for (key, text), number in zip(rows, self._numbers, strict=False):
            value = _pack(text)
            if key in self._live:
                marks.append((number, now_ms, self._live[key][0]))
            self._live[key] = number, value
            entries.append((number, _WRITER, number, key, bytes(8), _AGENT, value, _hash(value), None))
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(_ENTRY, entries)
        self._db.executemany(_MARK, marks)
        self._db.execute("COMMIT")
        self._db.execute("PRAGMA synchronous = NORMAL")

    def values(self) -> dict[str, str]:
        """All there are: none yet."""
        return {}

    def _bring_slice_in(self) -> None:
        self._slice = None
        self._bring_in()
        if self._taken_changes >= TRANSACTION_CHANGES:
            self._end()
            is_long = WAL_CHECKPOINT_BYTES < _wal_bytes() != self._emptied_bytes
            if self._checkpoint is None and is_long:
                self._checkpoint = asyncio.create_task(self._move_log_in_thread())

    def _bring_in(self) -> None:
        if not self._db.in_transaction:
            self._db.execute("BEGIN IMMEDIATE")
        self._taken_changes += self._waiting_changes
        self._waiting_changes = 0
        for statement, rows in zip(_TABLES, self._waiting, strict=True):
            self._db.executemany(statement, rows)
        newest = self._waiting[0][-1:]
        self._db.executemany(_HEAD, [(writer, seq, name, at) for at, writer, seq, name, *_ in newest])
        for rows in self._waiting:
            rows.clear()

    def _end(self) -> None:
        """End the transaction; the tables have everything."""
        self._bring_in()
        self._db.execute(_SPACE, (bytes(8), self._taken_changes))
        state = JournalState(self._generation, self._journal.last, is_closed=False)
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (META_NAME, state.packed()))
        self._db.execute("COMMIT")
        self._taken_changes = 0

    async def _move_log_in_thread(self) -> None:
        await asyncio.to_thread(lambda: self._checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone())
        self._move_log()  # what has come since
        self._emptied_bytes = _wal_bytes()  # of which it will begin at the start
        self._checkpoint = None

    def _move_log(self) -> None:
        self._end()
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self._journal.tables_are_on_disk()
