"""Long values that log and state share on disk: both have them, as long as they need them, and then nobody has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from crdtsyncd.storage.database import Store
from crdtsyncd.storage.log_values import CUT_BYTES_MIN
from crdtsyncd.storage.writes import DIRECT_BYTES_MAX

from crdtsync.core.storage.rows import (
    ArchivePurge,
    ArchiveRow,
    ChangeRow,
    EntryRow,
    HistoryDrop,
    HistoryTrim,
    LogTrim,
    Redaction,
    RemovedRow,
    Rewind,
)
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.wire.codec import pack
from crdtsync.wire.limits import CHANGE_BYTES_MAX
from tests.unit.daemon.counting import counters, counters_by_sum

WRITER = 5
VALUES = [os.urandom(CUT_BYTES_MIN), b"\xa5short", os.urandom(CUT_BYTES_MIN + 1), os.urandom(CUT_BYTES_MIN - 1)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    (tmp_path / "run").mkdir()
    with closing(Store(tmp_path / "data", tmp_path / "run")) as made:
        first = WriteBatch()
        first.spaces = [(1, "default", 0)]
        made.commit(first)
        yield made


def body_of(seq: int, values: list[bytes]) -> bytes:
    return pack([b"header" + bytes([seq]), *values])


def write(store: Store, seq: int, values: list[bytes], first_row: int) -> None:
    """A change that writes some keys; it stands at the position of its number."""
    batch = WriteBatch()
    batch.changes = [ChangeRow(seq, 1, WRITER, seq, bytes(16), body_of(seq, values), 0)]
    batch.entries = [
        EntryRow(first_row + n, 1, WRITER, seq, n, f"k{n}", None, 0, 7, "ann", value, bytes(16), None)
        for n, value in enumerate(values)
    ]
    store.commit(batch)


def remove(store: Store, seq: int, rows: list[int]) -> None:
    batch = WriteBatch()
    batch.changes = [ChangeRow(seq, 1, WRITER, seq, bytes(16), body_of(seq, []), 0)]
    batch.removed_rows = [RemovedRow(row, seq, 0) for row in rows]
    store.commit(batch)


def commit(store: Store, **rows: list[object]) -> None:
    batch = WriteBatch()
    for name, some in rows.items():
        setattr(batch, name, some)
    store.commit(batch)


def trim_log(store: Store, position: int) -> None:
    commit(store, log_trims=[LogTrim(1, position, 0)])


def trim_history(store: Store, position: int, row: int) -> None:
    commit(store, history_trims=[HistoryTrim(1, (position, row), 0)])


def zeros(value: bytes) -> bytes:
    return bytes(len(value))


def stored(store: Store) -> tuple[int, int]:
    """How many long values there are, and how many of them are cut out of the log."""
    return tuple(store._one(f"SELECT COUNT(*) FROM {table}", ())[0] for table in ("entry_values", "change_values"))


def test_the_log_has_every_byte_and_stores_long_values_once(store: Store) -> None:
    write(store, 1, VALUES, 1)
    write(store, 2, VALUES[1:2], 9)
    bodies = [body_of(1, VALUES), body_of(2, VALUES[1:2])]
    assert [row.body for row in store.log(1, 0, 2**30, 9)] == bodies
    assert [row.body for row in store.changes_before(1, 9, 9)] == bodies[::-1]
    assert [store.change_body(1, WRITER, seq) for seq in (1, 2, 3)] == [*bodies, None]
    assert [store.value(row) for row in (1, 2, 3, 4)] == VALUES
    lengths = store._db.execute("SELECT LENGTH(body) FROM changes ORDER BY position").fetchall()
    assert lengths == [(len(bodies[0]) + 1 - len(VALUES[0]) - len(VALUES[2]),), (len(bodies[1]),)]
    assert stored(store) == (3, 2)
    assert counters(store) == counters_by_sum(store)
    assert counters(store)["log_bytes"] > sum(map(len, bodies))


def test_the_log_keeps_what_history_has_let_go_of(store: Store) -> None:
    write(store, 1, VALUES, 1)
    remove(store, 2, [1, 2, 3, 4])
    trim_history(store, 2, 4)
    assert [store.value(row) for row in (1, 2, 3, 4)] == [None] * 4
    assert store.change_body(1, WRITER, 1) == body_of(1, VALUES)
    assert stored(store) == (2, 2)
    assert counters(store) == counters_by_sum(store)
    trim_log(store, 1)
    assert stored(store) == (0, 0)
    assert counters(store) == counters_by_sum(store)


def test_the_state_keeps_what_the_log_has_let_go_of(store: Store) -> None:
    write(store, 1, VALUES, 1)
    trim_log(store, 1)
    assert [store.value(row) for row in (1, 2, 3, 4)] == VALUES
    assert stored(store) == (3, 0)
    assert counters(store) == counters_by_sum(store)
    remove(store, 2, [1, 2, 3, 4])
    trim_history(store, 2, 4)
    assert stored(store) == (0, 0)


def test_no_new_entry_gets_the_row_of_a_value_that_the_log_alone_has(store: Store) -> None:
    write(store, 1, VALUES, 1)
    write(store, 2, VALUES, 5)
    remove(store, 3, [5, 6, 7, 8])
    trim_history(store, 3, 8)
    assert store.row_last() == 7


def test_a_change_that_was_redacted_is_whole_and_its_value_is_gone(store: Store) -> None:
    write(store, 1, VALUES, 1)
    remove(store, 2, [1])
    body = body_of(1, [b"purged", *VALUES[1:]])
    drop = HistoryDrop(1, (1,), (), is_purge=True)
    commit(store, redactions=[Redaction(1, 1, body)], history_drops=[drop])
    assert store.change_body(1, WRITER, 1) == body
    assert [store.value(row) for row in (1, 3)] == [None, VALUES[2]]
    assert stored(store) == (2, 0)
    assert counters(store) == counters_by_sum(store)


def test_a_value_that_history_let_go_of_goes_with_the_redaction(store: Store) -> None:
    write(store, 1, VALUES, 1)
    remove(store, 2, [1])
    commit(store, history_drops=[HistoryDrop(1, (1,), (), is_purge=True)])
    assert stored(store) == (3, 2)
    commit(store, redactions=[Redaction(1, 1, body_of(1, [b"purged", *VALUES[1:]]))])
    assert stored(store) == (2, 0)


def test_changes_that_are_taken_back_leave_nothing(store: Store) -> None:
    write(store, 1, VALUES, 1)
    remove(store, 2, [1])
    trim_history(store, 2, 1)
    commit(store, rewinds=[Rewind(1, ((WRITER, 1),), (1, 2))])
    assert stored(store) == (0, 0)
    assert counters(store) == counters_by_sum(store)


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_an_archive_that_is_purged_leaves_nothing(store: Store, is_trimmed: bool) -> None:
    write(store, 1, VALUES, 1)
    remove(store, 2, [1])
    if is_trimmed:
        trim_history(store, 2, 1)
    commit(store, archives=[ArchiveRow(1, "default", 0, 0, 0, 0, 0)])
    for _ in range(20):
        commit(store, archive_purges=[ArchivePurge(1, 2, is_whole=True)])
    assert stored(store) == (0, 0)
    assert store.archives() == []


def test_a_commit_that_goes_in_by_slices_is_whole(store: Store) -> None:
    values = [os.urandom(DIRECT_BYTES_MAX // 3) for _ in range(4)]
    write(store, 1, values, 1)
    write(store, 2, VALUES, 5)
    for _ in range(2):
        bodies = [store.change_body(1, WRITER, seq) for seq in (1, 2)]
        assert bodies == [body_of(1, values), body_of(2, VALUES)]
        assert [store.value(row) for row in range(1, 9)] == [*values, *VALUES]
        store._whole_db  # noqa: B018  # bring them in
    assert stored(store) == (7, 0)
    assert counters(store) == counters_by_sum(store)


@pytest.mark.parametrize(
    "spoil",
    [
        "DELETE FROM entry_values WHERE row = 1",
        "UPDATE entry_values SET value = x'00' WHERE row = 1",
        "UPDATE entry_values SET value = zeroblob(200000) WHERE row = 1",
        "UPDATE entry_values SET value = 7 WHERE row = 1",
        "UPDATE entry_values SET value = CAST(x'ff00' AS TEXT) WHERE row = 1",
    ],
)
def test_a_value_that_the_disk_has_lost_leaves_all_else_of_its_change_in_place(store: Store, spoil: str) -> None:
    write(store, 1, VALUES, 1)
    store._db.execute(spoil)
    body = body_of(1, [zeros(VALUES[0]), *VALUES[1:]])
    assert store.change_body(1, WRITER, 1) == body
    assert [row.body for row in store.log(1, 0, 2**30, 9)] == [body]
    assert [row.body for row in store.changes_before(1, 9, 9)] == [body]


def test_a_flipped_bit_of_a_length_ends_in_no_giant_value(store: Store) -> None:
    write(store, 1, VALUES, 1)
    for size_bytes in (2**60, -1):
        store._db.execute("UPDATE change_values SET size_bytes = ? WHERE row = 1", (size_bytes,))
        assert len(store.change_body(1, WRITER, 1) or b"") < 2 * CHANGE_BYTES_MAX


def test_a_page_that_cannot_be_read_is_about_its_value_alone(store: Store) -> None:
    write(store, 1, VALUES, 1)
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
        assert again.change_body(1, WRITER, 1) == body_of(1, [zeros(VALUES[0]), VALUES[1], zeros(VALUES[2]), VALUES[3]])
        assert [row.seq for row in again.log(1, 0, 2**30, 9)] == [1]
        write(again, 2, VALUES[1:2], 9)
        assert again.change_body(1, WRITER, 2) == body_of(2, VALUES[1:2])
