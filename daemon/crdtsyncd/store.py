"""The database: SQLite in WAL mode, one durable commit for everything that waits.

``synchronous=FULL``: with ``NORMAL`` acknowledged writes are lost when power fails. Commits run in the event loop:
a thread would wait for the interpreter's lock longer than the disk takes. Checkpoints of the WAL run in a thread.
A commit of ordinary writes goes to the :mod:`journal <crdtsyncd.journal>` first, and later into the tables.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from crdtsyncd.commit_times import CommitTimes
from crdtsyncd.disk import ballast_bytes
from crdtsyncd.journal import Journal, packed
from crdtsyncd.mark import ERA_BYTES, Mark
from crdtsyncd.opening import (
    BUSY_TIMEOUT_MS,
    abandon,
    can_shrink,
    check_header,
    connect,
    extend_wal,
    lock,
    make_private,
    prepare,
    remedy,
    set_up,
)
from crdtsyncd.outcomes import Outcomes
from crdtsyncd.quarantine import Quarantine, RowsRefused, is_of_rows
from crdtsyncd.store_reads import Reads
from crdtsyncd.store_writes import write_batch

from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.core.storage import Batch
from crdtsync.errors import NoSpace, StorageError

DATABASE_NAME = "crdtsync.db"
FREE_PAGES_MIN = 1024
"""So many free pages, and a quarter of those in use, are kept in the database file."""
VACUUM_PAGES = 64
"""How many pages go back to the file system at once: with their commit some ms, measured."""

_TRY_AGAIN = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL")

_DAMAGE = (ValueError, TypeError, LookupError, AttributeError)
"""What comes of rows that hold what nobody wrote: SQLite hands out whatever flipped bits have made of them."""


class Store(Reads):
    """One open data directory. Implements :class:`crdtsync.core.storage.Storage` and the commit."""

    def __init__(
        self,
        data_dir: Path,
        runtime_dir: Path,
        node: Callable[[], str] = lambda: os.urandom(16).hex(),
        cluster: bytes = LOOPBACK_CLUSTER,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Open, creating what is missing: a new database belongs to the node that ``node`` names, and to ``cluster``.

        ``entropy``: where the id of a new database comes from, and that of each era of it.

        :raises StorageError: the directory cannot be used, another daemon uses it, or a newer daemon wrote it.
        """
        self.data_dir = data_dir
        self.path = data_dir / DATABASE_NAME
        self.commits = 0
        self.last_commit_ms = 0.0
        self.commit_times = CommitTimes()
        self.growth_bytes_per_hour: int | None = None  # told from outside, where there is a clock
        self._is_broken = False
        self.is_behind = False  # whether what was read from here before is ahead of the tables, after a RowsRefused
        self._is_shown = False  # whether a transaction is open that brings the pending rows in and cannot be committed
        with ExitStack() as undo:
            self._lock = lock(data_dir)
            undo.callback(os.close, self._lock)
            try:
                check_header(self.path)
                make_private(self.path)
                super().__init__(connect(self.path))
                undo.callback(self._connection.close)
                set_up(self._connection)
                prepare(self._connection)
                self._journal = Journal(self._connection)
                self._checkpointer = connect(self.path)
                undo.callback(self._checkpointer.close)
                set_up(self._checkpointer)
                self._can_shrink = can_shrink(self._connection)
                self._outcomes = Outcomes(self._connection)
                self._may_resume = False
                self._made_here: set[tuple[int, int]] = set()  # own writers, by space, that began in this process
                self.quarantine = Quarantine(self._connection)
                self._journal.load()
                with suppress(RowsRefused):
                    self.settle()
                self.is_behind = False
                self.database = self._meta_or("database", entropy(16))
                self.node = (self.meta("node") or self._meta_or("node", node().encode())).decode()
                self.cluster = self._first_cluster(cluster)
                self._entropy = entropy
                self._era = self._meta_or("era", entropy(ERA_BYTES))
                self._own_changes = self._count_own_changes()
            except sqlite3.Error as error:
                raise StorageError(f"cannot use the database {self.path}: {error}; {remedy(error, data_dir)}") from None
            except _DAMAGE as error:
                raise self.damaged(error) from None
            self._mark = Mark(runtime_dir, self.database)
            undo.pop_all()
        self._may_resume = self._mark.allows(self._era, self._own_changes)
        if self._may_resume:
            self._mark.write(self._era, self._own_changes)
        extend_wal(self.path)

    # -- writing -----------------------------------------------------------------------------------------------

    def commit(self, batch: Batch, is_direct: bool = False) -> None:
        """Make ``batch`` durable: on return it is on disk. ``is_direct``: and in the tables.

        :raises NoSpace: the disk is full; nothing of the batch is stored.
        :raises StorageError: the disk failed. What it holds is unknown, so this process must end and start over
        from it.
        :raises RowsRefused: as in :meth:`settle`; nothing of the batch is stored.
        """
        if not batch:
            return
        started = time.perf_counter()
        if self._is_broken:
            raise StorageError(
                f"the database {self.path} has failed before: check the disk, then start crdtsyncd again"
            )
        row = packed(batch) if self._may_resume and not is_direct else None
        gives_up = not self._may_resume or batch.retired_writers or batch.archives or batch.archive_purges
        era = self._entropy(ERA_BYTES) if gives_up else self._era
        try:
            self._hide()
            if row is None or self._journal.is_full:
                self._settle()
            self._connection.execute("BEGIN IMMEDIATE")
            if row is None:
                self._write(batch)
            else:
                self._journal.append(row)
            if gives_up:
                self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('era', ?)", (era,))
            self._connection.execute("COMMIT")
        except Exception as error:
            if isinstance(error, sqlite3.Error) and not is_of_rows(error):
                raise self._failed(error) from None
            self._connection.rollback()  # a row that no table can hold: a bug, and not the disk's
            self._outcomes.count()
            raise
        if row is not None:
            self._journal.added(batch, len(row))
        self.commits += 1
        duration_s = time.perf_counter() - started
        self.last_commit_ms = duration_s * 1000
        self.commit_times.note(duration_s)
        self._made_here.update(batch.writers)
        if gives_up:
            self._may_resume = True  # those that remain
            self._era = era
            self._own_changes = self._count_own_changes()
            self._mark.write(self._era, self._own_changes)
        elif batch.own_changes:
            self._own_changes += batch.own_changes
            self._mark.write(self._era, self._own_changes)

    def _write(self, batch: Batch) -> None:
        if not self._may_resume:  # never again: without the mark, a later start could not tell
            self._connection.execute("DELETE FROM own_writers")
        write_batch(self._connection, batch)
        self._outcomes.write(batch.outcomes)

    # -- from the journal into the tables ------------------------------------------------------------------------

    @property
    def has_pending(self) -> bool:
        """Whether :meth:`settle` has something to do."""
        return bool(self._journal.pending)

    def settle(self) -> None:
        """Bring into the tables what was committed to the journal. Where there is no room it stays there.

        :raises StorageError: the disk failed, as in :meth:`commit`.
        :raises RowsRefused: some of it no table takes; it is in quarantine, and memory must be read anew.
        """
        if self._is_shown:
            return
        try:
            self._settle()
        except sqlite3.Error as error:
            refusal = self._failed(error)
            if not isinstance(refusal, NoSpace):
                raise refusal from None

    def _settle(self) -> None:
        """Not synced: should it be lost, the rows are still in the journal."""
        if not self._journal.pending:
            return
        db = self._connection
        db.execute("PRAGMA synchronous = NORMAL")
        try:
            db.execute("BEGIN IMMEDIATE")
            self._bring_in()
            self._journal.clear()
            db.execute("COMMIT")
        except BaseException as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            self._outcomes.count()
            if not is_of_rows(error):
                raise
        else:
            self._journal.cleared()
            return
        finally:
            db.execute("PRAGMA synchronous = FULL")  # which SQLite takes outside of transactions alone
        self._put_aside()

    def _put_aside(self) -> None:
        """Something in the journal fits into no table: that goes to quarantine, with what came after it."""
        db = self._connection
        try:
            db.execute("BEGIN IMMEDIATE")
            why = self.quarantine.fill(self._journal, self._write_in, self._outcomes.write)
            self._journal.clear()
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        finally:
            self._outcomes.count()
            self.quarantine.look()
        self._journal.cleared()
        if why:
            self._may_resume = False
            self._made_here.clear()
            self.is_behind = True
            raise RowsRefused(why)

    def _bring_in(self) -> None:
        self._write_in(self._journal.together())

    def _write_in(self, batch: Batch) -> None:
        write_batch(self._connection, batch)
        self._outcomes.write(batch.outcomes)

    @property
    def _db(self) -> sqlite3.Connection:
        """The connection for reads, which see all that was committed, also where there is no room to write it."""
        if self._journal.pending and not self._is_shown:
            self.settle()
            if self._journal.pending:
                self._show()
        return self._connection

    def _show(self) -> None:
        """Bring the pending rows in for readers on this connection, in a transaction that will be undone."""
        self._connection.execute("BEGIN")
        try:
            self._bring_in()
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._outcomes.count()
            raise
        self._is_shown = True

    def _hide(self) -> None:
        """End a transaction that was for readers only."""
        if self._is_shown:
            self._is_shown = False
            self._connection.execute("ROLLBACK")
            self._outcomes.count()

    def _failed(self, error: sqlite3.Error) -> Exception:
        self._is_broken = True
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._outcomes.count()
        except sqlite3.Error as second:
            return StorageError(f"the database {self.path} failed and could not roll back: {error}; {second}")
        if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
            self._is_broken = False
            return NoSpace(f"the disk that holds {self.data_dir} is full: free some space, then try again")
        return StorageError(f"the database {self.path} failed: {error}; check the disk, then start crdtsyncd again")

    def unreadable(self, error: sqlite3.Error) -> StorageError:
        """What a failed read means, for the person who runs this host."""
        return StorageError(
            f"cannot read the database {self.path}: {error}; check the disk, or restore the database from a backup"
        )

    def damaged(self, error: Exception) -> StorageError:
        """What it means that rows hold what nobody wrote."""
        return StorageError(
            f"the database {self.path} is damaged ({type(error).__name__}: {error}); "
            "restore it from a backup, or move it away"
        )

    def size_bytes(self) -> int:
        """Size of the database with its write-ahead log.

        :raises StorageError: it cannot be looked at.
        """
        try:
            return os.stat(self.path).st_size + self.wal_bytes()
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
        """
        frames, moved = self._checkpoint(self._connection, "PASSIVE")
        return frames == moved

    def truncate(self) -> None:
        """Move all of the write-ahead log into the database and empty it, if nobody reads it.

        :raises StorageError: the disk failed, as in :meth:`commit`.
        """
        self._connection.execute("PRAGMA busy_timeout = 0")  # it would wait for readers, and nothing else would happen
        try:
            self._checkpoint(self._connection, "TRUNCATE")
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")

    def _checkpoint(self, db: sqlite3.Connection, mode: str) -> tuple[int, int]:
        """How many frames the log has, and how many of them are in the database now; (0, -1): not done."""
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
        if not self._can_shrink or free <= FREE_PAGES_MIN + (pages - free) // 4:
            return False
        try:
            # execute() would stop after the first page: it takes a statement without columns to be done
            self._connection.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
        except sqlite3.Error as error:
            refusal = self._failed(error)
            if isinstance(refusal, NoSpace):
                return False
            raise refusal from None
        return True

    def close(self) -> None:
        """Close cleanly. Idempotent.

        After a failure the write-ahead log is left as it is: nobody knows what of it the disk holds, and SQLite, which
        would fold it in and delete it, must not be trusted with that before the next start has read it anew.
        """
        if not self._is_broken:
            with suppress(StorageError, RowsRefused):  # it is broken, and the journal or quarantine keeps what it has
                self._hide()
                self.settle()
        for db in (self._checkpointer, self._connection):
            if self._is_broken:
                abandon(db)
            else:
                db.close()
        self._mark.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # -- reading, beside what Reads does --------------------------------------------------------------------------

    def resumes(self, space: int, writer: int) -> bool:
        return self._may_resume or (space, writer) in self._made_here

    def outcome_stats(self) -> tuple[int, int]:
        """How many replies are kept for repeated writes, and how many bytes they take."""
        return self._outcomes.rows, self._outcomes.size_bytes

    def stats(self) -> dict[str, object]:
        """See :class:`~crdtsync.core.storage.Storage`."""
        usage = os.statvfs(self.data_dir)
        return {
            "path": str(self.path),
            "bytes": self.size_bytes(),
            "commits": self.commits,
            "last_commit_ms": round(self.last_commit_ms, 3),
            "free_bytes": usage.f_bavail * usage.f_frsize,
            "total_bytes": usage.f_blocks * usage.f_frsize,
            "wal_bytes": self.wal_bytes(),
            "ballast_bytes": ballast_bytes(self.data_dir),
            "growth_bytes_per_hour": self.growth_bytes_per_hour,
        }

    def set_aside(self, place: Path) -> None:
        """Close, and move the database to a directory of its own.

        :raises StorageError: it cannot be moved; it is where it was.
        """
        self.truncate()
        self.close()
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            for suffix in ("-wal", "-shm", ""):
                file = self.path.with_name(self.path.name + suffix)
                if file.exists():
                    file.rename(place / file.name)
        except OSError as error:
            raise StorageError(f"cannot move the database {self.path} to {place}: {error.strerror}") from None

    # -- inside ----------------------------------------------------------------------------------------------------

    def _first_cluster(self, wanted: bytes) -> bytes:
        """The cluster whose id the changes in this database carry; where there is none yet, ``wanted``."""
        is_unused = self._one("SELECT 1 FROM heads LIMIT 1", ()) is None and self.meta("told") is None
        stored = self.meta("cluster")
        if stored is None and not is_unused:
            wanted = LOOPBACK_CLUSTER  # of a version that knew no other
        if stored is None or is_unused:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", ("cluster", wanted))
            return wanted
        return stored

    def _meta_or(self, name: str, default: bytes) -> bytes:
        row = self._one("SELECT value FROM meta WHERE name = ?", (name,))
        if row is None:
            self._connection.execute("INSERT INTO meta VALUES (?, ?)", (name, default))
            return default
        return bytes(row[0])

    def _count_own_changes(self) -> int:
        row = self._one("SELECT IFNULL(SUM(h.seq), 0) FROM own_writers o JOIN heads h USING (space, writer)", ())
        return int(row[0]) if row else 0
