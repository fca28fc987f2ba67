"""Writing a :class:`~crdtsync.core.storage.write_batch.WriteBatch` to the tables, and what each row weighs.

A space's counters are changed in the same transaction by what was really added and dropped, so they stay exact.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from crdtsyncd.storage.backlog import Backlog
from crdtsyncd.storage.in_list import STEP_ROWS, VALUES_MAX, in_list
from crdtsyncd.storage.log_values import CUT_BYTES, INSERT, NOT_IN_LOG, CutValue, cut, let_go
from crdtsyncd.storage.schema import INLINE_BYTES_MAX

from crdtsync.causality import Dot, Writer
from crdtsync.core.background.trimming import CHANGE_HASH_AGE_MS_MAX, CHANGE_HASHES_MAX
from crdtsync.core.storage.rows import (
    ArchivePurge,
    ChangeRow,
    DocumentStateRow,
    DocumentTrim,
    EntryRow,
    HistoryDrop,
    HistoryTrim,
    LogTrim,
    Redaction,
    RemovalRow,
    RemovedRow,
    Rewind,
    history_floor_name,
    purge_done_name,
    taken_away_name,
)
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.wire.change import Order, RemoveRange, removes_of

# Bytes that a row takes on disk, about: what varies, and a figure measured for the rest and its place in the indexes.
CHANGE_ROW_BYTES = 72
CHANGE_BYTES = f"{CHANGE_ROW_BYTES} + LENGTH(body) + {CUT_BYTES}"
DEAD_BYTES = (
    "120 + 2 * LENGTH(CAST(key AS BLOB)) + IFNULL(LENGTH(CAST(sub AS BLOB)), 0) "
    "+ IFNULL(value_bytes, IFNULL(LENGTH(value), 0)) + IFNULL(LENGTH(attrs), 0) + IFNULL(LENGTH(seen), 0)"
)
REMOVAL_BYTES = (
    "72 + LENGTH(CAST(key AS BLOB)) + LENGTH(removes) + IFNULL(LENGTH(agent), 0) + IFNULL(LENGTH(operation), 0)"
)

HASHES_PRUNED_MAX = 4096
"""How many old hashes go in one commit at most."""

_REMOVAL_COLUMNS = RemovalRow._fields
_INSERT_REMOVAL = (
    f"INSERT INTO removals ({', '.join(_REMOVAL_COLUMNS)}) VALUES ({', '.join('?' * len(_REMOVAL_COLUMNS))})"
)
_INSERTS: tuple[tuple[str, str], ...] = (
    ("spaces", "INSERT INTO spaces (id, name, epoch) VALUES (?, ?, ?)"),
    ("writers", "INSERT INTO own_writers VALUES (?, ?)"),
    ("retired_writers", "DELETE FROM own_writers WHERE space = ? AND writer = ?"),
    ("changes", "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)"),
    ("origins", "INSERT OR REPLACE INTO origins VALUES (?, ?, ?, ?)"),
    ("document_updates", "INSERT INTO document_updates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
    ("floors", "UPDATE spaces SET floor = ? WHERE id = ?"),
    ("history_floors", "UPDATE spaces SET history_floor = ?, history_since_ms = ? WHERE id = ?"),
    ("snapshot_parts", "INSERT OR REPLACE INTO snapshot_parts VALUES (?, ?, ?, ?)"),
    ("peers", "INSERT OR REPLACE INTO peers VALUES (?, ?, ?)"),
    ("peers", "DELETE FROM peers WHERE node = ?1 AND name = ?2 AND ?3 < 0"),  # which are to be forgotten
)
_INSERT_ENTRY = (
    "INSERT INTO entries (row, space, writer, seq, n, key, sub, kind, hlc, agent, value, value_hash, attrs, seen, "
    f"value_bytes) VALUES ({', '.join('?' * 15)})"
)
_INSERT_VALUE = "INSERT INTO entry_values VALUES (?, ?)"
DIRECT_ROWS_MAX = 256
"""A batch with more rows of entries, marks and removals goes to the backlog: to bring in so many takes 2 to 8 ms."""
DIRECT_BYTES_MAX = 2 * 1024 * 1024
"""The same for what has more bytes of values, also of those that a mark writes anew: rows of an older format have them.
"""
MARKED_TOGETHER_MIN = 32
"""So many rows that went by one operation are marked by one statement: in a third of the time of one by one."""
_MARK = "UPDATE entries SET position = ?, time_ms = ?, by_n = ?, fate = ? WHERE"
_MARK_ONE = f"{_MARK} row = ? AND position IS NULL"
_ADOPT_ENTRIES = "UPDATE entries SET space = ? WHERE row BETWEEN ? AND ? AND space = ?"
_DELETE_ENTRY = "DELETE FROM entries WHERE row = ?"
_LONG_ROWS = "SELECT row FROM entries WHERE value_bytes > 0 UNION ALL SELECT row FROM change_values"
_MEND_VALUES = (  # a row that the disk has lost comes back, but not that of an entry that is gone
    f"INSERT OR REPLACE INTO entry_values SELECT row, ?1 FROM ({_LONG_ROWS}) WHERE row = ?2",
    "UPDATE entries SET value = ?1 WHERE row = ?2 AND value_bytes IS NULL",
)
_DELETE_VALUE = f"DELETE FROM entry_values WHERE row = ? AND {NOT_IN_LOG}"
_DOCUMENT = "space = ? AND writer = ? AND seq = ? AND n = ?"

_DEAD, _ALIVE = "position IS NOT NULL", "position IS NULL"
PURGED_FIRST = (
    ("changes", ""), ("change_hashes", ""), ("entries", _DEAD), ("removals", ""), ("own_writers", ""),
)  # fmt: skip
"""The rows that an archive does not keep: tables, and of which rows, if not of all."""
_PURGED_LAST = (
    ("entries", _ALIVE), ("document_updates", ""), ("document_states", ""), ("heads", ""), ("origins", ""),
)  # fmt: skip
PURGED_BYTES_MAX = 1024 * 1024
"""So many bytes go with one slice of a purge, or one row."""
_WEIGHTS = {
    "changes": CHANGE_BYTES,
    "entries": "IFNULL(value_bytes, IFNULL(LENGTH(value), 0))",
    "document_updates": "LENGTH(update_v1)",
    "document_states": "LENGTH(state)",
}

_KEYS = {  # of tables without row numbers
    "document_updates": "space, writer, seq, n, position, by_n",
    "heads": "space, writer",
    "origins": "space, writer",
}

_LOG, _BYTES, _HISTORY, _DOCUMENTS = range(4)


def _heads(batch: WriteBatch) -> list[tuple[Any, ...]]:
    """The heads that a batch makes, the last of each writer the highest.

    A writer may advance by changes, then by a snapshot, then by changes again.
    """
    heads: list[tuple[Any, ...]] = [(*row[1:5], row[0]) for row in batch.changes]
    return sorted([*batch.heads, *heads], key=itemgetter(2)) if batch.heads else heads


class Writing:
    """Batches on their way into the tables, in one transaction, which is the caller's.

    Rows that many of them change are written by :meth:`finish` alone: a writer's head, the time of a space, and
    ``sizes``, by which each space's counters change.
    """

    def __init__(self, db: sqlite3.Connection, backlog: Backlog) -> None:
        self.db = db
        self.backlog = backlog
        self.sizes: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        self._heads: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._clocks: dict[int, int] = {}

    def add(self, batch: WriteBatch) -> None:
        """Put all rows of ``batch`` but the outcomes into their tables, or into the backlog those of entries, if they
        are many or others are in it.
        """
        for _ in self.steps(batch):
            pass

    def steps(self, batch: WriteBatch) -> Iterator[None]:
        """The same a step at a time, between which others may go first."""
        is_whole = any(_UNSLICED(batch))
        if is_whole:  # what is about rows of a snapshot or an archive has to find them in their place
            while self.backlog.count:
                bring_in(self.db, self.backlog)
        if any(_GOING(batch)):
            self._drop(batch)
        is_sliced = not is_whole and (self.backlog.count > 0 or self._is_large(batch))
        changes, cut_values = (batch.changes, []) if is_sliced else cut(batch.changes, batch.entries)
        yield from self._insert(batch, changes, cut_values)
        if is_sliced:
            self.backlog.put(batch)
        else:
            yield
            yield from self._entry_steps(batch)
        for statement in _MEND_VALUES if batch.mended_values else ():
            self.db.executemany(statement, [(value, row) for row, value in batch.mended_values])
        if any(_TRIMMED(batch)):
            self._trim(batch)
        self.keep_metas(batch)

    def keep_metas(self, batch: WriteBatch) -> None:
        """Write the values that the node keeps for itself."""
        for name, value in batch.metas:
            if value is None:
                self.db.execute("DELETE FROM meta WHERE name = ?", (name,))
            else:
                self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def finish(self) -> None:
        """Put in its place what was kept for the end."""
        many = self.db.executemany
        if self._clocks:
            clocks = [(hlc.to_bytes(8, "big"), space) for space, hlc in self._clocks.items()]
            many("UPDATE spaces SET hlc = ? WHERE id = ?", clocks)
        if self._heads:
            many("INSERT OR REPLACE INTO heads VALUES (?, ?, ?, ?, ?)", list(self._heads.values()))
        many(
            "UPDATE spaces SET log_changes = log_changes + ?, log_bytes = log_bytes + ?, "
            "history_bytes = history_bytes + ?, document_bytes = document_bytes + ? WHERE id = ?",
            [(*counts, space) for space, counts in sorted(self.sizes.items()) if any(counts)],
        )

    def _is_large(self, batch: WriteBatch) -> bool:
        """Whether its rows of entries are too many, or weigh too much, for one turn."""
        if are_many(batch.entry_rows()):
            return True
        if sum([len(row.value or b"") for row in batch.entries]) > DIRECT_BYTES_MAX:
            return True
        return sum(self.inline_bytes([row.row for row in batch.removed_rows]).values()) > DIRECT_BYTES_MAX

    def inline_bytes(self, rows: list[int]) -> dict[int, int]:
        """How many bytes of a value a mark on each of these rows would write again; none of the rows of today."""
        if not rows:
            return {}
        among, parameters = in_list(rows)
        which = f"row {among} AND LENGTH(value) > {INLINE_BYTES_MAX}"
        return dict(self.db.execute(f"SELECT row, LENGTH(value) FROM entries WHERE {which}", parameters).fetchall())

    def _insert(self, batch: WriteBatch, changes: Sequence[ChangeRow], cut_values: list[CutValue]) -> Iterator[None]:
        for name, statement in _INSERTS:
            rows = changes if name == "changes" else getattr(batch, name)
            for start in range(0, len(rows), STEP_ROWS):
                self.db.executemany(statement, rows[start : start + STEP_ROWS])
                yield
        self._clocks.update({space: hlc for hlc, space in batch.clocks})
        self._heads.update({row[:2]: row for row in _heads(batch)})
        self.db.executemany(INSERT, cut_values)
        cut_bytes: defaultdict[int, int] = defaultdict(int)
        for _, position, _, size_bytes in cut_values:
            cut_bytes[position] += size_bytes
        for change in changes:
            size = self.sizes[change.space]
            size[_LOG] += 1
            size[_BYTES] += CHANGE_ROW_BYTES + len(change.body) + cut_bytes[change.position]
        for update in batch.document_updates:
            self.sizes[update.space][_DOCUMENTS] += len(update.update)
        for state in batch.document_states:
            self._store_state(state)

    def put_entries(self, batch: WriteBatch) -> None:
        """Write new entries, marks on those that they superseded, and who did that."""
        for _ in self._entry_steps(batch):
            pass

    def _entry_steps(self, batch: WriteBatch) -> Iterator[None]:
        many = self.db.executemany
        for start in range(0, len(batch.entries), STEP_ROWS):
            some = batch.entries[start : start + STEP_ROWS]
            rows = [_entry_row(row) for row in some]
            many(_INSERT_ENTRY, rows)
            long = [(entry.row, entry.value) for entry, row in zip(some, rows, strict=True) if row[-1] is not None]
            if long:
                many(_INSERT_VALUE, long)
            yield
        yield from self._mark(batch.marks() if batch.removed_many else batch.removed_rows)
        if batch.removals:
            before = self._number("SELECT MAX(id) FROM removals", ())
            for start in range(0, len(batch.removals), STEP_ROWS):
                many(_INSERT_REMOVAL, batch.removals[start : start + STEP_ROWS])
                yield
            self._count_history("removals", REMOVAL_BYTES, "id > ?", (before,))

    def _mark(self, removed_rows: list[RemovedRow]) -> Iterator[None]:
        """Mark entries as dead. One that is marked already keeps its mark."""
        for begin in range(0, len(removed_rows), VALUES_MAX):
            some = removed_rows[begin : begin + VALUES_MAX]
            among, rows = in_list([removed.row for removed in some])
            self._count_history("entries", DEAD_BYTES, f"row {among} AND {_ALIVE}", rows)
            yield
            few: list[tuple[object, ...]] = []
            for death, group in groupby(some, itemgetter(slice(1, None))):
                together = [removed.row for removed in group]
                if len(together) < MARKED_TOGETHER_MIN:
                    few += [(*death, row) for row in together]
                    continue
                self.db.executemany(_MARK_ONE, few)
                few.clear()
                among, rows = in_list(together)
                self.db.execute(f"{_MARK} row {among} AND {_ALIVE}", (*death, *rows))
            for start in range(0, len(few), STEP_ROWS):
                self.db.executemany(_MARK_ONE, few[start : start + STEP_ROWS])
                yield

    def _number(self, statement: str, parameters: tuple[object, ...]) -> int:
        row = self.db.execute(statement, parameters).fetchone()
        return int(row[0] or 0)

    def _count_history(self, table: str, size: str, which: str, parameters: tuple[object, ...]) -> None:
        for space, size_bytes in self.db.execute(
            f"SELECT space, SUM({size}) FROM {table} WHERE {which} GROUP BY +space", parameters
        ).fetchall():
            self.sizes[space][_HISTORY] += size_bytes

    def _store_state(self, row: DocumentStateRow) -> None:
        self._drop_documents("document_states", "LENGTH(state)", f"{_DOCUMENT} AND position = ?", row[:5])
        self.db.execute("INSERT INTO document_states VALUES (?, ?, ?, ?, ?, ?)", row)
        self.sizes[row.space][_DOCUMENTS] += len(row.state)

    def _drop_documents(self, table: str, size: str, where: str, parameters: tuple[object, ...]) -> None:
        size_bytes = self._number(f"SELECT SUM({size}) FROM {table} WHERE {where}", parameters)
        if size_bytes:
            self.sizes[parameters[0]][_DOCUMENTS] -= size_bytes  # type: ignore[index]
            self.db.execute(f"DELETE FROM {table} WHERE {where}", parameters)

    def _rewind(self, rewind: Rewind) -> None:
        """Take changes back, with all that came of them."""
        space = rewind.space
        which = f"space = ? AND position IN ({', '.join(map(str, rewind.positions))})"
        count = self._number(f"SELECT COUNT(*) FROM changes WHERE {which}", (space,))
        size_bytes = self._number(f"SELECT SUM({CHANGE_BYTES}) FROM changes WHERE {which}", (space,))
        self.sizes[space][_LOG] -= count
        self.sizes[space][_BYTES] -= size_bytes
        let_go(self.db, which, (space,))
        self.db.execute(f"DELETE FROM changes WHERE {which}", (space,))
        self._trim_rows("removals", REMOVAL_BYTES, which, (space,))
        for writer, first in rewind.firsts:
            after = "space = ? AND writer = ? AND seq >= ?"
            place = (space, writer, first)
            self._trim_rows("entries", DEAD_BYTES, f"{after} AND {_DEAD}", place)
            self._drop_entries(f"{after} AND {_ALIVE}", place)
            self._drop_documents("document_updates", "LENGTH(update_v1)", after, place)
            self._drop_documents("document_states", "LENGTH(state)", after, place)
            edits = "space = ? AND by_writer = ? AND by_seq >= ?"
            self._drop_documents("document_updates", "LENGTH(update_v1)", edits, place)
            self.db.execute("DELETE FROM heads WHERE space = ? AND writer = ?", (space, writer))
        self._revive(space, which, min(rewind.positions))

    def _revive(self, space: int, which: str, begin: int) -> None:
        """Entries that the reverted changes had removed live again; but not those that another one has removed after
        that.
        """
        columns = "row, key, hlc, writer, seq, n"
        revived = self.db.execute(f"SELECT {columns} FROM entries WHERE {which}", (space,)).fetchall()
        self.sizes[space][_HISTORY] -= self._number(f"SELECT SUM({DEAD_BYTES}) FROM entries WHERE {which}", (space,))
        unmark = "UPDATE entries SET position = NULL, time_ms = NULL, by_n = NULL, fate = NULL WHERE row = ?"
        self.db.executemany(unmark, [(row,) for row, *_ in revived])
        by_key: defaultdict[str, list[tuple[int, Order]]] = defaultdict(list)
        for row, key, hlc, writer, seq, n in revived:
            by_key[key].append((row, (int.from_bytes(hlc, "big"), writer, seq, n)))
        columns = "key, n, removes, position, time_ms"
        later = f"SELECT {columns} FROM removals WHERE position > ? AND space = ? ORDER BY position, n"
        for key, n, removes, position, time_ms in self.db.execute(later, (begin, space)).fetchall() if by_key else ():
            named = removes_of(removes)
            rows = [row for row, order in by_key.get(key, ()) if _names(named, order)]
            for _ in self._mark([RemovedRow(row, position, time_ms, n, None) for row in rows]):
                pass

    def _drop(self, batch: WriteBatch) -> None:
        """Drop what goes before anything new comes: a document or a snapshot that is dropped may come anew."""
        for rewind in batch.rewinds:
            self._rewind(rewind)
        for document in batch.document_drops:
            self._drop_documents("document_updates", "LENGTH(update_v1)", _DOCUMENT, document)
            self._drop_documents("document_states", "LENGTH(state)", _DOCUMENT, document)
        for statement in (_DELETE_VALUE, _DELETE_ENTRY):
            self.db.executemany(statement, [(row,) for row in batch.staged_drops])
        for space, first, last in batch.adoptions:
            self.db.execute(_ADOPT_ENTRIES, (space, first, last, -space))
        for archive in batch.archives:
            self.db.execute("DELETE FROM spaces WHERE id = ?", (archive.space,))
            names = [history_floor_name(archive.space, ""), purge_done_name(archive.space, "")]
            for prefix in (*names, taken_away_name(archive.space, None)):
                self.db.execute("DELETE FROM meta WHERE SUBSTR(name, 1, ?) = ?", (len(prefix), prefix))
            self.db.execute("INSERT INTO archives VALUES (?, ?, ?, ?, ?, ?, ?)", archive)
        for purge in batch.archive_purges:
            self._purge(purge)
        for space in set(batch.snapshot_drops):
            self.db.execute("DELETE FROM snapshot_parts WHERE space = ?", (space,))
            self._drop_entries(f"space = ? AND {_ALIVE}", (-space,))

    def _drop_entries(self, which: str, parameters: tuple[object, ...], table: str = "entries") -> None:
        if table == "entries":
            long = f"SELECT row FROM entries WHERE {which} AND value_bytes IS NOT NULL AND {NOT_IN_LOG}"
            self.db.execute(f"DELETE FROM entry_values WHERE row IN ({long})", parameters)
        self.db.execute(f"DELETE FROM {table} WHERE {which}", parameters)

    def _purge(self, purge: ArchivePurge) -> None:
        """Drop a slice of an archive; once nothing is left, the archive itself."""
        left = purge.rows_max
        for table, which in (*PURGED_FIRST, *_PURGED_LAST) if purge.is_whole else PURGED_FIRST:
            left -= self._purge_some(table, f"space = ?{which and f' AND {which}'}", purge.space, left)
            if left <= 0:
                return
        if purge.is_whole:
            self.db.execute("DELETE FROM archives WHERE space = ?", (purge.space,))

    def _purge_some(self, table: str, which: str, space: int, rows_max: int) -> int:
        """How many of ``rows_max`` that was; all of them, where those that went are large enough for now."""
        key = _KEYS.get(table, "rowid")
        found = self.db.execute(
            f"SELECT {_WEIGHTS.get(table, '0')}, {key} FROM {table} WHERE {which} LIMIT ?", (space, rows_max)
        ).fetchall()
        size_bytes = 0
        gone: list[tuple[object, ...]] = []
        for row_bytes, *names in found:
            size_bytes += row_bytes
            if gone and size_bytes > PURGED_BYTES_MAX:
                break
            gone.append(tuple(names))
        if table == "entries":
            self.db.executemany(_DELETE_VALUE, gone)
        for place in gone if table == "changes" else ():
            let_go(self.db, "position = ?", place)
        marks = ", ".join("?" * (key.count(",") + 1))
        self.db.executemany(f"DELETE FROM {table} WHERE ({key}) = ({marks})", gone)
        return len(gone) if len(gone) == len(found) else rows_max

    def _trim(self, batch: WriteBatch) -> None:
        for redaction in batch.redactions:
            self._redact(redaction)
        for log_trim in batch.log_trims:
            self._trim_log(log_trim)
        for history_trim in batch.history_trims:
            self._trim_history(history_trim)
        for history_drop in batch.history_drops:
            self._drop_history(history_drop)
        for document_trim in batch.document_trims:
            self._trim_document(document_trim)

    def _redact(self, redaction: Redaction) -> None:
        """Put a change's new body in its place; what the log has trimmed meanwhile stays away."""
        space, position, body = redaction
        where = "WHERE position = ? AND +space = ?"
        before = self._number(f"SELECT {CHANGE_BYTES} FROM changes {where}", (position, space))
        if before:
            let_go(self.db, "position = ?", (position,))
            self.db.execute(f"UPDATE changes SET body = ? {where}", (body, position, space))
            self.sizes[space][_BYTES] += CHANGE_ROW_BYTES + len(body) - before

    def _trim_log(self, trim: LogTrim) -> None:
        space, position, time_ms = trim
        begin = self._number("SELECT trimmed_position FROM spaces WHERE id = ?", (space,))
        which = "position > ? AND position <= ? AND +space = ?"
        gone = f"FROM changes WHERE {which}"
        where = (begin, position, space)
        count, size_bytes = self.db.execute(f"SELECT COUNT(*), SUM({CHANGE_BYTES}) {gone}", where).fetchone()
        self.db.execute(
            f"INSERT OR IGNORE INTO change_hashes SELECT space, writer, seq, SUBSTR(hash, 1, 8), ? {gone} "
            "ORDER BY position",
            (time_ms, *where),
        )
        let_go(self.db, which, where)
        self.db.execute(f"DELETE {gone}", where)
        self.db.execute("UPDATE spaces SET trimmed_position = MAX(trimmed_position, ?) WHERE id = ?", (position, space))
        self.sizes[space][_LOG] -= count
        self.sizes[space][_BYTES] -= size_bytes or 0
        self._prune_hashes(time_ms)

    def _prune_hashes(self, now_ms: int) -> None:
        first = self._number("SELECT MIN(rowid) FROM change_hashes", ())
        last = self._number("SELECT MAX(rowid) FROM change_hashes", ())
        keep_from = last - CHANGE_HASHES_MAX + 1
        old = self.db.execute("SELECT rowid, time_ms FROM change_hashes ORDER BY rowid LIMIT ?", (HASHES_PRUNED_MAX,))
        for rowid, time_ms in old:
            if time_ms >= now_ms - CHANGE_HASH_AGE_MS_MAX:
                break
            keep_from = max(keep_from, rowid + 1)
        old.close()
        if keep_from > first:
            keep_from = min(keep_from, first + HASHES_PRUNED_MAX)
            self.db.execute("DELETE FROM change_hashes WHERE rowid < ?", (keep_from,))

    def _trim_history(self, trim: HistoryTrim) -> None:
        if trim.dead_to is not None:
            which = f"space = ? AND {_DEAD} AND (position < ? OR position = ? AND row <= ?)"
            position, last = trim.dead_to
            self._trim_rows("entries", DEAD_BYTES, which, (trim.space, position, position, last))
        if trim.removals_to:
            self._trim_rows("removals", REMOVAL_BYTES, "space = ? AND id <= ?", (trim.space, trim.removals_to))

    def _drop_history(self, drop: HistoryDrop) -> None:
        if drop.rows:
            rows = f"+space = ? AND +position IS NOT NULL AND row IN ({', '.join('?' * len(drop.rows))})"
            self._trim_rows("entries", DEAD_BYTES, rows, (drop.space, *drop.rows))
        for position, group in groupby(drop.removals, itemgetter(0)):
            numbers = [n for _, n in group]
            which = f"+space = ? AND position = ? AND n IN ({', '.join('?' * len(numbers))})"
            self._trim_rows("removals", REMOVAL_BYTES, which, (drop.space, position, *numbers))

    def _trim_rows(self, table: str, size: str, which: str, parameters: tuple[int, ...]) -> None:
        gone = self._number(f"SELECT SUM({size}) FROM {table} WHERE {which}", parameters)
        if gone:
            self.sizes[parameters[0]][_HISTORY] -= gone
            self._drop_entries(which, parameters, table)

    def _trim_document(self, trim: DocumentTrim) -> None:
        name = trim[:4]
        self._drop_documents(
            "document_updates", "LENGTH(update_v1)", f"{_DOCUMENT} AND position <= ?", (*name, trim.updates_to)
        )
        between = f"{_DOCUMENT} AND position > ? AND position < ?"
        self._drop_documents(
            "document_states", "LENGTH(state)", between, (*name, trim.states_after, trim.states_before)
        )


def are_many(entry_rows: int) -> bool:
    """Whether so many rows of entries go to the backlog."""
    return entry_rows > DIRECT_ROWS_MAX


def _names(removes: tuple[Dot, ...] | RemoveRange, order: Order) -> bool:
    """Whether what an operation removes names the entry at this place."""
    _, writer, seq, n = order
    if not isinstance(removes, RemoveRange):
        return (writer, seq, n) in removes
    return seq <= removes.vector.get(Writer(writer), 0) and (removes.bound is None or order <= removes.bound)


def _entry_row(row: EntryRow) -> tuple[object, ...]:
    """As the table has it; last, how many bytes its value has, if that has a row of its own."""
    value, value_bytes = row.value, None
    if value is not None and len(value) > INLINE_BYTES_MAX:
        value_bytes, value = len(value), None
    return (*row[:8], row.hlc.to_bytes(8, "big"), row.agent, value, *row[11:], value_bytes)


_GOING = attrgetter(
    "rewinds", "document_drops", "staged_drops", "adoptions", "archives", "archive_purges", "snapshot_drops"
)
_TRIMMED = attrgetter("redactions", "log_trims", "history_trims", "history_drops", "document_trims")
_UNSLICED = attrgetter(
    "adoptions", "rewinds", "snapshot_drops", "snapshot_parts", "staged_drops", "archives", "archive_purges"
)


def bring_in(db: sqlite3.Connection, backlog: Backlog) -> None:
    """The oldest record of the backlog into the tables, or a part of it; the transaction is the caller's."""
    number, batch = backlog.take()
    writing = Writing(db, backlog)
    weights = writing.inline_bytes([row.row for row in batch.removed_rows])
    size_bytes = 0
    for count, removed in enumerate(batch.removed_rows if weights else ()):
        size_bytes += weights.get(removed.row, 0)
        if count and size_bytes > DIRECT_BYTES_MAX:
            backlog.put_back(number, batch.removed_rows[count:])
            del batch.removed_rows[count:]
            break
    writing.put_entries(batch)
    writing.finish()
