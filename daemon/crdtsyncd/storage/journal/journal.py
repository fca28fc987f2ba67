"""The rows of a commit as one record, so that what an acknowledgement waits for is short.

A write changes a dozen pages all over the tables: the log and its index, live state, history, removals, outcomes,
heads, sizes. Written and synced one by one they would be most of what a commit costs. So a commit appends its rows,
packed, to a :mod:`file <crdtsyncd.storage.journal.file>` of its own, and that is what is synced; the tables follow for
many commits in one transaction, where most of those pages are the same. It stays open meanwhile: a few rows come into
it at a time, between the turns of others. At its end it notes which record is the last that the tables have: newer ones
are for the next transaction. After a crash what the file holds beyond it is brought into the tables first of all.

(A write-ahead log on top of SQLite's own, which logs pages; the idea is that of every log-structured store.)
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgpack
from crdtsyncd.config.exit_status import UnfitData
from crdtsyncd.storage.journal.file import JournalFile, JournalState, unpacked_state

from crdtsync.core.storage.rows import (
    ChangeRow,
    DocumentUpdateRow,
    EntryRow,
    HeadRow,
    OutcomeRow,
    PeerRow,
    RemovalRow,
    RemovedRow,
)
from crdtsync.core.storage.write_batch import NOTHING, WriteBatch

SLICE_CHANGES = 32
"""So many changes and commits go into the open transaction together, in some fifteen steps of 0.05 ms."""
TRANSACTION_CHANGES = 512
"""With so many changes and commits in it an open transaction of the tables ends, once what was taken is there. That
takes 0.5 ms.

(With 256 the slowest write of a hundred takes up to twice as long: one in 128 waits for such an end.)
"""
PENDING_CHANGES_MAX = 1024
"""So many wait for the end of one at most."""
PENDING_BYTES_MAX = 1024 * 1024
"""Bytes of the changes that wait for that; at half of it the transaction ends."""
BATCH_BYTES_MAX = 256 * 1024
"""A commit that goes to the journal. A larger one goes to the tables at once: it would be written twice for nothing."""
MARK_BYTES_MIN = 14
"""Bytes of a packed row that marks an entry: those of 20,000 need not be packed to see that they are too many."""

JOURNAL_ENDING = "-commits"
"""The ending of the file's name, after the database's."""
META_NAME = "journal"
"""The name of the row in `meta` that says which records of the file the tables have."""


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
    ("floors", _plain),
    ("history_floors", _plain),
    ("metas", _plain),
)
_NAMES = tuple(name for name, _ in _ROWS)
_OTHERS = tuple(name for name in WriteBatch.__slots__ if name not in (*_NAMES, "own_changes"))
_rows_of = attrgetter(*_NAMES)
_others_of = attrgetter(*_OTHERS)
_pack = msgpack.Packer().pack


class Journal:
    """The file, and the batches in it that the tables lack."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self.path = path
        self._db = db
        self._file = JournalFile(path)
        self._state: JournalState | None = None
        self._newest = 0  # the number of the last record that is pending, or was
        self._has_table = False
        self.is_ready = False  # whether commits can be added
        self.pending: list[bytes] = []
        self.untaken: list[WriteBatch] = []  # of these, what no open transaction of the tables has; see :meth:`take`
        self._coming = NOTHING  # what was taken last, of which some may not be there yet
        self.untaken_changes = 0
        self.untaken_rows = 0  # of entries, marks and removals
        self._pending_changes = 0
        self._pending_bytes = 0
        self._unreadable: Exception | None = None

    @property
    def is_full(self) -> bool:
        """Whether as much waits as may."""
        return self._pending_changes >= PENDING_CHANGES_MAX or self._pending_bytes >= PENDING_BYTES_MAX

    @property
    def has_slice(self) -> bool:
        """Whether so much was not taken yet that it is to be."""
        untaken = self.untaken_changes
        return untaken >= SLICE_CHANGES or (untaken > 0 and self._pending_bytes >= PENDING_BYTES_MAX // 2)

    @property
    def has_taken(self) -> bool:
        """Whether an open transaction has some of what is pending."""
        return len(self.untaken) < len(self.pending)

    @property
    def is_enough(self) -> bool:
        """Whether so much was taken that the transaction is to end."""
        taken = self._pending_changes - self.untaken_changes
        return taken >= TRANSACTION_CHANGES or (taken > 0 and self._pending_bytes >= PENDING_BYTES_MAX // 2)

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return self._file.size_bytes()

    @property
    def is_torn(self) -> bool:
        """Whether behind what :meth:`load` found something stands that was to be the next record."""
        return self._file.is_torn

    # -- adding --------------------------------------------------------------------------------------------------------

    def begin(self, generation: bytes, *, is_wiped: bool = False) -> None:
        """Get ready, in a ``generation`` of its own, when nothing is pending. Flushes the tables. ``is_wiped``: in a
        file of zeros.

        :raises sqlite3.Error: as for any commit.
        :raises OSError: there is no room for the file, or the disk failed.
        """
        assert not self.pending
        if self._state is not None and not self._state.is_closed:
            self._say(self._state._replace(is_closed=True))
        if is_wiped:
            self._file.remove()
        self._file.begin(generation, b"" if self._state is None else self._state.generation)
        self._say(JournalState(generation, 0, is_closed=False))
        self._newest = 0
        self.is_ready = True

    def takes(self, row: bytes) -> bool:
        """Whether it is for such rows."""
        return self._file.takes(row)

    def has_room(self, row: bytes) -> bool:
        """Whether a row can be added before :meth:`tables_are_on_disk`."""
        return self._file.has_room(row)

    def append(self, row: bytes, batch: WriteBatch) -> None:
        """Add a batch, packed as ``row``. On return it is on disk.

        :raises OSError: there is no room, and it is not there; or the disk failed, and it may be.
        """
        self._file.write(row)
        self._file.flush()
        self._newest = self._file.last
        self.pending.append(row)
        self.untaken.append(batch)
        self.untaken_rows += batch.entry_rows()
        changes = 1 + len(batch.changes)
        self.untaken_changes += changes
        self._pending_changes += changes
        self._pending_bytes += len(row)

    # -- reading -------------------------------------------------------------------------------------------------------

    def load(self) -> bool:
        """Take up what an earlier process left. False: somebody has given it up.

        :raises UnfitData: the file does not go with the database.
        :raises OSError: it cannot be read.
        """
        db = self._db
        self._has_table = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'journal'").fetchone() is not None
        found = db.execute("SELECT value FROM meta WHERE name = ?", (META_NAME,)).fetchone()
        self._state = None if found is None else unpacked_state(bytes(found[0]))
        self.pending = self.rows()
        try:
            self._unpack()
        except Exception as error:  # noqa: BLE001  # whatever a broken row makes of it
            self.untaken = [WriteBatch() for _ in self.pending]
            self._unreadable = error
        return not self._file.is_given_up(self._state)

    def _unpack(self) -> None:
        self.untaken = [unpacked(row) for row in self.pending]

    def rows(self) -> list[bytes]:
        """The pending batches as they are on disk."""
        self._newest, rows = self._file.rows(self._state)
        if self._has_table:  # of format 4; flipped bits may have made anything of a row
            old = self._db.execute("SELECT COALESCE(CAST(batch AS BLOB), x'') FROM journal ORDER BY id")
            rows = [*(row for (row,) in old.fetchall()), *rows]
        return rows

    def take(self) -> WriteBatch:
        """All that is pending and was not taken yet, as one batch: for the tables.

        :raises ValueError: one of them cannot be read.
        """
        if self._unreadable is not None:
            raise ValueError(f"a row of the journal cannot be read: {self._unreadable}")
        taken, self.untaken = self.untaken, []
        self.untaken_changes = self.untaken_rows = 0
        if len(taken) == 1:
            self._coming = taken[0]
            return taken[0]
        self._coming = batch = WriteBatch()
        for name, rows in zip(_NAMES, zip(*map(_rows_of, taken), strict=True), strict=True):
            setattr(batch, name, [*chain.from_iterable(rows)])
        return batch

    def take_back(self) -> None:
        """The transaction was rolled back: nothing is taken."""
        if self._unreadable is None and self.has_taken:
            self._unpack()
        self.untaken_changes = self._pending_changes
        self.untaken_rows = sum(batch.entry_rows() for batch in self.untaken)

    def value(self, row: int) -> bytes | None:
        """The value of an entry that is pending and in no table yet; None: that is none."""
        batches = (*self.untaken, self._coming)
        return next((entry.value for batch in batches for entry in batch.entries if entry.row == row), None)

    # -- into the tables -----------------------------------------------------------------------------------------------

    def clear(self, *, is_all: bool = False) -> None:
        """Note in the caller's transaction that the tables have what was taken, or that nothing of what is pending is
        needed; then :meth:`cleared`.
        """
        if self._has_table:
            self._db.execute("DROP TABLE journal")
        if self._state is not None:
            self._write_state(self._state._replace(settled=self._newest - (0 if is_all else len(self.untaken))))

    def cleared(self, *, is_all: bool = False) -> None:
        """That is committed."""
        self._has_table = False
        if is_all:
            self.untaken.clear()
            self.untaken_changes = self.untaken_rows = 0
        if self._state is not None:
            self._state = self._state._replace(settled=self._newest - len(self.untaken))
        del self.pending[: len(self.pending) - len(self.untaken)]
        self._pending_changes, self._pending_bytes = self.untaken_changes, sum(map(len, self.pending))
        self._coming, self._unreadable = NOTHING, None

    def flush_tables(self) -> None:
        """Have on disk what the tables have. In no transaction of the caller's.

        :raises sqlite3.Error: as for any commit.
        """
        if self._state is not None:
            self._say(self._state._replace(tick=self._state.tick + 1))
        self.tables_are_on_disk()

    def tables_are_on_disk(self) -> None:
        """They were flushed, by a checkpoint say; without anything pending the file may be used from its start.

        Not by any commit: one that changes nothing flushes nothing either.
        """
        if not self.pending:
            self._file.tables_are_on_disk()

    def let_go_if_lost(self) -> bool:
        """If somebody has removed the file, or put another in its place, have the next commit :meth:`begin` anew."""
        if not self.is_ready or self._file.is_in_place():
            return False
        self.is_ready = False
        return True

    def close(self) -> None:
        """Let go of the file; where all is in the tables, note that it is not needed."""
        self.is_ready = False
        self._file.close()
        if self._state is not None and not self._state.is_closed and not self.pending:
            self._say(self._state._replace(is_closed=True))

    def abandon(self) -> None:
        """Forget everything, as the end of the process does; on disk it stays as it is."""
        self.is_ready = False
        self._file.close()
        self.pending.clear()
        self.untaken.clear()
        self._pending_changes = self._pending_bytes = self.untaken_changes = self.untaken_rows = 0

    def _say(self, state: JournalState) -> None:
        """Tell the database, at once and flushed."""
        self._write_state(state)
        self._state = state

    def _write_state(self, state: JournalState) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (META_NAME, state.packed()))


def journal_misfit(database: Path) -> str:
    """Why a daemon that finds these files refuses to start, in its words; empty: it does not, or that cannot be told.

    It writes nothing. So while there is a write-ahead log, in which newer pages may stand, it says nothing: a daemon
    that refuses to start has folded that in.
    """
    state = None
    try:
        if database.with_name(f"{database.name}-wal").stat().st_size:
            return ""
    except OSError:
        pass
    try:
        if database.exists() and database.stat().st_size:
            with closing(sqlite3.connect(f"{database.absolute().as_uri()}?immutable=1", uri=True)) as db:
                db.execute("PRAGMA trusted_schema = OFF")  # its meta may be a view of somebody's
                found = db.execute("SELECT value FROM meta WHERE name = ?", (META_NAME,)).fetchone()
                state = None if found is None else unpacked_state(bytes(found[0]))
        JournalFile(database.with_name(f"{database.name}{JOURNAL_ENDING}")).rows(state)
    except UnfitData as error:
        return error.message
    except (OSError, ValueError, TypeError, sqlite3.Error):
        return ""
    return ""


def packed(batch: WriteBatch) -> bytes | None:
    """A batch as one row; None if it is no such batch: it is large, or does more than add what writes add."""
    bytes_min = sum([len(row.body) for row in batch.changes]) + MARK_BYTES_MIN * len(batch.removed_rows)
    if any(_others_of(batch)) or bytes_min > BATCH_BYTES_MAX:
        return None
    rows: bytes = _pack(_rows_of(batch))
    return rows if len(rows) <= BATCH_BYTES_MAX else None


def unpacked(data: bytes) -> WriteBatch:
    """What :func:`packed` made a row of; raises whatever comes of one that is broken."""
    batch = WriteBatch()
    found = msgpack.unpackb(data, use_list=False, strict_map_key=False)
    for (name, make), rows in zip(_ROWS, found, strict=False):
        setattr(batch, name, [make(*row) for row in rows])
    return batch
