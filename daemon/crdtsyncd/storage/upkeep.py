"""How large the database's files are, and what keeps them short: checkpoints, and space that goes back."""

from __future__ import annotations

import os
import sqlite3

from crdtsyncd.storage.open_database import BUSY_TIMEOUT_MS
from crdtsyncd.storage.settling import Settling

from crdtsync.errors import NoSpace, StorageError

FREE_PAGES_MIN = 1024
"""So many free pages, and a quarter of those in use, are kept in the database file."""
VACUUM_PAGES = 64
"""How many pages go back to the file system at once: with their commit some ms, measured."""

_TRY_AGAIN = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL")


class Upkeep(Settling):
    """The upkeep of a :class:`~crdtsyncd.storage.database.Store`."""

    _checkpointer: sqlite3.Connection
    _can_shrink: bool
    is_wiping_due: bool

    def size_bytes(self) -> int:
        """Size of the database with its write-ahead log and its journal.

        :raises StorageError: it cannot be looked at.
        """
        try:
            return os.stat(self.path).st_size + self.wal_bytes() + self._journal.size_bytes
        except OSError as error:
            raise StorageError(
                f"cannot use the database {self.path} any more: {error.strerror}; check the disk, then start crdtsyncd "
                "again"
            ) from None

    def wal_bytes(self) -> int:
        """Size of the write-ahead log."""
        try:
            return os.stat(f"{self.path}-wal").st_size
        except OSError:
            return 0

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database, as far as nobody reads it. May run in a thread.

        :raises StorageError: the disk failed, as in :meth:`commit`.
        """
        self._checkpoint(self._checkpointer, "PASSIVE")

    def finish_checkpoint(self) -> bool:
        """The same in the caller's thread, where no commit can come in between: the next one then begins the log anew.

        True if it will. Takes the longer, the more was written since :meth:`checkpoint`.

        :raises StorageError: the disk failed, as in :meth:`commit`.
        :raises RowsRefused: as in :meth:`settle`.
        """
        frames, moved = self._checkpoint(self._connection, "PASSIVE")
        if frames == moved:
            self._journal.tables_are_on_disk()
        return frames == moved

    def truncate(self) -> None:
        """Move all of the write-ahead log into the database and empty it, if nobody reads it.

        :raises StorageError: the disk failed, as in :meth:`commit`.
        :raises RowsRefused: as in :meth:`settle`.
        """
        self._connection.execute("PRAGMA busy_timeout = 0")  # it would wait for readers, and nothing else would happen
        try:
            self._checkpoint(self._connection, "TRUNCATE")
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")

    def _checkpoint(self, db: sqlite3.Connection, mode: str) -> tuple[int, int]:
        """How many frames the log has, and how many of them are in the database now; (0, -1): not done."""
        if db is self._connection and db.in_transaction:
            self.settle()  # a transaction is open, amid which SQLite moves nothing
        try:
            is_busy, frames, moved = db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorname", "") in _TRY_AGAIN:
                return 0, -1
            self._is_broken = True
            raise StorageError(
                f"the database {self.path} failed: {error}; check the disk, then start crdtsyncd again"
            ) from None
        return (0, -1) if is_busy else (frames, moved)

    def release_space(self) -> bool:
        """Give a slice of what the database holds free back to the file system, if that is much. True if there is more.

        Some is kept, for what comes takes the place of what went.

        :raises StorageError: the disk failed, as in :meth:`commit`.
        """
        self.settle()
        if self._journal.pending:
            return False  # no room: a transaction may be open, which this would commit
        free, pages = (self._one(f"PRAGMA {name}", ())[0] for name in ("freelist_count", "page_count"))
        kept = 0 if self.is_wiping_due else FREE_PAGES_MIN + (pages - free) // 4
        if not self._can_shrink or free <= kept:
            return False
        try:
            # execute() would stop after the first page: it takes a statement without columns to be done
            with self.work("vacuum"):
                self._connection.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
        except sqlite3.Error as error:
            refusal = self._failed(error)
            if isinstance(refusal, NoSpace):
                return False
            raise refusal from None
        return True
