"""The file that a backup is: a block of JSON that says what it is, and the database.

The same for both clients and for ``crdtsync restore``.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from crdtsync.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAGIC = b"crdtsync backup 1\n"
HEADER_BYTES = 4096
PAGE_BYTES = 4096
"""The page size of the database of a daemon that does not say it."""
_TOLD = {"bytes": int, "sha256": str, "time": int, "name": str, "machine": str}
"""Facts that every backup says of itself, as its readers take them."""
POLL_S = 0.05
"""How long to wait before asking again how far the copy is."""


def device_of(path: str | os.PathLike[str]) -> int:
    """The file system that a file is to be on.

    :raises OSError: there is no such directory.
    """
    return Path(path).absolute().parent.stat().st_dev


def progress_of(reply: Mapping[str, Any], begun: Mapping[str, Any]) -> tuple[int, int]:
    """How many bytes of how many are done while the daemon copies; the transfer then takes as many again."""
    page_bytes = reply.get("page_bytes", PAGE_BYTES)
    total_bytes = reply["pages_total"] * page_bytes or begun.get("copy_bytes", 0)
    return reply["pages"] * page_bytes, 2 * max(total_bytes, 1)


class BackupFile:
    """A backup being written, under another name until it is whole."""

    def __init__(self, path: str | os.PathLike[str], begun: Mapping[str, Any]) -> None:
        """``begun``: what the daemon has answered.

        :raises OSError: the file cannot be made, is there already, or has no room.
        """
        self._path = Path(path)
        self._partial = self._path.with_name(f"{self._path.name}.partial")
        if self._path.exists():
            raise FileExistsError(17, "is there already; choose another name", str(self._path))
        self._about = dict(begun["about"])
        self._reserve_bytes = begun.get("reserve_bytes", 0)
        self._check_room(begun.get("copy_bytes", 0), self._reserve_bytes)
        self._file: IO[bytes] = os.fdopen(open_new(self._partial, 0o600), "wb")
        self._file.write(b"\0" * HEADER_BYTES)
        self.size_bytes = 0

    def write(self, piece: bytes) -> None:
        """The next piece of the database.

        :raises OSError: the disk is full, or failed; it names the file.
        """
        if self._reserve_bytes:
            self._check_room(len(piece), self._reserve_bytes)
        with self._naming_the_file():
            self._file.write(piece)
        self.size_bytes += len(piece)

    def finish(self, sha256: str) -> None:
        """All of it is there: make it durable, and give it its name.

        :raises OSError: as :meth:`write`.
        """
        with self._naming_the_file():
            self._file.seek(0)
            self._file.write(header({**self._about, "bytes": self.size_bytes, "sha256": sha256}))
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        self._partial.rename(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def discard(self) -> None:
        """Leave nothing of it. Does nothing once it is finished."""
        with suppress(OSError):  # what is still to be written finds no room
            self._file.close()
        self._partial.unlink(missing_ok=True)

    def _check_room(self, size_bytes: int, reserve_bytes: int) -> None:
        usage = os.statvfs(self._path.parent)
        free_bytes = usage.f_bavail * usage.f_frsize
        if free_bytes < size_bytes + reserve_bytes:
            kept = f" beside the {reserve_bytes:,} that the daemon keeps in reserve" if reserve_bytes else ""
            raise OSError(
                errno.ENOSPC,
                f"it would take {size_bytes:,} bytes more{kept}, and {free_bytes:,} are free there; "
                "free some space, or choose another disk",
                str(self._path),
            )

    @contextmanager
    def _naming_the_file(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None


def open_new(path: Path, mode: int) -> int:
    """Open a file that nobody else has made: it may lie in a directory of others, and a backup holds the node's key.

    One of ours is in the way if a command was killed. A link of somebody else, or a file that they can read, is left.

    :raises OSError: something of others is in the way.
    """
    with suppress(FileNotFoundError):
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise FileExistsError(errno.EEXIST, "is in the way, and is not yours: see who made it", str(path))
        path.unlink()
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def header(about: Mapping[str, Any]) -> bytes:
    """The first block of the file."""
    text = MAGIC + json.dumps(about).encode() + b"\n"
    return text.ljust(HEADER_BYTES, b"\0")


def public(about: Mapping[str, Any]) -> dict[str, Any]:
    """The header of a backup, without the key of its node."""
    return {name: value for name, value in about.items() if name != "identity"}


def read_header(file: IO[bytes], name: str) -> dict[str, Any]:
    """The header of a backup; the database follows.

    :raises StorageError: it is no backup, or one of a newer version.
    """
    block = file.read(HEADER_BYTES)
    first, _, rest = block.partition(b"\n")
    if not first.startswith(b"crdtsync backup "):
        raise StorageError(f"{name} is not a backup of crdtsync: name a file that crdtsync backup has made")
    if first + b"\n" != MAGIC:
        raise StorageError(f"{name} is a backup of a newer crdtsync: upgrade this one, then try again")
    try:
        about = json.loads(rest.rstrip(b"\0"))
        if not isinstance(about, dict) or any(type(about.get(name)) is not form for name, form in _TOLD.items()):
            raise ValueError
    except ValueError:
        raise StorageError(f"the beginning of {name} is damaged: take another backup of yours") from None
    return about
