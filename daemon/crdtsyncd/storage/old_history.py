"""Dead entries of a database of format 5 or older, which had a table of their own; they come over bit by bit.

There an entry was copied from one table to another when it died, with its value. A start that copied them all back
would take as long as they are large. So that table stays as it is under the name ``old_history``, readers look into it
too, and slices of it come over while the daemon runs (:func:`bring_over`). Each is one transaction, so a process that
ends amid this goes on where it was; when none is left the table goes.

A row that was number 7 of the old table is row 7 - 2**62 of ``entries``, before as after: below all others, and in the
order in which they died.
"""

from __future__ import annotations

import sqlite3

from crdtsyncd.storage.schema import INLINE_BYTES_MAX

OLD_HISTORY = "old_history"
ROW_OFFSET = 1 << 62
SLICE_ROWS = 128
SLICE_BYTES = 1024 * 1024
"""So many rows, and so many bytes of values, come over at once: some ms."""

ENTRY_COLUMNS_TO_5 = "row, space, writer, seq, n, key, sub, kind, hlc, agent, value, value_hash, attrs"
DEAD_BYTES_TO_5 = (
    "120 + 2 * LENGTH(CAST(key AS BLOB)) + IFNULL(LENGTH(CAST(sub AS BLOB)), 0) + IFNULL(LENGTH(value), 0) "
    "+ IFNULL(LENGTH(attrs), 0) + IFNULL(LENGTH(seen), 0)"
)
HISTORY_TO_5 = """
CREATE TABLE history (
    id INTEGER PRIMARY KEY,
    row INTEGER NOT NULL, space INTEGER NOT NULL, writer INTEGER NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL,
    key TEXT NOT NULL, sub TEXT, kind INTEGER NOT NULL, hlc BLOB NOT NULL, agent TEXT NOT NULL,
    value BLOB, value_hash BLOB NOT NULL, attrs BLOB,
    position INTEGER NOT NULL, time_ms INTEGER NOT NULL, seen BLOB, by_n INTEGER, fate INTEGER
);
"""

_COPIED = "space, writer, seq, n, key, sub, kind, hlc, agent, value_hash, attrs, seen, position, time_ms, by_n, fate"
_IS_LONG = f"LENGTH(value) > {INLINE_BYTES_MAX}"


def is_there(db: sqlite3.Connection) -> bool:
    """Whether the table still is."""
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (OLD_HISTORY,)).fetchone() is not None


def bring_over(db: sqlite3.Connection) -> bool:
    """The next slice, in the caller's transaction. False: that was all, and the table is gone.

    :raises sqlite3.Error: as for any write.
    """
    last = size_bytes = 0
    rows = db.execute(f"SELECT id, LENGTH(value) FROM {OLD_HISTORY} ORDER BY id LIMIT {SLICE_ROWS}").fetchall()
    for number, value_bytes in rows:
        size_bytes += value_bytes or 0
        if last and size_bytes > SLICE_BYTES:
            break
        last = number
    if not rows:
        db.execute(f"DROP TABLE {OLD_HISTORY}")
        return False
    db.execute(
        f"INSERT INTO entries (row, value, value_bytes, {_COPIED}) SELECT id - {ROW_OFFSET}, "
        f"CASE WHEN {_IS_LONG} THEN NULL ELSE value END, CASE WHEN {_IS_LONG} THEN LENGTH(value) END, {_COPIED} "
        f"FROM {OLD_HISTORY} WHERE id <= ?",
        (last,),
    )
    db.execute(
        f"INSERT INTO entry_values SELECT id - {ROW_OFFSET}, value FROM {OLD_HISTORY} WHERE id <= ? AND {_IS_LONG}",
        (last,),
    )
    db.execute(f"DELETE FROM {OLD_HISTORY} WHERE id <= ?", (last,))
    return True
