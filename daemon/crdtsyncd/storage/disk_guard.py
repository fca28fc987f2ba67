"""Free space: refuse writes before the disk is full, and keep something to give up when it is."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from crdtsync.errors import StorageError

BALLAST_NAME = "ballast"
FORECAST_H = 24
"""A disk that is full within this time, at the rate of the last hour, is worth an alarm."""
FULL_BYTES = 256 * 1024
NEAR_RESERVES = 4
"""And so is one that has less left than so many times what is kept in reserve."""


def ballast_bytes(data_dir: Path) -> int:
    """The size of the file that is there to be given up; 0: it has been."""
    try:
        return (data_dir / BALLAST_NAME).stat().st_size
    except OSError:
        return 0


def is_full(place: Path) -> bool:
    """Whether next to nothing fits on the disk of a directory any more; also SQLite's errors do not always say so."""
    try:
        usage = os.statvfs(place)
    except OSError:
        return False
    return usage.f_bavail * usage.f_frsize < FULL_BYTES


def make_room_to_start(data_dir: Path, free_bytes_min: int) -> None:
    """Give up the ballast where the disk is so full that the database could not even be opened: reads then go on."""
    with suppress(OSError):  # nothing is there yet, or the disk has failed: who opens the database says so
        usage = os.statvfs(data_dir)
        if usage.f_bavail * usage.f_frsize < free_bytes_min // 2:
            (data_dir / BALLAST_NAME).unlink(missing_ok=True)


class DiskGuard:
    """Watches the file system of the data directory and holds the ballast file."""

    def __init__(self, data_dir: Path, ballast_bytes: int, free_bytes_min: int) -> None:
        self._data_dir = data_dir
        self._ballast = data_dir / BALLAST_NAME
        self._ballast_bytes = ballast_bytes
        self._free_bytes_min = free_bytes_min
        self._is_low = False
        self.has_reserve = True
        """Whether half of the reserve is left, for what frees some space."""
        self.free_bytes: int | None = None
        """Beyond the reserve, when it was last looked at."""

    def check(self) -> str:
        """Why writes must be refused now; empty if they need not be. Makes or gives up the ballast as space allows."""
        try:
            usage = os.statvfs(self._data_dir)
        except OSError as error:
            raise StorageError(
                f"cannot use the data directory {self._data_dir} any more: {error.strerror}; "
                "see what became of it, then start crdtsyncd again"
            ) from None
        free_bytes = usage.f_bavail * usage.f_frsize
        self.has_reserve = free_bytes >= self._free_bytes_min // 2
        self.free_bytes = max(0, free_bytes - self._free_bytes_min)
        resume_bytes = self._free_bytes_min + self._free_bytes_min // 4
        self._is_low = free_bytes < (resume_bytes if self._is_low else self._free_bytes_min)
        if not self._is_low:
            if free_bytes > 2 * self._free_bytes_min + self._ballast_bytes:
                self._make_ballast()
            return ""
        if not self.has_reserve:
            self._give_up_ballast()
        return (
            f"the disk that holds {self._data_dir} has {free_bytes:,} bytes free, "
            f"and {self._free_bytes_min:,} are kept in reserve: "
            f"free some space, and writes go on by themselves, from {resume_bytes:,} on"
        )

    def forecast(self, growth_bytes_per_hour: int | None) -> str:
        """The advice before :meth:`check` refuses writes; empty if there is no hurry."""
        try:
            usage = os.statvfs(self._data_dir)
        except OSError:
            return ""
        left_bytes = usage.f_bavail * usage.f_frsize - self._free_bytes_min
        if left_bytes < 0:
            return ""  # too late: what the refusal says is enough
        where = f"the disk that holds {self._data_dir}"
        if growth_bytes_per_hour is not None and left_bytes < growth_bytes_per_hour * FORECAST_H:
            hours = left_bytes / growth_bytes_per_hour
            return f"at the rate of the last hour {where} is full in {hours:.0f} h: free some space, or make it larger"
        if left_bytes < NEAR_RESERVES * self._free_bytes_min:
            return f"{where} has {left_bytes:,} bytes left before writes are refused: free some space"
        return ""

    def _make_ballast(self) -> None:
        try:
            if not self._ballast_bytes or self._ballast.exists():
                return
            with self._ballast.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, self._ballast_bytes)
        except OSError:
            self._give_up_ballast()

    def _give_up_ballast(self) -> None:
        with suppress(OSError):  # a disk that has become read-only: the next commit says so
            self._ballast.unlink()
