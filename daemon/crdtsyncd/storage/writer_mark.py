"""The mark: how many changes this node has made, kept outside the data directory.

A writer that goes on after its disk went back would use numbers again that peers have seen on other changes. So the
count of own changes is also kept in the runtime directory, in memory shared with the kernel: it survives a kill,
and it does not go back with the disk. A writer is resumed only if the mark is there, from the same boot of the same
machine, and not ahead of the database. That count begins anew when the node gives up writers; each time both get a
new random *era*, so that a copy of the disk from before that is not taken to be newer than the mark. While a daemon
runs it holds a lock on the mark, so that two copies of one database cannot run side by side.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from pathlib import Path

from crdtsync.errors import StorageError

ERA_BYTES = 8
_LAYOUT = struct.Struct(f"<8s40s40s{ERA_BYTES}sQ")
_MAGIC = b"crdtmrk2"
_FIRST_LAYOUT = struct.Struct("<8s40s40sQ")
_FIRST_MAGIC = b"crdtmrk1"
"""The mark of 0.1.0, which had no eras."""


def machine_id() -> str:
    """An identifier of this installation of the operating system; empty if there is none."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            return Path(path).read_text().strip()
        except OSError:
            continue
    return ""


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _field(text: str) -> bytes:
    return text.encode()[:40].ljust(40, b"\0")


class Mark:
    """The open mark of one database."""

    def __init__(self, runtime_dir: Path, database: bytes) -> None:
        """:raises StorageError: another daemon runs on this database or a copy of it, or the file cannot be made."""
        self.path = runtime_dir / f"mark-{database.hex()}"
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(
                f"cannot keep the mark {self.path}: {error.strerror}; make its directory writable"
            ) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise StorageError(
                f"another crdtsyncd runs on this database or a copy of it ({self.path} is locked); stop it first"
            ) from None
        self._here = (_MAGIC, _field(_boot_id()), _field(machine_id()))
        self._stored = os.read(self._file, _LAYOUT.size)
        try:
            os.posix_fallocate(self._file, 0, _LAYOUT.size)  # a hole would kill the process when the disk is full
        except OSError as error:
            os.close(self._file)
            raise StorageError(f"cannot keep the mark {self.path}: {error.strerror}; free some space there") from None
        self._memory = mmap.mmap(self._file, _LAYOUT.size)

    def allows(self, era: bytes, own_changes: int) -> bool:
        """Whether a database with so many own changes is as new as it was when this machine last wrote to it."""
        if len(self._stored) != _LAYOUT.size:
            return False
        *here, marked, count = _LAYOUT.unpack(self._stored)
        return self._is_here(_MAGIC, here) and marked == era and count <= own_changes

    def vouches(self, own_changes: int) -> bool:
        """Whether 0.1.0 left this mark and the database is as new as that one can tell.

        The data is then taken to be the same that its agents wrote to. No writer goes on with it, for a disk from
        before the count began anew would look newer than it is.
        """
        if len(self._stored) < _FIRST_LAYOUT.size:
            return False
        *here, count = _FIRST_LAYOUT.unpack_from(self._stored)
        return self._is_here(_FIRST_MAGIC, here) and count <= own_changes

    def _is_here(self, magic: bytes, where: list[bytes]) -> bool:
        """Whether it is of this form, from this boot of this machine."""
        return where == [magic, *self._here[1:]] and self._here[1].strip(b"\0") != b""

    def write(self, era: bytes, own_changes: int) -> None:
        """Record the count, after it is durable in the database and before anybody is told."""
        self._memory[:] = _LAYOUT.pack(*self._here, era, own_changes)

    def close(self) -> None:
        """Release the lock; the mark stays. Idempotent."""
        self._memory.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
