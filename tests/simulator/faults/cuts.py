"""Faults in reads of the past, in checkpoints and in restores."""

from __future__ import annotations

from crdtsync.causality import covers
from crdtsync.core.history import cuts
from crdtsync.core.history.checkpoints import Checkpoints
from crdtsync.core.history.cuts import Closing, Cut
from crdtsync.core.replica import restore
from tests.simulator.faults.planting import Patches, cut_fault


@cut_fault("as of a token")
def a_cut_is_taken_by_local_row_number(patch: Patches):
    """What this node had when it applied the newest change of a token counts as what its author had seen"""

    def by_row(replica, vector, time_ms):
        cut = of(replica, vector, time_ms)
        vector = replica.storage.vector_at(replica.id, cut.to, replica.durable_vector(), replica.floor)
        return Cut(vector, time_ms, cut.to, cut.to)

    of = cuts.cut_of
    patch.setattr(cuts, "cut_of", by_row)


@cut_fault("as of a token")
def only_the_first_removal_of_a_value_counts(patch: Patches):
    patch.setattr(Cut, "is_prefix", True)


@cut_fault("as of a token")
def a_token_is_taken_for_what_its_author_had_seen(patch: Patches):
    patch.setattr(Closing, "_seen_by", lambda self, row: {})
    patch.setattr(Closing, "_is_closed", lambda self, position: covers(self._vector, self._replica.floor))


@cut_fault("does not keep the checkpoint")
def retention_eats_a_checkpoint(patch: Patches):
    patch.setattr(Checkpoints, "find_pins", lambda self, held_bytes, bytes_max: None)


@cut_fault("after a restore")
def a_restore_leaves_what_came_later(patch: Patches):
    plain = restore._of_values
    patch.setattr(restore, "_of_values", lambda *args: plain(*args)._replace(gone=[]))
