"""Whether a database's tables are those of this daemon, and nothing in it runs by itself.

A database file carries programs: triggers, views, virtual tables, and expressions in its tables and indexes, which
SQLite runs when the daemon reads or writes. Example: somebody who can change a backup adds a trigger that writes a row
of the cluster's records at each commit; the restored daemon would go on doing so for ever. So the tables are compared
with those that the daemon would make, and every connection has ``trusted_schema`` off, with which expressions in the
schema call no function that does more than compute (https://www.sqlite.org/security.html).
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

from crdtsyncd.storage.journal.quarantine import TABLE as QUARANTINE
from crdtsyncd.storage.schema import SCHEMA

_RUNNING = "SELECT type, name FROM sqlite_schema WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'"
_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
_COLUMNS = "SELECT name, type, [notnull], dflt_value, pk, hidden FROM pragma_table_xinfo(?)"
_NOT_ALWAYS_THERE = f"""
{QUARANTINE};
CREATE TABLE journal (id INTEGER PRIMARY KEY, batch BLOB NOT NULL);
"""
"""One is made when it is needed, and the other is of an older format, and goes with what is in it."""

Shape = dict[tuple[str, str, str], object]


def distrust(db: sqlite3.Connection) -> None:
    """Let nothing in the schema call more than plain functions; before anything else is asked of the connection."""
    db.execute("PRAGMA trusted_schema = OFF")


def running_parts(db: sqlite3.Connection) -> list[str]:
    """The parts that would run by themselves: triggers, views, virtual tables. A daemon of any version makes none."""
    return sorted(f"{kind} {name}" for kind, name in db.execute(_RUNNING))


def foreign_parts(db: sqlite3.Connection) -> list[str]:
    """The parts that are not as this daemon makes them, in a database of its own format."""
    with closing(sqlite3.connect(":memory:")) as own:
        own.executescript(SCHEMA)
        wanted = _shape_of(own)
        own.executescript(_NOT_ALWAYS_THERE)
        at_most = _shape_of(own)
    found = _shape_of(db)
    wanted |= {place: shape for place, shape in at_most.items() if place in found}
    parts = {place for place in wanted.keys() | found.keys() if wanted.get(place) != found.get(place)}
    return sorted(f"{kind} {name}" for kind, name, _ in parts)


def _shape_of(db: sqlite3.Connection) -> Shape:
    """Tables by their columns, since one that was migrated has other words; indexes by what they are made of."""
    shape: Shape = {}
    for kind, name, table, sql in db.execute(_OBJECTS).fetchall():
        is_table = kind == "table"
        shape[kind, name, table] = sorted(db.execute(_COLUMNS, (name,))) if is_table else " ".join(sql.split())
    return shape
