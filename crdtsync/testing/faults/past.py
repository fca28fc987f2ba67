"""Faults in what is told of the past."""

from __future__ import annotations

from crdtsyncd.store_reads import Reads

from crdtsync.core import fates, past, replica
from crdtsync.core.entries import order_of
from crdtsync.core.past import Past
from crdtsync.core.storage import RemovalRow
from crdtsync.testing.agents import REGISTERS
from crdtsync.testing.faults.planting import Patches, fault
from crdtsync.wire.codec import pack


@fault("that it was blind", keys=REGISTERS)
def blind_writes_are_not_marked(patch: Patches):
    patch.setattr(replica, "seen_by", lambda op: past.seen_by(op._replace(blind=False)))


@fault("and it was", keys=REGISTERS)
def an_author_does_not_know_its_own_values(patch: Patches):
    patch.setattr(Past, "is_same_author", lambda self, entry, change: False)


@fault("and it was", keys=REGISTERS[:1])
def of_siblings_the_oldest_counts_as_shown(patch: Patches):
    patch.setattr(fates, "_shown", lambda values, policy: {min(values, key=order_of).dot})


@fault("that its author had seen")
def what_an_author_had_seen_is_forgotten(patch: Patches):
    patch.setattr(replica, "seen_by", lambda op: pack(None))


@fault("not how it ended")
def the_removal_is_not_found(patch: Patches):
    patch.setattr(past, "RemovalRow", lambda *row: RemovalRow(*row)._replace(n=7))


@fault("and ought to tell")
def what_dies_is_not_told(patch: Patches):
    patch.setattr(Past, "bury_unknown", lambda *_: None)
    patch.setattr(Reads, "dead", lambda *_args, **_kwargs: [])
