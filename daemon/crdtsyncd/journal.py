"""The rows of a commit as one row, so that what an acknowledgement waits for is short.

A write changes a dozen pages all over the tables: the log and its index, live state, history, removals, outcomes,
heads, sizes. Written and synced one by one they would be most of what a commit costs. So a commit appends its rows,
packed, to the table ``journal``, and that is what is synced; the tables follow for many commits at once, where most of
those pages are the same. After a crash what the journal still holds is brought into the tables first of all.

(A write-ahead log on top of SQLite's own, which logs pages; the idea is that of every log-structured store.)
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgpack

from crdtsync.core.storage import (
    Batch,
    ChangeRow,
    DocumentUpdateRow,
    EntryRow,
    HeadRow,
    OutcomeRow,
    PeerRow,
    RemovalRow,
    RemovedRow,
)

PENDING_CHANGES_MAX = 64
"""So many changes wait for their place in the tables at most: bringing them there holds up a turn for 1 to 3 ms.

(256 take as much CPU for each write, and held up one for 4 to 11: the slowest write of a hundred took twice as long.)
"""
PENDING_BYTES_MAX = 1024 * 1024
BATCH_BYTES_MAX = 256 * 1024
"""What is larger goes to the tables at once: it would be written twice for nothing."""


def _plain(*row: Any) -> tuple[Any, ...]:
    return row


_ROWS: tuple[tuple[str, Callable[..., Any]], ...] = (  # only ever added to: what an older daemon left has fewer
    ("changes", ChangeRow),
    ("entries", EntryRow),
    ("removed_rows", RemovedRow),
    ("removals", RemovalRow),
    ("clocks", _plain),
    ("outcomes", OutcomeRow),
    ("heads", HeadRow),
    ("origins", _plain),
    ("peers", PeerRow),
    ("document_updates", DocumentUpdateRow),
)
_NAMES = tuple(name for name, _ in _ROWS)
_OTHERS = tuple(name for name in Batch.__slots__ if name not in (*_NAMES, "own_changes"))
_rows_of = attrgetter(*_NAMES)
_others_of = attrgetter(*_OTHERS)
_pack = msgpack.Packer().pack


class Journal:
    """The table, and the batches in it that the other tables lack."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.pending: list[Batch] = []
        self._pending_changes = 0
        self._pending_bytes = 0
        self._unreadable: Exception | None = None

    @property
    def is_full(self) -> bool:
        """Whether as much waits as may."""
        return self._pending_changes >= PENDING_CHANGES_MAX or self._pending_bytes >= PENDING_BYTES_MAX

    def append(self, packed: bytes) -> None:
        """Add a packed batch in the caller's transaction; :meth:`added` when that is done."""
        self._db.execute("INSERT INTO journal (batch) VALUES (?)", (packed,))

    def added(self, batch: Batch, size_bytes: int) -> None:
        """The batch is committed."""
        self.pending.append(batch)
        self._pending_changes += 1 + len(batch.changes)
        self._pending_bytes += size_bytes

    def load(self) -> None:
        """Take up what an earlier process left."""
        rows = self.rows()
        try:
            self.pending = [unpacked(packed) for packed in rows]
        except Exception as error:  # noqa: BLE001  # whatever a broken row makes of it
            self.pending = [Batch() for _ in rows]
            self._unreadable = error

    def rows(self) -> list[bytes]:
        """The pending batches as they are on disk."""
        # flipped bits may have made anything of a row: bytes it is, which can be read, or kept aside
        rows = self._db.execute("SELECT COALESCE(CAST(batch AS BLOB), x'') FROM journal ORDER BY id").fetchall()
        return [packed for (packed,) in rows]

    def together(self) -> Batch:
        """All that is pending as one batch.

        :raises ValueError: one of them cannot be read.
        """
        if self._unreadable is not None:
            raise ValueError(f"a row of the journal cannot be read: {self._unreadable}")
        if len(self.pending) == 1:
            return self.pending[0]
        batch = Batch()
        for name in _NAMES:
            rows = getattr(batch, name)
            for each in self.pending:
                rows.extend(getattr(each, name))
        return batch

    def clear(self) -> None:
        """Empty the table in the caller's transaction, which brings what it held into the others; then
        :meth:`cleared`.
        """
        self._db.execute("DELETE FROM journal")

    def cleared(self) -> None:
        """That is committed."""
        self.pending.clear()
        self._pending_changes = self._pending_bytes = 0
        self._unreadable = None


def packed(batch: Batch) -> bytes | None:
    """A batch as one row; None if it is no such batch: it is large, or does more than add what writes add."""
    if any(_others_of(batch)):
        return None
    rows: bytes = _pack(_rows_of(batch))
    return rows if len(rows) <= BATCH_BYTES_MAX else None


def unpacked(data: bytes) -> Batch:
    """What :func:`packed` made a row of; raises whatever comes of one that is broken."""
    batch = Batch()
    found = msgpack.unpackb(data, use_list=False, strict_map_key=False)
    for (name, make), rows in zip(_ROWS, found, strict=False):
        setattr(batch, name, [make(*row) for row in rows])
    return batch
