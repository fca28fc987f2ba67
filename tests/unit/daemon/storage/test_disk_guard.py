"""Free space: when writes are refused, when they are taken again, and what becomes of the ballast."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from crdtsyncd.storage.database import Store
from crdtsyncd.storage.disk_guard import DiskGuard, make_room_to_start

from crdtsync.errors import StorageError

MIN = 1000


class Disk:
    """A file system whose free space a test sets; the ballast counts."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self.free = 10 * MIN
        monkeypatch.setattr(os, "statvfs", self._statvfs)

    def _statvfs(self, _path: object) -> object:
        return SimpleNamespace(f_bavail=self.free, f_frsize=1)

    @property
    def ballast(self) -> Path:
        return self.place / "ballast"


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path, monkeypatch)


def test_writes_are_refused_below_the_reserve_and_taken_again_a_quarter_above_it(disk: Disk) -> None:
    guard = DiskGuard(disk.place, 0, MIN)
    for free, refused in ((MIN, False), (MIN - 1, True), (MIN, True), (MIN * 5 // 4 - 1, True), (MIN * 5 // 4, False),
                          (MIN, False), (0, True)):  # fmt: skip
        disk.free = free
        assert bool(guard.check()) is refused, free


def test_before_the_start_on_a_full_disk_the_ballast_is_given_up(disk: Disk) -> None:
    disk.ballast.touch()
    make_room_to_start(disk.place, MIN)
    assert disk.ballast.exists()
    disk.free = MIN // 2 - 1
    make_room_to_start(disk.place, MIN)
    assert not disk.ballast.exists()
    make_room_to_start(disk.place / "none", MIN)


def test_a_database_that_a_full_disk_keeps_from_being_opened_is_not_to_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite calls it an I/O error where its shared memory finds no room."""
    (tmp_path / "crdtsync.db").write_bytes(b"no database" * 1000)
    with pytest.raises(StorageError, match="restore it from a backup"):
        Store(tmp_path, tmp_path)
    Disk(tmp_path, monkeypatch).free = 0
    with pytest.raises(StorageError, match="free some space on its disk"):
        Store(tmp_path, tmp_path)


def test_the_refusal_names_the_place_the_figures_and_the_remedy(disk: Disk) -> None:
    disk.free = 10
    message = DiskGuard(disk.place, 0, MIN).check()
    for part in (str(disk.place), "10 bytes", "1,000", "free some space"):
        assert part in message


def test_without_a_reserve_nothing_is_refused(disk: Disk) -> None:
    disk.free = 0
    assert DiskGuard(disk.place, 0, 0).check() == ""


def test_the_ballast_is_made_when_there_is_plenty_and_given_up_when_there_is_next_to_nothing(disk: Disk) -> None:
    guard = DiskGuard(disk.place, 500, MIN)
    disk.free = 2 * MIN + 500
    guard.check()
    assert not disk.ballast.exists(), "it would itself bring the disk near its reserve"
    disk.free += 1
    guard.check()
    assert disk.ballast.stat().st_size == 500
    disk.free = MIN - 1
    guard.check()
    assert disk.ballast.exists(), "not yet"
    disk.free = MIN // 2 - 1
    assert guard.check()
    assert not disk.ballast.exists()


def test_a_ballast_that_cannot_be_made_is_done_without(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert DiskGuard(disk.place, 500, MIN).check() == ""
    assert not disk.ballast.exists()


def test_a_directory_that_is_gone_is_an_error_of_the_disk(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="data directory"):
        DiskGuard(tmp_path / "gone", 0, 0).check()


@pytest.mark.parametrize("call", ["unlink", "exists"])
def test_a_ballast_that_the_disk_does_not_let_go_or_show_is_left_alone(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A file system that has become read-only, or fails: whoever commits next says so."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    guard = DiskGuard(disk.place, 500, MIN)
    disk.free = 10 * MIN
    guard.check()
    monkeypatch.setattr(Path, call, fail)
    assert guard.check() == ""
    disk.free = 0
    assert "free some space" in guard.check()
