"""Databases of older formats become what this daemon would have made of the same writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from crdtsyncd.config.exit_status import UnfitData
from crdtsyncd.storage import migration
from crdtsyncd.storage.database import Store
from crdtsyncd.storage.migration import migrate
from crdtsyncd.storage.schema import FORMAT

from crdtsync.core.crdt.entry import Entry
from crdtsync.core.storage.rows import DeadPlace, HistoryTrim
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.errors import StorageError
from tests.golden.regenerate import DATABASES
from tests.unit.daemon.counting import counters, counters_by_sum

OLD = [path for path in DATABASES if path.stem != f"database_{FORMAT}"]
TO_5 = OLD[:4]
"""Those that have a table for what is dead."""


@pytest.fixture(params=OLD, ids=lambda path: path.stem)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "run").mkdir()
    with closing(sqlite3.connect(tmp_path / "data" / "crdtsync.db")) as db:
        db.executescript(request.param.read_text())
    return tmp_path


@pytest.fixture
def migrated(old: Path) -> Iterator[Store]:
    store = Store(old / "data", old / "run")
    yield store
    store.close()


def tables(db: sqlite3.Connection) -> dict[str, list[str]]:
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'index')")]
    return {name: sorted(str(row[1:]) for row in db.execute(f"PRAGMA table_xinfo({name})")) for name in sorted(names)}


def test_it_has_the_tables_of_a_new_one(migrated: Store, tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    new = Store(tmp_path / "new", tmp_path / "beside")
    try:
        assert tables(migrated._db) == tables(new._db)
    finally:
        new.close()


def test_its_counters_are_exact(migrated: Store) -> None:
    assert counters(migrated) == counters_by_sum(migrated)
    assert all(counters(migrated).values())


@pytest.mark.parametrize("old", TO_5, ids=[path.stem for path in TO_5], indirect=True)
def test_it_knows_which_change_removed_what(migrated: Store) -> None:
    rows = migrated._db.execute(
        "SELECT h.key, r.seq, h.seq FROM entries h JOIN removals r USING (space, key, position)"
    ).fetchall()
    assert sorted(rows) == [
        ("deleted", 4, 3),  # a delete
        ("log", 10, 5),  # a trim, which names a range
        ("log", 10, 6),
        ("notes", 12, 11),  # an edit of a text takes the place of its marker
        ("plan/goal", 2, 1),  # a set
    ]
    dead = migrated._db.execute("SELECT position FROM entries WHERE position IS NOT NULL ORDER BY row").fetchall()
    assert len(dead) == 5
    assert dead == sorted(dead)


@pytest.mark.parametrize("old", OLD[:2], ids=["database_2", "database_3"], indirect=True)
def test_a_migration_that_fails_changes_nothing(old: Path) -> None:
    path = old / "data" / "crdtsync.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE archives (stray)")  # in the way
        db.commit()
        before = [*db.iterdump()]
    with pytest.raises(StorageError, match="cannot use the database"):
        Store(old / "data", old / "run")
    with closing(sqlite3.connect(path)) as db:
        assert [*db.iterdump()] == before


@pytest.mark.parametrize("old", OLD[:1], ids=["database_2"], indirect=True)
def test_what_old_rows_do_not_tell_is_not_invented(migrated: Store) -> None:
    (row,) = migrated.dead(1, "deleted", None, is_lost=False, rows_max=10)
    assert (row.entry.agent, row.seen, row.fate, row.removal) == ("ann", None, None, None)
    assert migrated.dead(1, "deleted", None, is_lost=True, rows_max=10) == []


# -- what died before format 6 had a table of its own ------------------------------------------------------------------


def past(store: Store) -> list[object]:
    """All that readers are told of what is dead."""
    keys = ("deleted", "log", "notes", "plan/goal")
    by_key = [store.dead(1, key, None, is_lost=False, rows_max=9) for key in keys]
    scanned = store.scan_dead(1, DeadPlace("", b"", 0), is_lost=False, rows_max=99)
    by_id = sorted(store.dead_by_id([row.id for row in scanned], 2**20), key=lambda row: row.entry.order)
    told = [[(vars_of(row.entry), row[1:]) for row in rows] for rows in (*by_key, by_id)]
    return [told, scanned, store.oldest_dead(1, 99), counters(store)]


def vars_of(entry: Entry) -> list[object]:
    names = ("dot", "key", "sub", "kind", "hlc", "agent", "held", "value_hash", "attrs")
    return [getattr(entry, name) for name in names]


@pytest.mark.parametrize("old", TO_5[-1:], ids=["database_5"], indirect=True)
def test_one_that_was_brought_over_in_part_is_brought_over_whole(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon of the build before may have been ended amid that: it has this format, and the old table, too."""
    with closing(sqlite3.connect(old / "data" / "crdtsync.db", isolation_level=None)) as db:
        (short,) = db.execute("SELECT LENGTH(value) FROM history WHERE key = 'plan/goal'").fetchone()
        db.execute("UPDATE history SET value = zeroblob(2000) WHERE key = 'plan/goal'")
        db.execute("UPDATE spaces SET history_bytes = history_bytes + ? WHERE id = 1", (2000 - short,))
        monkeypatch.setattr(migration, "_bring_over", lambda _db: None)
        migrate(db, 5)
        monkeypatch.undo()
        assert db.execute("PRAGMA user_version").fetchone() == (FORMAT,)
        row = "(SELECT MIN(id) FROM old_history)"
        copied = migration._COPIED
        db.execute(
            f"INSERT INTO entries (row, value, {copied}) SELECT id - (1 << 62), value, {copied} FROM old_history "
            f"WHERE id = {row}"
        )
        db.execute(f"DELETE FROM old_history WHERE id = {row}")
    with closing(Store(old / "data", old / "run")) as store:
        oldest = store.oldest_dead(1, 99)
        assert [row.key for row in oldest] == ["plan/goal", "deleted", "log", "log", "notes"]
        assert counters(store) == counters_by_sum(store)
        assert [row.entry.value for row in store.dead(1, "plan/goal", None, is_lost=False, rows_max=9)] == [bytes(2000)]
        before = past(store)
    with closing(Store(old / "data", old / "run")) as again:
        assert past(again) == before


@pytest.mark.parametrize("old", TO_5[-1:], ids=["database_5"], indirect=True)
def test_it_is_trimmed_before_what_dies_now(migrated: Store) -> None:
    oldest = migrated.oldest_dead(1, 99)
    trim = WriteBatch()
    trim.history_trims = [HistoryTrim(1, (oldest[2].position, oldest[2].id), 0)]
    migrated.commit(trim)
    assert migrated.oldest_dead(1, 99) == oldest[3:]
    assert counters(migrated) == counters_by_sum(migrated)


@pytest.mark.parametrize("old", OLD[:1], ids=["database_2"], indirect=True)
def test_one_from_before_the_first_release_is_refused(old: Path) -> None:
    with closing(sqlite3.connect(old / "data" / "crdtsync.db")) as db:
        db.execute("PRAGMA user_version = 1")
        before = [*db.iterdump()]
    with pytest.raises(UnfitData, match="is of format 1, which no release has written"):
        Store(old / "data", old / "run")
    with closing(sqlite3.connect(old / "data" / "crdtsync.db")) as db:
        assert [*db.iterdump()] == before
