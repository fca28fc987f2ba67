"""Faults in what is told of the past."""

from __future__ import annotations

from typing import Any

from crdtsyncd.storage.past_reads import PastReads

from crdtsync.core.crdt.entry import order_of
from crdtsync.core.history import recorder, removal_reason
from crdtsync.core.history.recorder import HistoryRecorder
from crdtsync.core.kinds import seen
from crdtsync.core.replica import replica
from crdtsync.core.storage.rows import RemovalRow
from crdtsync.wire.codec import new_row, pack
from tests.simulator.faults.planting import Patches, fault
from tests.simulator.kinds import REGISTERS


@fault("that it was blind", keys=REGISTERS)
def blind_writes_are_not_marked(patch: Patches):
    patch.setattr(replica, "seen_by", lambda op: seen.seen_by(op._replace(blind=False)))


@fault("and it was", keys=REGISTERS)
def an_author_does_not_know_its_own_values(patch: Patches):
    patch.setattr(HistoryRecorder, "is_same_author", lambda self, entry, change: False)


@fault("and it was", keys=REGISTERS[:1])
def of_siblings_the_oldest_counts_as_shown(patch: Patches):
    patch.setattr(removal_reason, "_shown", lambda values, policy: {min(values, key=order_of).dot})


@fault("and it was", keys=REGISTERS[:1], is_tight=True)
def each_node_decides_by_itself_what_is_lost(patch: Patches):
    """By what of it is left there, and by the read policy that it knows."""
    patch.setattr(HistoryRecorder, "with_lost", lambda self, change: change.ops)


@fault("that its author had seen")
def what_an_author_had_seen_is_forgotten(patch: Patches):
    patch.setattr(replica, "seen_by", lambda op: pack(None))


@fault("not how it ended")
def the_removal_is_not_found(patch: Patches):
    def misplaced(kind: type[Any], row: tuple[Any, ...]) -> Any:
        made = new_row(kind, row)
        return made._replace(n=7) if kind is RemovalRow else made

    patch.setattr(recorder, "new_row", misplaced)


@fault("and ought to tell")
def what_dies_is_not_told(patch: Patches):
    patch.setattr(HistoryRecorder, "record_removed_elsewhere", lambda *_: None)
    patch.setattr(PastReads, "dead", lambda *_args, **_kwargs: [])
