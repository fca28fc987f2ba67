"""The journal's file: what goes with a database is found, and what does not is refused and left as it is."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from crdtsyncd.config.exit_status import UnfitData
from crdtsyncd.storage.database import DATABASE_NAME, JOURNAL_NAME, Store
from crdtsyncd.storage.journal import file as journal_file
from crdtsyncd.storage.journal.file import RECORDS_AT
from crdtsyncd.storage.journal.journal import journal_misfit, packed

from crdtsync.errors import NoSpace, StorageError
from tests.harness.powercut import SECTOR_BYTES
from tests.unit.daemon.counting import counters, counters_by_sum
from tests.unit.daemon.storage.journal.test_journal import WRITER, first, open_store, write

FILE_BYTES = 64 * 1024


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_file, "FILE_BYTES", FILE_BYTES)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path)
    opened.commit(first())
    yield opened
    opened.close()


def newest(store: Store) -> int:
    """The number of the last write that is there."""
    held = [entry.dot.seq for entry in store.entries(1)]
    assert held == [seq for writer, seq, _ in store.heads(1) if writer == WRITER], "of one moment"
    assert counters(store) == counters_by_sum(store)
    return max(held, default=0)


def test_it_never_changes_its_size_and_is_used_again(store: Store, tmp_path: Path) -> None:
    path = store.data_dir / JOURNAL_NAME
    before = path.stat()
    assert before.st_size == FILE_BYTES
    assert before.st_blocks * 512 >= FILE_BYTES
    for number in range(1, 300):
        store.commit(write(number, value=bytes(300)))
    assert path.stat().st_blocks == before.st_blocks
    assert path.stat().st_size == FILE_BYTES
    shutil.copytree(store.data_dir, tmp_path / "copy" / "data")
    copy = open_store(tmp_path / "copy")
    assert newest(copy) == 299
    copy.close()


# -- files that go with a database, and files that do not --------------------------------------------------------------


class Times:
    """The files of one database at several times: ``closed`` and ``open`` again, each time with more writes."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.written = 0
        self.saved: dict[str, dict[str, bytes]] = {}
        self._store = open_store(place)
        self._store.commit(first())

    def write(self, count: int) -> None:
        for _ in range(count):
            self.written += 1
            self._store.commit(write(self.written, value=bytes(500)))

    def settle(self) -> None:
        self._store.settle()

    def reopen(self) -> None:
        self._store.close()
        self._store = open_store(self.place)

    def save(self, name: str) -> None:
        """As a copy of the file system at this moment would have them."""
        data = self.place / "data"
        self.saved[name] = {path.name: path.read_bytes() for path in data.glob(f"{DATABASE_NAME}*")}

    def close(self) -> None:
        self._store.close()

    def open(self, place: Path, database: str, journal: str | None) -> Store:
        """The database of one time, and the journal of another."""
        files = {name: data for name, data in self.saved[database].items() if name != JOURNAL_NAME}
        if journal is not None:
            files[JOURNAL_NAME] = self.saved[journal][JOURNAL_NAME] if journal in self.saved else b""
        (place / "data").mkdir(parents=True)
        for name, data in files.items():
            if not name.endswith("-shm"):
                (place / "data" / name).write_bytes(data)
        try:
            return open_store(place)
        except StorageError:
            assert (place / "data" / DATABASE_NAME).exists()
            if journal is not None:
                assert (place / "data" / JOURNAL_NAME).read_bytes() == files[JOURNAL_NAME], "it is left as it is"
            raise


@pytest.fixture
def times(tmp_path: Path) -> Iterator[Times]:
    """``a1``, ``a2`` and ``a3`` are of one run, with ever more writes; ``b1`` and ``b2`` are of the next one.

    ``c`` is closed. In ``a1``, ``a3`` and ``b2`` some writes are in the journal alone.
    """
    made = Times(tmp_path / "times")
    made.reopen()
    made.write(3)
    made.settle()
    made.write(2)
    made.save("a1")
    made.write(5)
    made.settle()
    made.save("a2")
    made.write(150)
    made.save("a3")
    made.reopen()
    made.save("b1")
    made.close()
    made.save("c")
    made.reopen()
    made.write(4)
    made.save("b2")
    yield made
    made.close()


LAST = 160


@pytest.mark.parametrize("database, journal, holds", [
    ("a1", "a1", 5), ("a2", "a2", 10), ("a3", "a3", LAST), ("b1", "b1", LAST), ("b2", "b2", LAST + 4),
    ("c", "c", LAST), ("c", None, LAST), ("c", "an empty file", LAST),
    ("a1", "a2", 10),  # what was acknowledged after the copy of the database: nothing is missing between
])  # fmt: skip
def test_what_goes_together_has_all_that_was_acknowledged(
    times: Times, tmp_path: Path, database: str, journal: str | None, holds: int
) -> None:
    found = times.open(tmp_path / "x", database, journal)
    assert newest(found) == holds
    found.commit(write(holds + 1))
    found.close()
    found = open_store(tmp_path / "x")
    assert newest(found) == holds + 1
    found.close()


@pytest.mark.parametrize("database, journal, how", [
    ("a1", None, "is missing"), ("a2", None, "is missing"), ("b2", None, "is missing"),
    ("a2", "a1", "is older"), ("a3", "a2", "is older"),  # a copy of the journal alone
    ("a1", "b2", "another time"), ("b2", "a3", "another time"), ("b1", "a3", "another time"),
    ("c", "b2", "another time"), ("c", "a3", "another time"),
])  # fmt: skip
def test_what_does_not_is_refused_in_words_and_left_as_it_is(
    times: Times, tmp_path: Path, database: str, journal: str | None, how: str
) -> None:
    with pytest.raises(UnfitData, match=f"{how}.* put .* empty file") as refusal:
        times.open(tmp_path / "x", database, journal)
    before = {path: path.read_bytes() for path in (tmp_path / "x" / "data").iterdir()}
    assert journal_misfit(tmp_path / "x" / "data" / DATABASE_NAME) == refusal.value.message, "as doctor says it"
    assert {path: path.read_bytes() for path in (tmp_path / "x" / "data").iterdir()} == before


def test_where_records_are_gone_that_newer_ones_follow_those_are_kept_aside(times: Times, tmp_path: Path) -> None:
    """The database went back further than the journal, which has been used again since, reaches."""
    found = times.open(tmp_path / "x", "a1", "a3")
    assert newest(found) == 3
    assert found.quarantine.count > 1
    assert found.quarantine.changes()[-1].seq == LAST
    assert not found.spaces()[0].own_writer
    found.close()


def test_an_empty_file_gives_up_what_it_held_and_the_writers_with_it(times: Times, tmp_path: Path) -> None:
    found = times.open(tmp_path / "x", "a1", "an empty file")
    assert newest(found) == 3
    assert not found.spaces()[0].own_writer
    assert found._one("SELECT COUNT(*) FROM own_writers", ()) == (0,)
    found.close()


def test_the_file_of_another_database_is_refused(times: Times, tmp_path: Path) -> None:
    """Beside a new database too, which would write over it."""
    open_store(tmp_path / "other").close()
    for name in (DATABASE_NAME, None):
        place = tmp_path / f"x{name}"
        (place / "data").mkdir(parents=True)
        (place / "data" / JOURNAL_NAME).write_bytes(times.saved["a1"][JOURNAL_NAME])
        if name is not None:
            shutil.copy(tmp_path / "other" / "data" / name, place / "data" / name)
        with pytest.raises(UnfitData, match="another database") as refusal:
            open_store(place)
        assert journal_misfit(place / "data" / DATABASE_NAME) == refusal.value.message


def test_a_file_that_is_cut_off_is_refused(times: Times, tmp_path: Path) -> None:
    """Though what is left may be whole, and of this database."""
    for size_bytes in (1, 60, RECORDS_AT, 5000, FILE_BYTES - 1):
        times.saved["cut"] = {JOURNAL_NAME: times.saved["b2"][JOURNAL_NAME][:size_bytes]}
        with pytest.raises(UnfitData, match=r"is cut off.* put .* empty file"):
            times.open(tmp_path / f"{size_bytes}", "b2", "cut")
    times.saved["cut"] = {JOURNAL_NAME: times.saved["c"][JOURNAL_NAME][:5000]}
    closed = times.open(tmp_path / "c", "c", "cut")
    assert newest(closed) == LAST, "nothing in it is needed"
    closed.close()


def test_a_refusal_leaves_no_new_database_and_says_how_to_get_one(times: Times, tmp_path: Path) -> None:
    (tmp_path / "x" / "data").mkdir(parents=True)
    (tmp_path / "x" / "data" / JOURNAL_NAME).write_bytes(times.saved["a1"][JOURNAL_NAME])
    with pytest.raises(UnfitData, match="if a new database is wanted, move this file away too"):
        open_store(tmp_path / "x")
    assert [path.name for path in (tmp_path / "x" / "data").iterdir() if path.name != "lock"] == [JOURNAL_NAME]


def test_where_the_newest_record_is_not_whole_one_warning_says_so(
    times: Times, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that a newer one follows is in quarantine, whose alarm says more."""
    logged: list[str] = []
    monkeypatch.setattr("crdtsyncd.storage.database.log", lambda event, **_: logged.append(event))
    whole = times.saved["b2"][JOURNAL_NAME]
    header = journal_file._header(whole)
    assert header is not None
    records = journal_file._records(whole, header.generation).whole
    for spoilt, at in (
        (4, records[4].end - 1),
        (4, records[4].start + 16),
        (2, records[2].end - 1),
        (0, RECORDS_AT - 1),
    ):
        content = bytearray(whole)
        content[at] ^= 255
        times.saved["torn"] = {JOURNAL_NAME: bytes(content)}
        found = times.open(tmp_path / f"{at}", "b2", "torn")
        assert newest(found) == LAST + (spoilt - 1 if spoilt else 4)
        found.close()
        assert logged == ["journal_torn"] * (spoilt == 4)
        logged.clear()


@pytest.mark.parametrize("before, after, kept", [
    (RECORDS_AT + 300, RECORDS_AT + 500, (300, 500)), (RECORDS_AT + 900, RECORDS_AT + 200, (0, 200)),
    (RECORDS_AT + 900, RECORDS_AT, (900, 1000)),
])  # fmt: skip
def test_the_bytes_of_a_broken_record_are_kept_also_where_the_file_was_begun_anew(
    before: int, after: int, kept: tuple[int, int]
) -> None:
    """``before``: where the record before it ends; ``after``: where the one after it begins."""
    content = bytes(RECORDS_AT) + Random(1).randbytes(1000)
    found = {7: journal_file._Record(before - 100, before), 9: journal_file._Record(after, after + 100)}
    broken = journal_file._missing(content, found, 7)[0]
    assert broken == content[RECORDS_AT + kept[0] : RECORDS_AT + kept[1]]


def test_a_file_that_was_removed_while_it_is_in_use_is_made_anew(store: Store, tmp_path: Path) -> None:
    store.commit(write(1))
    store.mind_journal()
    assert store.has_pending
    (store.data_dir / JOURNAL_NAME).unlink()
    store.mind_journal()
    store.commit(write(2))
    shutil.copytree(store.data_dir, tmp_path / "copy" / "data")
    copy = open_store(tmp_path / "copy")
    assert newest(copy) == 2
    (copy.data_dir / JOURNAL_NAME).unlink()
    copy.mind_journal()
    copy.close()
    copy = open_store(tmp_path / "copy")
    assert newest(copy) == 2, "after a clean stop nothing in the file is needed"
    copy.close()


# -- disks that are full, or fail --------------------------------------------------------------------------------------


def failing(error: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    return fail


def test_a_commit_that_found_no_room_is_not_there_and_does_not_come_back(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where writing over what is there takes room, as on file systems that never write in place."""
    store.commit(write(1))
    put = os.pwrite

    def half(file: int, data: bytes, place: int) -> int:
        if len(data) < 200:
            raise OSError(errno.ENOSPC, "No space left on device")
        return put(file, data[: len(data) - 100], place)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", half)
        with pytest.raises(NoSpace, match="free some space"):
            store.commit(write(2, value=bytes(1000)))
    shutil.copytree(store.data_dir, tmp_path / "copy" / "data")
    copy = open_store(tmp_path / "copy")
    assert newest(copy) == 1
    copy.close()
    store.commit(write(2))
    assert newest(store) == 2


@pytest.mark.parametrize("call, error", [
    ("pwrite", errno.EIO), ("fdatasync", errno.EIO), ("fdatasync", errno.ENOSPC),
])  # fmt: skip
def test_after_any_other_failure_nothing_is_committed_and_no_flush_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: int
) -> None:
    store = open_store(tmp_path)
    store.commit(first())
    store.commit(write(1))
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(error))
        with pytest.raises(StorageError, match="check the disk"):
            store.commit(write(2))
    with pytest.raises(StorageError, match="has failed before"):
        store.commit(write(3))
    store.close()
    store = open_store(tmp_path)
    assert newest(store) in (1, 2)  # it is unknown what a failed flush has done
    store.close()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_where_there_is_no_room_for_the_file_the_database_is_read_and_commits_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    store = open_store(tmp_path)
    store.commit(first())
    store.commit(write(1))
    store.close()
    (tmp_path / "data" / JOURNAL_NAME).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", failing(error))
        store = open_store(tmp_path)
        assert newest(store) == 1
        with pytest.raises(NoSpace):
            store.commit(write(2))
    store.commit(write(2))
    assert store.has_pending
    assert newest(store) == 2
    store.close()


# -- the power goes ----------------------------------------------------------------------------------------------------


def test_a_record_that_is_torn_takes_no_other_with_it(store: Store, tmp_path: Path) -> None:
    """The file may be used again from its start, and the newest record is the first in it."""
    store.commit(write(1))
    store.commit(write(2), is_direct=True)
    assert store.finish_checkpoint()
    torn = (store.data_dir / JOURNAL_NAME).read_bytes()
    store.commit(write(3, value=bytes(3 * SECTOR_BYTES)))
    whole = bytearray((store.data_dir / JOURNAL_NAME).read_bytes())
    last = max(at for at in range(0, len(whole), SECTOR_BYTES) if any(whole[at : at + SECTOR_BYTES]))
    whole[last:] = torn[last:]
    shutil.copytree(store.data_dir, tmp_path / "copy" / "data")
    (tmp_path / "copy" / "data" / JOURNAL_NAME).write_bytes(whole)
    copy = open_store(tmp_path / "copy")
    assert newest(copy) == 2
    copy.close()


class Power:
    """What of the data directory is certainly on disk: the journal as of its flushes, the database as of SQLite's."""

    def __init__(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data = data
        self.certain: dict[str, bytes] = {}
        flush = os.fdatasync

        def flushed(file: int) -> None:
            flush(file)
            self.note(JOURNAL_NAME)

        monkeypatch.setattr(os, "fdatasync", flushed)

    def note(self, *names: str) -> None:
        """These are flushed."""
        for name in names or (DATABASE_NAME, f"{DATABASE_NAME}-wal", JOURNAL_NAME):
            self.certain[name] = (self.data / name).read_bytes()

    def cut(self, rng: Random, place: Path) -> None:
        """Make a directory of what may be there now."""
        (place / "data").mkdir(parents=True)
        keeps = rng.choice((0.0, 0.5, 0.95, 1.0))
        is_moved = (self.data / DATABASE_NAME).read_bytes() != self.certain[DATABASE_NAME]
        for name, certain in self.certain.items():
            now, content = (self.data / name).read_bytes(), bytearray(certain)
            if is_moved and name != JOURNAL_NAME:
                content[:] = now  # a checkpoint has moved the log, and flushed both
            for at in range(0, len(now), SECTOR_BYTES):
                if now[at : at + SECTOR_BYTES] != content[at : at + SECTOR_BYTES] and rng.random() < keeps:
                    content[at : at + SECTOR_BYTES] = now[at : at + SECTOR_BYTES]
            (place / "data" / name).write_bytes(content)


@pytest.mark.parametrize("seed", range(2))
def test_what_was_acknowledged_is_there_whenever_the_power_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Against a model that is one number: tables that are flushed now and then, a journal that is used many times."""
    rng = Random(seed)
    monkeypatch.setattr(journal_file, "FILE_BYTES", rng.choice((16, 32)) * 1024)
    monkeypatch.setattr("crdtsyncd.storage.open_database.WAL_CHECKPOINT_BYTES", 64 * 1024)
    store = open_store(tmp_path)
    power = Power(tmp_path / "data", monkeypatch)
    store.commit(first())
    power.note()
    say = store._journal._say

    def said(state: journal_file.JournalState) -> None:
        say(state)
        power.note()

    monkeypatch.setattr(store._journal, "_say", said)
    cuts = 0
    for number in range(1, 200):
        store.commit(write(number, rng, bytes(rng.choice((10, 300, 1500)))), is_direct=(direct := rng.random() < 0.01))
        if direct or not store.has_pending:
            power.note()
        if rng.random() < 0.1:
            store.settle()
        if rng.random() < 0.01:
            store.checkpoint()
            if store.finish_checkpoint():
                power.note()
        if rng.random() < 0.07:
            cuts += 1
            before = (tmp_path / "data" / JOURNAL_NAME).read_bytes()
            if rng.random() < 0.5 and store._journal.has_room(row := packed(write(number + 1)) or b""):
                store._journal._file.write(row)  # the power goes in the middle of this commit
            power.cut(rng, tmp_path / f"cut{number}")
            (tmp_path / "data" / JOURNAL_NAME).write_bytes(before)
            after = open_store(tmp_path / f"cut{number}")
            assert newest(after) in (number, number + 1)
            assert after.quarantine.count == 0
            after.close()
    assert cuts > 2
    store.close()
