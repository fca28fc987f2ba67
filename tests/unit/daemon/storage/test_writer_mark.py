"""The mark: when a writer may go on, and when it must not."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from crdtsyncd.storage import writer_mark
from crdtsyncd.storage.writer_mark import Mark

from crdtsync.errors import StorageError

DATABASE = bytes(range(16))
ERA = bytes(range(8))


@pytest.fixture(autouse=True)
def _a_known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_mark, "machine_id", lambda: "machine")
    monkeypatch.setattr(writer_mark, "_boot_id", lambda: "boot")


@contextmanager
def opened(runtime: Path, database: bytes = DATABASE) -> Iterator[Mark]:
    mark = Mark(runtime, database)
    try:
        yield mark
    finally:
        mark.close()


def leave(runtime: Path, count: int) -> None:
    with opened(runtime) as mark:
        mark.write(ERA, count)


def test_without_a_mark_no_writer_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path) as mark:
        assert not mark.allows(ERA, 0)
        assert not mark.allows(ERA, 1000)


@pytest.mark.parametrize("own_changes,allowed", [(4, False), (5, True), (6, True)])
def test_a_database_behind_its_mark_went_back(tmp_path: Path, own_changes: int, allowed: bool) -> None:
    leave(tmp_path, 5)
    with opened(tmp_path) as mark:
        assert mark.allows(ERA, own_changes) is allowed


@pytest.mark.parametrize("what", ["machine_id", "_boot_id"])
def test_another_machine_or_boot_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    leave(tmp_path, 5)
    monkeypatch.setattr(writer_mark, what, lambda: "another")
    with opened(tmp_path) as mark:
        assert not mark.allows(ERA, 5)


def test_where_the_boot_cannot_be_told_nothing_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_mark, "_boot_id", lambda: "")
    leave(tmp_path, 5)
    with opened(tmp_path) as mark:
        assert not mark.allows(ERA, 5)


def test_an_older_disk_is_not_newer_because_the_count_began_anew(tmp_path: Path) -> None:
    leave(tmp_path, 5)
    with opened(tmp_path) as mark:
        assert not mark.allows(bytes(8), 1000)


def test_each_database_has_a_mark_of_its_own(tmp_path: Path) -> None:
    leave(tmp_path, 5)
    with opened(tmp_path), opened(tmp_path, bytes(16)) as other:
        assert not other.allows(ERA, 5)


def test_while_it_is_open_nobody_else_has_it(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(StorageError, match="another crdtsyncd runs on this database or a copy"):
        Mark(tmp_path, DATABASE)
    with opened(tmp_path):
        pass


@pytest.mark.parametrize("damage", ["empty", "short", "garbage", "long"])
def test_a_damaged_mark_is_no_mark(tmp_path: Path, damage: str) -> None:
    leave(tmp_path, 5)
    (file,) = tmp_path.iterdir()
    data = file.read_bytes()
    file.write_bytes({"empty": b"", "short": data[:-1], "garbage": b"\xff" * len(data), "long": b"x" + data}[damage])
    with opened(tmp_path) as mark:
        assert not mark.allows(ERA, 10**9)
        assert not mark.vouches(10**9)
        mark.write(ERA, 3)
    with opened(tmp_path) as mark:
        assert mark.allows(ERA, 3)


def leave_release_1(runtime: Path, count: int, boot: bytes = b"boot") -> None:
    """As 0.1.0 does, which knew of no eras."""
    mark = struct.pack("<8s40s40sQ", b"crdtmrk1", boot, b"machine", count)
    (runtime / f"mark-{DATABASE.hex()}").write_bytes(mark)


@pytest.mark.parametrize("own_changes,vouched", [(4, False), (5, True), (6, True)])
def test_the_mark_of_the_first_release_vouches_for_the_data_and_lets_no_writer_go_on(
    tmp_path: Path, own_changes: int, vouched: bool
) -> None:
    """It does not tell whether the count has begun anew since the disk was copied."""
    leave_release_1(tmp_path, 5)
    for _ in ("at first", "and if that was killed before it wrote"):
        with opened(tmp_path) as mark:
            assert mark.vouches(own_changes) is vouched
            assert not mark.allows(ERA, own_changes)
    with opened(tmp_path) as mark:
        mark.write(ERA, 7)
    with opened(tmp_path) as mark:
        assert mark.allows(ERA, 7)
        assert not mark.vouches(7)


def test_it_does_not_vouch_after_a_boot(tmp_path: Path) -> None:
    leave_release_1(tmp_path, 5, boot=b"before")
    with opened(tmp_path) as mark:
        assert not mark.vouches(5)


def test_what_was_written_is_there_without_a_clean_end(tmp_path: Path) -> None:
    mark = Mark(tmp_path, DATABASE)
    mark.write(ERA, 77)
    (file,) = tmp_path.iterdir()
    written = file.read_bytes()
    mark.close()
    assert (77).to_bytes(8, "little") in written


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="writable"):
        Mark(tmp_path / "file", DATABASE)
