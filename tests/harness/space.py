"""File systems without space."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def free_bytes(place: Path) -> int:
    """So much an unprivileged user could write there."""
    usage = os.statvfs(place)
    return usage.f_bavail * usage.f_frsize


def fill(place: Path, leave_bytes: int) -> Path:
    """The file that takes all space but so much, or a little more: others write meanwhile."""
    file = place / "filling"
    with file.open("ab") as stream:
        for more in range(0, 1 << 20, 1 << 16):
            size = os.fstat(stream.fileno()).st_blocks * 512 + free_bytes(place) - leave_bytes - more
            with suppress(OSError):
                os.posix_fallocate(stream.fileno(), 0, max(size, 1))
                return file
    raise AssertionError(f"{place} fills faster than this can")
