"""Writing a :class:`~crdtsync.core.storage.interface.Batch` to the tables, and what each row weighs.

A space's counters are changed in the same transaction by what was really added and dropped, so they stay exact.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from itertools import groupby
from operator import itemgetter

from crdtsync.core.background.trimming import CHANGE_HASH_AGE_MS_MAX, CHANGE_HASHES_MAX
from crdtsync.core.storage.interface import (
    ArchivePurge,
    Batch,
    DocumentStateRow,
    DocumentTrim,
    HeadRow,
    HistoryTrim,
    LogTrim,
    RemovalRow,
    RemovedRow,
)

ENTRY_COLUMNS = "row, space, writer, seq, n, key, sub, kind, hlc, agent, value, value_hash, attrs"

# What a row takes on disk, about: what varies, and a figure measured for the rest and its place in the indexes.
CHANGE_ROW_BYTES = 72
CHANGE_BYTES = f"{CHANGE_ROW_BYTES} + LENGTH(body)"
DEAD_BYTES = (
    "120 + 2 * LENGTH(CAST(key AS BLOB)) + IFNULL(LENGTH(CAST(sub AS BLOB)), 0) + IFNULL(LENGTH(value), 0) "
    "+ IFNULL(LENGTH(attrs), 0) + IFNULL(LENGTH(seen), 0)"
)
REMOVAL_BYTES = (
    "72 + LENGTH(CAST(key AS BLOB)) + LENGTH(removes) + IFNULL(LENGTH(agent), 0) + IFNULL(LENGTH(operation), 0)"
)

HASHES_PRUNED_MAX = 4096
"""How many old hashes go in one commit at most."""

_REMOVAL_COLUMNS = RemovalRow._fields
_INSERTS: tuple[tuple[str, str], ...] = (
    ("spaces", "INSERT INTO spaces (id, name, epoch) VALUES (?, ?, ?)"),
    ("writers", "INSERT INTO own_writers VALUES (?, ?)"),
    ("retired_writers", "DELETE FROM own_writers WHERE space = ? AND writer = ?"),
    ("changes", "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)"),
    ("origins", "INSERT OR REPLACE INTO origins VALUES (?, ?, ?, ?)"),
    (
        "removals",
        f"INSERT INTO removals ({', '.join(_REMOVAL_COLUMNS)}) VALUES ({', '.join('?' * len(_REMOVAL_COLUMNS))})",
    ),
    ("document_updates", "INSERT INTO document_updates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
    ("floors", "UPDATE spaces SET floor = ? WHERE id = ?"),
    ("history_floors", "UPDATE spaces SET history_floor = ?, history_since_ms = ? WHERE id = ?"),
    ("snapshot_parts", "INSERT OR REPLACE INTO snapshot_parts VALUES (?, ?, ?, ?)"),
    ("peers", "INSERT OR REPLACE INTO peers VALUES (?, ?, ?)"),
)
_INSERT_ENTRY = f"INSERT INTO entries ({ENTRY_COLUMNS}, seen) VALUES ({', '.join('?' * 14)})"
MOVED_TOGETHER = 256
"""Rows that went by one operation go to history by so many a statement: in half the time of one by one."""
_TOGETHER = f"IN ({', '.join('?' * MOVED_TOGETHER)})"
_MOVE = (
    f"INSERT INTO history ({ENTRY_COLUMNS}, seen, position, time_ms, by_n, fate) "
    f"SELECT {ENTRY_COLUMNS}, seen, ?, ?, ?, ? FROM entries WHERE row "
)
_INSERT_HISTORY = (
    f"INSERT INTO history ({ENTRY_COLUMNS}, seen, position, time_ms, by_n, fate) VALUES ({', '.join('?' * 18)})"
)
_ADOPT_ENTRIES = "UPDATE entries SET space = ? WHERE row BETWEEN ? AND ? AND space = ?"
_DELETE_ENTRY = "DELETE FROM entries WHERE row = ?"
_UPSERT_HEAD = "INSERT OR REPLACE INTO heads VALUES (?, ?, ?, ?, ?)"
_DOCUMENT = "space = ? AND writer = ? AND seq = ? AND n = ?"

PURGED_FIRST = ("changes", "change_hashes", "history", "removals", "own_writers")
"""What an archive does not keep."""
_PURGED_LAST = ("entries", "document_updates", "document_states", "heads", "origins")

_KEYS = {  # of tables without row numbers
    "document_updates": "space, writer, seq, n, position, by_n",
    "heads": "space, writer",
    "origins": "space, writer",
}

_LOG, _BYTES, _HISTORY, _DOCUMENTS = range(4)


def _heads(batch: Batch) -> list[HeadRow]:
    """The heads that a batch makes, the last of each writer the highest.

    A writer may advance by changes, then by a snapshot, then by changes again.
    """
    heads = [HeadRow(row.space, row.writer, row.seq, row.hash, row.position) for row in batch.changes]
    return sorted([*batch.heads, *heads], key=lambda head: head.seq) if batch.heads else heads


class _Writing:
    """One batch on its way into the tables; ``sizes`` are the changes of each space's counters."""

    def __init__(self, db: sqlite3.Connection, batch: Batch) -> None:
        self.db = db
        self.batch = batch
        self.sizes: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])

    def insert(self) -> None:
        batch, many = self.batch, self.db.executemany
        removals_before = self._last("removals") if batch.removals else 0
        for name, statement in _INSERTS:
            rows = getattr(batch, name)
            if rows:
                many(statement, rows)
        if batch.removals:
            self._count_history("removals", REMOVAL_BYTES, removals_before)
        self._insert_entries()
        for space, hlc in {space: hlc for hlc, space in batch.clocks}.items():  # the last one of each
            self.db.execute("UPDATE spaces SET hlc = ? WHERE id = ?", (hlc.to_bytes(8, "big"), space))
        heads = {(head.space, head.writer): head for head in _heads(batch)}
        if heads:
            many(_UPSERT_HEAD, list(heads.values()))
        for change in batch.changes:
            size = self.sizes[change.space]
            size[_LOG] += 1
            size[_BYTES] += CHANGE_ROW_BYTES + len(change.body)
        for update in batch.document_updates:
            self.sizes[update.space][_DOCUMENTS] += len(update.update)
        for state in batch.document_states:
            self._store_state(state)

    def _insert_entries(self) -> None:
        """Live state, and what it supersedes. What was live within this batch alone goes to history at once."""
        batch, many = self.batch, self.db.executemany
        rows = [(*row[:8], row[8].to_bytes(8, "big"), *row[9:]) for row in batch.entries]
        if not batch.removed_rows:
            many(_INSERT_ENTRY, rows)
            return
        removed_rows = {removed.row for removed in batch.removed_rows} if rows else set()
        brief = {row[0]: row for row in rows if row[0] in removed_rows}
        many(_INSERT_ENTRY, [row for row in rows if row[0] not in brief] if brief else rows)
        dead_before = self._last("history")
        for is_brief, removed in groupby(batch.removed_rows, lambda removed: removed.row in brief):
            if is_brief:
                many(_INSERT_HISTORY, [(*brief[each.row], *each[1:]) for each in removed])
            else:
                self._move_to_history(list(removed))
        self._count_history("history", DEAD_BYTES, dead_before)

    def _move_to_history(self, removed_rows: list[RemovedRow]) -> None:
        """In this order."""
        if len(removed_rows) < MOVED_TOGETHER:
            self._move_few(removed_rows)
            return
        few: list[RemovedRow] = []
        for fate, group in groupby(removed_rows, itemgetter(slice(1, None))):
            some = [removed.row for removed in group]
            if len(some) < MOVED_TOGETHER // 4:
                few += [RemovedRow(row, *fate) for row in some]
                continue
            self._move_few(few)
            for start in range(0, len(some), MOVED_TOGETHER):
                rows = some[start : start + MOVED_TOGETHER]
                rows += rows[-1:] * (MOVED_TOGETHER - len(rows))
                self.db.execute(_MOVE + _TOGETHER, (*fate, *rows))
                self.db.execute(f"DELETE FROM entries WHERE row {_TOGETHER}", rows)
            few = []
        self._move_few(few)

    def _move_few(self, removed_rows: list[RemovedRow]) -> None:
        self.db.executemany(f"{_MOVE} = ?", [(*removed[1:], removed.row) for removed in removed_rows])
        self.db.executemany(_DELETE_ENTRY, [(removed.row,) for removed in removed_rows])

    def _last(self, table: str) -> int:
        return self._number(f"SELECT MAX(id) FROM {table}", ())

    def _number(self, statement: str, parameters: tuple[object, ...]) -> int:
        row = self.db.execute(statement, parameters).fetchone()
        return int(row[0] or 0)

    def _count_history(self, table: str, size: str, after: int) -> None:
        for space, size_bytes in self.db.execute(
            f"SELECT space, SUM({size}) FROM {table} WHERE id > ? GROUP BY +space", (after,)
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

    def drop(self) -> None:
        """What goes before anything new comes: a document or a snapshot that is dropped may come anew."""
        for document in self.batch.document_drops:
            self._drop_documents("document_updates", "LENGTH(update_v1)", _DOCUMENT, document)
            self._drop_documents("document_states", "LENGTH(state)", _DOCUMENT, document)
        self.db.executemany(_DELETE_ENTRY, [(row,) for row in self.batch.staged_drops])
        for space, first, last in self.batch.adoptions:
            self.db.execute(_ADOPT_ENTRIES, (space, first, last, -space))
        for archive in self.batch.archives:
            self.db.execute("DELETE FROM spaces WHERE id = ?", (archive.space,))
            self.db.execute("INSERT INTO archives VALUES (?, ?, ?, ?, ?, ?, ?)", archive)
        for purge in self.batch.archive_purges:
            self._purge(purge)
        for space in set(self.batch.snapshot_drops):
            self.db.execute("DELETE FROM snapshot_parts WHERE space = ?", (space,))
            self.db.execute("DELETE FROM entries WHERE space = ?", (-space,))

    def _purge(self, purge: ArchivePurge) -> None:
        """Drop a slice of an archive; once nothing is left, the archive itself."""
        left = purge.rows_max
        for table in (*PURGED_FIRST, *_PURGED_LAST) if purge.is_whole else PURGED_FIRST:
            key = _KEYS.get(table, "rowid")
            some = f"SELECT {key} FROM {table} WHERE space = ? LIMIT ?"
            left -= self.db.execute(f"DELETE FROM {table} WHERE ({key}) IN ({some})", (purge.space, left)).rowcount
            if left <= 0:
                return
        if purge.is_whole:
            self.db.execute("DELETE FROM archives WHERE space = ?", (purge.space,))

    def trim(self) -> None:
        for log_trim in self.batch.log_trims:
            self._trim_log(log_trim)
        for history_trim in self.batch.history_trims:
            self._trim_history(history_trim)
        for document_trim in self.batch.document_trims:
            self._trim_document(document_trim)

    def _trim_log(self, trim: LogTrim) -> None:
        space, position, time_ms = trim
        begin = self._number("SELECT trimmed_position FROM spaces WHERE id = ?", (space,))
        gone = "FROM changes WHERE position > ? AND position <= ? AND +space = ?"
        where = (begin, position, space)
        count, size_bytes = self.db.execute(f"SELECT COUNT(*), SUM({CHANGE_BYTES}) {gone}", where).fetchone()
        self.db.execute(
            f"INSERT OR IGNORE INTO change_hashes SELECT space, writer, seq, SUBSTR(hash, 1, 8), ? {gone} "
            "ORDER BY position",
            (time_ms, *where),
        )
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
        for table, size, last in (
            ("history", DEAD_BYTES, trim.dead_to),
            ("removals", REMOVAL_BYTES, trim.removals_to),
        ):
            gone = f"FROM {table} WHERE id <= ? AND space = ?"
            where = (last, trim.space)
            self.sizes[trim.space][_HISTORY] -= self._number(f"SELECT SUM({size}) {gone}", where)
            self.db.execute(f"DELETE {gone}", where)

    def _trim_document(self, trim: DocumentTrim) -> None:
        name = trim[:4]
        self._drop_documents(
            "document_updates", "LENGTH(update_v1)", f"{_DOCUMENT} AND position <= ?", (*name, trim.updates_to)
        )
        self._drop_documents(
            "document_states", "LENGTH(state)", f"{_DOCUMENT} AND position < ?", (*name, trim.states_before)
        )

    def count(self) -> None:
        self.db.executemany(
            "UPDATE spaces SET log_changes = log_changes + ?, log_bytes = log_bytes + ?, "
            "history_bytes = history_bytes + ?, document_bytes = document_bytes + ? WHERE id = ?",
            [(*counts, space) for space, counts in sorted(self.sizes.items()) if any(counts)],
        )


def write_batch(db: sqlite3.Connection, batch: Batch) -> None:
    """Put all rows of ``batch`` but the outcomes into their tables; the transaction is the caller's."""
    writing = _Writing(db, batch)
    writing.drop()
    writing.insert()
    writing.trim()
    writing.count()
    for name, value in batch.metas:
        if value is None:
            db.execute("DELETE FROM meta WHERE name = ?", (name,))
        else:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))
