"""What of a host's files is flushed: noted where the store writes without flushing, and where it flushes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsyncd.storage.database import DATABASE_NAME, JOURNAL_NAME
from crdtsyncd.storage.open_database import ENDINGS

if TYPE_CHECKING:
    from crdtsyncd.storage.database import Store
    from crdtsyncd.storage.journal.file import JournalState

    from crdtsync.core.storage.write_batch import WriteBatch
    from tests.simulator.hosts import Host

WAL_NAME = f"{DATABASE_NAME}-wal"
TABLES = (DATABASE_NAME, WAL_NAME)
FULL = 2

Files = dict[str, bytes]


def read_files(host: Host) -> Files:
    """What is on the disk, flushed or not."""
    return {name: _read(host, name) for name in (*TABLES, JOURNAL_NAME)}


def put_files(host: Host, files: Files) -> None:
    """Make the disk of a host that is down hold this."""
    for ending in ENDINGS:
        (host.directory / "data" / f"{DATABASE_NAME}{ending}").unlink(missing_ok=True)
    for name, content in files.items():
        if content:
            (host.directory / "data" / name).write_bytes(content)


class _Flushes:
    """Stands in the way of what a store does to its disk."""

    def __init__(self, host: Host, store: Store) -> None:
        self._host = host
        self._store = store
        self._file = store._journal._file
        self._settle, self._write, self._say = store._settle_pending, store._write, store._journal._say
        self._add, self._flush = self._file.write, self._file.flush
        vars(store).update(_settle_pending=self.settle, _write=self.write)
        vars(store._journal)["_say"] = self.say
        vars(self._file).update(write=self.add, flush=self.flush)

    def settle(self, *, is_whole: bool) -> None:
        self._keep(*TABLES)
        self._settle(is_whole=is_whole)

    def write(self, batch: WriteBatch, era: bytes | None) -> None:
        if not self._is_full():
            self._keep(*TABLES)
        self._write(batch, era)
        if self._is_full():
            self._drop(*TABLES)

    def say(self, state: JournalState) -> None:
        self._say(state)
        if self._is_full():
            self._drop(*TABLES)
            if self._host.flushed is not None:
                self._host.flushed.update({name: _read(self._host, name) for name in TABLES})

    def add(self, row: bytes) -> None:
        self._keep(JOURNAL_NAME)
        self._add(row)

    def flush(self) -> None:
        before = self._file.flushes
        self._flush()
        if self._file.flushes > before:
            self._drop(JOURNAL_NAME)

    def _is_full(self) -> bool:
        return bool(self._store._connection.execute("PRAGMA synchronous").fetchone()[0] >= FULL)

    def _keep(self, *names: str) -> None:
        synced = self._host.synced
        if synced is not None:
            synced.update({name: _read(self._host, name) for name in names if name not in synced})

    def _drop(self, *names: str) -> None:
        synced = self._host.synced
        if synced is not None:
            for name in names:
                synced.pop(name, None)


def watch_flushes(host: Host) -> None:
    """From here on ``host.synced``, if it is not None, has each file that was written to since it was flushed last.

    It has it as of then. What a commit flushes before it writes more is noted in ``host.flushed``: that is there if the
    power goes during this commit.
    """
    assert host.store is not None
    _Flushes(host, host.store)


def _read(host: Host, name: str) -> bytes:
    path = host.directory / "data" / name
    return path.read_bytes() if path.exists() else b""
