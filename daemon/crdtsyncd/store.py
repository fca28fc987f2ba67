"""The database: SQLite in WAL mode, one durable commit for everything that waits.

``synchronous=FULL``: with ``NORMAL`` acknowledged writes are lost when power fails. Commits run in the event loop:
a thread would wait for the interpreter's lock longer than the disk takes. Checkpoints of the WAL run in a thread.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from crdtsyncd.header import read_header
from crdtsyncd.mark import Mark
from crdtsyncd.schema import APPLICATION_ID, FORMAT, SCHEMA

from crdtsync.causality import Dot, VersionVector, Writer
from crdtsync.core.entries import Entry
from crdtsync.core.storage import Batch, DocumentUpdate, LogRow, PeerRow, SpaceRow
from crdtsync.errors import NoSpace, StorageError
from crdtsync.wire.codec import unpack

DATABASE_NAME = "crdtsync.db"
WAL_CHECKPOINT_BYTES = 8 * 1024 * 1024
WAL_BYTES_MAX = 64 * 1024 * 1024
OUTCOME_AGE_MS_MAX = 24 * 3600 * 1000

_ENTRY_COLUMNS = "row, space, writer, seq, n, key, sub, kind, hlc, agent, value, value_hash, attrs"
_INSERTS: tuple[tuple[str, str], ...] = (
    ("spaces", "INSERT INTO spaces (id, name, epoch) VALUES (?, ?, ?)"),
    ("writers", "INSERT INTO own_writers VALUES (?, ?)"),
    ("changes", "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)"),
    ("origins", "INSERT OR REPLACE INTO origins VALUES (?, ?, ?, ?)"),
    ("removals", "INSERT INTO removals (space, key, writer, seq, n, removes) VALUES (?, ?, ?, ?, ?, ?)"),
    ("document_updates", "INSERT INTO document_updates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
    ("document_states", "INSERT OR REPLACE INTO document_states VALUES (?, ?, ?, ?, ?, ?)"),
    ("outcomes", "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?)"),
    ("peers", "INSERT OR REPLACE INTO peers VALUES (?, ?, ?)"),
)
_INSERT_ENTRY = f"INSERT INTO entries ({_ENTRY_COLUMNS}) VALUES ({', '.join('?' * 13)})"
_MOVE_TO_HISTORY = "INSERT INTO history SELECT * FROM entries WHERE row = ?"
_DELETE_ENTRY = "DELETE FROM entries WHERE row = ?"
_UPSERT_HEAD = "INSERT OR REPLACE INTO heads VALUES (?, ?, ?, ?, ?)"
_COUNT = (
    "UPDATE spaces SET log_changes = log_changes + ?, log_bytes = log_bytes + ?, history_bytes = history_bytes + ?, "
    "document_bytes = document_bytes + ? WHERE id = ?"
)


class Store:
    """One open data directory. Implements :class:`crdtsync.core.storage.Storage` and the commit."""

    def __init__(self, data_dir: Path, runtime_dir: Path) -> None:
        """Open, creating what is missing.

        :raises StorageError: the directory cannot be used, another daemon uses it, or a newer daemon wrote it.
        """
        self.data_dir = data_dir
        self.path = data_dir / DATABASE_NAME
        self.commits = 0
        self.last_commit_ms = 0.0
        with ExitStack() as undo:
            self._lock = _lock(data_dir)
            undo.callback(os.close, self._lock)
            try:
                _check_header(self.path)
                self._db = _open(self.path)
                undo.callback(self._db.close)
                _set_up(self._db)
                _prepare(self._db, self.path)
                self.database = self._meta_or("database", os.urandom(16))
                self.node = self._meta_or("node", os.urandom(16).hex().encode()).decode()
                self._own_changes = self._count_own_changes()
            except sqlite3.Error as error:
                raise StorageError(f"cannot use the database {self.path}: {error}; {_remedy(error)}") from None
            self._mark = Mark(runtime_dir, self.database)
            undo.pop_all()
        self._may_resume = self._mark.allows(self._own_changes)
        self._made_here: set[tuple[int, int]] = set()  # own writers, by space, that began while this process ran
        self._mark.write(self._own_changes)

    # -- writing -----------------------------------------------------------------------------------------------

    def commit(self, batch: Batch) -> None:
        """Make ``batch`` durable: on return it is on disk.

        :raises NoSpace: the disk is full; nothing of the batch is stored.
        :raises StorageError: the disk failed. What it holds is unknown, so this process must end and start over
        from it.
        """
        if not batch:
            return
        started = time.perf_counter()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._write(batch)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._failed(error) from None
        except Exception:  # a row that no table can hold: a bug, and not the disk's
            self._db.rollback()
            raise
        self.commits += 1
        self.last_commit_ms = (time.perf_counter() - started) * 1000
        self._made_here.update(batch.writers)
        if batch.own_changes:
            self._own_changes += batch.own_changes
            self._mark.write(self._own_changes)

    def _write(self, batch: Batch) -> None:
        many = self._db.executemany
        for name, statement in _INSERTS:
            rows = getattr(batch, name)
            if rows:
                many(statement, rows)
        if batch.entries:
            many(_INSERT_ENTRY, [(*row[:8], row[8].to_bytes(8, "big"), *row[9:]) for row in batch.entries])
        if batch.removed_rows:
            rows = [(row,) for row, _, _ in batch.removed_rows]
            many(_MOVE_TO_HISTORY, rows)
            many(_DELETE_ENTRY, rows)
        if batch.clocks:
            many(
                "UPDATE spaces SET hlc = ? WHERE id = ?",
                [(hlc.to_bytes(8, "big"), space) for hlc, space in batch.clocks],
            )
        if batch.changes:
            heads = {
                (row.space, row.writer): (row.space, row.writer, row.seq, row.hash, row.position)
                for row in batch.changes
            }
            many(_UPSERT_HEAD, list(heads.values()))
            many(_COUNT, _sizes(batch))

    def _failed(self, error: sqlite3.Error) -> Exception:
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error as second:
            return StorageError(f"the database {self.path} failed and could not roll back: {error}; {second}")
        if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
            return NoSpace(f"the disk that holds {self.data_dir} is full: free some space, then try again")
        return StorageError(f"the database {self.path} failed: {error}; check the disk, then start crdtsyncd again")

    def unreadable(self, error: sqlite3.Error) -> StorageError:
        """What a failed read means, for the person who runs this host."""
        return StorageError(
            f"cannot read the database {self.path}: {error}; check the disk, or restore the database from a backup"
        )

    def wal_bytes(self) -> int:
        """Size of the write-ahead log."""
        try:
            return os.stat(f"{self.path}-wal").st_size
        except OSError:
            return 0

    def checkpoint(self, block: bool = False) -> None:
        """Move the write-ahead log into the database. Uses a connection of its own, so it may run in a thread."""
        db = _connect(self.path) if not block else self._db
        try:
            db.execute(f"PRAGMA wal_checkpoint({'TRUNCATE' if block else 'PASSIVE'})")
        except sqlite3.OperationalError:
            return  # no room, or somebody reads: the next one will do
        finally:
            if not block:
                db.close()

    def forget_outcomes(self, now_ms: int) -> None:
        """Drop replies to writes that are too old to be retried."""
        try:
            self._db.execute("DELETE FROM outcomes WHERE time_ms < ?", (now_ms - OUTCOME_AGE_MS_MAX,))
        except sqlite3.Error:
            return  # tried again later; a failing disk shows at the next commit

    def close(self) -> None:
        """Close cleanly. Idempotent."""
        self._db.close()
        self._mark.close()
        os.close(self._lock)

    # -- reading -------------------------------------------------------------------------------------------------

    def spaces(self) -> list[SpaceRow]:
        """See :class:`~crdtsync.core.storage.Storage`, as for all that follow."""
        rows = []
        for space, name, epoch, hlc, floor in self._db.execute(
            "SELECT id, name, epoch, hlc, floor FROM spaces ORDER BY id"
        ).fetchall():
            own = self._one(
                "SELECT h.writer, h.position FROM own_writers o JOIN heads h USING (space, writer) WHERE o.space = ? "
                "ORDER BY h.position DESC LIMIT 1",
                (space,),
            )
            last = self._one("SELECT MAX(position) FROM heads WHERE space = ?", (space,))
            resumes = own is not None and (self._may_resume or (space, own[0]) in self._made_here)
            writer, own_position = own if own is not None and resumes else (None, 0)
            position = (last and last[0]) or 0
            clock = int.from_bytes(hlc, "big")
            rows.append(SpaceRow(space, name, epoch, writer, own_position, position, clock, _unflatten(floor)))
        return rows

    def heads(self, space: int) -> Iterable[tuple[Writer, int, bytes]]:
        return self._db.execute("SELECT writer, seq, hash FROM heads WHERE space = ?", (space,)).fetchall()

    def origins(self, space: int) -> Iterable[tuple[Writer, str, str]]:
        return self._db.execute("SELECT writer, node, name FROM origins WHERE space = ?", (space,)).fetchall()

    def heads_after(self, space: int, position: int) -> Iterable[tuple[Writer, int]]:
        return self._db.execute(
            "SELECT writer, seq FROM heads WHERE space = ? AND position > ?", (space, position)
        ).fetchall()

    def entries(self, space: int) -> Iterator[Entry]:
        for row in self._db.execute(f"SELECT {_ENTRY_COLUMNS} FROM entries WHERE space = ? ORDER BY row", (space,)):
            number, _, writer, seq, n, key, sub, kind, hlc, agent, value, value_hash, attrs = row
            yield Entry(
                number,
                Dot(writer, seq, n),
                key,
                sub,
                kind,
                int.from_bytes(hlc, "big"),
                agent,
                value,
                value_hash,
                None if attrs is None else unpack(attrs),
            )

    def row_last(self) -> int:
        row = self._one(
            "SELECT MAX((SELECT IFNULL(MAX(row), 0) FROM entries), (SELECT IFNULL(MAX(row), 0) FROM history))", ()
        )
        return int(row[0]) if row else 0

    def log(self, space: int, after: int, bytes_max: int, rows_max: int) -> list[LogRow]:
        found: list[LogRow] = []
        size_bytes = 0
        rows = self._db.execute(
            "SELECT position, writer, seq, body FROM changes "
            "WHERE position > ? AND space = ? ORDER BY position LIMIT ?",
            (after, space, rows_max),
        )
        for position, writer, seq, body in rows:
            found.append(LogRow(position, writer, seq, body))
            size_bytes += len(body)
            if size_bytes >= bytes_max:
                break
        rows.close()
        return found

    def change_hash(self, space: int, writer: int, seq: int) -> bytes | None:
        row = self._one("SELECT hash FROM changes WHERE space = ? AND writer = ? AND seq = ?", (space, writer, seq))
        return row[0] if row else None

    def position_missing(self, space: int, vector: VersionVector, heads: VersionVector) -> int:
        last = self._one("SELECT MAX(position) FROM heads WHERE space = ?", (space,))
        position = (last[0] if last else None) or 0
        for writer, seq in heads.items():
            held = vector.get(writer, 0)
            if held < seq:
                row = self._one(
                    "SELECT position FROM changes WHERE space = ? AND writer = ? AND seq = ?",
                    (space, writer, held + 1),
                )
                if row is not None:
                    position = min(position, row[0] - 1)
        return int(position)

    def document(self, space: int, document: Dot) -> tuple[bytes | None, list[bytes]]:
        row = self._one(
            "SELECT position, state FROM document_states WHERE space = ? AND writer = ? AND seq = ? AND n = ?",
            (space, *document),
        )
        after, state = row or (0, None)
        rows = self._db.execute(
            "SELECT update_v1 FROM document_updates "
            "WHERE space = ? AND writer = ? AND seq = ? AND n = ? AND position > ? "
            "ORDER BY position, by_n",
            (space, *document, after),
        )
        return state, [update for (update,) in rows.fetchall()]

    def document_updates(self, space: int, document: Dot, after: int, rows_max: int) -> list[DocumentUpdate]:
        rows = self._db.execute(
            "SELECT position, by_writer, by_seq, by_n, agent, update_v1 FROM document_updates "
            "WHERE space = ? AND writer = ? AND seq = ? AND n = ? AND position > ? ORDER BY position, by_n LIMIT ?",
            (space, *document, after, rows_max),
        )
        return [
            DocumentUpdate(at, Dot(writer, seq, n), agent, update)
            for at, writer, seq, n, agent, update in rows.fetchall()
        ]

    def outcome(self, client: bytes, number: int) -> bytes | None:
        row = self._one(
            "SELECT reply FROM outcomes WHERE client = ? AND slot = ? AND number = ?", (client, number % 1024, number)
        )
        return row[0] if row else None

    def peers(self) -> list[PeerRow]:
        return [PeerRow(*row) for row in self._db.execute("SELECT node, name, last_seen_ms FROM peers").fetchall()]

    def stats(self) -> dict[str, object]:
        usage = os.statvfs(self.data_dir)
        return {
            "path": str(self.path),
            "bytes": os.stat(self.path).st_size + self.wal_bytes(),
            "commits": self.commits,
            "last_commit_ms": round(self.last_commit_ms, 3),
            "free_bytes": usage.f_bavail * usage.f_frsize,
        }

    def log_stats(self, space: int) -> dict[str, int]:
        row = self._one(
            "SELECT log_changes, log_bytes, history_bytes, document_bytes FROM spaces WHERE id = ?", (space,)
        )
        names = ("log_changes", "log_bytes", "history_bytes", "document_bytes")
        return dict(zip(names, row or (0, 0, 0, 0), strict=True))

    # -- inside ----------------------------------------------------------------------------------------------------

    def _one(self, statement: str, parameters: tuple[object, ...]) -> Any:  # a row, or None
        return self._db.execute(statement, parameters).fetchone()

    def _meta_or(self, name: str, default: bytes) -> bytes:
        row = self._one("SELECT value FROM meta WHERE name = ?", (name,))
        if row is None:
            self._db.execute("INSERT INTO meta VALUES (?, ?)", (name, default))
            return default
        return bytes(row[0])

    def _count_own_changes(self) -> int:
        row = self._one("SELECT IFNULL(SUM(h.seq), 0) FROM own_writers o JOIN heads h USING (space, writer)", ())
        return int(row[0]) if row else 0


def _sizes(batch: Batch) -> list[tuple[int, int, int, int, int]]:
    """Per space: changes and bytes added to the log, bytes moved to history, bytes of documents."""
    sizes: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for change in batch.changes:
        sizes[change.space][0] += 1
        sizes[change.space][1] += len(change.body)
    for _, space, size_bytes in batch.removed_rows:
        sizes[space][2] += size_bytes
    for update in batch.document_updates:
        sizes[update.space][3] += len(update.update)
    return [(*counts, space) for space, counts in sizes.items()]  # type: ignore[misc]


def _unflatten(packed: bytes | None) -> VersionVector:
    flat = [] if packed is None else unpack(packed)
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _lock(data_dir: Path) -> int:
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(
            f"cannot use the data directory {data_dir}: {error.strerror}; choose another with --data-dir"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise StorageError(
            f"another crdtsyncd (pid {holder}) uses the data directory {data_dir}: "
            "stop it, or choose another with --data-dir"
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)


def _connect(path: Path) -> sqlite3.Connection:
    db = _open(path)
    _set_up(db)
    return db


def _set_up(db: sqlite3.Connection) -> None:
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "wal_autocheckpoint = 0",
        "temp_store = MEMORY",
        "cache_size = -16384",
        "busy_timeout = 2000",
    ):
        db.execute(f"PRAGMA {pragma}")


def _check_header(path: Path) -> None:
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
        raise StorageError(f"{path} belongs to another program: move it away, or choose another --data-dir")
    if header.format > FORMAT:
        raise StorageError(
            f"{path} was written by a newer crdtsyncd (format {header.format}, this one knows {FORMAT}): "
            "upgrade crdtsyncd"
        )


def _remedy(error: sqlite3.Error) -> str:
    if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
        return "free some space on its disk"
    return "restore it from a backup, or move it away"


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    if db.execute("PRAGMA user_version").fetchone()[0] == 0:
        db.executescript(
            f"BEGIN;{SCHEMA}PRAGMA application_id = {APPLICATION_ID};PRAGMA user_version = {FORMAT};COMMIT;"
        )
        os.chmod(path, 0o600)
