"""States of the journal that a history seldom meets: a checkpoint beside what is pending, one that moved a part, a file
whose name is not on disk yet, rows in quarantine that nobody can read.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from crdtsyncd.config.exit_status import UnfitData
from crdtsyncd.storage.database import DATABASE_NAME, JOURNAL_NAME, Store
from crdtsyncd.storage.journal import file as journal_file
from crdtsyncd.storage.journal.quarantine import TABLE, QuarantinedChange

from tests.unit.daemon.storage.journal.test_journal import assert_kept_aside, first, open_store, spoil, write

FILE_BYTES = 16 * 1024
VALUE = bytes(300)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_file, "FILE_BYTES", FILE_BYTES)


class Writing:
    """A store, and how many writes it has acknowledged."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.store = open_store(place)
        self.store.commit(first())
        self.count = 0

    @property
    def data(self) -> Path:
        return self.store.data_dir

    def write(self) -> None:
        self.count += 1
        self.store.commit(write(self.count, value=VALUE))

    def write_until(self, place_bytes: int) -> None:
        """Until the next record begins there in the journal, or behind."""
        while self.store._journal._file._place < place_bytes:
            self.write()

    def is_whole_in(self, copy: Path) -> bool:
        """Whether a start on a copy finds all that was acknowledged."""
        found = open_store(copy)
        try:
            held = [entry.dot.seq for entry in found.entries(1)]
            return held == [self.count] and found.quarantine.count == 0
        finally:
            found.close()


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Writing]:
    made = Writing(tmp_path / "place")
    yield made
    made.store.close()


# -- when the file may be used from its start again ---------------------------------------------------------------


@pytest.mark.parametrize("pending", [1, 5])
def test_a_checkpoint_beside_pending_records_does_not_have_them_written_over(
    writing: Writing, tmp_path: Path, pending: int
) -> None:
    """The tables were flushed, and lack those records: they are in the file alone."""
    writing.write_until(FILE_BYTES // 2)
    writing.store.settle()
    for _ in range(pending):
        writing.write()
    writing.store.checkpoint()
    assert writing.store.finish_checkpoint()
    for number in range(40):  # round the file, and over where they stood; too few to be settled for their number
        writing.write()
        copy = tmp_path / f"copy{number}"
        shutil.copytree(writing.data, copy / "data")
        assert writing.is_whole_in(copy)


def test_after_a_checkpoint_that_moved_a_part_no_record_is_written_over(writing: Writing, tmp_path: Path) -> None:
    """Somebody reads the database, so the newest commits of the tables stay in its log, which nothing has flushed.

    The power goes: of the log is left what a checkpoint has flushed, and of the journal all.
    """
    writing.write_until(FILE_BYTES // 2)
    writing.store.settle()
    assert writing.store.finish_checkpoint()
    names = (DATABASE_NAME, f"{DATABASE_NAME}-wal")
    with closing(sqlite3.connect(writing.store.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM entries").fetchone()
        certain = {name: (writing.data / name).read_bytes() for name in names}
        state = writing.store._journal._state
        for number in range(60):
            writing.write()
            writing.store.settle()
            assert not writing.store.finish_checkpoint()
            if (
                writing.store._journal._state is None
                or state is None
                or writing.store._journal._state.tick != state.tick
            ):
                break  # the tables were flushed, for the file is full
            copy = tmp_path / f"copy{number}" / "data"
            copy.mkdir(parents=True)
            for name, content in certain.items():
                (copy / name).write_bytes(content)
            shutil.copy(writing.data / JOURNAL_NAME, copy)
            assert writing.is_whole_in(copy.parent)
        assert number > 5


# -- names on disk ------------------------------------------------------------------------------------------------


class Names:
    """Of the files that Python makes: what of them is on disk for certain, by name and by content.

    A name is on disk once its directory is flushed, the content once the file is (fsync(2)).
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self.directory = directory
        self.named: dict[str, int] = {}
        self.content: dict[int, bytes] = {}
        for call in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, call, self._noting(getattr(os, call)))

    def _noting(self, flush: object) -> object:
        def flushed(file: int) -> None:
            assert callable(flush)
            flush(file)
            found = os.fstat(file)
            if stat.S_ISDIR(found.st_mode):
                self.named = {path.name: path.stat().st_ino for path in self.directory.iterdir() if path.is_file()}
            else:
                self.content[found.st_ino] = os.pread(file, found.st_size, 0) if _may_read(file) else b""

        return flushed

    def at_worst(self, copy: Path, *names: str) -> None:
        """What is certain of these, and of all others what is there now."""
        shutil.copytree(self.directory, copy)
        for name in names:
            (copy / name).unlink(missing_ok=True)
            if name in self.named:
                (copy / name).write_bytes(self.content.get(self.named[name], b""))


def _may_read(file: int) -> bool:
    return fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE != os.O_WRONLY


@pytest.mark.parametrize("begun", ["first", "after a restart", "in the place of one that was removed"])
def test_what_is_acknowledged_is_there_when_the_power_goes_that_keeps_no_name_that_was_not_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: str
) -> None:
    (tmp_path / "place" / "data").mkdir(parents=True)
    names = Names(monkeypatch, tmp_path / "place" / "data")
    writing = Writing(tmp_path / "place")
    if begun == "after a restart":
        writing.write()
        writing.store.close()
        writing.store = open_store(writing.place)
    elif begun == "in the place of one that was removed":
        writing.write()
        writing.store.settle()
        (writing.data / JOURNAL_NAME).unlink()
        os.close(os.open(writing.data / "beside", os.O_CREAT | os.O_WRONLY))
        assert writing.store._journal.let_go_if_lost()
    for number in range(3):
        writing.write()
        names.at_worst(tmp_path / f"copy{number}" / "data", JOURNAL_NAME)
        try:
            assert writing.is_whole_in(tmp_path / f"copy{number}")
        except UnfitData as error:
            pytest.fail(f"after {begun}: {error.message}")
    writing.store.close()


# -- rows in quarantine -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["length", "checksum", "content"])
def test_a_row_that_nobody_can_read_stays_in_quarantine_when_the_others_are_let_go(
    writing: Writing, tmp_path: Path, broken: str
) -> None:
    """It may be read by a later version, or by a person; the alarm stands while it is there."""
    for number in range(1, 6):
        writing.store.commit(write(number))
    shutil.copytree(writing.data, tmp_path / "copy" / "data")
    spoil(tmp_path / "copy" / "data", 3, broken)
    assert_kept_aside(tmp_path / "copy")
    asked: list[QuarantinedChange] = []

    def is_held(kept: QuarantinedChange) -> bool:
        asked.append(kept)
        return True

    for expected in ([4, 5], []):
        copy = open_store(tmp_path / "copy")
        copy.quarantine.release(is_held)
        assert sorted({kept.seq for kept in asked}) == expected
        assert [(batch is None) for _, batch in copy.quarantine.batches()] == [True]
        assert copy.quarantine.count == 1
        assert copy.quarantine.why
        copy.close()
        asked.clear()


def test_a_row_of_which_one_change_is_not_held_yet_stays(writing: Writing) -> None:
    store: Store = writing.store
    for number in (1, 2):
        store.commit(write(number))
    store._connection.execute(TABLE)
    rows = [(row, "why", 0) for row in store._journal.rows()]
    store._connection.executemany("INSERT INTO quarantine (batch, why, time_ms) VALUES (?, ?, ?)", rows)
    store.quarantine.look()
    store.quarantine.release(lambda kept: kept.seq == 1)
    assert [kept.seq for kept in store.quarantine.changes()] == [2]
