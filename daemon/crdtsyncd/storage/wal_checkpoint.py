"""Keeps the database's logs short: rows leave the journal for their tables, and the write-ahead log begins anew."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from crdtsyncd.storage.database import Store
from crdtsyncd.storage.journal.quarantine import RowsRefused
from crdtsyncd.storage.open_database import WAL_CHECKPOINT_BYTES

from crdtsync.errors import CrdtSyncError, StorageError

WAL_REST_BYTES_MAX = 1024 * 1024
"""The part of the log that came meanwhile, when the loop moves it and the write-ahead log begins anew."""
WAL_BYTES_MAX = 64 * 1024 * 1024
"""The write-ahead log, when a reader of the database has kept that from happening, and the loop tries to empty it."""
SETTLE_DELAY_S = 0.25
"""How long rows stay in the journal alone when few come; nobody waits for that."""
WAL_LOOK_COMMITS = 8
"""The size of the write-ahead log is looked at once in so many commits: asking for it costs a system call."""
WAL_PAUSE_BYTES = WAL_BYTES_MAX // 2
"""With so much of it what can wait waits while a checkpoint is under way, looking again from time to time."""
WAL_PAUSE_S = 0.05
CHECKPOINT_PASSES_MAX = 4
CHECKPOINT_RETRY_S = 1.0


class StoreOwner(Protocol):
    """Whose database it is: the driver."""

    @property
    def store(self) -> Store:
        """The database in use; not always the same one."""

    @property
    def is_over(self) -> bool:
        """Whether the database must be left alone: it failed, or the process ends."""

    def fail(self, error: CrdtSyncError) -> None:
        """The disk cannot be trusted: this process must end."""

    def recover_rows(self, error: RowsRefused) -> None:
        """Something acknowledged fits into no table: go on without it."""

    def rows_moved(self) -> None:
        """Some came into their tables, or there is no room for them: somebody may have waited for that."""


class WalCheckpoints:
    """Looked after following each commit; see :meth:`mind`."""

    def __init__(self, owner: StoreOwner) -> None:
        self._owner = owner
        self._checkpoint: asyncio.Task[None] | None = None
        self._settling: asyncio.Handle | None = None
        self._slice: asyncio.Handle | None = None
        self._bringing: asyncio.Handle | None = None
        self._emptied_bytes = 0  # size of the log that begins anew with the next transaction: until then it keeps it
        self._due_s = 0.0
        self._look_due = 0

    def mind(self) -> None:
        """There was a commit: begin what has become due."""
        commits = self._owner.store.commits
        if commits >= self._look_due and self._checkpoint is None:
            self._look_due = commits + WAL_LOOK_COMMITS
            self.mind_wal()
        self._mind_journal()
        self._mind_backlog()

    async def ended(self) -> None:
        """Wait for the checkpoint under way, if there is one."""
        if self._checkpoint is not None:
            await asyncio.wait([self._checkpoint])

    async def wipe(self) -> None:
        """Leave nothing in the logs of what a purge has deleted."""
        await self.ended()
        if self._checkpoint is None:
            self._checkpoint = asyncio.create_task(self._wipe())
            await self.ended()

    async def _wipe(self) -> None:
        store = self._owner.store
        try:
            await asyncio.to_thread(store.checkpoint)
            with store.work("checkpoint"):
                if not self._owner.is_over:
                    store.wipe()
        except StorageError as error:
            self._owner.fail(error)
        except RowsRefused as error:
            self._owner.recover_rows(error)
        finally:
            self._checkpoint = None

    def mind_wal(self) -> None:
        """Begin a checkpoint of the write-ahead log if it has become large."""
        if self._checkpoint is not None or self._owner.is_over:
            return
        wal_bytes = self._owner.store.wal_bytes()
        if wal_bytes > WAL_CHECKPOINT_BYTES and wal_bytes != self._emptied_bytes and time.monotonic() >= self._due_s:
            self._checkpoint = asyncio.create_task(self._checkpoint_wal())

    async def _checkpoint_wal(self) -> None:
        """In a thread, until what comes in meanwhile is little enough to be done here; then the log begins anew."""
        store = self._owner.store
        try:
            for _ in range(CHECKPOINT_PASSES_MAX):
                before_bytes = store.wal_bytes()
                await asyncio.to_thread(store.checkpoint)
                if store.wal_bytes() - before_bytes <= WAL_REST_BYTES_MAX:
                    break
            with store.work("checkpoint"):
                is_done = self._owner.is_over or store.finish_checkpoint()
            if is_done:
                self._emptied_bytes = store.wal_bytes()
                return
            self._due_s = time.monotonic() + CHECKPOINT_RETRY_S  # somebody reads the database
            if store.wal_bytes() > WAL_BYTES_MAX:
                with store.work("checkpoint"):
                    store.truncate()
        except StorageError as error:
            self._owner.fail(error)
        except RowsRefused as error:
            self._owner.recover_rows(error)
        finally:
            self._checkpoint = None

    def _mind_journal(self) -> None:
        """See to it that what was committed comes into its tables soon, a step behind each turn, and not within it."""
        store, loop = self._owner.store, asyncio.get_running_loop()
        if self._settling is None and store.has_pending:
            self._settling = loop.call_later(SETTLE_DELAY_S, self._settle)
        if self._slice is None:
            self._slice = loop.call_soon(self._settle_some)

    def _settle_some(self) -> None:
        self._slice = None
        if self._owner.is_over:
            return
        try:
            has_ended = self._owner.store.settle_some()
        except StorageError as error:
            self._owner.fail(error)
        except RowsRefused as error:
            self._owner.recover_rows(error)
        else:
            if has_ended and self._settling is not None:  # what came since is for the next one
                self._settling.cancel()
                self._settling = None
                self._mind_journal()
                self._mind_backlog()

    def _settle(self) -> None:
        self._settling = None
        if self._owner.is_over:
            return
        try:
            self._owner.store.settle()
        except StorageError as error:
            self._owner.fail(error)
        except RowsRefused as error:
            self._owner.recover_rows(error)
        self._owner.rows_moved()
        self._mind_backlog()

    def _mind_backlog(self, delay_s: float = 0.0) -> None:
        """See to it that the rows of large commits come into their tables, a slice between the turns of others."""
        store = self._owner.store
        if self._bringing is None and (store.backlog_records or store.is_crowded):
            loop = asyncio.get_running_loop()
            self._bringing = loop.call_later(delay_s, self._bring_in) if delay_s else loop.call_soon(self._bring_in)

    def _bring_in(self) -> None:
        self._bringing = None
        if self._owner.is_over:
            return
        store = self._owner.store
        delay_s = 0.0
        if store.wal_bytes() > WAL_PAUSE_BYTES and self._checkpoint is not None:
            delay_s = WAL_PAUSE_S  # it cannot begin anew while it is written to
        else:
            try:
                if not store.backlog_records:
                    store.settle()
                delay_s = 0.0 if store.bring_some_in() else CHECKPOINT_RETRY_S
            except StorageError as error:
                self._owner.fail(error)
                return
            except RowsRefused as error:
                self._owner.recover_rows(error)
        self._owner.rows_moved()
        self.mind_wal()
        self._mind_backlog(delay_s)
