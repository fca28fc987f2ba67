"""Faults in the merging of forks."""

from __future__ import annotations

from typing import Any

from crdtsync.client.aio.methods.forks import AsyncCarrying
from crdtsync.client.operations import forks
from crdtsync.client.operations.batch import Batch
from crdtsync.client.text import carrying
from crdtsync.core.text.yjs_library import fresh_updates
from crdtsync.wire.tokens import encode_version
from tests.simulator.faults.planting import Patches, merge_fault


def _without(batch, is_gone):
    """The batch with only some of what it recorded, and the others."""
    gone = [write for write in batch.recorded if is_gone(write.arguments["key"])]
    batch._writes = [write for write in batch.recorded if not is_gone(write.arguments["key"])]
    return gone


def _is_note(key):
    return key.startswith(forks.RECORDS)


@merge_fault("after a merge")
def a_fork_that_is_merged_twice_counts_twice(patch: Patches):
    """Nothing is noted of how far a merge has come"""
    flush = AsyncCarrying.flush

    async def flush_without_notes(self):
        _without(self._batch, _is_note)
        await flush(self)

    patch.setattr(AsyncCarrying, "flush", flush_without_notes)


@merge_fault("counts after a merge", is_apart=True)
def hosts_that_are_cut_off_count_what_they_merge_as_their_own(patch: Patches):
    """Each of them adds what the fork has counted since the merge that it knows"""
    carry: Any = forks.carry
    patch.setattr(forks, "carry", lambda *args: carry(*args[:6]))


@merge_fault("after a merge")
def what_was_merged_is_noted_by_a_change_of_its_own(patch: Patches):
    """A merge that is cut off between the two has written, and does not know it"""
    flush = AsyncCarrying.flush

    async def flush_apart(self):
        notes = _without(self._batch, _is_note)
        await flush(self)
        for note in notes:
            self._batch._add(note)
        await flush(self)

    patch.setattr(AsyncCarrying, "flush", flush_apart)


@merge_fault("shows after a merge")
def a_merge_overwrites_what_it_has_not_seen(patch: Patches):
    """It writes as one who has seen whatever there is"""
    carry: Any = forks.carry

    def carry_blindly(batch, key, before, after, _seen, *others):
        carry(batch, key, before, after, None, *others)

    patch.setattr(forks, "carry", carry_blindly)


@merge_fault("shows after a merge")
def a_merge_does_not_know_what_it_has_written_before(patch: Patches):
    """What an earlier merge of the key wrote stays beside what this one writes"""
    patch.setattr(forks, "seen_with", lambda base, *_: encode_version(base))


@merge_fault("after a merge")
def elements_that_are_taken_out_after_a_merge_stay(patch: Patches):
    """Only the first merge of a log knows what its elements are called in the space"""
    merge = Batch.remove
    patch.setattr(
        Batch, "remove", lambda self, key, dot, **options: None if key == "log" else merge(self, key, dot, **options)
    )


@merge_fault("shows after a merge the text")
def a_merge_types_a_text_of_the_fork_anew(patch: Patches):
    """What comes into the space has new ids there, so that the next merge brings it once more"""
    lacking = carrying.lacking

    def lacking_all(whole, held, parts_max):
        anew = held is not None and lacking(whole, held, parts_max)
        return fresh_updates(carrying.plain(whole), held.update, 10_000) if anew else lacking(whole, held, parts_max)

    patch.setattr(carrying, "lacking", lacking_all)


@merge_fault("shows after a merge the text")
def a_merge_leaves_deletions_in_a_text_out(patch: Patches):
    """It brings only what was typed"""
    patch.setattr(carrying, "_deleted", lambda _update, _at: [])
