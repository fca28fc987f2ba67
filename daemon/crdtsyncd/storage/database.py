"""The database: SQLite in WAL mode, one durable commit for everything that waits.

``synchronous=FULL``: with ``NORMAL`` acknowledged writes are lost when power fails. Commits run in the event loop: a
thread would wait for the interpreter's lock longer than the disk takes. Checkpoints of the WAL run in a thread. A
commit of ordinary writes goes to the :mod:`journal <crdtsyncd.storage.journal.journal>` first, and later into the
tables.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from operator import attrgetter
from pathlib import Path

from crdtsyncd.storage.backlog import Backlog
from crdtsyncd.storage.disk_guard import ballast_bytes
from crdtsyncd.storage.journal.file import GENERATION_BYTES, JournalFile
from crdtsyncd.storage.journal.journal import JOURNAL_ENDING, Journal, packed
from crdtsyncd.storage.journal.quarantine import Quarantine, RowsRefused, is_of_rows
from crdtsyncd.storage.old_history import bring_over, is_there
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
from crdtsyncd.storage.retry_replies import Outcomes
from crdtsyncd.storage.upkeep import Upkeep
from crdtsyncd.storage.writer_mark import ERA_BYTES, Mark
from crdtsyncd.storage.writes import Writing, are_many, bring_in
from crdtsyncd.telemetry.commit_histogram import Durations
from crdtsyncd.telemetry.event_log import log

from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.core.storage.interface import VOTES_NAME, Batch
from crdtsync.errors import NoSpace, StorageError

DATABASE_NAME = "crdtsync.db"
JOURNAL_NAME = f"{DATABASE_NAME}{JOURNAL_ENDING}"
_WIPING = "wiping"
"""Of the row in `meta` that says that a purge has left something in the files, see :meth:`Store.wipe`."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

_TORN = (
    "the last record is not whole: a write that was cut off before it was acknowledged; or the disk has spoilt what it "
    "had flushed, and then the newest acknowledged commits are gone here"
)
BACKLOG_RECORDS_MAX = 32
"""With so many slices of rows on their way to their tables, some 5 ms each, those who write wait for all of them."""

_DAMAGE = (ValueError, TypeError, LookupError, AttributeError)
"""What comes of rows that hold what nobody wrote: SQLite hands out whatever flipped bits have made of them."""

_TRIMS = ("floors", "history_floors", "log_trims", "history_trims", "document_trims")
_lasting = attrgetter(*(name for name in Batch.__slots__ if name not in (*_TRIMS, "clocks", "own_changes")))
"""What of a batch must not be lost when power fails. A trim that is lost is done again."""


class Store(Upkeep):
    """One open data directory. Implements :class:`crdtsync.core.storage.interface.Storage` and the commit."""

    _is_awaited = False  # whether somebody waits for the end of the backlog
    _is_crowded = False
    _is_stuck = False  # whether there was no room for what is in the backlog
    _is_tight = False  # whether there was no room when something was to be written last
    _writing: Writing | None = None  # the transaction that has what was taken from the journal
    _steps: Iterator[None] | None = None  # of a slice that was taken and is not in its tables yet
    _is_hidden = False  # whether marks are in the backlog of which nobody was told by :attr:`has_backlog`

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
        """What is done around work in the background; from outside, where there is a clock for it."""
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
                self._outcomes = Outcomes(self._connection)
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
        self._has_old_history = is_there(self._connection)
        self._journal = Journal(self._connection, self.data_dir / JOURNAL_NAME)
        undo.callback(self._journal.abandon)
        self._checkpointer = connect(self.path)
        undo.callback(self._checkpointer.close)
        set_up(self._checkpointer)
        self._can_shrink = can_shrink(self._connection)

    # -- writing -----------------------------------------------------------------------------------------------

    def commit(self, batch: Batch, is_direct: bool = False) -> None:
        """Make ``batch`` durable: on return it is on disk, but for what only trims. ``is_direct``: and in the tables.

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

    def _append(self, batch: Batch, row: bytes) -> None:
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

    def _write(self, batch: Batch, era: bytes | None) -> None:
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

    def _write_rows(self, batch: Batch, era: bytes | None) -> None:
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

    # -- from the journal into the tables ------------------------------------------------------------------------

    @property
    def has_pending(self) -> bool:
        """Whether :meth:`settle` has something to do."""
        return bool(self._journal.pending)

    def settle(self) -> bool:
        """Bring into the tables what was committed to the journal. False: there is no room, and it stays there.

        :raises StorageError: the disk failed, as in :meth:`commit`.
        :raises RowsRefused: some of it no table takes; it is in quarantine, and memory must be read anew.
        """
        if not self._is_shown:
            self._if_there_is_room(self._settle)
        return not self._journal.pending

    def _if_there_is_room(self, do: Callable[[], None]) -> None:
        try:
            do()
        except (sqlite3.Error, OSError) as error:
            refusal = self._failed(error)
            if not isinstance(refusal, NoSpace):
                raise refusal from None

    def _settle(self) -> None:
        """Not synced: should it be lost, the rows are still in the journal."""
        if not self._journal.pending:
            return
        with self.work("settle"):
            self._settle_pending(is_whole=True)

    def settle_some(self) -> bool:
        """Bring what came to the journal a step further on its way into the tables, if it is enough for a slice, in a
        transaction that stays open until it has so much, or until :meth:`settle`. Whether it has ended.

        :raises StorageError: the disk failed, as in :meth:`commit`.
        :raises RowsRefused: as in :meth:`settle`.
        """
        journal = self._journal
        if self._is_shown or self._is_tight or not (self._steps is not None or journal.has_slice or journal.is_enough):
            return False
        is_whole = self._backlog.count > 0 or are_many(journal.untaken_rows)
        with self.work("settle"):
            self._if_there_is_room(lambda: self._settle_pending(is_whole=is_whole))
        return not self._connection.in_transaction

    def _settle_pending(self, *, is_whole: bool) -> None:
        """``is_whole``: and end the transaction; as where some of it went to the backlog, or where it is full."""
        db = self._connection
        try:
            if not db.in_transaction:
                if self._journal.has_taken:
                    self._count()  # SQLite took the transaction back by itself, as where a read failed amid it
                db.execute("PRAGMA synchronous = NORMAL")
                db.execute("BEGIN IMMEDIATE")
            is_expected = self.backlog_position is not None
            is_end = self._steps is None and self._journal.is_enough  # that is a step of its own
            if is_whole or not is_end:
                self._bring_in(is_whole=is_whole)
                if self._backlog.count:
                    self._bring_in(is_whole=True)
                self._is_hidden |= self._backlog.count > 0 and not is_expected
            if not is_whole and not is_end and not self._backlog.count:
                return
            self._finish()
            self._journal.clear()
            db.execute("COMMIT")
        except BaseException as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            self._count()
            if not is_of_rows(error):
                raise
        else:
            self._journal.cleared()
            self._is_tight = False
            return
        finally:
            if not db.in_transaction:
                db.execute("PRAGMA synchronous = FULL")  # which SQLite takes outside of transactions alone
        self._put_aside()

    def _put_aside(self) -> None:
        """Something in the journal fits into no table: that goes to quarantine, with what came after it."""
        db = self._connection
        try:
            db.execute("BEGIN IMMEDIATE")
            why = self.quarantine.fill(self._journal, self._write_in, self._outcomes.write)
            self._journal.clear(is_all=True)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        finally:
            self._count()
            self.quarantine.look()
        self._journal.cleared(is_all=True)
        if why:
            self._may_resume = False
            self._made_here.clear()
            self.is_behind = True
            raise RowsRefused(why)

    @property
    def has_backlog(self) -> bool:
        """See :class:`~crdtsync.core.storage.interface.Storage`: with what will be on its way, out of the journal.
        Whoever asks waits for the end of it.
        """
        has_backlog = self.backlog_position is not None
        self._is_awaited |= has_backlog
        return has_backlog

    @property
    def is_crowded(self) -> bool:
        """Whether those who write much are to wait until all rows are in their tables: too many are on their way, or
        somebody waits who finds no end of them else. Without room on the disk nobody is to wait for that.
        """
        if not (self._is_awaited or self._is_crowded or self._backlog.count >= BACKLOG_RECORDS_MAX):
            return False
        if self.backlog_position is None or self._is_stuck:
            self._is_crowded = self._is_awaited = False
        elif self._is_awaited or self._backlog.count >= BACKLOG_RECORDS_MAX:
            self._is_crowded = True
        return self._is_crowded

    @property
    def backlog_position(self) -> int | None:
        """See :class:`~crdtsync.core.storage.interface.Storage`."""
        if self._backlog.count:
            return self._backlog.position
        journal = self._journal
        return journal.untaken[0].first_position() if are_many(journal.untaken_rows) else None

    @property
    def backlog_records(self) -> int:
        """How many slices of rows are on their way to their tables."""
        return self._backlog.count

    def _bring_in(self, *, is_whole: bool) -> None:
        """What is pending and not in its tables yet, in a transaction that has begun. Not ``is_whole``: a step of a
        slice, and the rest of it only where another one has come behind it.
        """
        journal = self._journal
        while self._steps is not None or (journal.untaken if is_whole else journal.has_slice):
            if self._steps is None:
                self._steps = self._slice()
            for _ in self._steps:
                if not is_whole and not journal.has_slice:
                    return
            self._steps = None
            if not is_whole and journal.is_enough:
                return

    def _slice(self) -> Iterator[None]:
        """What was not taken yet, a step at a time."""
        if self._writing is None:
            self._writing = Writing(self._connection, self._backlog)
        batch = self._journal.take()
        yield
        yield from self._writing.steps(batch)
        yield from self._outcomes.steps(batch.outcomes)

    def _finish(self) -> None:
        """What of all that goes to its place at the end of the transaction."""
        if self._writing is not None:
            self._writing.finish()
            self._writing = None

    def _write_in(self, batch: Batch) -> None:
        writing = Writing(self._connection, self._backlog)
        writing.add(batch)
        writing.finish()
        self._outcomes.write(batch.outcomes)
        self._outcomes.redact(batch.reply_redactions)

    def _count(self) -> None:
        """A transaction may have been rolled back: look at what is counted in memory."""
        self._writing = self._steps = None
        self._outcomes.count()
        self._backlog.look()
        self._journal.take_back()
        self.quarantine.look()

    # -- from the backlog into the tables ------------------------------------------------------------------------

    def bring_some_in(self) -> bool:
        """Bring in a slice of the rows of large commits. False: there is no room.

        :raises StorageError: the disk failed, as in :meth:`commit`.
        :raises RowsRefused: no table takes a row of it; it is kept aside, and memory must be read anew.
        """
        self._is_stuck = self._is_shown
        if self._is_shown or not self._backlog.count:
            return not self._is_shown
        before = self._backlog.count
        with self.work("settle"):
            self._if_there_is_room(lambda: self._unsynced(lambda: bring_in(self._connection, self._backlog)))
        self._backlog.let_go()
        self._is_stuck = 0 < self._backlog.count >= before
        return not self._is_stuck

    def _bring_in_what_was_left(self) -> None:
        """At the start. What no table takes has been put aside."""
        with suppress(RowsRefused):
            self.settle()
        while self._backlog.count:
            with suppress(RowsRefused):
                if not self.bring_some_in():
                    return

    def _bring_all_in(self) -> None:
        while self._backlog.count and self.bring_some_in():
            pass

    def _unsynced(self, do: Callable[[], object]) -> None:
        """In a transaction that is not flushed: should it be lost, what it brings in is where it was."""
        db = self._connection
        db.execute("PRAGMA synchronous = NORMAL")
        try:
            db.execute("BEGIN IMMEDIATE")
            do()
            db.execute("COMMIT")
        except BaseException as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            self._count()
            if not is_of_rows(error):
                raise
            why = f"{type(error).__name__}: {error}"
        else:
            return
        finally:
            db.execute("PRAGMA synchronous = FULL")  # which SQLite takes outside of transactions alone
        self._backlog.put_aside()
        self.is_behind = True
        log("rows_refused", level="error", reason=why)
        raise RowsRefused(why)

    def bring_old_over(self) -> bool:
        """Bring over a slice of what an older format left; see :mod:`crdtsyncd.storage.old_history`. False: that was
        all, or there is no room.

        :raises StorageError: the disk failed, as in :meth:`commit`.
        """
        if not self._has_old_history or self._is_shown or not self.settle():
            return False
        has_more = False

        def bring() -> None:
            nonlocal has_more
            has_more = bring_over(self._connection)
            self._has_old_history = has_more

        with self.work("settle"):
            self._if_there_is_room(lambda: self._unsynced(bring))
        self._has_old_history = is_there(self._connection)
        return has_more

    @property
    def _dead_db(self) -> sqlite3.Connection:
        """The same for readers of what is dead, who have been told if marks are on their way: most are few, and come
        to their rows with all else. Few can be heavy, on rows of an older format, which hold their values.
        """
        db = self._db
        if self._is_hidden:
            db, self._is_hidden = self._whole_db, False
        return db

    @property
    def _whole_db(self) -> sqlite3.Connection:
        """As :attr:`_db`, with the rows of large commits in their tables."""
        db = self._db
        if self._backlog.count and not self._is_shown:
            self._bring_all_in()
            if self._backlog.count:
                self._show()
        return db

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
            if self._journal.pending:
                self._bring_in(is_whole=True)
                self._finish()
            while self._backlog.count:
                bring_in(self._connection, self._backlog)
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._count()
            raise
        self._is_shown = True

    def _hide(self) -> None:
        """End a transaction that was for readers only."""
        if self._is_shown:
            self._is_shown = False
            self._connection.execute("ROLLBACK")
            self._count()

    def _failed(self, error: Exception) -> Exception:
        self._is_broken = True
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._count()
        except sqlite3.Error as second:
            return StorageError(f"the database {self.path} failed and could not roll back: {error}; {second}")
        if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL" or getattr(error, "errno", 0) in _NO_ROOM:
            self._is_broken = False
            self._is_tight = True
            return NoSpace(f"the disk that holds {self.data_dir} is full: free some space, then try again")
        error = getattr(error, "strerror", None) or error
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

    def _pending_value(self, row: int) -> bytes | None:
        if self.is_behind:
            raise RowsRefused(self.quarantine.why)
        value = self._journal.value(row)
        return self._backlog.value(row) if value is None else value

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
