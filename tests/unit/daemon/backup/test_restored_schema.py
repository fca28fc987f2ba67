"""A backup that somebody has changed brings nothing along that runs in the daemon: no triggers, no other tables."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from crdtsyncd.backup.restore import restore
from crdtsyncd.config.exit_status import UnfitData
from crdtsyncd.storage.database import Store
from crdtsyncd.storage.schema import APPLICATION_ID, FORMAT

from crdtsync.client.operations.backup_file import header
from crdtsync.errors import StorageError
from tests.golden.regenerate import DATABASES

CHANGES = {
    "trigger heads_too": "CREATE TRIGGER heads_too AFTER UPDATE ON meta BEGIN DELETE FROM entries; END",
    "trigger on_start": "CREATE TRIGGER on_start AFTER DELETE ON own_writers BEGIN UPDATE meta SET value = x'00'; END",
    "view more": "CREATE VIEW more AS SELECT * FROM meta",
    "table words": "CREATE VIRTUAL TABLE words USING fts5(body)",
    "table extra": "CREATE TABLE extra (x)",
    "index by_agent": "CREATE INDEX by_agent ON entries (abs(hlc))",
    "index changes_by_space": "DROP INDEX changes_by_space; CREATE INDEX changes_by_space ON changes (seq)",
    "index entries_lost": "DROP INDEX entries_lost",
    "table peers": "ALTER TABLE peers ADD COLUMN more TEXT AS (upper(name)) VIRTUAL",
    "table meta": "DROP TABLE meta; CREATE VIEW meta AS SELECT 'database' AS name, x'00' AS value",
}


def a_backup(place: Path, database: Path, change: str = "") -> Path:
    """What ``crdtsync backup`` would have written, of a database that was changed."""
    copy = place / "copy.db"
    copy.unlink(missing_ok=True)
    with closing(sqlite3.connect(copy)) as db:
        db.executescript(database.read_text())
        db.executescript(f"PRAGMA application_id = {APPLICATION_ID};{change};")
    data = copy.read_bytes()
    about = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "machine": "m", "time": 0, "name": "a"}
    file = place / "backup"
    file.write_bytes(header(about) + data)
    return file


QUARANTINE = "CREATE TABLE quarantine (id INTEGER PRIMARY KEY, batch BLOB NOT NULL, why TEXT, time_ms INTEGER)"
JOURNAL = "CREATE TABLE journal (id INTEGER PRIMARY KEY, batch BLOB NOT NULL)"


@pytest.mark.parametrize("table", [QUARANTINE, JOURNAL])
def test_so_is_one_with_a_table_that_is_made_when_it_is_needed(tmp_path, table):
    restored = restore(a_backup(tmp_path, newest(), table), tmp_path / "data", force=False)
    with closing(sqlite3.connect(restored.path)) as db:
        assert db.execute(f"SELECT COUNT(*) FROM {table.split()[2]}").fetchone() == (0,)
    with pytest.raises(StorageError, match="was changed by somebody"):
        restore(a_backup(tmp_path, newest(), f"{table[:-1]}, more INTEGER)"), tmp_path / "other", force=False)


def newest() -> Path:
    return next(path for path in DATABASES if path.stem == f"database_{FORMAT}")


@pytest.mark.parametrize("database", DATABASES, ids=lambda path: path.stem)
def test_a_backup_of_every_format_is_restored(tmp_path, database):
    restored = restore(a_backup(tmp_path, database), tmp_path / "data", force=False)
    store = Store(restored.path.parent, tmp_path)
    store.close()


@pytest.mark.parametrize(
    "part, database",
    [(part, database) for part in sorted(CHANGES) for database in DATABASES
     if "DROP INDEX" not in CHANGES[part] or database == newest()],
    ids=lambda one: one if isinstance(one, str) else one.stem,
)  # fmt: skip
def test_what_no_daemon_has_made_is_refused(tmp_path, part, database):
    words = "view meta" if part == "table meta" else part
    with pytest.raises(StorageError, match=f"was changed by somebody: its .*{words}"):
        restore(a_backup(tmp_path, database, CHANGES[part]), tmp_path / "data", force=False)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["lock"]


@pytest.mark.parametrize("part", ["trigger heads_too", "view more", "table words"])
def test_a_daemon_does_not_start_on_a_database_in_which_something_runs_by_itself(tmp_path, part):
    Store(tmp_path, tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "crdtsync.db")) as db:
        db.executescript(CHANGES[part])
    with pytest.raises(UnfitData, match=f"the database has .*{part}"):
        Store(tmp_path, tmp_path)


def test_no_connection_of_the_daemon_trusts_the_schema(tmp_path):
    store = Store(tmp_path, tmp_path)
    try:
        for db in (store._connection, store._checkpointer):
            assert db.execute("PRAGMA trusted_schema").fetchone() == (0,)
    finally:
        store.close()
