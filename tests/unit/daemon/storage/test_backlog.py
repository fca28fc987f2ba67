"""Rows of large commits come into their tables by slices, in order, once, whatever happens meanwhile."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from crdtsyncd.storage import backlog
from crdtsyncd.storage.database import Store
from crdtsyncd.storage.journal.quarantine import RowsRefused

from crdtsync.core.storage.rows import ChangeRow, EntryRow, RemovalRow, RemovedRow, RemovedRows
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.wire.codec import pack
from tests.unit.daemon.counting import counters, counters_by_sum

LONG = 5000
ROWS = 1000


def opened(path: Path) -> Store:
    (path / "run").mkdir(exist_ok=True)
    return Store(path / "data", path / "run")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(opened(tmp_path)) as made:
        first = WriteBatch()
        first.spaces = [(1, "default", 0)]
        made.commit(first)
        yield made


def written(value_bytes: int = LONG) -> WriteBatch:
    """One change with as many values."""
    values = [b"%04d" % n + bytes(value_bytes) for n in range(1, ROWS + 1)]
    batch = WriteBatch()
    batch.changes = [ChangeRow(1, 1, 5, 1, bytes(16), pack([b"header", *values]), 0)]
    batch.entries = [
        EntryRow(n, 1, 5, 1, n, f"k{n}", None, 0, 7, "ann", values[n - 1], bytes(16), None, b"seen%d" % n)
        for n in range(1, ROWS + 1)
    ]
    return batch


def removed() -> WriteBatch:
    """One that removes them all."""
    batch = WriteBatch()
    batch.changes = [ChangeRow(2, 1, 5, 2, bytes(16), b"body", 0)]
    batch.removed_rows = [RemovedRow(n, 2, 0, n, 3) for n in range(1, ROWS + 1)]
    batch.removals = [RemovalRow(1, f"k{n}", 5, 2, n, b"removes", 2, 0) for n in range(1, ROWS + 1)]
    return batch


def test_a_large_commit_comes_into_its_tables_by_slices(store: Store) -> None:
    store.commit(written(), is_direct=True)
    slices = 0
    while store.has_backlog:
        before = store.outcome_stats(), store._one("SELECT COUNT(*) FROM entries", ())[0]
        store.bring_some_in()
        assert store._one("SELECT COUNT(*) FROM entries", ())[0] - before[1] <= backlog.SLICE_ROWS
        slices += 1
    assert slices >= ROWS * LONG // backlog.SLICE_BYTES
    assert [(entry.row, entry.value) for entry in store.entries(1)] == [
        (n, b"%04d" % n + bytes(LONG)) for n in range(1, ROWS + 1)
    ]


def test_what_is_on_its_way_is_seen_all_the_same(store: Store) -> None:
    store.commit(written(), is_direct=True)
    assert store.has_backlog
    assert store.seen(ROWS) == b"seen%d" % ROWS
    assert len(store.entries(1)) == ROWS
    assert not store.has_backlog


def test_rows_that_went_together_are_marked_as_those_that_went_one_by_one(store: Store, tmp_path: Path) -> None:
    """Also where the commit is one that no backlog takes."""

    def marked(place: str, *, is_together: bool, is_whole: bool) -> list[Any]:
        (tmp_path / place).mkdir()
        with closing(opened(tmp_path / place)) as one:
            first = written(value_bytes=10)
            first.spaces = [(1, "default", 0)]
            one.commit(first, is_direct=True)
            batch = removed()
            rows = [RemovedRow(n, 2, 7, 0, 3) for n in range(1, ROWS + 1)]
            if is_together:
                batch.removed_rows = rows[:10]
                batch.removed_many = [RemovedRows(tuple(range(11, ROWS + 1)), 2, 7, 0, 3)]
            else:
                batch.removed_rows = rows
            assert (batch.removed_count, batch.marks(), batch.first_position()) == (ROWS, rows, 2)
            if is_whole:
                batch.snapshot_drops = [9]
            one.commit(batch)
            assert one.has_backlog != is_whole
            assert one.entries(1) == []
            assert counters(one) == counters_by_sum(one)
            return one._db.execute("SELECT row, position, time_ms, by_n, fate FROM entries ORDER BY row").fetchall()

    expected = marked("one-by-one", is_together=False, is_whole=False)
    assert len(expected) == ROWS
    assert marked("together", is_together=True, is_whole=False) == expected
    assert marked("whole", is_together=True, is_whole=True) == expected


def test_a_later_mark_does_not_overtake_its_row(store: Store) -> None:
    store.commit(written(value_bytes=10), is_direct=True)
    one = WriteBatch()
    one.removed_rows = [RemovedRow(ROWS, 2, 0, 0, 1)]
    store.commit(one)
    assert [entry.row for entry in store.entries(1)] == [*range(1, ROWS)]
    assert counters(store) == counters_by_sum(store)


@pytest.mark.parametrize("slices", range(6))
def test_a_start_after_a_kill_brings_in_what_is_left(tmp_path: Path, store: Store, slices: int) -> None:
    store.commit(written(), is_direct=True)
    store.commit(removed(), is_direct=True)
    for _ in range(slices * 6):
        store.bring_some_in()
    (tmp_path / "copy" / "data").mkdir(parents=True)
    for file in store.data_dir.glob("crdtsync.db*"):
        (tmp_path / "copy" / "data" / file.name).write_bytes(file.read_bytes())
    with closing(opened(tmp_path / "copy")) as copy:
        assert not copy.has_backlog
        assert copy.entries(1) == []
        dead = copy.dead(1, "k7", None, is_lost=False, rows_max=9)
        assert [(row.entry.value, row.position, row.fate) for row in dead] == [(b"0007" + bytes(LONG), 2, 3)]
        assert counters(copy) == counters_by_sum(copy)


def test_a_mark_does_not_write_the_value_again(store: Store) -> None:
    store.commit(written(value_bytes=100_000 // ROWS * 100), is_direct=True)
    assert len(store.entries(1)) == ROWS
    store.truncate()
    store.commit(removed(), is_direct=True)
    assert store.entries(1) == []
    assert store.wal_bytes() < 4 * 1024 * 1024, "the values are 10 MB"


def test_rows_that_fit_nowhere_are_kept_aside_and_the_rest_goes_on(tmp_path: Path, store: Store) -> None:
    batch = written(value_bytes=10)
    batch.entries[0] = batch.entries[0]._replace(row=2)  # a row number twice: a bug
    store.commit(batch, is_direct=True)
    with pytest.raises(RowsRefused, match="UNIQUE"):
        store.entries(1)
    assert store.is_behind
    assert len(store.entries(1)) == ROWS - backlog.SLICE_ROWS
    assert store._one("SELECT COUNT(*) FROM backlog", ()) == (1,)
    store.close()
    with closing(opened(tmp_path)) as again:
        assert len(again.entries(1)) == ROWS - backlog.SLICE_ROWS


def test_values_of_an_older_format_are_marked_a_few_at_a_time(store: Store) -> None:
    """They stand in their rows, which a mark writes anew."""
    insert = (
        "INSERT INTO entries (row, space, writer, seq, n, key, kind, hlc, agent, value, value_hash) "
        "VALUES (?, 1, 5, 1, ?, ?, 0, x'0000000000000007', 'ann', ?, x'00')"
    )
    for n in range(1, 61):
        store._db.execute(insert, (n, n, f"k{n}", bytes(500_000)))
    store.truncate()
    batch = removed()
    batch.removed_rows, batch.removals = batch.removed_rows[:60], batch.removals[:60]
    store.commit(batch)
    store.settle()
    assert len(store.dead(1, "k60", None, is_lost=False, rows_max=9)) == 1, "few rows: nobody was told to wait"
    assert store.entries(1) == []
    assert counters(store) == counters_by_sum(store)


def test_without_room_everything_is_read_as_it_will_be(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(errno.ENOSPC, "no space")

    store.commit(written(value_bytes=3000), is_direct=True)
    with monkeypatch.context() as patch:
        patch.setattr(store, "_bring_slice_in", refuse)
        assert not store.bring_some_in()
        assert len(store.entries(1)) == ROWS
        assert store._one("SELECT COUNT(*) FROM entry_values", ()) == (ROWS,), "in a transaction that is undone"
    one = WriteBatch()
    one.removed_rows = [RemovedRow(1, 2, 0, 0, 1)]
    store.commit(one)
    assert len(store.entries(1)) == ROWS - 1
    assert not store.has_backlog
    assert counters(store) == counters_by_sum(store)
