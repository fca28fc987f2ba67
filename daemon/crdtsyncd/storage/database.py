"""The database: SQLite in WAL mode, one durable commit for everything that waits.

``synchronous=FULL``: with ``NORMAL`` acknowledged writes are lost when power fails. Commits run in the event loop: a
thread would wait for the interpreter's lock longer than the disk takes. Checkpoints of the WAL run in a thread. A
commit of ordinary writes goes to the :mod:`journal <crdtsyncd.storage.journal.journal>` first, and later into the
tables.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from operator import attrgetter
from pathlib import Path

from crdtsyncd.storage.backlog import Backlog
from crdtsyncd.storage.disk_guard import ballast_bytes
from crdtsyncd.storage.journal.file import GENERATION_BYTES, JournalFile
from crdtsyncd.storage.journal.journal import JOURNAL_ENDING, Journal, packed
from crdtsyncd.storage.journal.quarantine import Quarantine, RowsRefused, is_of_rows
from crdtsyncd.storage.open_database import (
    ENDINGS,
    SECURE_DELETE,
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
from crdtsyncd.storage.retry_replies import OutcomeTable
from crdtsyncd.storage.upkeep import Upkeep
from crdtsyncd.storage.writer_mark import ERA_BYTES, Mark
from crdtsyncd.storage.writes import are_many
from crdtsyncd.telemetry.commit_histogram import Durations
from crdtsyncd.telemetry.event_log import log

from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.core.storage.rows import VOTES_NAME
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.errors import StorageError

DATABASE_NAME = "crdtsync.db"
JOURNAL_NAME = f"{DATABASE_NAME}{JOURNAL_ENDING}"
_WIPING = "wiping"
"""The name of the row in `meta` that says that a purge has left something in the files, see :meth:`Store.wipe`."""

_TORN = (
    "the last record is not whole: a write that was cut off before it was acknowledged; or the disk has spoilt what it "
    "had flushed, and then the newest acknowledged commits are gone here"
)

_DAMAGE = (ValueError, TypeError, LookupError, AttributeError)
"""Errors of rows that hold what nobody wrote: SQLite hands out whatever flipped bits have made of them."""

_TRIMS = ("floors", "history_floors", "log_trims", "history_trims", "document_trims")
_lasting = attrgetter(*(name for name in WriteBatch.__slots__ if name not in (*_TRIMS, "clocks", "own_changes")))
"""The parts of a batch that must not be lost when power fails. A trim that is lost is done again."""


class Store(Upkeep):
    """One open data directory. Implements :class:`crdtsync.core.storage.interface.Storage` and the commit."""

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
        self.commit_times = Durations()
        self.work: Callable[[str], AbstractContextManager[None]] = lambda _name: nullcontext()
        """Called around work in the background; from outside, where there is a clock for it."""
        self.growth_bytes_per_hour: int | None = None  # told from outside, where there is a clock
        self._is_broken = False
        self.is_behind = False  # whether what was read from here before is ahead of the tables, after a RowsRefused
        self.is_given_up = False  # whether somebody had this start go on without acknowledged commits
        self.is_wiping_due = False  # whether :meth:`wipe` has something to do
        self._is_shown = False  # whether a transaction is open that brings the pending rows in and cannot be committed
        with ExitStack() as undo:
            self._lock = lock(data_dir)
            undo.callback(os.close, self._lock)
            try:
                self._connect(undo)
                self._outcomes = OutcomeTable(self._connection)
                self._backlog = Backlog(self._connection)
                self._may_resume = False
                self._made_here: set[tuple[int, int]] = set()  # own writers, by space, that began in this process
                self.quarantine = Quarantine(self._connection)
                self._load_journal()
                self._bring_in_what_was_left()
                self.is_wiping_due = self.meta(_WIPING) is not None
                self.database = self._meta_or("database", entropy(16))
                self.node = (self.meta("node") or self._meta_or("node", node().encode())).decode()
                self.cluster = self._first_cluster(cluster)
                self._entropy = entropy
                self._era = self._meta_or("era", entropy(ERA_BYTES))
                self._own_changes = self._count_own_changes()
                with suppress(RowsRefused):
                    self._if_there_is_room(self._begin_journal)
                self.is_behind = False
            except OSError as error:
                file = error.filename or self._journal.path
                raise StorageError(f"cannot use {file}: {error.strerror}; check the disk and its permissions") from None
            except sqlite3.Error as error:
                raise StorageError(f"cannot use the database {self.path}: {error}; {remedy(error, data_dir)}") from None
            except _DAMAGE as error:
                raise self.damaged(error) from None
            self._mark = Mark(runtime_dir, self.database)
            undo.pop_all()
        self._incarnation = self._resume(entropy)
        extend_wal(self.path)

    def _resume(self, entropy: Callable[[int], bytes]) -> bytes:
        """Go on with the writers there are if the data cannot have gone back; what agents know it by."""
        self._may_resume = self._mark.allows(self._era, self._own_changes)
        if self._may_resume:
            self._mark.write(self._era, self._own_changes)
        elif not self._mark.vouches(self._own_changes):
            return entropy(16)
        return self.meta("incarnation") or self.database

    @property
    def incarnation(self) -> bytes:
        """Another one where the disk may have gone back; stored with the first commit after that."""
        return self._incarnation

    def _connect(self, undo: ExitStack) -> None:
        check_header(self.path)
        if not self.path.exists() or not self.path.stat().st_size:
            JournalFile(self.data_dir / JOURNAL_NAME).rows(None)  # where that is refused no new database is left behind
        make_private(self.path)
        super().__init__(connect(self.path))
        undo.callback(self._connection.close)
        set_up(self._connection)
        prepare(self._connection)
        self._journal = Journal(self._connection, self.data_dir / JOURNAL_NAME)
        undo.callback(self._journal.abandon)
        self._checkpointer = connect(self.path)
        undo.callback(self._checkpointer.close)
        set_up(self._checkpointer)
        self._can_shrink = can_shrink(self._connection)

    # -- writing -----------------------------------------------------------------------------------------------

    def commit(self, batch: WriteBatch, is_direct: bool = False) -> None:
        """Make ``batch`` durable: on return it is on disk, but for what only trims. ``is_direct``: and in the tables.

        :raises NoSpace: the disk is full; nothing of the batch is stored.
        :raises StorageError: the disk failed. Its state is unknown, so this process must end and start over from it.
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
        gives_up = (
            not self._may_resume or batch.retired_writers or batch.rewinds or batch.archives or batch.archive_purges
        )
        era = self._entropy(ERA_BYTES) if gives_up else self._era
        try:
            self._hide()
            if row is not None and self._journal.takes(row):
                self._append(batch, row)
            else:
                self._write(batch, era if gives_up else None)
        except Exception as error:
            if not is_of_rows(error):
                raise self._failed(error) from None
            self._connection.rollback()  # a row that no table can hold: a bug, and not the disk's
            self._count()
            raise
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

    def _append(self, batch: WriteBatch, row: bytes) -> None:
        """To the journal alone."""
        rows = self._journal.untaken_rows
        if self._journal.is_full or (rows and are_many(rows + batch.entry_rows())):
            self._settle()
        if not self._journal.is_ready:
            self._begin_journal()
        if not self._journal.has_room(row):
            self._settle()
            with self.work("flush"):
                self._journal.flush_tables()
        self._journal.append(row, batch)

    def _write(self, batch: WriteBatch, era: bytes | None) -> None:
        """To the tables, after what is in the journal; ``era``: a new one begins."""
        self._settle()
        db = self._connection
        is_trim = era is None and not any(_lasting(batch))
        if is_trim:
            db.execute("PRAGMA synchronous = NORMAL")
        if batch.is_purge:
            db.execute("PRAGMA secure_delete = ON")
        try:
            self._write_rows(batch, era)
        finally:
            if batch.is_purge:
                db.execute(f"PRAGMA secure_delete = {SECURE_DELETE}")
            if is_trim:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                db.execute("PRAGMA synchronous = FULL")  # which SQLite takes outside of transactions alone
        self.is_wiping_due |= bool(batch.scrubs)

    def _write_rows(self, batch: WriteBatch, era: bytes | None) -> None:
        db = self._connection
        db.execute("BEGIN IMMEDIATE")
        if not self._may_resume:  # never again: without the mark, a later start could not tell
            db.execute("DELETE FROM own_writers")
            db.execute("INSERT OR REPLACE INTO meta VALUES ('incarnation', ?)", (self._incarnation,))
        self._write_in(batch)
        if era is not None:
            db.execute("INSERT OR REPLACE INTO meta VALUES ('era', ?)", (era,))
        if batch.scrubs:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, x'')", (_WIPING,))
        db.execute("COMMIT")

    def _begin_journal(self) -> None:
        """See to it that the next commits can go there."""
        self._hide()
        self._settle()
        self._journal.begin(self._entropy(GENERATION_BYTES))

    def wipe(self) -> None:
        """Leave nothing in the journal and the write-ahead log of what a purge has deleted from the tables.

        Takes the longer, the more stands in the write-ahead log. Where somebody reads it, it is due still.

        :raises StorageError: the disk failed, as in :meth:`commit`.
        """
        if self._is_shown or self._backlog.count or not self.settle():
            return

        def make_anew() -> None:
            self._connection.execute("DELETE FROM meta WHERE name = ?", (_WIPING,))
            self._journal.begin(self._entropy(GENERATION_BYTES), is_wiped=True)

        self._if_there_is_room(make_anew)
        self.truncate()
        self.is_wiping_due = self.wal_bytes() > 0 or self.meta(_WIPING) is not None

    def unreadable(self, error: sqlite3.Error) -> StorageError:
        """The error of a failed read, for the person who runs this host."""
        return StorageError(
            f"cannot read the database {self.path}: {error}; check the disk, or restore the database from a backup"
        )

    def damaged(self, error: Exception) -> StorageError:
        """The error if rows hold what nobody wrote."""
        return StorageError(
            f"the database {self.path} is damaged ({type(error).__name__}: {error}); "
            "restore it from a backup, or move it away"
        )

    def close(self) -> None:
        """Close cleanly. Idempotent.

        After a failure the write-ahead log is left as it is: nobody knows what of it the disk holds, and SQLite, which
        would fold it in and delete it, must not be trusted with that before the next start has read it anew.
        """
        if not self._is_broken:
            # where it fails, the journal or quarantine keeps what it has, and says so at the next start
            with suppress(StorageError, RowsRefused, sqlite3.Error):
                self._hide()
                self.settle()
                self._journal.close()
        self._journal.abandon()
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
        """See :class:`~crdtsync.core.storage.interface.Storage`."""
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
        with suppress(RowsRefused):  # they are in quarantine, and go along
            self.truncate()
        self.close()
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            for ending in reversed(ENDINGS):
                file = self.path.with_name(self.path.name + ending)
                if file.exists():
                    file.rename(place / file.name)
        except OSError as error:
            raise StorageError(f"cannot move the database {self.path} to {place}: {error.strerror}") from None

    # -- inside ----------------------------------------------------------------------------------------------------

    def mind_journal(self) -> None:
        """See to it that the next commit makes the journal's file anew if that was removed meanwhile."""
        if self._journal.let_go_if_lost():
            log("journal_lost", level="error", path=str(self._journal.path), follows="the next write makes a new one")

    def _load_journal(self) -> None:
        self.is_given_up = not self._journal.load()
        path = str(self._journal.path)
        if self.is_given_up:  # peers may have seen the numbers of what is gone
            log("journal_given_up", level="warning", path=path)
            self._connection.execute("DELETE FROM own_writers")
        if self._journal.is_torn:
            log("journal_torn", level="warning", path=path, meaning=_TORN)

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
        return (int(row[0]) if row else 0) + int.from_bytes(self.meta(VOTES_NAME) or b"", "big")
