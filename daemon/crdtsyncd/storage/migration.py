"""Brings a database of an older format up to date, in one transaction: it is done as a whole or not at all."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from crdtsyncd.storage.old_history import DEAD_BYTES_TO_5, ENTRY_COLUMNS_TO_5, HISTORY_TO_5, OLD_HISTORY
from crdtsyncd.storage.schema import (
    ARCHIVES,
    CHANGES,
    DEATHS,
    DOCUMENT_STATES,
    FORMAT,
    NEW_IN_2,
    NEW_IN_6,
    OUTCOMES,
    REMOVALS,
)
from crdtsyncd.storage.writes import CHANGE_BYTES, REMOVAL_BYTES

from crdtsync.wire.codec import unpack


def migrate(db: sqlite3.Connection, found: int) -> None:
    """From format ``found`` to this daemon's.

    :raises sqlite3.Error: nothing was changed.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        for step in _STEPS[found - 1 :]:
            step(db, _now_ms())
        db.execute(f"PRAGMA user_version = {FORMAT}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _to_2(db: sqlite3.Connection, now_ms: int) -> None:
    """Times and positions for what gets a bound, and tables for what outlives it.

    When a change came is not known of old ones: their age counts from now.
    """
    for table in ("changes", "history", "removals", "document_states", "outcomes"):
        db.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    db.execute("DROP INDEX changes_by_number")
    db.execute("ALTER TABLE spaces ADD COLUMN trimmed_position INTEGER NOT NULL DEFAULT 0")
    db.execute("ALTER TABLE spaces ADD COLUMN history_floor BLOB")
    for statements in (CHANGES, HISTORY_TO_5, REMOVALS, DOCUMENT_STATES, OUTCOMES, NEW_IN_2):
        _run(db, statements)
    db.execute("INSERT INTO changes SELECT *, ? FROM old_changes", (now_ms,))
    db.execute(
        "INSERT INTO removals (id, space, key, writer, seq, n, removes, position, time_ms) "
        "SELECT r.*, c.position, ? FROM old_removals r JOIN changes c USING (space, writer, seq)",
        (now_ms,),
    )
    _move_history(db, now_ms)
    db.execute("INSERT INTO document_states SELECT * FROM old_document_states")
    db.execute(
        "INSERT INTO outcomes (client, slot, number, time_ms, reply) "
        "SELECT client, slot, number, time_ms, reply FROM old_outcomes ORDER BY time_ms, client, number"
    )
    for table in ("changes", "history", "removals", "document_states", "outcomes"):
        db.execute(f"DROP TABLE old_{table}")


def _run(db: sqlite3.Connection, statements: str) -> None:
    """Like ``executescript``, which would commit first."""
    for statement in statements.split(";\n"):
        if statement.strip():
            db.execute(statement)


def _move_history(db: sqlite3.Connection, now_ms: int) -> None:
    """Find for each dead entry which change removed it first, by doing all removals over again."""
    db.execute("CREATE TEMP TABLE removed (row INTEGER PRIMARY KEY, position INTEGER NOT NULL)")
    removals = groupby(
        db.execute("SELECT space, key, position, removes FROM removals ORDER BY space, key, position, n"),
        key=itemgetter(0, 1),
    )
    dead = groupby(
        db.execute("SELECT space, key, writer, seq, n, hlc, row FROM old_history ORDER BY space, key"),
        key=itemgetter(0, 1),
    )
    db.executemany("INSERT INTO removed VALUES (?, ?)", [*_removed(removals, dead)])
    columns = ", ".join(f"h.{name}" for name in ENTRY_COLUMNS_TO_5.split(", "))
    db.execute(
        f"INSERT INTO history ({ENTRY_COLUMNS_TO_5}, position, time_ms) SELECT {columns}, IFNULL(r.position, 0), ? "
        "FROM old_history h LEFT JOIN removed r USING (row) ORDER BY IFNULL(r.position, 0), row",
        (now_ms,),
    )
    db.execute("DROP TABLE removed")


def _removed(removals: Iterator[Any], dead: Iterator[Any]) -> Iterator[tuple[int, int]]:
    """``(row, position)`` for the dead entries of each key; both arguments are grouped by key, in the same order."""
    key, entries = next(dead, (None, None))
    for removed_key, rows in removals:
        while key is not None and key < removed_key:
            key, entries = next(dead, (None, None))
        if key != removed_key or entries is None:
            continue
        held = {(writer, seq, n): (int.from_bytes(hlc, "big"), row) for _, _, writer, seq, n, hlc, row in entries}
        for _, _, position, removes in rows:
            for dot in _named(unpack(removes, strict_map_key=False), held):
                yield held.pop(dot)[1], position


def _named(removes: Any, held: dict[tuple[int, int, int], tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Those dots of ``held`` that an encoded ``removes`` names; see :func:`crdtsync.wire.change.flat_removes`."""
    if isinstance(removes, list):
        dots = zip(removes[::3], removes[1::3], removes[2::3], strict=True)
        return [dot for dot in dots if dot in held]
    vector = dict(zip(removes[0][::2], removes[0][1::2], strict=True))
    bound = removes.get(1)
    return [
        dot
        for dot, (hlc, _) in held.items()
        if dot[1] <= vector.get(dot[0], 0) and (bound is None or (hlc, *dot) <= tuple(bound))
    ]


def _count_anew(db: sqlite3.Connection) -> None:
    sums = {
        "log_changes": "SELECT COUNT(*) FROM changes WHERE space = id",
        "log_bytes": f"SELECT SUM({CHANGE_BYTES}) FROM changes WHERE space = spaces.id",
        "history_bytes": f"SELECT IFNULL((SELECT SUM({DEAD_BYTES_TO_5}) FROM history WHERE space = spaces.id), 0) "
        f"+ IFNULL((SELECT SUM({REMOVAL_BYTES}) FROM removals WHERE space = spaces.id), 0)",
        "document_bytes": "SELECT IFNULL((SELECT SUM(LENGTH(update_v1)) FROM document_updates "
        "WHERE space = spaces.id), 0) "
        "+ IFNULL((SELECT SUM(LENGTH(state)) FROM document_states WHERE space = spaces.id), 0)",
    }
    for counter, total in sums.items():
        db.execute(f"UPDATE spaces SET {counter} = IFNULL(({total}), 0)")


def _to_3(db: sqlite3.Connection, now_ms: int) -> None:
    """Room for who removed what, and for what each entry had seen, and indexes to find it by. Of old ones neither is
    known.
    """
    for table, column, kind in _NEW_COLUMNS:
        if all(name != column for _, name, *_ in db.execute(f"PRAGMA table_info({table})").fetchall()):
            db.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
    db.execute("UPDATE spaces SET history_since_ms = ? WHERE history_floor IS NOT NULL", (now_ms,))
    for name, index in _INDEXES_OF_3.items():
        db.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {index}")
    _count_anew(db)


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


_INDEXES_OF_3 = {
    "history_by_key": "history (space, key, hlc)",
    "history_lost": "history (space, key, hlc) WHERE fate = 2",
    "removals_by_position": "removals (position)",
}


def _to_4(db: sqlite3.Connection, _now_ms: int) -> None:
    """Archives, and indexes by space."""
    _run(db, ARCHIVES)
    for table in ("entries", "history"):
        db.execute(f"CREATE INDEX {table}_by_space ON {table} (space)")


def _to_5(db: sqlite3.Connection, _now_ms: int) -> None:
    """Commits wait in a file now. Rows that wait in a table are brought where they belong at the start, which drops it;
    see :mod:`crdtsyncd.storage.journal.journal`.
    """
    is_there = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'journal'").fetchone()
    if is_there and db.execute("SELECT 1 FROM journal").fetchone() is None:
        db.execute("DROP TABLE journal")


def _to_6(db: sqlite3.Connection, _now_ms: int) -> None:
    """An entry stays in its row when it dies. No value is copied for that: what died before stays where it is, and
    comes over bit by bit (:mod:`crdtsyncd.storage.old_history`).
    """
    for column in DEATHS:
        db.execute(f"ALTER TABLE entries ADD COLUMN {column}")
    db.execute("DROP INDEX entries_by_space")
    _run(db, NEW_IN_6)
    if db.execute("SELECT 1 FROM history LIMIT 1").fetchone() is None:
        db.execute("DROP TABLE history")
    else:
        db.execute(f"ALTER TABLE history RENAME TO {OLD_HISTORY}")


def _to_7(db: sqlite3.Connection, _now_ms: int) -> None:
    """What removed a dead entry is found without looking at all that its change removed."""
    db.execute("DROP INDEX removals_by_position")
    db.execute("CREATE INDEX removals_by_position ON removals (position, n)")


_STEPS: tuple[Callable[[sqlite3.Connection, int], None], ...] = (_to_2, _to_3, _to_4, _to_5, _to_6, _to_7)
assert len(_STEPS) == FORMAT - 1
