"""Settling: committed rows go from the journal and the backlog into the tables, in slices between the turns.

Readers see it all the same: before they read it is brought in, and where there is no room for that, in a transaction
that will be undone.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from crdtsyncd.storage.journal.journal import Journal
from crdtsyncd.storage.journal.quarantine import Quarantine, RowsRefused, is_of_rows
from crdtsyncd.storage.past_reads import PastReads
from crdtsyncd.storage.retry_replies import OutcomeTable
from crdtsyncd.storage.writes import Writing, are_many, bring_in
from crdtsyncd.telemetry.event_log import log

from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.errors import NoSpace, StorageError

BACKLOG_RECORDS_MAX = 32
"""With so many slices of rows on their way to their tables, some 5 ms each, those who write wait for all of them."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Settling(PastReads):
    """The settling of a :class:`~crdtsyncd.storage.database.Store`."""

    data_dir: Path
    path: Path
    work: Callable[[str], AbstractContextManager[None]]
    quarantine: Quarantine
    is_behind: bool  # whether what was read from here before is ahead of the tables, after a RowsRefused
    _journal: Journal
    _outcomes: OutcomeTable
    _may_resume: bool
    _made_here: set[tuple[int, int]]
    _is_broken: bool
    _is_shown = False  # whether a transaction is open that brings the pending rows in and cannot be committed
    _is_awaited = False  # whether somebody waits for the end of the backlog
    _is_crowded = False
    _is_stuck = False  # whether there was no room for what is in the backlog
    _is_tight = False  # whether there was no room when something was to be written last
    _writing: Writing | None = None  # the transaction that has what was taken from the journal
    _steps: Iterator[None] | None = None  # of a slice that was taken and is not in its tables yet
    _is_hidden = False  # whether marks are in the backlog of which nobody was told by :attr:`has_backlog`

    # -- from the journal --------------------------------------------------------------------------------------

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
            why = self.quarantine.fill(self._journal, self._write_in, self._write_apart)
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
        """See :class:`~crdtsync.core.storage.interface.Storage`: with what will be on its way, out of the journal. A
        caller that asks waits for the end of it.
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
        """Bring in what is pending and not in its tables yet, in a transaction that has begun. Not ``is_whole``: a step
        of a slice, and the rest of it only where another one has come behind it.
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
        """Write what was not taken yet, a step at a time."""
        if self._writing is None:
            self._writing = Writing(self._connection, self._backlog)
        batch = self._journal.take()
        yield
        yield from self._writing.steps(batch)
        yield from self._outcomes.steps(batch.outcomes)

    def _finish(self) -> None:
        """Write the part of it that goes to its place at the end of the transaction."""
        if self._writing is not None:
            self._writing.finish()
            self._writing = None

    def _write_in(self, batch: WriteBatch) -> None:
        writing = Writing(self._connection, self._backlog)
        writing.add(batch)
        writing.finish()
        self._outcomes.write(batch.outcomes)
        self._outcomes.redact(batch.reply_redactions)

    def _write_apart(self, batch: WriteBatch) -> None:
        """Write the part of a batch that holds although its rows fit into no table."""
        self._outcomes.write(batch.outcomes)
        Writing(self._connection, self._backlog).keep_metas(batch)

    def _count(self) -> None:
        """A transaction may have been rolled back: look at what is counted in memory."""
        self._writing = self._steps = None
        self._outcomes.count()
        self._backlog.look()
        self._journal.take_back()
        self.quarantine.look()

    # -- from the backlog --------------------------------------------------------------------------------------

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
            self._if_there_is_room(self._bring_slice_in)
        self._backlog.let_go()
        self._is_stuck = 0 < self._backlog.count >= before
        return not self._is_stuck

    def _bring_in_what_was_left(self) -> None:
        """At the start. Rows that no table takes have been put aside."""
        with suppress(RowsRefused):
            self.settle()
        while self._backlog.count:
            with suppress(RowsRefused):
                if not self.bring_some_in():
                    return

    def _bring_all_in(self) -> None:
        while self._backlog.count and self.bring_some_in():
            pass

    def _bring_slice_in(self) -> None:
        """In a transaction that is not flushed: should it be lost, the rows are still in the backlog."""
        db = self._connection
        db.execute("PRAGMA synchronous = NORMAL")
        try:
            db.execute("BEGIN IMMEDIATE")
            bring_in(db, self._backlog)
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

    # -- what readers see --------------------------------------------------------------------------------------

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

    def _pending_value(self, row: int) -> bytes | None:
        if self.is_behind:
            raise RowsRefused(self.quarantine.why)
        value = self._journal.value(row)
        return self._backlog.value(row) if value is None else value

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
