"""Backups of the running database: a consistent copy made in a thread, then handed out in pieces.

The copy shows one moment: what is acknowledged is brought into the tables first, and then it is made within one read
transaction of a connection of its own, so that commits go on and are not in it. SQLite copies without the interpreter's
lock, a slice at a time (https://www.sqlite.org/backup.html). While it runs the write-ahead log cannot begin anew and
grows with what is written meanwhile.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from crdtsyncd.security.key_files import CERTIFICATE_NAME, KEY_NAME

from crdtsync.errors import CrdtSyncError, InvalidRequest, NoSpace, QuotaExceeded, StorageError

IDENTITY_FILES = (KEY_NAME, CERTIFICATE_NAME)
"""The files that identify a node, beside the database; a backup takes them along if they lie in the data directory."""
SLICE_PAGES = 256
PIECE_BYTES_MAX = 1024 * 1024
"""Bytes of a backup in one reply."""
BACKUPS_OPEN_MAX = 1
"""At a time."""
RESERVES = 2
"""So many times of what is kept in reserve have to stay free beside a backup: the database grows meanwhile."""
PAGE_BYTES = 4096
"""Bytes of a page of the database, as SQLite makes it."""
PREFIX = "backup-"
SUFFIX = ".partial"


class _Backup:
    """One copy under way or done."""

    def __init__(self, path: Path, free_bytes_min: int) -> None:
        self.path = path
        self.free_bytes_min = free_bytes_min
        self.pages = 0
        self.pages_total = 0
        self.sha256 = ""
        self.is_wanted = True
        self.future: Future[int] | None = None


class Backups:
    """The backups that agents have asked for.

    There is one backup at a time; a second one is ``quota_exceeded``.

    - ``backup {"device"}`` begins one, of this connection: ``{"about", "copy_bytes", "reserve_bytes"}``. ``device`` is
      ``st_dev`` of the directory for the file; on the database's own disk there must be room for copy and file (else
      ``no_space``), and the client leaves ``reserve_bytes`` free.
    - ``backup {"offset": n}`` then answers ``{"pages", "pages_total", "page_bytes"}`` while the copy is under way, and
      after that ``{"bytes", "sha256", "data"}`` with a piece from byte ``n`` on. The copy is an SQLite database.
    - ``backup {"end": true}``, or the end of the connection, forgets it.
    """

    def __init__(
        self,
        database: Path,
        about: Callable[[], dict[str, Any]],
        free_bytes_min: int,
        settle: Callable[[], bool] = lambda: True,
    ) -> None:
        """``about``: what a backup says of where it comes from. ``settle`` brings all that is acknowledged into the
        database, or says that there is no room for it.
        """
        self._database = database
        self._settle = settle
        self._about = about
        self._free_bytes_min = free_bytes_min
        self._open: dict[int, _Backup] = {}
        self._pool: ThreadPoolExecutor | None = None
        with suppress(OSError):  # a disk that fails: who reads or writes the database says so
            for rest in database.parent.glob(f"{PREFIX}*{SUFFIX}"):  # of a process that was killed
                rest.unlink(missing_ok=True)

    def serve(self, conn: int, args: Mapping[str, Any]) -> object:
        """One request of the conversation: none of ``offset`` and ``end`` begins, ``offset`` reads, ``end`` forgets.

        ``device``, with the first: ``st_dev`` of where the backup is to be. On the database's disk it takes room twice.

        :raises NoSpace: there is no room for the copy.
        :raises QuotaExceeded: another backup is under way.
        :raises InvalidRequest: the arguments are not those of a backup that this connection has begun.
        """
        if args.get("end"):
            self.closed(conn)
            return {}
        offset = args.get("offset")
        if offset is None:
            return self._begin(conn, args.get("device"))
        backup = self._open.get(conn)
        if backup is None or type(offset) is not int or offset < 0:
            raise InvalidRequest("offset must be a number of bytes of a backup that this connection has begun")
        return self._read(backup, offset)

    def closed(self, conn: int) -> None:
        """The connection is gone, or needs its backup no more."""
        backup = self._open.pop(conn, None)
        if backup is not None:
            backup.is_wanted = False
            if backup.future is None or backup.future.done():
                backup.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Give up what is under way, and wait for its thread."""
        for conn in list(self._open):
            self.closed(conn)
        if self._pool is not None:
            self._pool.shutdown(wait=True)

    def _begin(self, conn: int, device: object) -> dict[str, Any]:
        if conn not in self._open and len(self._open) >= BACKUPS_OPEN_MAX:
            raise QuotaExceeded("another backup is being taken: wait until it is done, then try again")
        self.closed(conn)
        if not self._settle():
            raise NoSpace(f"the disk that holds {self._database.parent} is full: free some space, then try again")
        size_bytes = self._database.stat().st_size
        is_here = device == self._database.parent.stat().st_dev
        self._check_room(size_bytes, is_twice=is_here)
        path = self._database.with_name(f"{PREFIX}{os.getpid()}-{conn}-{time.monotonic_ns()}{SUFFIX}")
        backup = self._open[conn] = _Backup(path, self._free_bytes_min)
        self._pool = self._pool or ThreadPoolExecutor(1, "backup")
        backup.future = self._pool.submit(_copy, self._database, backup)
        about = {**self._about(), "identity": identity_of(self._database.parent)}
        return {"about": about, "copy_bytes": size_bytes, "reserve_bytes": self._free_bytes_min if is_here else 0}

    def _check_room(self, size_bytes: int, *, is_twice: bool) -> None:
        """There has to be room for the copy, for the backup if that is to lie here too, and what is kept free."""
        usage = os.statvfs(self._database.parent)
        free_bytes, reserve_bytes = usage.f_bavail * usage.f_frsize, RESERVES * self._free_bytes_min
        needed_bytes = (2 if is_twice else 1) * size_bytes
        if free_bytes < needed_bytes + reserve_bytes:
            what = "the copy that is made first and the backup itself" if is_twice else "the copy that is made first"
            elsewhere = ", or write the backup to another disk" if is_twice else ""
            raise NoSpace(
                f"{what} would take {needed_bytes:,} bytes on the disk that holds {self._database.parent}; "
                f"{reserve_bytes:,} more have to stay free there, and it has {free_bytes:,}: free some space{elsewhere}"
            )

    def _read(self, backup: _Backup, offset: int) -> dict[str, Any]:
        assert backup.future is not None
        if not backup.future.done():
            return {"pages": backup.pages, "pages_total": backup.pages_total, "page_bytes": PAGE_BYTES}
        try:
            size_bytes = backup.future.result()
            with backup.path.open("rb") as file:
                file.seek(offset)
                piece = file.read(PIECE_BYTES_MAX)
        except (OSError, sqlite3.Error) as error:
            raise _failed(error, backup.path) from None
        return {"bytes": size_bytes, "sha256": backup.sha256, "data": piece}


def identity_of(data_dir: Path) -> dict[str, str]:
    """The text of the files of :data:`IDENTITY_FILES` that are there: all, or none."""
    try:
        return {name: (data_dir / name).read_text(encoding="ascii") for name in IDENTITY_FILES}
    except OSError:
        return {}  # the key is handed over by the service manager, which keeps it


def _failed(error: OSError | sqlite3.Error, path: Path) -> CrdtSyncError:
    if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL" or getattr(error, "errno", 0) == errno.ENOSPC:
        return NoSpace(f"the disk that holds {path.parent} is full: free some space, then try again")
    return StorageError(f"the backup could not be made: {error}; check the disk, then try again")


class _NotWantedError(Exception):
    """The client that asked for the backup is gone."""


def _copy(database: Path, backup: _Backup) -> int:
    """Copy the database as of now; how many bytes that is. Runs in a thread."""

    def progress(_status: int, remaining: int, total: int) -> None:
        backup.pages, backup.pages_total = total - remaining, total
        if not backup.is_wanted:
            raise _NotWantedError
        usage = os.statvfs(database.parent)
        if usage.f_bavail * usage.f_frsize < backup.free_bytes_min:
            raise OSError(errno.ENOSPC, "what is kept free for writes would be used up", str(database.parent))

    try:
        os.close(os.open(backup.path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_WRONLY, 0o600))
        with (
            closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, isolation_level=None)) as source,
            closing(sqlite3.connect(backup.path, isolation_level=None)) as target,
        ):
            target.execute("PRAGMA synchronous = OFF")
            source.execute("BEGIN")
            source.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()  # from here on it shows this moment
            source.backup(target, pages=SLICE_PAGES, progress=progress, sleep=0)
            target.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        digest = hashlib.sha256()
        with backup.path.open("rb") as file:
            while piece := file.read(PIECE_BYTES_MAX):
                digest.update(piece)
                if not backup.is_wanted:
                    raise _NotWantedError
        backup.sha256 = digest.hexdigest()
        return backup.path.stat().st_size
    except BaseException:
        with suppress(OSError):
            backup.path.unlink(missing_ok=True)
        raise
    finally:
        if not backup.is_wanted:
            backup.path.unlink(missing_ok=True)
