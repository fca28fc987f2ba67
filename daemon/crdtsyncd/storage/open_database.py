"""Opening a database: no other daemon uses it, nobody else may read it, and its format is this daemon's."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from crdtsyncd.config.exit_status import UnfitData
from crdtsyncd.storage.check_schema import distrust, running_parts
from crdtsyncd.storage.disk_guard import is_full
from crdtsyncd.storage.file_header import read_header
from crdtsyncd.storage.journal.journal import JOURNAL_ENDING
from crdtsyncd.storage.migration import OLDEST, is_old, migrate
from crdtsyncd.storage.schema import APPLICATION_ID, FORMAT, SCHEMA

from crdtsync.errors import StorageError

WAL_CHECKPOINT_BYTES = 4 * 1024 * 1024
"""The write-ahead log, when a thread begins to move it into the database."""
WAL_EXTENSION_FREE_BYTES_MIN = 256 * 1024 * 1024
"""With less room than this on its disk the write-ahead log is not made longer ahead of time."""
BUSY_TIMEOUT_MS = 2000
SECURE_DELETE = "FAST"
"""Deleted content of a page is overwritten there, if that page is written anyway; all else only by a purge."""

ENDINGS = ("", "-wal", "-shm", JOURNAL_ENDING)
"""The endings of the files that a database is: its own, those that SQLite keeps beside it, and the journal's."""

PARTS_SHOWN_MAX = 5

_NO_RIGHT = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")
_INCREMENTAL = 2
_ZEROS_BYTES = 256 * 1024

_NO_CHECKPOINT_ON_CLOSE = 1006  # SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, which Python names from 3.12 on


def lock(data_dir: Path) -> int:
    """Keep every other daemon from a data directory, which is made if it is not there; until the file is closed.

    :raises StorageError: it cannot be used, or another one uses it.
    """
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(
            f"cannot use the data directory {data_dir}: {error.strerror}; choose another with --data-dir"
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(file, 32).decode(errors="replace").strip() or "unknown"
        os.close(file)
        raise StorageError(
            f"another crdtsyncd (pid {holder}) uses the data directory {data_dir}: "
            "stop it, or choose another with --data-dir"
        ) from None
    with suppress(OSError):  # only for people: it holds all the same
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    return file


def make_private(path: Path) -> None:
    """Let nobody but the owner read the database, from its first moment: SQLite gives its other files its mode.

    If this fails, SQLite finds it as well, and says it better.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    for each in (path.with_name(path.name + ending) for ending in ENDINGS):
        with suppress(OSError):
            each.chmod(0o600)


def connect(path: Path) -> sqlite3.Connection:
    """A connection to the database, which may be used in any thread."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    distrust(db)
    return db


def set_up(db: sqlite3.Connection) -> None:
    """Set up a connection as every one of the daemon is."""
    for pragma in (
        f"auto_vacuum = {_INCREMENTAL}",  # for a new database; one of format 1 keeps its size, and reuses its space
        "journal_mode = WAL",
        "synchronous = FULL",
        "wal_autocheckpoint = 0",
        "temp_store = MEMORY",
        f"secure_delete = {SECURE_DELETE}",
        "cache_size = -8192",
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
        f"journal_size_limit = {WAL_CHECKPOINT_BYTES}",  # begun anew, the WAL is cut to this: larger means more in it
    ):
        db.execute(f"PRAGMA {pragma}")


def check_header(path: Path) -> None:
    """Refuse a file that this daemon must not touch, before SQLite does: opening it folds its write-ahead log in."""
    try:
        header = read_header(path)
    except OSError as error:
        raise StorageError(f"cannot read the database {path}: {error.strerror}; see to its permissions") from None
    except ValueError as error:
        raise sqlite3.DatabaseError(str(error)) from None
    if header is None or header == (0, 0):
        return
    if header.application_id != APPLICATION_ID:
        raise UnfitData(f"{path} belongs to another program: move it away, or choose another --data-dir")
    if header.format > FORMAT:
        raise UnfitData(
            f"{path} was written by a newer crdtsyncd (format {header.format}, this one knows {FORMAT}): "
            "upgrade crdtsyncd"
        )


def remedy(error: sqlite3.Error, data_dir: Path) -> str:
    """The remedy if a database could not be opened."""
    if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL" or is_full(data_dir):
        return "free some space on its disk"
    if getattr(error, "sqlite_errorname", "").startswith(_NO_RIGHT):
        return f"this user cannot write to the directory {data_dir} or to a file in it: see to their permissions"
    return "restore it from a backup, or move it away"


def prepare(db: sqlite3.Connection) -> None:
    """Make the tables of a new database, and bring one of an older format up to date.

    :raises UnfitData: there is something in it that would run by itself, or it is older than the first release.
    """
    running = running_parts(db)
    if running:
        raise UnfitData(
            f"the database has {', '.join(running[:PARTS_SHOWN_MAX])}, which no crdtsyncd has made and which would run "
            "with each write: restore it from a backup that you trust, or move it away"
        )
    found = db.execute("PRAGMA user_version").fetchone()[0]
    if 0 < found < OLDEST:
        raise UnfitData(f"the database is of format {found}, which no release has written: move it away")
    if found and is_old(db, found):
        migrate(db, found)
    if found == 0:
        db.executescript(
            f"BEGIN;{SCHEMA}PRAGMA application_id = {APPLICATION_ID};PRAGMA user_version = {FORMAT};COMMIT;"
        )


def can_shrink(db: sqlite3.Connection) -> bool:
    """Whether what a database holds free can go back to the file system; of one that began as format 1 it cannot."""
    return int(db.execute("PRAGMA auto_vacuum").fetchone()[0]) == _INCREMENTAL


def extend_wal(path: Path) -> None:
    """Give the write-ahead log the size that it will have, all zeros, which no frame of it is.

    A commit that makes the file longer waits for the file system's own journal too. Where there is no room it grows
    as it is written to.
    """
    with suppress(OSError), path.with_name(f"{path.name}-wal").open("r+b", buffering=0) as wal:
        size_bytes = os.fstat(wal.fileno()).st_size
        usage = os.fstatvfs(wal.fileno())
        if usage.f_bavail * usage.f_frsize > WAL_EXTENSION_FREE_BYTES_MIN:
            for place in range(size_bytes, WAL_CHECKPOINT_BYTES, _ZEROS_BYTES):
                os.pwrite(wal.fileno(), bytes(min(_ZEROS_BYTES, WAL_CHECKPOINT_BYTES - place)), place)


def abandon(db: sqlite3.Connection) -> None:
    """Let go of a connection without the checkpoint that SQLite makes when the last one is closed."""
    if hasattr(db, "setconfig"):  # Python 3.12
        db.setconfig(_NO_CHECKPOINT_ON_CLOSE, True)
        db.close()
    else:
        import ctypes  # for this alone

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))  # so that not even the end of the process closes it
