"""Faults in reads of the past, in checkpoints and in restores."""

from __future__ import annotations

from crdtsyncd.storage.past_reads import PastReads

from crdtsync.causality import covers
from crdtsync.core.crdt.entries import DIGEST_MODULUS
from crdtsync.core.history.checkpoints import Checkpoints, packed_record
from crdtsync.core.reads import cuts
from crdtsync.core.reads.cuts import Closing, Cut
from crdtsync.core.reads.gone_since import GoneSince
from crdtsync.core.replica import restore
from crdtsync.core.storage.long_values import LongValues
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
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


@cut_fault("as of a")
def a_value_comes_from_the_wrong_row(patch: Patches):
    """Of a long value on disk the row before it is read, and not compared with the hash"""

    def of_the_row_before(self, entry):
        return self._read(entry.row - 1) or self._read(entry.row)

    patch.setattr(LongValues, "_value", of_the_row_before)


@cut_fault("does not give its bytes")
def a_restored_blob_names_the_parts_that_it_had(patch: Patches):
    """They have gone with the entry that was removed, or go with it where that is known later"""
    patch.setitem(restore._OF_KIND, Kind.BLOB, restore._of_values)


@cut_fault("made a checkpoint that is not whole")
def the_parts_of_a_blob_go_although_a_checkpoint_holds_them(patch: Patches):
    under = PastReads.dead_under
    patch.setattr(
        PastReads, "dead_under", lambda self, space, prefix, _, rows_max: under(self, space, prefix, None, rows_max)
    )


@cut_fault("from before it came")
def one_that_came_later_shows_what_it_has_of_a_checkpoint(patch: Patches):
    patch.setattr("crdtsync.core.reads.as_of.check_told", lambda *args, **kwargs: None)


@cut_fault("from before it came")
def a_checkpoint_counts_as_whole_before_all_of_it_has_come(patch: Patches):
    begin = Checkpoints.begin_recall

    def hastily(self, record):
        kept = begin(self, record)._replace(is_whole=True)
        self.keep(kept)
        return kept

    patch.setattr(Checkpoints, "begin_recall", hastily)


@cut_fault("from before it came")
def texts_are_not_given_with_what_a_checkpoint_holds(patch: Patches):
    """One that came later takes each for unchanged since"""
    patch.setattr(GoneSince, "_look_at_documents", lambda self, *args: None)


@cut_fault("is not whole")
def an_automatic_checkpoint_counts_its_own_record(patch: Patches):
    """Its digest is that of the state with the record, which its cut does not have"""

    def with_its_record(replica, *args):
        value = unpack(packed_record(replica, *args))
        value["digest"] = ((replica.entries.digest + 1) % DIGEST_MODULUS).to_bytes(16, "big")
        return pack(value)

    patch.setattr("crdtsync.core.background.automatic_checkpoints.packed_record", with_its_record)
