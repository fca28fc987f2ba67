"""Faults that show when machines fail: disks that lose what was not flushed, or go back; and bounds forgotten."""

from __future__ import annotations

import os
from unittest import mock

from crdtsyncd.storage import database, open_database, retry_replies, writes
from crdtsyncd.storage.database import Store
from crdtsyncd.storage.journal import journal
from crdtsyncd.storage.journal.file import JournalFile
from crdtsyncd.storage.journal.journal import Journal
from crdtsyncd.storage.retry_replies import OutcomeTable
from crdtsyncd.storage.writer_mark import Mark

from crdtsync.causality import Writer
from crdtsync.core.crdt import causal_gate
from crdtsync.core.crdt.causal_gate import CausalGate
from crdtsync.core.peers.connections import Contacts
from crdtsync.core.sync.protocol import Sync
from crdtsync.core.text.document_cache import Documents
from crdtsync.core.waiting.write_concern import Concern
from tests.simulator.faults.planting import Patches, fault
from tests.simulator.kinds import REGISTERS, TEXTS
from tests.simulator.late import Late
from tests.simulator.world import World


@fault("ought to hold", is_troubled=True)
def commits_are_not_flushed(patch: Patches):
    """What was acknowledged goes with the power (``synchronous=NORMAL``)."""
    set_up, settle, flush = open_database.set_up, Store._settle, JournalFile.flush

    def hasty(db):
        set_up(db)
        db.execute("PRAGMA synchronous = NORMAL")

    def still_hasty(self):
        settle(self)
        self._connection.execute("PRAGMA synchronous = NORMAL")

    def unflushed(self):
        flushes = self.flushes
        with mock.patch.object(os, "fdatasync"):
            flush(self)
        self.flushes = flushes

    patch.setattr(database, "set_up", hasty)
    patch.setattr(Store, "_settle", still_hasty)
    patch.setattr(JournalFile, "flush", unflushed)


def short_transactions(patch: Patches) -> None:
    """Rows come to their tables one at a time, and a transaction has few."""
    patch.setattr(journal, "SLICE_CHANGES", 4)
    patch.setattr(journal, "TRANSACTION_CHANGES", 8)
    patch.setattr(writes, "STEP_ROWS", 1)
    patch.setattr(retry_replies, "STEP_ROWS", 1)


@fault("nor its journal", is_troubled=True)
def more_is_settled_than_was_taken(patch: Patches):
    """At the end of a transaction the journal notes its newest record, and not the last that the tables have."""
    short_transactions(patch)
    clear, cleared = Journal.clear, Journal.cleared
    patch.setattr(Journal, "clear", lambda self, *, is_all=False: clear(self, is_all=True))
    patch.setattr(Journal, "cleared", lambda self, *, is_all=False: cleared(self, is_all=True))


@fault("waiting for their tables")
def the_settler_is_dead(patch: Patches):
    """Nobody brings rows into their tables behind the turns: that is left to a commit that finds no more room."""
    short_transactions(patch)
    patch.setattr(Store, "settle_some", lambda self: False)


@fault("ought to")
def the_settler_is_a_minute_behind(patch: Patches):
    """Whoever reads the tables takes what is there, and does not bring in first what was committed."""
    patch.setattr(World, "bring_in", Late.bring_in)
    patch.setattr(Store, "_db", property(lambda self: self._connection))


@fault("nor its journal", is_troubled=True)
def a_slice_that_is_half_there_counts_as_whole(patch: Patches):
    """A transaction ends amid a slice, and the rest of it never comes to its tables."""
    short_transactions(patch)
    bring_in = Store._bring_in

    def hasty(self, *, is_whole):
        if is_whole:
            self._steps = None
        bring_in(self, is_whole=is_whole)

    patch.setattr(Store, "_bring_in", hasty)


@fault("lost records of its journal", is_tight=True, is_troubled=True)
def the_journal_is_written_over_too_early(patch: Patches):
    """It begins at its start again although the tables have not got what stands there, or not on disk."""
    patch.setattr(JournalFile, "has_room", lambda self, row: True)
    write = JournalFile.write

    def early(self, row):
        self._may_start_over = True
        write(self, row)

    patch.setattr(JournalFile, "write", early)


@fault("applied another change", keys=REGISTERS, is_troubled=True)
def a_writer_goes_on_after_its_disk_went_back(patch: Patches):
    """Numbers that peers have seen are used again on other changes."""
    patch.setattr(Mark, "allows", lambda self, era, own_changes: True)


@fault("for the second time", keys=REGISTERS, is_troubled=True)
def a_disk_that_went_back_is_the_same_to_its_clients(patch: Patches):
    """They ask again for what it no longer knows, although it was done and others have it."""
    patch.setattr(Store, "incarnation", property(lambda self: self.database))


@fault("nor its journal", is_troubled=True)
def the_journal_is_not_read_at_the_start(patch: Patches):
    """What was committed and not yet in the tables is lost with a kill."""

    patch.setattr(JournalFile, "rows", lambda self, state: (0 if state is None else state.settled, []))


@fault("for the second time", is_troubled=True)
def outcomes_are_not_stored(patch: Patches):
    """After a restart a retried write is done again."""
    patch.setattr(OutcomeTable, "steps", lambda self, rows: iter(()))


@fault("nodes had it on disk", keys=REGISTERS, is_troubled=True)
def a_write_counts_as_held_where_it_was_sent(patch: Patches):
    """A write concern is met before others have said that they have the write on disk."""
    patch.setattr(Concern, "_is_at", lambda self, peer: True)


@fault("nodes had it on disk", keys=REGISTERS, steps=240, is_troubled=True)
def what_a_peer_once_had_counts_for_ever(patch: Patches):
    """A peer whose disk went back is taken to have what it has lost."""
    start, introduced = Sync._start, Contacts.introduced
    once: dict[tuple[int, str], dict[str, dict[Writer, int]]] = {}

    def remembering(self, link, hello):
        peer = self.peers.get(hello.node)
        once[id(self.peers), hello.node] = {} if peer is None else {n: dict(v) for n, v in peer.acked.items()}
        introduced(self, link, hello)

    def never_less(self, link, replica_, *arguments):
        start(self, link, replica_, *arguments)
        held = self.peers[link.hello.node].acked.get(replica_.name, {})
        before = once.get((id(self.peers), link.hello.node), {}).get(replica_.name, {})
        held.update({writer: max(seq, held.get(writer, 0)) for writer, seq in before.items()})

    patch.setattr(Contacts, "introduced", remembering)
    patch.setattr(Sync, "_start", never_less)


@fault("too many early changes", is_troubled=True)
def early_changes_are_not_bounded(patch: Patches):
    """Whoever sends what cannot be applied yet fills the memory."""
    hold = CausalGate.hold

    def endless(self, change, waits_for):
        causal_gate.WRITER_CHANGES_MAX = 1 << 30
        try:
            return hold(self, change, waits_for)
        finally:
            causal_gate.WRITER_CHANGES_MAX = 1

    patch.setattr(causal_gate, "WRITER_CHANGES_MAX", 1)
    patch.setattr(CausalGate, "hold", endless)


@fault("texts open", keys=TEXTS, is_tight=True, is_troubled=True)
def texts_stay_open(patch: Patches):
    """Those that were edited in one commit are all kept in memory."""
    make_room = Documents._make_room

    def make_one_room(self, count_max):
        if len(self._open) <= count_max + 1:
            make_room(self, count_max)

    patch.setattr(Documents, "_make_room", make_one_room)
