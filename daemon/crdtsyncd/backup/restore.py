"""Puts a backup in the place of a database: the daemon must not run.

A restored database is a copy that went back in time. So it gets a new id, by which peers know that it holds less than
its predecessor had confirmed, and it keeps no writer: the numbers that the old one used after the backup was taken are
known elsewhere. The missing changes come back from the peers. On another machine it is another node too, with another
key: two nodes of one name would take each other for copies.

Root restores into the directory of a service's user, and does it as that user, see
:mod:`crdtsyncd.backup.act_as_owner`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

from crdtsyncd.backup.act_as_owner import acting_as_owner
from crdtsyncd.backup.backup import IDENTITY_FILES, PIECE_BYTES_MAX
from crdtsyncd.security.key_files import KEY_NAME
from crdtsyncd.storage.check_schema import foreign_parts, running_parts
from crdtsyncd.storage.database import DATABASE_NAME
from crdtsyncd.storage.file_header import open_file
from crdtsyncd.storage.file_header import read_header as read_database_header
from crdtsyncd.storage.journal.journal import META_NAME
from crdtsyncd.storage.open_database import ENDINGS, PARTS_SHOWN_MAX, connect, prepare
from crdtsyncd.storage.schema import APPLICATION_ID, FORMAT
from crdtsyncd.storage.writer_mark import machine_id

from crdtsync.client.operations.backup_file import public, read_header
from crdtsync.errors import ConfigError, StorageError
from crdtsync.named_tuple import NamedTuple

PARTS = tuple(f"{DATABASE_NAME}{ending}" for ending in ENDINGS)

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""How what is made here is opened: it is new, or it is not made."""

Progress = Callable[[int, int], None]


class RestoredBackup(NamedTuple):
    """The restored backup: where to, and where the database is that stood there before; ``is_moved``: as another node.

    The paths begin as the caller wrote the directory.
    """

    about: dict[str, Any]
    path: Path
    replaced: Path | None
    is_moved: bool


def restore(
    file: Path,
    data_dir: Path,
    *,
    force: bool,
    new_node: bool = False,
    same_node: bool = False,
    progress: Progress = lambda _done, _total: None,
) -> RestoredBackup:
    """Make the backup ``file`` the database in ``data_dir``. With ``force``, a database that is there already is moved
    aside.

    It becomes another node on another machine than the backup's, if not ``same_node``, or with ``new_node``.

    :raises StorageError: the file is damaged or no backup, or a newer daemon made it.
    :raises ConfigError: others can write into that directory, a daemon runs on it, or a database is there and
        ``force`` is not given.
    :raises OSError: a file cannot be read or written.
    """
    with _opened(file) as source, acting_as_owner(data_dir) as place, _locked(place):
        about = read_header(source, str(file))
        path = place / DATABASE_NAME
        is_moved = new_node or (about["machine"] != machine_id() and not same_node)
        if path.exists() and not force:
            raise ConfigError(
                f"there is a database in {place} already: with --force it is moved aside, into a directory beside it"
            )
        partial = place / f"{DATABASE_NAME}.restoring"
        rests = [partial, *(partial.with_name(partial.name + end) for end in ("-wal", "-shm", "-journal"))]
        try:
            _remove(rests)  # of one that was killed
            _copy(source, partial, about, str(file), progress)
            _make_new(partial, str(file), is_moved)
            _sync(partial)
            parts = [*PARTS, *(IDENTITY_FILES if is_moved else ())]
            replaced = _set_aside(place, [part for part in parts if os.path.lexists(place / part)])
            if not is_moved:
                _put_back_identity(place, about.get("identity") or {})
            partial.rename(path)
        finally:
            _remove(rests)
        _sync(place)
    aside = data_dir / replaced.name if replaced is not None else None
    return RestoredBackup(public(about), data_dir / DATABASE_NAME, aside, is_moved)


def _opened(file: Path) -> IO[bytes]:
    try:
        return open_file(file)
    except ValueError:
        raise StorageError(f"{file} is no file: name one that crdtsync backup has made") from None


@contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    """Hold the lock that a daemon would hold."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = data_dir / "lock"
    if path.is_symlink():  # who puts it there afterwards gets a rougher refusal
        raise ConfigError(f"{path} is a symbolic link, which no daemon has made: see who did, and remove it")
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
            raise ConfigError(
                f"a crdtsyncd (pid {holder}) runs on {data_dir}: stop it first, with systemctl stop crdtsyncd.socket "
                "crdtsyncd.service or however it was started"
            ) from None
        yield
    finally:
        os.close(lock)


def _copy(source: IO[bytes], target: Path, about: dict[str, Any], name: str, progress: Progress) -> None:
    """Copy the database out of the backup, and see that it is what was backed up."""
    digest, done = hashlib.sha256(), 0
    with os.fdopen(os.open(target, _NEW, 0o600), "wb") as copy:
        while piece := source.read(PIECE_BYTES_MAX):
            digest.update(piece)
            copy.write(piece)
            done += len(piece)
            progress(done, about["bytes"])
    if done != about["bytes"]:
        raise StorageError(
            f"{name} is cut off: it has {done:,} of {about['bytes']:,} bytes; take another backup of yours"
        )
    if digest.hexdigest() != about["sha256"]:
        raise StorageError(f"{name} is damaged: its checksum is wrong; take another backup of yours")


def _make_new(path: Path, name: str, is_moved: bool) -> None:
    """Check the database, and make it one that has no past of its own; ``is_moved``: that of another node."""
    header = read_database_header(path)
    if header is None or header.application_id != APPLICATION_ID:
        raise StorageError(f"{name} holds no database of crdtsync: take another backup of yours")
    if header.format > FORMAT:
        raise StorageError(
            f"{name} was made by a newer crdtsyncd (format {header.format}, this one knows {FORMAT}): upgrade first"
        )
    try:
        with closing(connect(path)) as db:
            _check_tables(db, name)
            found = [row[0] for row in db.execute("PRAGMA integrity_check(3)")]
            if found != ["ok"]:
                raise StorageError(
                    f"the database in {name} is damaged: {'; '.join(found)}; take another backup of yours"
                )
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            db.execute("UPDATE meta SET value = ? WHERE name = 'database'", (os.urandom(16),))
            db.execute("DELETE FROM meta WHERE name = ?", (META_NAME,))  # the journal's file is not in a backup
            db.execute("DELETE FROM own_writers")
            db.execute("DELETE FROM outcomes")  # replies to clients of the other database, which do not ask for them
            if is_moved:
                db.execute("DELETE FROM meta WHERE name = 'node'")
            db.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        raise StorageError(f"the database in {name} is damaged: {error}; take another backup of yours") from None


def _check_tables(db: sqlite3.Connection, name: str) -> None:
    """Take nothing in that is not of a daemon's making: a trigger would run with each write for ever.

    A database of an older format is brought up to date here, so that its tables can be compared.
    """
    foreign = running_parts(db)
    if not foreign:
        prepare(db)
        foreign = foreign_parts(db)
    if foreign:
        raise StorageError(
            f"the database in {name} was changed by somebody: its {', '.join(foreign[:PARTS_SHOWN_MAX])} is not as "
            "crdtsyncd makes it; take another backup of yours"
        )


def _put_back_identity(data_dir: Path, identity: dict[str, str]) -> None:
    """The node's key, if the directory has lost it."""
    if (data_dir / KEY_NAME).exists() or set(identity) != set(IDENTITY_FILES):
        return
    for name in IDENTITY_FILES:
        with os.fdopen(os.open(data_dir / name, _NEW, 0o600), "wb") as file:
            file.write(identity[name].encode("ascii"))
            file.flush()
            os.fsync(file.fileno())


def _set_aside(data_dir: Path, parts: list[str]) -> Path | None:
    """Move what is there into a directory of its own; None: nothing is there."""
    if not parts:
        return None
    place = data_dir / f"replaced-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
    number = 1
    while place.exists():
        number += 1
        place = place.with_name(f"{place.name.partition('.')[0]}.{number}")
    place.mkdir(mode=0o700)
    for part in parts:
        (data_dir / part).rename(place / part)
    return place


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
