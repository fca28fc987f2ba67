"""Commits that were acknowledged and that no table takes: a bug, or a row that is broken on disk.

They leave the journal for a table of their own, byte for byte, and so do those that came after them, for these build on
them: what the other tables hold stays a causal past, as of a moment ago. Each change in them is then given to the core
again as if a peer had sent it (:mod:`crdtsyncd.loop.replay_quarantine`), which makes its rows anew. Changes that cannot
be taken in even so stay here, and an alarm says so. This node's writers are not used again, since peers may have seen
the numbers.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable

from crdtsyncd.storage.journal.journal import Journal, unpacked

from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.errors import StorageError
from crdtsync.named_tuple import NamedTuple

BYTES_MAX = 64 * 1024 * 1024
"""Acknowledged commits that fit into no table. With more than that something is so wrong that the process ends; the
rows stay in the journal.
"""

TABLE = "CREATE TABLE IF NOT EXISTS quarantine (id INTEGER PRIMARY KEY, batch BLOB NOT NULL, why TEXT, time_ms INTEGER)"
_OF_ROWS = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)


class RowsRefused(Exception):  # no error of anybody's: what follows is that memory is read anew
    """Rows of earlier commits went to quarantine: what memory holds is ahead of the tables."""


class QuarantinedChange(NamedTuple):
    """A change in quarantine. ``row`` is that of its commit."""

    row: int
    space: int
    writer: int
    seq: int
    body: bytes


def is_of_rows(error: BaseException) -> bool:
    """Whether it is what was to be written that is at fault, and not the disk."""
    if isinstance(error, sqlite3.Error):
        return isinstance(error, _OF_ROWS)
    return isinstance(error, Exception) and not isinstance(error, OSError)


class Quarantine:
    """The table, which is there once it was needed."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.count = 0
        self.size_bytes = 0
        self.why = ""
        self.look()

    def look(self) -> None:
        """Count anew what is on disk."""
        self.count = self.size_bytes = 0
        if self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'quarantine'").fetchone() is not None:
            self.count, size_bytes = self._db.execute("SELECT COUNT(*), SUM(LENGTH(batch)) FROM quarantine").fetchone()
            self.size_bytes = size_bytes or 0
        if self.count:
            self.why = str(self._db.execute("SELECT why FROM quarantine ORDER BY id").fetchone()[0])

    def fill(
        self, journal: Journal, write: Callable[[WriteBatch], None], write_apart: Callable[[WriteBatch], None]
    ) -> str:
        """In the caller's transaction: the commits in the journal one by one into the tables by ``write``, and from the
        first that this fails for on here. Why it failed.

        ``write_apart``: what of these goes into tables all the same. Replies, so that a repeated write is no second
        one, and what the node has promised as a voter.

        :raises StorageError: there is too much here already.
        """
        db = self._db
        why = ""
        for packed in journal.rows():
            if not why:
                why = self._try(lambda packed=packed: write(unpacked(packed)))  # type: ignore[misc]
                if not why:
                    continue
                db.execute(TABLE)
                db.execute("DELETE FROM own_writers")
            now_ms = time.time_ns() // 1_000_000
            db.execute("INSERT INTO quarantine (batch, why, time_ms) VALUES (?, ?, ?)", (packed, why, now_ms))
            self.size_bytes += len(packed)
            self._try(lambda packed=packed: write_apart(unpacked(packed)))  # type: ignore[misc]
        if self.size_bytes > BYTES_MAX:
            raise StorageError(
                f"acknowledged commits that fit into no table ({why}) are more than {BYTES_MAX:,} bytes by now: keep a "
                "copy of the data directory, report it, and start another version of crdtsyncd on it"
            )
        return why

    def _try(self, write: Callable[[], None]) -> str:
        """Do that, or nothing; why it failed."""
        self._db.execute("SAVEPOINT one")
        try:
            write()
        except Exception as error:
            self._db.execute("ROLLBACK TO one")
            if not is_of_rows(error):
                raise
            return f"{type(error).__name__}: {error}"
        finally:
            self._db.execute("RELEASE one")
        return ""

    def batches(self) -> list[tuple[int, WriteBatch | None]]:
        """The commits in it, in order, by their rows; None: it cannot be read at all."""
        if not self.count:
            return []
        rows = self._db.execute("SELECT id, batch FROM quarantine ORDER BY id").fetchall()
        return [(row, _readable(packed)) for row, packed in rows]

    def changes(self) -> list[QuarantinedChange]:
        """The changes in them, in order."""
        return [
            QuarantinedChange(row, change.space, change.writer, change.seq, change.body)
            for row, batch in self.batches()
            if batch is not None
            for change in batch.changes
        ]

    def release(self, is_held: Callable[[QuarantinedChange], bool]) -> None:
        """Drop the commits of which every change is held by now."""
        kept = {row for row, batch in self.batches() if batch is None}
        kept |= {change.row for change in self.changes() if not is_held(change)}
        self._drop(row for row, _ in self.batches() if row not in kept)

    def _drop(self, rows: Iterable[int]) -> None:
        self._db.executemany("DELETE FROM quarantine WHERE id = ?", [(row,) for row in rows])
        self.look()


def _readable(packed: bytes) -> WriteBatch | None:
    try:
        return unpacked(packed)
    except Exception:  # noqa: BLE001  # whatever a broken row makes of it
        return None
