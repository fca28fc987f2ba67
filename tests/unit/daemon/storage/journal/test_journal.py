"""Commits that go to the journal first: readers see them at once, and no crash or full disk loses or doubles them."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from re import sub

import pytest
from crdtsyncd.storage import schema
from crdtsyncd.storage.database import DATABASE_NAME, JOURNAL_NAME, Store
from crdtsyncd.storage.journal import file as journal_file
from crdtsyncd.storage.journal import journal, quarantine
from crdtsyncd.storage.journal.file import JournalFile, unpacked_state
from crdtsyncd.storage.journal.quarantine import RowsRefused

from crdtsync.core.storage.rows import (
    ChangeRow,
    DocumentUpdateRow,
    EntryRow,
    HeadRow,
    OutcomeRow,
    PeerRow,
    RemovalRow,
    RemovedRow,
)
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.errors import StorageError
from tests.unit.daemon.counting import counters, counters_by_sum

WRITER = 5
HISTORY = """
CREATE TABLE history (
    id INTEGER PRIMARY KEY,
    row INTEGER NOT NULL, space INTEGER NOT NULL, writer INTEGER NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL,
    key TEXT NOT NULL, sub TEXT, kind INTEGER NOT NULL, hlc BLOB NOT NULL, agent TEXT NOT NULL,
    value BLOB, value_hash BLOB NOT NULL, attrs BLOB,
    position INTEGER NOT NULL, time_ms INTEGER NOT NULL, seen BLOB, by_n INTEGER, fate INTEGER
);
"""
"""A table of formats up to 5."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path)
    opened.commit(first())
    yield opened
    opened.close()


def open_store(place: Path) -> Store:
    (place / "run").mkdir(exist_ok=True, parents=True)
    return Store(place / "data", place / "run")


def first() -> WriteBatch:
    made = WriteBatch()
    made.spaces.append((1, "default", 0))
    made.writers.append((1, WRITER))
    return made


def write(number: int, rng: Random | None = None, value: bytes = b"\x01") -> WriteBatch:
    """What an overwrite of a key leaves behind; with ``rng`` also some of all else that a journal takes."""
    made = WriteBatch()
    made.changes.append(ChangeRow(number, 1, WRITER, number, bytes([number % 256]) * 16, b"body", number))
    made.entries.append(
        EntryRow(number, 1, WRITER, number, 0, "k", None, 0, 2**64 - 1, "agent", value, bytes(16), None)
    )
    made.clocks.append((2**63 + number, 1))
    if number > 1:
        made.removed_rows.append(RemovedRow(number - 1, number, number))
        made.removals.append(RemovalRow(1, "k", WRITER, number, 0, b"\x90", number, number))
    made.outcomes.append(OutcomeRow(b"c" * 16, number % 4, number, number, b"reply"))
    made.metas += [("kept", b"%d" % number), ("gone", None if number % 2 else b"")]
    made.own_changes = 1
    if rng is not None and rng.random() < 0.3:
        made.origins.append((1, number, "node", "name"))
        made.peers.append(PeerRow("node", "name", number))
        made.heads.append(HeadRow(1, number + 1000, 7, b"h" * 16, number))
        made.document_updates.append(DocumentUpdateRow(1, WRITER, 1, 0, number, WRITER, number, 0, "agent", b"update"))
        made.floors.append((b"floor %d" % number, 1))  # as a merged snapshot does
        made.history_floors.append((b"floor %d" % number, number, 1))
    return made


def journalled(data: Path) -> int:
    """How many records the journal's file has that the tables lack, as the disk says."""
    with closing(sqlite3.connect(data / DATABASE_NAME)) as db:
        (state,) = db.execute("SELECT value FROM meta WHERE name = 'journal'").fetchone()
    return len(JournalFile(data / JOURNAL_NAME).rows(unpacked_state(state))[1])


def dump(store: Store) -> list[str]:
    """All tables but what tells one database from another, and where its journal is.

    Replies have their order, and not the same numbers: those that others soon replaced were never there.
    """
    lines = [line for line in store._db.iterdump() if 'INTO "meta"' not in line]
    return [sub(r'(INTO "outcomes" VALUES\()\d+', r"\1", line) for line in lines]


def test_a_commit_is_one_record_and_readers_see_it_at_once(store: Store) -> None:
    store.commit(write(1))
    store.commit(write(2))
    assert journalled(store.data_dir) == 2
    assert [entry.dot.seq for entry in store.entries(1)] == [2]
    assert journalled(store.data_dir) == 0
    assert store.outcome(b"c" * 16, 2) == b"reply"


def test_what_a_killed_process_left_in_the_journal_is_there_after_a_restart(store: Store, tmp_path: Path) -> None:
    for number in range(1, 6):
        store.commit(write(number))
    assert journalled(store.data_dir) == 5
    shutil.copytree(store.data_dir, tmp_path / "copy" / "data")
    copy = open_store(tmp_path / "copy")
    try:
        assert journalled(copy.data_dir) == 0
        assert {writer: seq for writer, seq, _ in copy.heads(1)} == {WRITER: 5}
        assert [entry.dot.seq for entry in copy.entries(1)] == [5]
        assert (copy.meta("kept"), copy.meta("gone")) == (b"5", None)
        assert counters(copy) == counters_by_sum(copy)
        assert dump(copy) == dump(store)
    finally:
        copy.close()


@pytest.mark.parametrize("seed", range(5))
def test_the_tables_are_those_of_commits_that_go_there_at_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = [open_store(tmp_path / name) for name in ("journal", "direct")]
    try:
        for store in stores:
            store.commit(first())
        rng = Random(seed)
        for number in range(1, 120):
            made = write(number, rng)
            stores[0].commit(made)
            if rng.random() < 0.1:
                stores[0].settle()
            with monkeypatch.context() as patch:
                patch.setattr(journal, "BATCH_BYTES_MAX", -1)
                stores[1].commit(made)
            assert not stores[1].has_pending
        assert dump(stores[0]) == dump(stores[1])
        assert counters(stores[0]) == counters_by_sum(stores[0])
    finally:
        for store in stores:
            store.close()


def test_what_waits_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "PENDING_CHANGES_MAX", 10)
    most = 0
    for number in range(1, 50):
        store.commit(write(number))
        most = max(most, journalled(store.data_dir))
    assert 4 <= most <= 10
    monkeypatch.setattr(journal, "PENDING_CHANGES_MAX", 1000)
    monkeypatch.setattr(journal, "PENDING_BYTES_MAX", 5000)
    for number in range(50, 60):
        store.commit(write(number, value=bytes(2000)))
    assert journalled(store.data_dir) <= 4


def test_a_large_commit_and_one_that_does_more_go_to_the_tables_in_order(store: Store) -> None:
    store.commit(write(1))
    store.commit(write(2, value=bytes(journal.BATCH_BYTES_MAX)))
    assert not store.has_pending
    store.commit(write(3))
    trims = write(4)
    trims.staged_drops.append(99)
    store.commit(trims)
    assert not store.has_pending
    assert [entry.dot.seq for entry in store.entries(1)] == [4]
    assert counters(store) == counters_by_sum(store)


def synchronous(store: Store) -> int:
    return int(store._connection.execute("PRAGMA synchronous").fetchone()[0])


FULL = 2


def test_every_commit_is_flushed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    flush = os.fdatasync

    def noted(file: int) -> None:
        flush(file)
        flushed.append(file)

    monkeypatch.setattr(os, "fdatasync", noted)
    for number in range(1, 4):
        store.commit(write(number))
        assert len(flushed) == number
    assert synchronous(store) == FULL
    store.settle()
    assert synchronous(store) == FULL, "for those that go to the tables"


def spoil(data: Path, number: int, what: str) -> None:
    """Flip a bit of a record: of its mark, its number, its length, its checksum or its content."""
    path = data / JOURNAL_NAME
    content = bytearray(path.read_bytes())
    with closing(sqlite3.connect(data / DATABASE_NAME)) as db:
        (state,) = db.execute("SELECT value FROM meta WHERE name = 'journal'").fetchone()
    start, end = journal_file._records(bytes(content), unpacked_state(state).generation).whole[number]
    at = {"mark": start, "number": start + 15, "length": start + 16, "checksum": start + 20, "content": end - 1}[what]
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("broken", ["mark", "number", "length", "checksum", "content"])
def test_a_record_that_cannot_be_read_is_kept_aside_with_those_after_it(
    store: Store, tmp_path: Path, broken: str
) -> None:
    for number in range(1, 6):
        store.commit(write(number))
    shutil.copytree(store.data_dir, tmp_path / "copy" / "data")
    spoil(tmp_path / "copy" / "data", 3, broken)
    assert_kept_aside(tmp_path / "copy")


@pytest.mark.parametrize("broken", [b"\xc1", b"\x91\x91\x91\x01", b""])
def test_so_is_one_that_says_nothing_that_makes_sense(store: Store, tmp_path: Path, broken: bytes) -> None:
    for number in (1, 2):
        store.commit(write(number))
    store._journal._file.write(broken)
    store._journal._file.flush()
    for number in (4, 5):
        store.commit(write(number))
    shutil.copytree(store.data_dir, tmp_path / "copy" / "data")
    assert_kept_aside(tmp_path / "copy")


def assert_kept_aside(place: Path) -> None:
    for _ in range(2):  # a second start finds the same
        copy = open_store(place)
        try:
            assert {writer: seq for writer, seq, _ in copy.heads(1)} == {WRITER: 2}
            assert [entry.dot.seq for entry in copy.entries(1)] == [2]
            assert [kept.seq for kept in copy.quarantine.changes()] == [4, 5]
            assert copy.quarantine.count == 3
            answered = copy._db.execute("SELECT number FROM outcomes").fetchall()
            assert (5,) in answered  # a repeated write is answered, and not done again
            assert copy.meta("kept") == b"5"  # a promise, perhaps, of a voter
            assert not copy.spaces()[0].own_writer  # peers may have seen its numbers
            assert counters(copy) == counters_by_sum(copy)
        finally:
            copy.close()


def test_the_rows_of_format_4_come_into_the_tables_at_the_first_start(store: Store, tmp_path: Path) -> None:
    rows = [journal.packed(write(number)) for number in range(1, 6)]
    store.close()
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("DELETE FROM meta WHERE name = 'journal'")
        db.execute("CREATE TABLE journal (id INTEGER PRIMARY KEY, batch BLOB NOT NULL)")
        db.executemany("INSERT INTO journal (batch) VALUES (?)", [(row,) for row in rows])
        for name in ("alive", "dead", "dead_by_key", "lost"):
            db.execute(f"DROP INDEX entries_{name}")
        for column in schema.DEATHS:
            db.execute(f"ALTER TABLE entries DROP COLUMN {column.split()[0]}")
        for table in ("entry_values", "backlog", "change_values"):
            db.execute(f"DROP TABLE {table}")
        db.executescript(f"{HISTORY} CREATE INDEX entries_by_space ON entries (space)")
        db.execute("PRAGMA user_version = 4")
    (store.data_dir / JOURNAL_NAME).unlink()
    upgraded = open_store(tmp_path)
    try:
        assert [entry.dot.seq for entry in upgraded.entries(1)] == [5]
        assert counters(upgraded) == counters_by_sum(upgraded)
        assert not upgraded._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'journal'").fetchall()
        upgraded.commit(write(6))
        assert upgraded.has_pending
    finally:
        upgraded.close()


def test_a_row_that_fits_nowhere_leaves_the_rest_as_it_was(store: Store) -> None:
    store.commit(write(1))
    store.commit(write(2))
    impossible = write(3)
    impossible.entries[0] = impossible.entries[0]._replace(row=2**63)
    store.commit(impossible)
    with pytest.raises(quarantine.RowsRefused, match="OverflowError"):
        store.settle()
    assert [entry.dot.seq for entry in store.entries(1)] == [2]
    assert [(kept.seq, kept.body) for kept in store.quarantine.changes()] == [(3, b"body")]
    with pytest.raises(OverflowError):
        store.commit(impossible)  # goes to the tables at once from now on
    store.commit(write(4))
    assert counters(store) == counters_by_sum(store)
    store.quarantine.release(lambda kept: kept.seq == 3)
    assert store.quarantine.count == 0


def test_too_much_in_quarantine_ends_the_process_with_all_in_the_journal(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "BYTES_MAX", 10)
    impossible = write(1)
    impossible.entries[0] = impossible.entries[0]._replace(row=2**63)
    store.commit(impossible)
    with pytest.raises(StorageError, match="report it"):
        store.settle()
    assert journalled(store.data_dir) == 1


def rows_of_others(store: Store) -> int:
    """How many changes a reader of the tables finds who is not the daemon."""
    with closing(sqlite3.connect(store.path)) as db:
        return int(db.execute("SELECT COUNT(*) FROM changes").fetchone()[0])


def settle_step_by_step(store: Store) -> None:
    """As many steps as a slice has, and more."""
    for _ in range(40):
        store.settle_some()


@pytest.mark.parametrize("seed", range(5))
def test_slices_and_their_end_leave_what_one_transaction_would(seed: int, tmp_path: Path) -> None:
    stores = [open_store(tmp_path / name) for name in ("slices", "at once")]
    try:
        rng = Random(seed)
        for store in stores:
            store.commit(first())
        for number in range(1, 200):
            made = write(number, rng)
            for store in stores:
                store.commit(made)
            stores[0].settle_some()
        assert stores[0]._connection.in_transaction
        for store in stores:
            store.settle()
        assert dump(stores[0]) == dump(stores[1])
        assert counters(stores[0]) == counters_by_sum(stores[0])
    finally:
        for store in stores:
            store.close()


def test_a_slice_waits_for_enough_and_is_seen_by_nobody_else_before_the_end(store: Store) -> None:
    store.settle()
    before = rows_of_others(store)
    for number in range(1, journal.SLICE_CHANGES):
        store.commit(write(number))
        store.settle_some()
        if store._connection.in_transaction:
            break
    assert 1 < number < journal.SLICE_CHANGES
    assert rows_of_others(store) == before
    assert store.settle()
    assert rows_of_others(store) == before + number
    assert synchronous(store) == FULL


def test_a_transaction_ends_by_itself_and_leaves_what_came_since_to_the_next(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SLICE_CHANGES", 8)
    monkeypatch.setattr(journal, "TRANSACTION_CHANGES", 30)
    left = []
    for number in range(1, 100):
        store.commit(write(number))
        if not store.settle_some():
            continue
        left.append(number - rows_of_others(store))
        shutil.copytree(store.data_dir, tmp_path / str(number) / "data")
        copy = open_store(tmp_path / str(number))
        try:
            assert rows_of_others(copy) == number, "a kill at this moment takes nothing along"
            assert counters(copy) == counters_by_sum(copy)
        finally:
            copy.close()
    assert len(left) > 3
    assert max(left) > 0
    assert store.settle()
    assert counters(store) == counters_by_sum(store)


def test_a_value_is_found_wherever_it_is_on_its_way(store: Store) -> None:
    steps = 0
    for number in range(1, 60):
        store.commit(write(number, value=bytes([number]) * 600))
        store.settle_some()
        steps += store._steps is not None
        for earlier in range(max(1, number - 40), number + 1):
            assert store.value(earlier) == bytes([earlier]) * 600
    assert steps > 10


def test_large_values_that_nobody_settles_come_to_their_tables(store: Store) -> None:
    for number in range(1, 12):
        store.commit(write(number, value=bytes(journal.PENDING_BYTES_MAX // 8)))
        settle_step_by_step(store)
    assert rows_of_others(store) > 5


def test_who_is_killed_amid_a_transaction_finds_all_in_the_journal(store: Store, tmp_path: Path) -> None:
    for number in range(1, 30):
        store.commit(write(number))
        store.settle_some()
    assert store._connection.in_transaction
    shutil.copytree(store.data_dir, tmp_path / "copy" / "data")
    copy = open_store(tmp_path / "copy")
    try:
        assert rows_of_others(copy) == 29
    finally:
        copy.close()


def test_what_goes_to_the_tables_at_once_comes_behind_the_slices(store: Store) -> None:
    for number in range(1, 20):
        store.commit(write(number))
        store.settle_some()
    assert store._connection.in_transaction
    store.commit(write(20, value=bytes(journal.BATCH_BYTES_MAX)))
    assert not store.has_pending
    assert synchronous(store) == FULL
    assert rows_of_others(store) == 20


def test_a_checkpoint_ends_the_transaction_that_is_open(store: Store) -> None:
    for number in range(1, 20):
        store.commit(write(number))
        store.settle_some()
    assert store._connection.in_transaction
    assert store.finish_checkpoint()
    assert not store.has_pending


def test_a_slice_that_fits_into_no_table_goes_to_quarantine_with_all_after_it(store: Store) -> None:
    for number in range(1, 20):
        store.commit(write(number))
        store.settle_some()
    assert store._connection.in_transaction
    store.commit(write(19))  # its number is there
    for number in range(20, 20 + journal.SLICE_CHANGES):
        store.commit(write(number))
    with pytest.raises(RowsRefused):
        settle_step_by_step(store)
    assert rows_of_others(store) == 19
    assert store.quarantine.count > 0
    assert synchronous(store) == FULL


def test_a_disk_that_fills_amid_a_transaction_takes_nothing_along(store: Store) -> None:
    for number in range(1, 40):
        store.commit(write(number, value=bytes(400)))
        store.settle_some()
    assert store._connection.in_transaction
    (pages,) = store._one("PRAGMA page_count", ())
    store.settle()
    for number in range(40, 100):
        store.commit(write(number, value=bytes(400)))
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        store.settle_some()
    assert not store.settle(), "there is no room for it"
    assert len(store._journal.untaken) == len(store._journal.pending)
    store.commit(write(100))
    store._connection.execute("PRAGMA max_page_count = 1000000")
    assert store.settle(), "there is room again"
    assert rows_of_others(store) == 100
    assert counters(store) == counters_by_sum(store)
    assert store._outcomes.rows == 4
    assert synchronous(store) == FULL


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_transaction_that_sqlite_takes_back_by_itself_loses_nothing(
    store: Store, tmp_path: Path, goes_on: bool
) -> None:
    """As it does where a mere read amid it fails."""
    for number in range(1, 100):
        store.commit(write(number))
        store.settle_some()
    assert store._journal.has_taken
    store._connection.rollback()
    last = 100
    if goes_on:
        for number in range(100, 200):
            store.commit(write(number))
            store.settle_some()
        last = 200
    store.close()
    again = open_store(tmp_path)
    try:
        assert rows_of_others(again) == last - 1
        assert again.quarantine.count == 0
        assert counters(again) == counters_by_sum(again)
    finally:
        again.close()
