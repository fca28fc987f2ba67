"""The database: what a commit leaves behind, what a failed one does, and which files are not touched."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from crdtsyncd.header import read_header
from crdtsyncd.schema import APPLICATION_ID, FORMAT
from crdtsyncd.store import Store

from crdtsync.causality import Dot, Writer
from crdtsync.core.storage import Batch, ChangeRow, EntryRow, OutcomeRow, PeerRow
from crdtsync.errors import NoSpace, StorageError


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path)
    yield opened
    opened.close()


def open_store(place: Path) -> Store:
    (place / "run").mkdir(exist_ok=True)
    return Store(place / "data", place / "run")


def batch(seq: int, position: int, key: str = "k", value: bytes = b"\x01", own: bool = True) -> Batch:
    made = Batch()
    if seq == 1:
        made.spaces.append((1, "default", 0))
        made.writers.append((1, 5))
    made.changes.append(ChangeRow(position, 1, 5, seq, bytes([seq]) * 16, b"body"))
    made.entries.append(EntryRow(position, 1, 5, seq, 0, key, None, 0, 2**64 - 1, "agent", value, bytes(16), None))
    made.clocks.append((2**64 - 1, 1))
    made.own_changes = int(own)
    return made


def test_what_was_committed_is_there_after_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.commit(batch(1, 1))
    identity = store.database, store.node
    store.close()
    store = open_store(tmp_path)
    try:
        assert (store.database, store.node) == identity
        (entry,) = store.entries(1)
        assert (entry.key, entry.value, entry.hlc, entry.dot) == ("k", b"\x01", 2**64 - 1, Dot(Writer(5), 1, 0))
        assert store.spaces()[0].own_writer == 5
        assert store.spaces()[0].hlc == 2**64 - 1
    finally:
        store.close()


def test_a_commit_is_all_or_nothing(store: Store) -> None:
    store.commit(batch(1, 1))
    clash = batch(2, 2)
    clash.entries.append(clash.entries[0])  # a row number twice
    with pytest.raises(StorageError, match="check the disk"):
        store.commit(clash)
    assert {writer: seq for writer, seq, _ in store.heads(1)} == {5: 1}
    assert len(list(store.entries(1))) == 1
    store.commit(batch(2, 2))


def test_a_row_that_no_table_can_hold_leaves_the_database_usable(store: Store) -> None:
    store.commit(batch(1, 1))
    broken = batch(2, 2)
    broken.changes[0] = broken.changes[0]._replace(seq=2**70)
    with pytest.raises(OverflowError):
        store.commit(broken)
    store.commit(batch(2, 2))
    assert [seq for _, seq, _ in store.heads(1)] == [2]


def test_a_full_database_refuses_and_takes_again_what_fits(store: Store) -> None:
    store.commit(batch(1, 1))
    store._db.execute("PRAGMA max_page_count = 40")
    with pytest.raises(NoSpace, match="free some space"):
        store.commit(batch(2, 2, value=bytes(1_000_000)))
    assert len(list(store.entries(1))) == 1
    store._db.execute("PRAGMA max_page_count = 1000000")
    store.commit(batch(2, 2, value=bytes(1_000_000)))


def test_a_database_that_went_back_takes_a_new_writer(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.commit(batch(1, 1))
    store.close()
    shutil.copytree(tmp_path / "data", tmp_path / "older")
    store = open_store(tmp_path)
    store.commit(batch(2, 2))
    store.close()
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "older").rename(tmp_path / "data")
    store = open_store(tmp_path)
    try:
        assert store.spaces()[0].own_writer is None
    finally:
        store.close()


def test_one_data_directory_has_one_daemon(tmp_path: Path, store: Store) -> None:
    with pytest.raises(StorageError, match="another crdtsyncd"):
        open_store(tmp_path)


def test_a_copy_cannot_run_beside_the_first(tmp_path: Path, store: Store) -> None:
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    with pytest.raises(StorageError, match="copy"):
        Store(tmp_path / "copy", tmp_path / "run")


def test_after_a_refusal_the_directory_is_free_again(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "crdtsync.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(StorageError, match="not a database"):
        open_store(tmp_path)
    (tmp_path / "data" / "crdtsync.db").unlink()
    open_store(tmp_path).close()


def test_outcomes_are_kept_by_slot_and_forgotten_with_age(store: Store) -> None:
    made = batch(1, 1)
    made.outcomes = [OutcomeRow(b"c", 1, 1, 1000, b"one"), OutcomeRow(b"c", 2, 2, 10**12, b"two")]
    store.commit(made)
    later = Batch()
    later.outcomes = [OutcomeRow(b"c", 2, 1026, 10**12, b"new")]
    store.commit(later)
    assert (store.outcome(b"c", 1), store.outcome(b"c", 2), store.outcome(b"c", 1026)) == (b"one", None, b"new")
    store.forget_outcomes(10**12)
    assert (store.outcome(b"c", 1), store.outcome(b"c", 1026)) == (None, b"new")


def test_an_empty_batch_costs_no_commit(store: Store) -> None:
    store.commit(Batch())
    assert store.commits == 0


def test_peers_are_remembered_once(store: Store) -> None:
    for seen_ms in (1, 2):
        met = Batch()
        met.peers.append(PeerRow("id", "name", seen_ms))
        store.commit(met)
    assert store.peers() == [PeerRow("id", "name", 2)]


def test_a_checkpoint_from_elsewhere_loses_nothing(store: Store) -> None:
    store.commit(batch(1, 1))
    store.checkpoint()
    store.commit(batch(2, 2))
    store.checkpoint(block=True)
    assert store.wal_bytes() == 0
    assert len(list(store.entries(1))) == 2


# -- the header --------------------------------------------------------------------------------------------------------


def test_the_header_of_a_database_of_ours(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    assert read_header(tmp_path / "data" / "crdtsync.db") == (FORMAT, APPLICATION_ID)


@pytest.mark.parametrize("data,found", [(None, None), (b"", None)])
def test_where_there_is_nothing_yet(tmp_path: Path, data: bytes | None, found: None) -> None:
    if data is not None:
        (tmp_path / "db").write_bytes(data)
    assert read_header(tmp_path / "db") is found


@pytest.mark.parametrize("data", [b"x", b"SQLite format 3\0", b"x" * 4096])
def test_what_is_no_database(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "db").write_bytes(data)
    with pytest.raises(ValueError, match="not a database"):
        read_header(tmp_path / "db")


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_the_write_ahead_log_is_newer_than_the_file(tmp_path: Path, page_size: int) -> None:
    path = tmp_path / "db"
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute(f"PRAGMA page_size = {page_size}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("CREATE TABLE t (x)")
        for version in (3, 4):
            db.execute(f"PRAGMA user_version = {version}")
            header = read_header(path)
            assert header is not None
            assert header.format == version
        db.execute("BEGIN")
        db.execute("PRAGMA user_version = 5")
        db.execute("INSERT INTO t VALUES (1)")
        assert read_header(path).format == 4  # type: ignore[union-attr]  # not committed
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(RESTART)")
        db.execute("INSERT INTO t VALUES (2)")  # the log begins anew over what it held
        assert read_header(path).format == 5  # type: ignore[union-attr]
    finally:
        db.close()


def test_a_torn_write_ahead_log_is_no_obstacle(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    path = tmp_path / "data" / "crdtsync.db"
    for data in (b"", b"x" * 10, b"x" * 32, b"\x37\x7f\x06\x82" + bytes(40)):
        path.with_name("crdtsync.db-wal").write_bytes(data)
        assert read_header(path) == (FORMAT, APPLICATION_ID)
