"""The database: what a commit leaves behind, what a failed one does, and which files are not touched."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from time import monotonic

import pytest
from crdtsyncd.storage import retry_replies, writes
from crdtsyncd.storage.database import Store
from crdtsyncd.storage.file_header import read_header
from crdtsyncd.storage.open_database import WAL_CHECKPOINT_BYTES, remedy
from crdtsyncd.storage.retry_replies import OUTCOME_AGE_MS_MAX
from crdtsyncd.storage.schema import APPLICATION_ID, FORMAT

from crdtsync.causality import Dot, Writer
from crdtsync.core.storage.rows import (
    ChangeRow,
    DocumentDrop,
    DocumentSpan,
    DocumentStateRow,
    DocumentTrim,
    DocumentUpdateRow,
    EntryRow,
    HistoryTrim,
    LogTrim,
    OutcomeRow,
    PeerRow,
    RemovalRow,
    RemovedRow,
    SnapshotPartRow,
)
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.errors import NoSpace, StorageError
from tests.unit.daemon.counting import counters, counters_by_sum


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path)
    yield opened
    opened.close()


def open_store(place: Path) -> Store:
    (place / "run").mkdir(exist_ok=True)
    return Store(place / "data", place / "run")


def test_what_only_trims_waits_for_no_flush_and_all_else_does(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_flushed(batch: WriteBatch) -> bool:
        said: list[str] = []
        store._connection.set_trace_callback(said.append)
        try:
            store.commit(batch, is_direct=True)
        finally:
            store._connection.set_trace_callback(None)
            assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,), "for the next one"
        assert "COMMIT" in said
        return "PRAGMA synchronous = NORMAL" not in said

    trim, both = WriteBatch(), WriteBatch()
    for batch in (trim, both):
        batch.log_trims.append(LogTrim(1, 0, 0))
    both.spaces.append((1, "default", 0))
    assert is_flushed(both)
    assert not is_flushed(trim)
    monkeypatch.setattr(store, "_write_in", lambda _batch: store._connection.execute("SELECT nothing"))
    with pytest.raises((StorageError, sqlite3.OperationalError)):
        is_flushed(trim)


def test_others_can_read_none_of_its_files_where_they_can_look_into_its_directory(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        (tmp_path / "data").mkdir(mode=0o755)
        first = open_store(tmp_path)
        first.commit(batch(1, 1))
        assert_private(tmp_path / "data")
        left = {path.name: path.read_bytes() for path in (tmp_path / "data").glob("crdtsync.db*")}
        first.close()
        for name, content in left.items():  # as an older version left them, and a crash
            (tmp_path / "data" / name).write_bytes(content)
            (tmp_path / "data" / name).chmod(0o644)
        again = open_store(tmp_path)
        assert_private(tmp_path / "data")
        again.close()
    finally:
        os.umask(before)


def test_what_may_not_be_written_is_a_matter_of_permissions_and_not_of_backups(store: Store) -> None:
    reading = sqlite3.connect(f"{store.path.as_uri()}?mode=ro", uri=True)
    with closing(reading) as db, pytest.raises(sqlite3.OperationalError) as refused:
        db.execute("CREATE TABLE t (x)")
    assert "cannot write to the directory" in remedy(refused.value, store.data_dir)
    assert "backup" not in remedy(refused.value, store.data_dir)


def assert_private(place: Path) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in place.iterdir()}
    assert modes.keys() >= {"crdtsync.db", "crdtsync.db-wal", "crdtsync.db-shm", "crdtsync.db-commits"}
    assert set(modes.values()) == {0o600}, modes


def batch(seq: int, position: int, key: str = "k", value: bytes = b"\x01", own: bool = True) -> WriteBatch:
    made = WriteBatch()
    if seq == 1:
        made.spaces.append((1, "default", 0))
        made.writers.append((1, 5))
    made.changes.append(ChangeRow(position, 1, 5, seq, bytes([seq]) * 16, b"body", 0))
    made.entries.append(EntryRow(position, 1, 5, seq, 0, key, None, 0, 2**64 - 1, "agent", value, bytes(16), None))
    made.clocks.append((2**64 - 1, 1))
    made.own_changes = int(own)
    return made


def test_the_log_has_its_size_from_the_start_and_commits_do_not_make_it_longer(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", tmp_path)
    try:
        before_bytes = store.wal_bytes()
        assert before_bytes == WAL_CHECKPOINT_BYTES
        batch = WriteBatch()
        batch.metas.append(("told", b"x"))
        store.commit(batch)
        assert store.wal_bytes() == before_bytes
        data = (tmp_path / "data" / "crdtsync.db-wal").read_bytes()
    finally:
        store.close()
    assert any(data[:32])  # what was committed stands at its head
    store = Store(tmp_path / "data", tmp_path)
    try:
        assert store.meta("told") == b"x"
    finally:
        store.close()


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
    clash.staged_drops.append(99)  # so that it goes to the tables at once
    with pytest.raises(sqlite3.IntegrityError):
        store.commit(clash)
    assert {writer: seq for writer, seq, _ in store.heads(1)} == {5: 1}
    assert len(list(store.entries(1))) == 1
    store.commit(batch(2, 2))
    assert {writer: seq for writer, seq, _ in store.heads(1)} == {5: 2}


def test_after_the_disk_has_failed_nothing_is_committed_any_more(store: Store) -> None:
    store.commit(batch(1, 1))
    store._connection.set_progress_handler(lambda: 1, 1)  # SQLite ends every statement with an error
    with pytest.raises(StorageError, match="failed"):
        store.commit(batch(2, 2), is_direct=True)
    store._connection.set_progress_handler(None, 1)
    with pytest.raises(StorageError, match="has failed"):
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


def go_back(tmp_path: Path) -> Store:
    """Open the database as it was when it was copied to ``older``."""
    shutil.rmtree(tmp_path / "data")
    shutil.copytree(tmp_path / "older", tmp_path / "data")
    return open_store(tmp_path)


def test_a_database_that_went_back_takes_a_new_writer(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.commit(batch(1, 1))
    store.close()
    shutil.copytree(tmp_path / "data", tmp_path / "older")
    store = open_store(tmp_path)
    store.commit(batch(2, 2))
    store.close()
    before = store.incarnation
    store = go_back(tmp_path)
    assert store.spaces()[0].own_writer is None
    assert store.incarnation != before
    store.close()


@pytest.mark.parametrize("went_back", [False, True])
def test_after_the_first_release_agents_find_the_same_database(tmp_path: Path, went_back: bool) -> None:
    """Its mark knew of no eras: a new writer begins, but what agents wait for is asked for, and done once."""
    store = open_store(tmp_path)
    store.commit(batch(1, 1))
    before, count = store.incarnation, store._own_changes + went_back
    store.close()
    (mark,) = (tmp_path / "run").iterdir()
    mark.write_bytes(b"crdtmrk1" + mark.read_bytes()[8:88] + count.to_bytes(8, "little"))
    store = open_store(tmp_path)
    assert store.spaces()[0].own_writer is None
    assert (store.incarnation != before) is went_back
    store.commit(begun_by(6, 2))
    known_by = store.incarnation
    store.close()
    store = open_store(tmp_path)
    assert (store.spaces()[0].own_writer, store.incarnation) == (6, known_by)
    store.close()


def begun_by(writer: int, position: int) -> WriteBatch:
    """Its first change, where there were others."""
    made = batch(1, position, key="other")
    made.spaces.clear()
    made.writers[:] = [(1, writer)]
    made.changes[:] = [row._replace(writer=writer) for row in made.changes]
    made.entries[:] = [row._replace(writer=writer) for row in made.entries]
    return made


@pytest.mark.parametrize("is_retired", [False, True])
def test_also_one_that_has_counted_from_the_beginning_since(tmp_path: Path, is_retired: bool) -> None:
    """It has fewer changes of its own then than the copy, and goes back to that all the same."""
    store = open_store(tmp_path)
    for seq in (1, 2, 3):
        store.commit(batch(seq, seq))
    store.close()
    shutil.copytree(tmp_path / "data", tmp_path / "older")
    store = open_store(tmp_path)
    store.commit(batch(4, 4))
    if is_retired:
        retiring = WriteBatch()
        retiring.retired_writers.append((1, 5))
        store.commit(retiring)
    else:
        store.close()
        store = go_back(tmp_path)
    store.commit(begun_by(6, 5))
    store.close()
    store = open_store(tmp_path)
    assert store.spaces()[0].own_writer == 6, "that it goes on with, for the disk did not go back"
    store.close()
    store = go_back(tmp_path)
    assert store.spaces()[0].own_writer is None
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


def answered(*rows: OutcomeRow) -> WriteBatch:
    made = WriteBatch()
    made.outcomes += rows
    return made


def test_outcomes_are_kept_by_slot_and_forgotten_with_age(store: Store) -> None:
    now_ms = 10**12
    store.commit(answered(OutcomeRow(b"c", 1, 1, now_ms - OUTCOME_AGE_MS_MAX, b"one")))
    store.commit(answered(OutcomeRow(b"c", 2, 2, now_ms, b"two")))
    store.commit(answered(OutcomeRow(b"c", 2, 1026, now_ms, b"new")))
    assert (store.outcome(b"c", 1), store.outcome(b"c", 2), store.outcome(b"c", 1026)) == (b"one", None, b"new")
    store.commit(answered(OutcomeRow(b"d", 1, 1, now_ms + 1, b"last")))  # takes what is too old with it
    assert (store.outcome(b"c", 1), store.outcome(b"c", 1026)) == (None, b"new")


@pytest.mark.parametrize(
    "name, most", [("OUTCOMES_MAX", 100), ("OUTCOMES_BYTES_MAX", 100 * (retry_replies.ROW_BYTES + 3))]
)
def test_outcomes_have_a_cap_and_the_oldest_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(retry_replies, name, most)
    store = open_store(tmp_path)
    for number in range(500):
        client = b"a" if number % 2 else number.to_bytes(2, "big")  # one client again and again, and many others
        store.commit(answered(OutcomeRow(client, number % 2 and 7, number, 0, b"abc")))
    store.settle()
    counted = store._outcomes.rows, store._outcomes.size_bytes
    store._outcomes.count()
    assert counted == (store._outcomes.rows, store._outcomes.size_bytes)
    assert store._outcomes.rows == 100
    assert store._one("SELECT number FROM outcomes WHERE client = ?", (b"a",)) == (499,)
    store.close()


def test_an_empty_batch_costs_no_commit(store: Store) -> None:
    store.commit(WriteBatch())
    assert store.commits == 0


def test_peers_are_remembered_once(store: Store) -> None:
    for seen_ms in (1, 2):
        met = WriteBatch()
        met.peers.append(PeerRow("id", "name", seen_ms))
        store.commit(met)
    assert store.peers() == [PeerRow("id", "name", 2)]


# -- the write-ahead log ---------------------------------------------------------------------------------------------


def test_a_checkpoint_from_elsewhere_loses_nothing(store: Store) -> None:
    store.commit(batch(1, 1))
    store.checkpoint()
    store.commit(batch(2, 2))
    store.truncate()
    assert store.wal_bytes() == 0
    assert len(list(store.entries(1))) == 2


def test_after_a_finished_checkpoint_the_log_begins_anew(store: Store) -> None:
    for n in range(1, 40):
        store.commit(batch(n, n, f"k{n}", bytes(500_000)))
        if store.wal_bytes() > WAL_CHECKPOINT_BYTES:
            store.checkpoint()
            assert store.finish_checkpoint()
    assert store.wal_bytes() < WAL_CHECKPOINT_BYTES + 2_000_000
    assert len(list(store.entries(1))) == 39


def test_a_reader_keeps_the_log_and_nobody_waits_for_it(store: Store) -> None:
    store.commit(batch(1, 1))
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM entries").fetchall()
        store.commit(batch(2, 2), is_direct=True)
        store.checkpoint()
        assert not store.finish_checkpoint()
        started_s = monotonic()
        store.truncate()
        assert monotonic() - started_s < 1, "waited for the reader"
        assert store.wal_bytes() > 0
        other.execute("COMMIT")
    assert store.finish_checkpoint()


_BREAK = """
import sys
from pathlib import Path
from crdtsyncd.storage.open_database import WAL_CHECKPOINT_BYTES
from crdtsyncd.storage.database import Store
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.errors import StorageError
store = Store(Path(sys.argv[1]) / "data", Path(sys.argv[1]) / "run")
batch = WriteBatch()
batch.spaces.append((1, "default", 0))
store.commit(batch)
if sys.argv[2] == "fail":
    store._connection.set_progress_handler(lambda: 1, 1)
    try:
        store.commit(batch)
    except StorageError:
        pass
store.close()
"""


@pytest.mark.parametrize("what", ["stop", "fail"])
def test_after_a_failure_the_log_is_left_as_it_is(tmp_path: Path, what: str) -> None:
    """Closing the last connection makes SQLite fold the log in and delete it, unless it is kept from that."""
    (tmp_path / "run").mkdir()
    subprocess.run([sys.executable, "-c", _BREAK, str(tmp_path), what], check=True)
    wal = tmp_path / "data" / "crdtsync.db-wal"
    assert (wal.exists() and wal.stat().st_size > 0) == (what == "fail")
    store = open_store(tmp_path)
    try:
        assert [row.name for row in store.spaces()] == ["default"]
    finally:
        store.close()


class FailingDisk:
    """A connection to a database on a disk that fails."""

    def __init__(self, name: str, kind: type[sqlite3.Error] = sqlite3.OperationalError) -> None:
        self.name, self.kind = name, kind

    def execute(self, _statement: str) -> None:
        error = self.kind("disk I/O error")
        error.sqlite_errorname = self.name
        raise error

    def close(self) -> None:
        pass


def test_a_checkpoint_that_fails_is_not_tried_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.commit(batch(1, 1))
    healthy = store._checkpointer
    monkeypatch.setattr(store, "_checkpointer", FailingDisk("SQLITE_FULL"))
    store.checkpoint()  # no room now: the next one will do
    monkeypatch.setattr(store, "_checkpointer", FailingDisk("SQLITE_IOERR_FSYNC"))
    with pytest.raises(StorageError, match="check the disk"):
        store.checkpoint()
    assert store._is_broken
    monkeypatch.setattr(store, "_checkpointer", healthy)
    store._is_broken = False  # for the fixture, which closes it


def test_a_checkpoint_that_finds_the_database_malformed_is_a_failure_of_the_disk(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What SQLite says when a page cannot be read, and Python raises as an error of another kind."""
    healthy = store._checkpointer
    monkeypatch.setattr(store, "_checkpointer", FailingDisk("SQLITE_CORRUPT", sqlite3.DatabaseError))
    with pytest.raises(StorageError, match="check the disk"):
        store.checkpoint()
    monkeypatch.setattr(store, "_checkpointer", healthy)
    store._is_broken = False  # for the fixture, which closes it


def test_a_database_whose_directory_is_gone_is_a_failure_of_the_disk(store: Store) -> None:
    store.path.rename(store.path.with_name("elsewhere"))
    with pytest.raises(StorageError, match="check the disk"):
        store.size_bytes()


def test_space_that_is_not_needed_goes_back_to_the_file_system(store: Store) -> None:
    for n in range(1, 30):
        store.commit(batch(n, n, f"k{n}", bytes(1_000_000)))
    store.truncate()
    assert not store.release_space()
    full_bytes = store.path.stat().st_size
    rows = WriteBatch()
    rows.removed_rows = [RemovedRow(n, 30, 0) for n in range(2, 30)]
    store.commit(rows)
    drop = WriteBatch()
    drop.history_trims = [HistoryTrim(1, (2**60, 0), 0)]
    store.commit(drop)
    while store.release_space():
        pass
    store.truncate()
    assert store.path.stat().st_size < full_bytes / 4
    assert [entry.key for entry in store.entries(1)] == ["k1"]


# -- counters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_counters_are_exact_whatever_comes_and_goes(store: Store, seed: int) -> None:
    random = Random(seed)
    made = WriteBatch()
    made.spaces = [(1, "default", 0), (2, "other", 0)]
    store.commit(made)
    position = 0
    for _ in range(80):
        made = WriteBatch()
        for _ in range(random.randint(1, 5)):
            position += 1
            space, body = random.randint(1, 2), random.randbytes(random.randint(1, 50))
            name = (space, 5, 1, random.randint(0, 2))
            made.changes.append(ChangeRow(position, space, 5, position, bytes(16), body, 0))
            made.entries.append(
                EntryRow(position, space, 5, position, 0, "schlüssel", "ü", 0, 0, "a", body, bytes(16), body)
            )
            if random.random() < 0.6:
                row = random.randint(1, position)
                made.removed_rows.append(RemovedRow(row, position, 0))
                made.removals.append(RemovalRow(space, "schlüssel", 5, position, 0, body, position, 0))
            if random.random() < 0.6:
                made.document_updates.append(DocumentUpdateRow(*name, position, 5, position, 0, "a", body))
            if random.random() < 0.2:
                made.document_states += [DocumentStateRow(*name, position, body)] * random.randint(1, 2)
            if random.random() < 0.2:
                at = random.randint(0, position)
                made.document_trims.append(DocumentTrim(*name, at, at))
            if random.random() < 0.05:
                made.document_drops.append(DocumentDrop(*name))
            if random.random() < 0.2:
                made.log_trims.append(LogTrim(space, random.randint(0, position), 0))
            if random.random() < 0.2:
                made.history_trims.append(HistoryTrim(space, (random.randint(0, 50), 2**60), random.randint(0, 50)))
        made.removed_rows = [*{row.row: row for row in made.removed_rows}.values()]
        store.commit(made)
        for space in (1, 2):
            assert counters(store, space) == counters_by_sum(store, space)


# -- documents and snapshots -----------------------------------------------------------------------------------------


def test_a_document_is_read_as_of_a_position(store: Store) -> None:
    made = batch(1, 1)
    name = (1, 5, 1, 0)
    made.document_updates = [DocumentUpdateRow(*name, at, 5, at, 0, "a", b"u%d" % at) for at in (1, 3, 5, 7)]
    made.document_states = [DocumentStateRow(*name, at, b"s%d" % at) for at in (3, 6)]
    store.commit(made)
    dot = Dot(Writer(5), 1, 0)
    assert store.document_as_of(1, dot, 0) == (None, [])
    assert store.document_as_of(1, dot, 2) == (None, [b"u1"])
    assert store.document_as_of(1, dot, 3) == (b"s3", [])
    assert store.document_as_of(1, dot, 5) == (b"s3", [b"u5"])
    assert store.document(1, dot) == (b"s6", [b"u7"])
    assert store.documents(1) == [dot]
    assert store.documents(2) == []
    assert store.document_spans(1, None, 9) == [DocumentSpan(dot, 1, [3, 6], 7)]
    assert store.document_spans(1, dot, 9) == []
    gone = WriteBatch()
    gone.document_drops = [DocumentDrop(*name)]
    store.commit(gone)
    assert store.document(1, dot) == (None, [])
    assert store.documents(1) == []


def test_parts_of_a_snapshot_are_staged_and_dropped(store: Store) -> None:
    made = batch(1, 1)
    made.snapshot_parts = [SnapshotPartRow(1, part, b"one", b"%d" % part) for part in (1, 0)]
    store.commit(made)
    assert [part.data for part in store.snapshot_parts(1)] == [b"0", b"1"]
    other = WriteBatch()
    other.snapshot_drops = [1]
    other.snapshot_parts = [SnapshotPartRow(1, 0, b"two", b"x")]
    store.commit(other)
    assert [*store.snapshot_parts(1)] == [SnapshotPartRow(1, 0, b"two", b"x")]


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


@pytest.mark.parametrize("cut", ["page", "earlier page", "checksum"])
def test_a_commit_of_which_a_kill_left_only_a_part_in_the_log_counts_for_nothing(tmp_path: Path, cut: str) -> None:
    """Where an older log stood in that place, a frame looks whole but for its checksum."""
    path, wal = tmp_path / "db", tmp_path / "db-wal"
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("CREATE TABLE t (x)")
        db.execute("PRAGMA user_version = 3")
        before = wal.stat().st_size
        db.execute("BEGIN")
        db.execute("INSERT INTO t VALUES (1)")
        db.execute("PRAGMA user_version = 4")
        db.execute("COMMIT")
        whole = wal.read_bytes()
    finally:
        db.close()
    frame = 24 + 4096
    last = len(whole) - frame
    assert last > before, "there is an earlier page in the same commit"
    torn = bytearray(whole)
    at = {"page": last + 24, "earlier page": last - 4096, "checksum": last + 16}[cut]
    torn[at : at + 8] = b"\x55" * 8

    for content, version in ((whole, 4), (bytes(torn), 3)):
        wal.write_bytes(content)
        header = read_header(path)
        assert header is not None
        assert header.format == version


@pytest.mark.parametrize("damage", [
    "UPDATE meta SET value = x'd4d4' WHERE name = 'node'", "UPDATE meta SET value = 5 WHERE name = 'database'",
    "UPDATE meta SET value = 5 WHERE name = 'journal'", "UPDATE meta SET value = x'0102' WHERE name = 'journal'",
    "UPDATE meta SET value = zeroblob(33) WHERE name = 'journal'",
])  # fmt: skip
def test_a_damaged_database_is_refused_in_words_or_opened(tmp_path: Path, damage: str) -> None:
    """As bits that flipped on disk make it: SQLite reads what is there, of whatever type."""
    (tmp_path / "run").mkdir()
    open_store(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "data" / "crdtsync.db")) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        with suppress(sqlite3.IntegrityError):  # what the table itself refuses cannot come about by flipped bits either
            db.execute(damage)
        db.commit()
    with suppress(StorageError):
        open_store(tmp_path).close()


def test_a_space_that_has_lost_its_name_is_damage_and_no_bug(tmp_path: Path) -> None:
    """A flipped bit can make a null of it, whatever the table says."""
    (tmp_path / "run").mkdir()
    with closing(open_store(tmp_path)) as store:
        store.commit(batch(1, 1))
        store.settle()
        db = store._db
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') WHERE name = 'spaces'")
        db.execute("INSERT OR IGNORE INTO spaces (id, name, epoch, hlc) VALUES (9, 'nine', 0, x'00')")
        db.commit()
    with closing(sqlite3.connect(tmp_path / "data" / "crdtsync.db")) as db:
        db.execute("UPDATE spaces SET name = NULL")
        db.commit()
    with closing(open_store(tmp_path)) as store, pytest.raises(sqlite3.DatabaseError, match="is damaged"):
        store.spaces()


@pytest.mark.parametrize("column", ["hlc", "attrs"])
def test_an_entry_that_is_damaged_is_no_bug(tmp_path: Path, column: str) -> None:
    (tmp_path / "run").mkdir()
    with closing(open_store(tmp_path)) as store:
        store.commit(batch(1, 1))
        store.settle()
    with closing(sqlite3.connect(tmp_path / "data" / "crdtsync.db")) as db:
        db.execute(f"UPDATE entries SET {column} = 'flipped'")
        db.commit()
    with closing(open_store(tmp_path)) as store, pytest.raises(sqlite3.DatabaseError, match="is damaged"):
        store.entries(1)


@pytest.mark.parametrize("table,oldest", [
    ("changes", Store.oldest_changes), ("entries", Store.oldest_dead), ("removals", Store.oldest_removals),
    ("changes", lambda store, space, _: store.oldest_change(space)),
])  # fmt: skip
def test_old_rows_that_are_damaged_are_no_bug(tmp_path: Path, table: str, oldest: Callable[..., object]) -> None:
    (tmp_path / "run").mkdir()
    with closing(open_store(tmp_path)) as store:
        store.commit(batch(1, 1))
        removal = batch(2, 2)
        removal.removed_rows.append(RemovedRow(1, 2, 0))
        removal.removals.append(RemovalRow(1, "k", 5, 2, 0, b"removes", 2, 0))
        store.commit(removal)
        store.settle()
    with closing(sqlite3.connect(tmp_path / "data" / "crdtsync.db")) as db:
        assert db.execute(f"UPDATE {table} SET time_ms = 'flipped'").rowcount
        db.commit()
    with closing(open_store(tmp_path)) as store, pytest.raises(sqlite3.DatabaseError, match="is damaged"):
        oldest(store, 1, 9)


def test_rows_that_went_together_are_marked_as_they_are_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operation by operation, and no others."""
    found = []
    for together, name in ((writes.MARKED_TOGETHER_MIN, "many"), (10**6, "few")):
        monkeypatch.setattr(writes, "MARKED_TOGETHER_MIN", together)
        (tmp_path / name).mkdir()
        store = open_store(tmp_path / name)
        made = batch(1, 1)
        first = made.entries[0]
        made.entries = [first._replace(row=row, seq=row, value=b"v" * (row % 7)) for row in range(1, 2001)]
        store.commit(made)
        merge = WriteBatch()
        merge.removed_rows = [RemovedRow(row, 3, 30, n, 1) for n, row in enumerate((5, 3, 4))]
        merge.removed_rows += [RemovedRow(row, 4, 40) for row in range(10, 1900, 3)]
        merge.removed_rows += [RemovedRow(row, 5, 50, 0, 2) for row in (12, 11)]
        store.commit(merge)
        found.append(
            [
                len(store._whole_db.execute("SELECT * FROM entries WHERE position IS NULL").fetchall()),
                store._db.execute("SELECT row, value, seen, position, time_ms, by_n, fate FROM entries").fetchall(),
                counters(store) == counters_by_sum(store),
            ]
        )
        store.close()
    assert found[0] == found[1]
    assert found[0][0] == 2000 - 3 - 630 - 2
