"""Faults of the disk and of what leaves before it."""

from __future__ import annotations

from crdtsyncd.storage import backlog, writes
from crdtsyncd.storage.backlog import Backlog
from crdtsyncd.storage.database import Store

from crdtsync.core.interface import Ready
from crdtsync.core.storage.long_values import ValueCache
from tests.simulator.faults.planting import Patches, fault
from tests.simulator.hosts import Host
from tests.simulator.kinds import REGISTERS
from tests.simulator.world import World


@fault("ought to have")
def removals_not_stored(patch: Patches):
    """After a restart, what was removed is back."""
    write = Store._write

    def forgetful(self, batch, era):
        batch.removed_rows = []
        write(self, batch, era)

    patch.setattr(Store, "_write", forgetful)


@fault("nor its journal")
def commit_loses_its_last_change(patch: Patches):
    """The disk says yes, and the last change of the batch is not on it."""
    write = Store._write

    def torn(self, batch, era):
        if len(batch.changes) > 1:
            lost = batch.changes.pop()
            batch.entries = [e for e in batch.entries if (e.writer, e.seq) != (lost.writer, lost.seq)]
            batch.document_updates = [
                u for u in batch.document_updates if (u.by_writer, u.by_seq) != (lost.writer, lost.seq)
            ]
        write(self, batch, era)

    patch.setattr(Store, "_write", torn)


@fault("which nobody has on disk", keys=(*REGISTERS[:1], "log/1"), steps=200)
def sends_before_the_disk(patch: Patches):
    """Messages leave although the commit did not happen."""

    def send_anyway(self: World, host: Host, ready: Ready) -> None:
        self.dispatch(host, ready._replace(replies=[], peer_closes=[], agent_closes=[]))

    patch.setattr(World, "dispatch_uncommitted", send_anyway)


@fault("acknowledged before it was on disk")
def replies_before_the_disk(patch: Patches):
    def reply_anyway(self: World, host: Host, ready: Ready) -> None:
        self.dispatch(host, ready._replace(sends=[], peer_closes=[], agent_closes=[]))

    patch.setattr(World, "dispatch_uncommitted", reply_anyway)


@fault("the value")
def values_of_another_row(patch: Patches):
    """The cache of long values hands out what was written before."""
    get = ValueCache.get
    patch.setattr(ValueCache, "get", lambda self, row: get(self, row - 1) or get(self, row))


def large_commits(patch: Patches) -> None:
    """Most commits are large, so that their rows come to their tables in slices."""
    patch.setattr(writes, "DIRECT_ROWS_MAX", 1)
    patch.setattr(backlog, "SLICE_ROWS", 1)


@fault("ought to")
def a_backlog_is_forgotten_with_its_process(patch: Patches):
    """Rows of a large commit that were not in their tables when the process ended never come there."""
    large_commits(patch)
    patch.setattr(Backlog, "look", lambda self: setattr(self, "count", 0))


@fault("tells")
def the_dead_are_not_waited_for(patch: Patches):
    """History is read while deaths are on their way to their rows."""
    large_commits(patch)
    patch.setattr(Store, "backlog_position", None)
