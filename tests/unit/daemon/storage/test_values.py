"""Long values by row, wherever they are."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from crdtsyncd.storage.database import Store

from crdtsync.core.storage.rows import ChangeRow, EntryRow, HistoryTrim, MendedValue, RemovedRow
from crdtsync.core.storage.write_batch import WriteBatch

LONG = b"\xc5\x10\x00" + bytes(range(256)) * 16


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    (tmp_path / "run").mkdir()
    with closing(Store(tmp_path / "data", tmp_path / "run")) as made:
        first = WriteBatch()
        first.spaces = [(1, "default", 0)]
        made.commit(first)
        yield made


def written(row: int, value: bytes | None) -> WriteBatch:
    """A change that writes one value."""
    batch = WriteBatch()
    batch.changes = [ChangeRow(row, 1, 5, row, bytes(16), b"body", 0)]
    batch.entries = [EntryRow(row, 1, 5, row, 0, f"k{row}", None, 0, 7, "ann", value, bytes(16), None)]
    return batch


def test_a_value_is_found_in_the_journal_and_in_its_table(store: Store) -> None:
    for row, value in enumerate((LONG, b"\xa5short", None), 1):
        store.commit(written(row, value))
    for _ in range(2):
        assert [store.value(row) for row in (1, 2, 3, 4)] == [LONG, b"\xa5short", None, None]
        assert store.has_pending or store.settle()
        store.settle()


def test_reading_a_value_brings_nothing_into_the_tables(store: Store) -> None:
    store.commit(written(1, LONG))
    assert store.value(1) == LONG
    assert store.has_pending


def test_a_start_loads_no_long_value(store: Store) -> None:
    for row, value in enumerate((LONG, b"\xa5short", None), 1):
        store.commit(written(row, value))
    asked: list[int] = []

    def stand_in(size_bytes: int) -> object:
        asked.append(size_bytes)
        return LONG

    entries = store.entries(1, stand_in)  # type: ignore[arg-type]
    assert [entry.value for entry in entries] == [LONG, b"\xa5short", None]
    assert asked == [len(LONG)]


def test_the_value_of_what_died_is_there_until_history_lets_go_of_it(store: Store) -> None:
    store.commit(written(1, LONG))
    death = WriteBatch()
    death.changes = [ChangeRow(2, 1, 5, 2, bytes(16), b"body", 0)]
    death.removed_rows = [RemovedRow(1, 2, 0)]
    store.commit(death)
    assert store.value(1) == LONG
    trim = WriteBatch()
    trim.history_trims = [HistoryTrim(1, (2, 1), 0)]
    store.commit(trim)
    assert store.value(1) is None


def test_a_value_that_an_older_format_left_in_its_row(store: Store) -> None:
    store.commit(written(1, LONG), is_direct=True)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute("UPDATE entries SET value = (SELECT value FROM entry_values), value_bytes = NULL")
        db.execute("DELETE FROM entry_values")
    assert store.value(1) == LONG
    assert [entry.value for entry in store.entries(1)] == [LONG]


def test_a_spoilt_value_can_be_put_back(store: Store) -> None:
    store.commit(written(1, LONG), is_direct=True)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute("UPDATE entry_values SET value = x'00'")
    assert store.value(1) == b"\0"
    mended = WriteBatch()
    mended.mended_values = [MendedValue(1, LONG), MendedValue(9, LONG)]
    store.commit(mended)
    assert store.value(1) == LONG
    assert store._one("SELECT COUNT(*) FROM entry_values", ()) == (1,)


def test_a_value_that_is_gone_can_be_put_back(store: Store) -> None:
    for row, value in ((1, LONG), (2, b"\xa5short")):
        store.commit(written(row, value), is_direct=True)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute("DELETE FROM entry_values")
    assert store.value(1) not in (None, b"", LONG)  # b"": nothing can be written there either
    mended = WriteBatch()
    mended.mended_values = [MendedValue(1, LONG), MendedValue(2, b"\xa5whole"), MendedValue(9, LONG)]
    store.commit(mended)
    assert [store.value(row) for row in (1, 2)] == [LONG, b"\xa5whole"]
    assert store._one("SELECT COUNT(*) FROM entry_values", ()) == (1,)


@pytest.mark.parametrize("value, table", [(LONG, "entry_values"), (b"\xa5short", "entries")])
@pytest.mark.parametrize("spoilt", ["CAST(x'ff00' AS TEXT)", "'text'", "7"])
def test_a_spoilt_value_is_bytes_whatever_the_disk_says(store: Store, value: bytes, table: str, spoilt: str) -> None:
    """A flipped bit can make a text or a number of it; its hash then tells."""
    store.commit(written(1, value), is_direct=True)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute(f"UPDATE {table} SET value = {spoilt}")
    death = WriteBatch()
    death.changes = [ChangeRow(2, 1, 5, 2, bytes(16), b"body", 0)]
    death.removed_rows = [RemovedRow(1, 2, 0)]
    assert [entry.value for entry in store.entries(1)] != [value]
    for _ in range(2):  # alive, and dead
        assert type(store.value(1)) is bytes
        assert [type(value) for _, value in store.values([1])] == [bytes] * (table == "entry_values")
        store.commit(death, is_direct=True)
        death = WriteBatch()
    (row,) = store.dead(1, "k1", None, is_lost=False, rows_max=9)
    assert row.entry.value not in (None, value)
    assert store.dead_value(1, "k1", row.entry.dot) is not None


def test_a_page_that_cannot_be_read_is_about_its_value_alone(store: Store) -> None:
    for row in (1, 2):
        store.commit(written(row, LONG * 20), is_direct=True)
    db = store._connection
    (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entry_values'").fetchone()
    (page_bytes,) = db.execute("PRAGMA page_size").fetchone()
    store.truncate()
    store.close()
    with store.path.open("r+b") as file:
        file.seek((root - 1) * page_bytes)
        file.write(b"\xff" * 100)
    with closing(Store(store.data_dir, store.data_dir.parent / "run")) as again:
        assert again.value(1) == b""
        again.commit(written(3, b"\xa5short"))
        assert again.value(3) == b"\xa5short"
