"""Faults in snapshots and in what is trimmed."""

from __future__ import annotations

from crdtsyncd.storage import writes

from crdtsync.core.background.trimming import Retention
from crdtsync.core.replica.snapshots import merge
from crdtsync.core.replica.snapshots.snapshot import difference
from crdtsync.core.sync.snapshot_server import SnapshotServer, _Open
from tests.simulator.faults.planting import Patches, fault
from tests.simulator.kinds import REGISTERS


def merging(patch: Patches, change):
    """Plant a fault into what becomes of entries when a snapshot is merged."""

    def wrong(held, vector, taken):
        held = list(held)
        return change(difference(held, vector, taken), held, vector, taken)

    patch.setattr(merge, "difference", wrong)


@fault("ought to have", is_tight=True)
def snapshot_keeps_what_its_frontier_covers(patch: Patches):
    """What others have removed is still there after the merge."""
    merging(patch, lambda found, held, vector, taken: found._replace(gone=[]))


@fault("", keys=REGISTERS, is_tight=True, steps=250)
def snapshot_brings_back_what_was_removed(patch: Patches):
    def all_that_is_lacking(found, held, vector, taken):
        here = {entry.dot for entry in held}
        come = [entry for dot, entry in taken.entries.items() if dot not in here]
        return found._replace(come=come, digest=sum(entry.digest for entry in come))

    merging(patch, all_that_is_lacking)


@fault("ought to have", is_tight=True)
def snapshot_drops_what_its_frontier_does_not_cover(patch: Patches):
    """What the taker wrote offline goes with its merge."""
    merging(
        patch,
        lambda found, held, vector, taken: found._replace(gone=[e for e in held if e.dot not in taken.entries]),
    )


@fault("above its floor")
def merge_does_not_raise_the_floor(patch: Patches):
    advance = merge._advance_heads

    def forgetful(replica, taken, advanced):
        floor = dict(replica.floor)
        advance(replica, taken, advanced)
        replica.floor = floor
        replica.ledger.batch.floors.clear()

    patch.setattr(merge, "_advance_heads", forgetful)


@fault("above its floor")
def trim_does_not_raise_the_floor(patch: Patches):
    trim = Retention._trim_log

    def forgetful(self, replica_, batch, *arguments):
        floor = dict(replica_.floor)
        more = trim(self, replica_, batch, *arguments)
        replica_.floor = floor
        batch.floors.clear()
        return more

    patch.setattr(Retention, "_trim_log", forgetful)


@fault("counts")
def trim_does_not_count(patch: Patches):
    """The status goes on telling of what is no longer there, and more is trimmed than need be."""
    patch.setattr("crdtsyncd.storage.writes.CHANGE_ROW_BYTES", 71)


@fault("snapshot_refused", keys=REGISTERS, is_tight=True, steps=250)
def parts_of_two_snapshots_are_mixed(patch: Patches):
    """A taker that comes back goes on with the parts of another snapshot."""
    take = SnapshotServer.take

    def careless(self, link, here, replica_, message):
        if message.part and message.snapshot not in self._open:
            other = self._cut(replica_)
            parts = [other.part(n) for n in range(message.part + 1) if other.knows(n)]
            if len(parts) == message.part + 1:
                other.id = message.snapshot
                self._open[other.id] = _Open(other, self._node.now_s, self._node.now_s)
        take(self, link, here, replica_, message)

    patch.setattr(SnapshotServer, "take", careless)


@fault("has a head")
def an_older_head_is_written_last(patch: Patches):
    """A snapshot and what follows it come in one commit, and the disk forgets the latter."""
    heads = writes._heads
    patch.setattr(writes, "_heads", lambda batch: sorted(heads(batch), key=lambda head: -head[2]))


@fault("ought to be")
def documents_are_left_out(patch: Patches):
    """A snapshot brings the marker of a text, and not the text."""
    patch.setattr(merge, "_absorb_documents", lambda replica, taken: [])
