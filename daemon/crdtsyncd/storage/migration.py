"""Brings a database of an older format up to date, in one transaction: it is done as a whole or not at all."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from crdtsyncd.storage.schema import ARCHIVES, DEATHS, FORMAT, INLINE_BYTES_MAX, NEW_IN_6, NEW_IN_8
from crdtsyncd.storage.writes import CHANGE_BYTES, DEAD_BYTES, REMOVAL_BYTES

OLDEST = 2
"""The format of version 0.1.0; before that there was no release."""
_OLD_HISTORY = "old_history"
"""A table of what died before format 6; with each entry its value."""
_COPIED = "space, writer, seq, n, key, sub, kind, hlc, agent, value_hash, attrs, seen, position, time_ms, by_n, fate"


def is_old(db: sqlite3.Connection, found: int) -> bool:
    """Whether a database of format ``found`` is to be brought up to date."""
    return 0 < found < FORMAT or _has_old_history(db)


def migrate(db: sqlite3.Connection, found: int) -> None:
    """From format ``found`` to this daemon's.

    :raises sqlite3.Error: nothing was changed.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        for step in _STEPS[found - OLDEST :]:
            step(db)
        if _has_old_history(db):
            _bring_over(db)
        if found < 3:
            _count_anew(db)
        db.execute(f"PRAGMA user_version = {FORMAT}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _run(db: sqlite3.Connection, statements: str) -> None:
    """Like ``executescript``, which would commit first."""
    for statement in statements.split(";\n"):
        if statement.strip():
            db.execute(statement)


def _count_anew(db: sqlite3.Connection) -> None:
    sums = {
        "log_changes": "SELECT COUNT(*) FROM changes WHERE space = id",
        "log_bytes": f"SELECT SUM({CHANGE_BYTES}) FROM changes WHERE space = spaces.id",
        "history_bytes": f"SELECT IFNULL((SELECT SUM({DEAD_BYTES}) FROM entries "
        "WHERE space = spaces.id AND position IS NOT NULL), 0) "
        f"+ IFNULL((SELECT SUM({REMOVAL_BYTES}) FROM removals WHERE space = spaces.id), 0)",
        "document_bytes": "SELECT IFNULL((SELECT SUM(LENGTH(update_v1)) FROM document_updates "
        "WHERE space = spaces.id), 0) "
        "+ IFNULL((SELECT SUM(LENGTH(state)) FROM document_states WHERE space = spaces.id), 0)",
    }
    for counter, total in sums.items():
        db.execute(f"UPDATE spaces SET {counter} = IFNULL(({total}), 0)")


def _to_3(db: sqlite3.Connection) -> None:
    """Room for who removed what, and for what each entry had seen. Neither is known of old entries."""
    for table, column, kind in _NEW_COLUMNS:
        if all(name != column for _, name, *_ in db.execute(f"PRAGMA table_info({table})").fetchall()):
            db.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
    db.execute("UPDATE spaces SET history_since_ms = ? WHERE history_floor IS NOT NULL", (_now_ms(),))


_NEW_COLUMNS = (
    ("entries", "seen", "BLOB"),
    ("history", "seen", "BLOB"),
    ("history", "by_n", "INTEGER"),
    ("history", "fate", "INTEGER"),
    ("removals", "hlc", "BLOB"),
    ("removals", "agent", "TEXT"),
    ("removals", "operation", "TEXT"),
    ("spaces", "history_since_ms", "INTEGER NOT NULL DEFAULT 0"),
)


def _to_4(db: sqlite3.Connection) -> None:
    """Archives, and indexes by space."""
    _run(db, ARCHIVES)


def _to_5(db: sqlite3.Connection) -> None:
    """Commits wait in a file now. Rows that wait in a table are brought where they belong at the start, which drops it;
    see :mod:`crdtsyncd.storage.journal.journal`.
    """
    is_there = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'journal'").fetchone()
    if is_there and db.execute("SELECT 1 FROM journal").fetchone() is None:
        db.execute("DROP TABLE journal")


def _to_6(db: sqlite3.Connection) -> None:
    """An entry stays in its row when it dies: it is not copied to another table."""
    for column in DEATHS:
        db.execute(f"ALTER TABLE entries ADD COLUMN {column}")
    db.execute("DROP INDEX IF EXISTS entries_by_space")
    _run(db, NEW_IN_6)
    db.execute(f"ALTER TABLE history RENAME TO {_OLD_HISTORY}")


def _to_7(db: sqlite3.Connection) -> None:
    """Find the operation that removed a dead entry without looking at all that its change removed."""
    db.execute("DROP INDEX IF EXISTS removals_by_position")
    db.execute("CREATE INDEX removals_by_position ON removals (position, n)")


def _to_8(db: sqlite3.Connection) -> None:
    """Long values may stand once, for log and state. Those that stand twice do so until they go."""
    _run(db, NEW_IN_8)


_STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (_to_3, _to_4, _to_5, _to_6, _to_7, _to_8)
assert len(_STEPS) == FORMAT - OLDEST


def _has_old_history(db: sqlite3.Connection) -> bool:
    """Also one of format 6 or 7 may have it: a daemon that brought it over in slices was ended amid that."""
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_OLD_HISTORY,)).fetchone() is not None


def _bring_over(db: sqlite3.Connection) -> None:
    """What died before format 6, into rows below all others, in the order in which it died: row 7 of the old table
    becomes row 7 - 2**62.
    """
    is_long = f"LENGTH(value) > {INLINE_BYTES_MAX}"
    db.execute(
        f"INSERT INTO entries (row, value, value_bytes, {_COPIED}) SELECT id - (1 << 62), "
        f"CASE WHEN {is_long} THEN NULL ELSE value END, CASE WHEN {is_long} THEN LENGTH(value) END, {_COPIED} "
        f"FROM {_OLD_HISTORY}"
    )
    db.execute(f"INSERT INTO entry_values SELECT id - (1 << 62), value FROM {_OLD_HISTORY} WHERE {is_long}")
    db.execute(f"DROP TABLE {_OLD_HISTORY}")
