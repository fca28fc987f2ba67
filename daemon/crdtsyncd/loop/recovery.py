"""After a failed step or commit: the node drops what it left half done, and goes on from what is on disk.

Where the disk itself has failed nothing is known of what it holds: then the process must end.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from traceback import format_exception
from typing import TYPE_CHECKING, Protocol

from crdtsyncd.loop.replay_quarantine import take_back
from crdtsyncd.storage.journal.quarantine import RowsRefused
from crdtsyncd.telemetry.event_log import log

from crdtsync.core.interface import Tick
from crdtsync.errors import CrdtSyncError, NoSpace, StorageError

if TYPE_CHECKING:
    from crdtsyncd.storage.database import Store

    from crdtsync.core.interface import Event, Now, Ready
    from crdtsync.core.node import Node


class NodeOwner(Protocol):
    """Whose node it is: the driver."""

    @property
    def store(self) -> Store:
        """The database in use; not always the same one."""

    @property
    def core(self) -> Node:
        """The node; not always the same one."""

    def now(self) -> Now:
        """The present time."""

    def fail(self, error: CrdtSyncError) -> None:
        """The disk cannot be trusted: this process must end."""

    def deliver(self, ready: Ready) -> None:
        """Send what leaves for agents and peers."""

    def let_out(self, ready: Ready) -> None:
        """The same, and whatever else follows once it is on disk."""

    def plan(self) -> None:
        """See to it that the next turn is taken when it is due."""


class Recovery:
    """Recovers one driver."""

    def __init__(self, owner: NodeOwner) -> None:
        self._owner = owner

    def step_failed(self, event: Event, error: Exception) -> None:
        """Drop what a bug left half done."""
        owner = self._owner
        try:
            if isinstance(error, sqlite3.Error):
                raise owner.store.unreadable(error)
            if isinstance(error, StorageError):  # reading brings in what waits in the journal, and that has failed
                raise error
            _log_failure(error, type(event).__name__)
            self._settle_for_reload()
            owner.deliver(owner.core.step_failed(event, f"{type(error).__name__}: {error}"))
            self.take_back()
            owner.plan()
        except sqlite3.Error as second:
            owner.fail(owner.store.unreadable(second))
        except CrdtSyncError as second:
            owner.fail(second)

    def commit_failed(self, ready: Ready, error: Exception) -> None:
        """The same, where nothing of a commit is on disk: whoever waits for it hears so."""
        owner = self._owner
        _log_failure(error, "commit")
        refusal = CrdtSyncError(f"this could not be stored, and was not done: {type(error).__name__}: {error}")
        try:
            self._settle_for_reload()
            owner.deliver(owner.core.persist_failed(ready, refusal))
            self.take_back()
            owner.plan()
        except Exception as second:  # noqa: BLE001  # a bug must not stop the service
            self.step_failed(Tick(), second)

    def _settle_for_reload(self) -> None:
        """See to it that reading everything anew is not interrupted by what no table takes."""
        store = self._owner.store
        with suppress(RowsRefused):
            store.settle()
        store.is_behind = False

    def take_back(self) -> None:
        """Take changes out of quarantine into memory and the tables again, as far as that can be done."""
        owner = self._owner
        try:
            take_back(owner.core, owner.store, owner.now, owner.let_out)
        except NoSpace as error:
            log("commit_refused", level="error", reason=error.message)
            owner.deliver(owner.core.step_failed(Tick(), error.message))
        except StorageError as error:
            owner.fail(error)


def _log_failure(error: Exception, during: str) -> None:
    if isinstance(error, RowsRefused):
        log("quarantined", level="error", reason=str(error))
    else:
        log("bug", level="error", during=during, error="".join(format_exception(error)))
