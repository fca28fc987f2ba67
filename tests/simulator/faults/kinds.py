"""Faults in the kinds of values, their policies and their end."""

from __future__ import annotations

from crdtsync.core.background.expiry_reaper import Reaper
from crdtsync.core.crdt import read_policies
from crdtsync.core.crdt.key_entries import KeyEntries
from crdtsync.core.crdt.schemas import Schemas
from crdtsync.core.kinds import counter, crowding, register
from crdtsync.core.replica.text_edits import TextEdits
from crdtsync.core.replica.write_operations import WRITES
from crdtsync.core.text import word_merge
from crdtsync.core.watch.watches import Watches
from crdtsync.errors import TooManySiblings
from tests.simulator.faults.planting import Patches, fault
from tests.simulator.kinds import COUNTERS, MAPS, REGISTERS, SETS, TEXTS


@fault("where it saw", keys=COUNTERS[:1], steps=200)
def resets_add_up(patch: Patches):
    """Two resets at once take off twice what both saw."""

    def added_up(totals):
        pairs = list(totals)
        return sum(up for up, _ in pairs), sum(down for _, down in pairs)

    def reset_by_sum(self, entry):
        patch.setattr(counter, "_highest", added_up if entry.sub == counter.RESET else highest)
        count_in(self, entry)
        patch.setattr(counter, "_highest", highest)

    highest, count_in = counter._highest, counter.Tally.add
    patch.setattr(counter.Tally, "add", reset_by_sum)


def unread(name):
    """A write operation that does as if its author had never read the key."""
    write = WRITES[name]
    return lambda draft, args: write(draft, {key: value for key, value in args.items() if key != "seen"})


@fault("where its author had seen", keys=REGISTERS, is_tight=True)
def the_newest_is_crowded_out(patch: Patches):
    patch.setattr(crowding, "lowest", lambda policy, values, count: values[len(values) - count :])


@fault("where its author had seen", keys=REGISTERS, is_tight=True)
def siblings_without_end(patch: Patches):
    patch.setattr(register, "crowded_out", lambda *_: [])


@fault("refused for its siblings", keys=REGISTERS, is_tight=True)
def who_writes_to_a_full_key_is_stuck(patch: Patches):
    def refuse(policy, values, count):
        raise TooManySiblings("read it, then write")

    patch.setattr(crowding, "lowest", refuse)


@fault("where its author had seen", keys=SETS)
def discard_takes_what_was_not_seen(patch: Patches):
    patch.setitem(WRITES, "discard", unread("discard"))


@fault("where its author had seen", keys=MAPS)
def fields_are_written_blindly(patch: Patches):
    patch.setitem(WRITES, "merge", unread("merge"))


@fault("where its author had seen", keys=MAPS[:1], is_tight=True)
def the_last_to_come_is_taken_for_the_winner(patch: Patches):
    """Of a field of a large map."""

    def as_they_come(self, entry):
        self.kinds[entry.kind] = self.kinds.get(entry.kind, 0) + 1
        if entry.sub is not None:
            self.by_sub[entry.sub] = (*self.by_sub.get(entry.sub, ()), entry)

    patch.setattr(KeyEntries, "_count", as_they_come)


@fault("that it should leave to its owner")
def every_node_deletes_what_has_expired(patch: Patches):
    patch.setattr(Reaper, "_owner", lambda self, replica_, writer: self._me)


@fault("loses the words", keys=TEXTS)
def merged_texts_lose_one(patch: Patches):
    patch.setattr(word_merge, "_union", lambda one, other: one)


@fault("and ought to be", keys=TEXTS)
def late_edits_stay_in_the_old_document(patch: Patches):
    patch.setattr(TextEdits, "_family", lambda *_: None)


@fault("and ought to be", keys=TEXTS)
def a_new_document_begins_without_late_edits(patch: Patches):
    patch.setattr(TextEdits, "_take_in_older", lambda *_: iter(()))


@fault("was read with", keys=REGISTERS)
def equal_confidences_go_by_their_place(patch: Patches):
    """Not by time: then what came last decides, and hosts disagree."""

    def as_they_stand(entries):
        return sorted(entries, key=read_policies._confidence, reverse=True)

    policy = read_policies.POLICIES["confidence"]._replace(rank=as_they_stand)
    patch.setitem(read_policies.POLICIES, "confidence", policy)


@fault(" at host-", keys=REGISTERS)
def a_new_schema_is_not_told(patch: Patches):
    """Watchers go on with the winner of before."""
    patch.setattr(Watches, "reranked", lambda self, replica_, now_ms: set())


@fault("the policy is", keys=REGISTERS)
def schemas_of_a_snapshot_go_unnoticed(patch: Patches):
    patch.setattr(Schemas, "note_entries", lambda self, entries: None)


@fault("the policy is", keys=REGISTERS)
def a_schema_is_remembered_for_ever(patch: Patches):
    """What applies to a key is not found again when another schema comes."""
    refresh = Schemas._refresh

    def keep(self):
        found = dict(self._found)
        refresh(self)
        self._found = found

    patch.setattr(Schemas, "_refresh", keep)


@fault("although it ranks lower than", keys=REGISTERS)
def lower_ones_are_taken(patch: Patches):
    patch.setattr(register, "check_rank", lambda *arguments: None)
