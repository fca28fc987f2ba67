"""The histories find what they are there to find: each fault, planted alone, is caught within a few seeds."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from crdtsyncd import store_writes
from crdtsyncd.store import Store
from crdtsyncd.store_reads import Reads

from crdtsync.client.horizon import Horizon
from crdtsync.client.mirror.state import MirrorState
from crdtsync.core import fates, past, policies, replica
from crdtsync.core.agents import Desk
from crdtsync.core.draft import Draft
from crdtsync.core.entries import Entries, KeyEntries, order_of
from crdtsync.core.feeding import Feeder
from crdtsync.core.giving import Giver, _Open
from crdtsync.core.kinds import counter, register, text_join
from crdtsync.core.mirrors import StateWatches
from crdtsync.core.node import Ready
from crdtsync.core.past import Past
from crdtsync.core.reaper import Reaper
from crdtsync.core.replica import Effect, Replica
from crdtsync.core.retention import Retention
from crdtsync.core.schemas import Schemas
from crdtsync.core.snapshot import difference
from crdtsync.core.storage import RemovalRow
from crdtsync.core.watches import Watches
from crdtsync.core.writes import WRITES
from crdtsync.wire.codec import pack
from tests.property.agents import COUNTERS, MAPS, REGISTERS, SETS, TEXTS
from tests.property.histories import run_history
from tests.property.mirrors import MirrorWatcher
from tests.property.model import Broken
from tests.property.world import Host, World

SEEDS = range(250)

Plant = Callable[[pytest.MonkeyPatch], None]
FAULTS: list[tuple[str, Plant, dict[str, Any]]] = []


def fault(what: str, **how: Any) -> Callable[[Plant], Plant]:
    """Register a fault with what is said when it is caught, and which histories are to catch it."""

    def register(plant: Plant) -> Plant:
        FAULTS.append((what, plant, how))
        return plant

    return register


@fault("a mirror at")
def mirrors_lose_what_changes_during_their_snapshot(patch):
    """A key that was told already is not told again."""
    defer = StateWatches._defer

    def forgetful(self, watch, keys):
        if watch.scan is None:
            defer(self, watch, keys)

    patch.setattr(StateWatches, "_defer", forgetful)


@fault("a mirror at")
def mirrors_resume_without_looking_back(patch):
    def look_at_nothing(self, watch, now_ms):
        watch.position = None

    patch.setattr(StateWatches, "_look_back", look_at_nothing)


@fault("a mirror at")
def mirrors_show_what_is_not_whole(patch):
    """What has been told is shown after each frame."""
    take = MirrorState.take

    def hasty(self, message):
        changed = take(self, message)
        if message[1] == 2 and self._staged and self._token is not None:
            self._publish(self._token)
        return changed

    patch.setattr(MirrorState, "take", hasty)
    compare = MirrorWatcher.received

    def looking(self, message):
        compare(self, message)
        if message[1] == 2:
            self._compare()

    patch.setattr(MirrorWatcher, "received", looking)


@fault("before its causal past")
def no_causal_gate(patch):
    """A change is applied although what its author had seen is not there yet."""

    def own_order_only(change, vector):
        return None if vector.get(change.writer, 0) == change.seq - 1 else (change.writer, change.seq - 1)

    patch.setattr(replica, "blocker", own_order_only)


@fault("")
def no_order_at_all(patch):
    patch.setattr(replica, "blocker", lambda change, vector: None)


@fault("before its causal past")
def deps_omitted(patch):
    """Changes do not say what their author had seen."""
    commit = Replica.commit

    def forgetful(self, ops, *arguments):
        self._since_own.clear()
        return commit(self, ops, *arguments)

    patch.setattr(Replica, "commit", forgetful)


@fault("a session was shown less than before")
def daemons_that_do_not_wait_for_what_a_session_has_seen(patch):
    """An answer from a node that is behind what its reader has seen elsewhere."""
    handle = Desk._handle

    def careless(self, agent, request, name, args):
        return handle(self, agent, request, name, {key: value for key, value in args.items() if key != "need"})

    patch.setattr(Desk, "_handle", careless)


@fault("a session wrote before what it had been shown")
def writes_that_do_not_wait(patch):
    handle = Desk._handle

    def careless(self, agent, request, name, args):
        kept = args if name not in WRITES else {key: value for key, value in args.items() if key != "need"}
        return handle(self, agent, request, name, kept)

    patch.setattr(Desk, "_handle", careless)


@fault("a session")
def points_that_are_not_told(patch):
    """A session counts what it wrote, and not what it was shown."""
    patch.setattr(Desk, "_news", lambda *_: None)


@fault("a session was shown less than before")
def clients_that_forget_when_they_move(patch):
    patch.setattr(Horizon, "moved", Horizon.forget)


@fault("where its author had seen")
def seen_means_what_is_alive_here(patch):
    """The lost update: a write supersedes what its daemon holds by then, not what its author had read."""
    patch.setattr(Draft, "covered", lambda self, held, version, others: list(held))


@fault("removes what its node did not hold")
def seen_is_not_cut(patch):
    """What a session read elsewhere is removed here too, before it has arrived."""
    covered = Draft.covered

    def uncut(self, held, version, others):
        elsewhere = {*version.dots} - {entry.dot for entry in held}
        return [*covered(self, held, version, others), *(SimpleNamespace(dot=dot, kind=0) for dot in elsewhere)]

    patch.setattr(Draft, "covered", uncut)


@fault("where its author had seen")
def blind_write_removes_all(patch):
    patch.setattr(Draft, "expired", lambda draft, key: tuple(entry.dot for entry in draft.held(key)))


@fault("ought to have")
def deletes_of_others_dropped(patch):
    apply_op = Replica._apply_op

    def forgetful(self, change, n, op, *where):
        if op.value_hash is None and change.writer != self.writer:
            return Effect(op, None, [])
        return apply_op(self, change, n, op, *where)

    patch.setattr(Replica, "_apply_op", forgetful)


@fault("ought to have")
def removals_not_stored(patch):
    """After a restart, what was removed is back."""
    write = Store._write

    def forgetful(self, batch):
        batch.removed_rows = []
        write(self, batch)

    patch.setattr(Store, "_write", forgetful)


@fault("ought to hold")
def commit_loses_its_last_change(patch):
    """The disk says yes, and the last change of the batch is not on it."""
    write = Store._write

    def torn(self, batch):
        if len(batch.changes) > 1:
            lost = batch.changes.pop()
            batch.entries = [e for e in batch.entries if (e.writer, e.seq) != (lost.writer, lost.seq)]
            batch.document_updates = [
                u for u in batch.document_updates if (u.by_writer, u.by_seq) != (lost.writer, lost.seq)
            ]
        write(self, batch)

    patch.setattr(Store, "_write", torn)


@fault("which nobody has on disk", keys=(*REGISTERS[:1], "log/1"), steps=200)
def sends_before_the_disk(patch):
    """Messages leave although the commit did not happen."""

    def send_anyway(self: World, host: Host, ready: Ready) -> None:
        self.dispatch(host, ready._replace(replies=[], peer_closes=[], agent_closes=[]))

    patch.setattr(World, "dispatch_uncommitted", send_anyway)


@fault("acknowledged before it was on disk")
def replies_before_the_disk(patch):
    def reply_anyway(self: World, host: Host, ready: Ready) -> None:
        self.dispatch(host, ready._replace(sends=[], peer_closes=[], agent_closes=[]))

    patch.setattr(World, "dispatch_uncommitted", reply_anyway)


@fault("for the second time")
def retries_not_recognised(patch):
    patch.setattr(Desk, "_earlier_outcome", lambda self, agent, number: None)


@fault("not above its causal past")
def clock_ignores_others(patch):
    """Without the hybrid part of the clock a log is not in causal order when the hosts' clocks differ."""
    patch.setattr("crdtsync.causality.HybridClock.witness", lambda self, hlc, now_ms: True)


@fault("raises the alarms")
def digest_depends_on_history(patch):
    """Two nodes with the same entries and other digests: the exchange of digests says so."""
    remove = Entries.remove

    def careless(self, key, removes):
        gone = remove(self, key, removes)
        self.digest += len(gone) > 1
        return gone

    patch.setattr(Entries, "remove", careless)


@fault("do not come to rest")
def nothing_relayed(patch):
    """A change of a third node is always left to its origin."""
    lacks = Feeder._lacks

    def own_only(self, link, here, replica_, writer, seq, position):
        return writer == replica_.writer and lacks(self, link, here, replica_, writer, seq, position)

    patch.setattr(Feeder, "_lacks", own_only)


@fault("a watcher at")
def slow_watchers_are_forgotten(patch):
    patch.setattr("crdtsync.core.watches.Watches._defer", lambda self, watch, keys: None)


@fault("a watcher")
def resuming_stops_short(patch):
    """Between the log and the live stream a turn's changes fall through."""
    resume = Watches._resume

    def hasty(self, watch, *arguments):
        resume(self, watch, *arguments)
        watch.position = None

    patch.setattr(Watches, "_resume", hasty)
    patch.setattr("crdtsync.core.watches.SLICE_CHANGES_MAX", 1)


# -- snapshots and trims ---------------------------------------------------------------------------------------------


def merging(patch, change):
    """Plant a fault into what becomes of entries when a snapshot is merged."""

    def wrong(held, vector, taken):
        held = list(held)
        return change(difference(held, vector, taken), held, vector, taken)

    patch.setattr(replica, "difference", wrong)


@fault("ought to have", is_tight=True)
def snapshot_keeps_what_its_frontier_covers(patch):
    """What others have removed is still there after the merge."""
    merging(patch, lambda found, held, vector, taken: found._replace(gone=[]))


@fault("", keys=REGISTERS, is_tight=True, steps=250)
def snapshot_brings_back_what_was_removed(patch):
    def all_that_is_lacking(found, held, vector, taken):
        here = {entry.dot for entry in held}
        come = [entry for dot, entry in taken.entries.items() if dot not in here]
        return found._replace(come=come, digest=sum(entry.digest for entry in come))

    merging(patch, all_that_is_lacking)


@fault("ought to have", is_tight=True)
def snapshot_drops_what_its_frontier_does_not_cover(patch):
    """What the taker wrote offline goes with its merge."""
    merging(
        patch,
        lambda found, held, vector, taken: found._replace(gone=[e for e in held if e.dot not in taken.entries]),
    )


@fault("above its floor")
def merge_does_not_raise_the_floor(patch):
    advance = Replica._advance_heads

    def forgetful(self, taken, advanced):
        floor = dict(self.floor)
        advance(self, taken, advanced)
        self.floor = floor
        self._ledger.batch.floors.clear()

    patch.setattr(Replica, "_advance_heads", forgetful)


@fault("above its floor")
def trim_does_not_raise_the_floor(patch):
    trim = Retention._trim_log

    def forgetful(self, replica_, batch, *arguments):
        floor = dict(replica_.floor)
        more = trim(self, replica_, batch, *arguments)
        replica_.floor = floor
        batch.floors.clear()
        return more

    patch.setattr(Retention, "_trim_log", forgetful)


@fault("counts")
def trim_does_not_count(patch):
    """The status goes on telling of what is no longer there, and more is trimmed than need be."""
    patch.setattr("crdtsyncd.store_writes.CHANGE_ROW_BYTES", 71)


@fault("snapshot_refused", keys=REGISTERS, is_tight=True, steps=250)
def parts_of_two_snapshots_are_mixed(patch):
    """A taker that comes back goes on with the parts of another snapshot."""
    take = Giver.take

    def careless(self, link, here, replica_, message, now_s):
        if message.part and message.snapshot not in self._open:
            other = self._cut(replica_)
            parts = [other.part(n) for n in range(message.part + 1) if other.knows(n)]
            if len(parts) == message.part + 1:
                other.id = message.snapshot
                self._open[other.id] = _Open(other, now_s, now_s)
        take(self, link, here, replica_, message, now_s)

    patch.setattr(Giver, "take", careless)


@fault("has a head")
def an_older_head_is_written_last(patch):
    """A snapshot and what follows it come in one commit, and the disk forgets the latter."""
    heads = store_writes._heads
    patch.setattr(store_writes, "_heads", lambda batch: sorted(heads(batch), key=lambda head: -head.seq))


@fault("ought to be")
def documents_are_left_out(patch):
    """A snapshot brings the marker of a text, and not the text."""
    patch.setattr(Replica, "_absorb_documents", lambda self, taken: [])


@fault("a watcher at")
def watchers_are_not_told_of_a_snapshot(patch):
    patch.setattr(Watches, "retell", lambda self, name, keys, **_: self.mirrors.retell(name, keys))


# -- kinds -----------------------------------------------------------------------------------------------------------


@fault("where it saw", keys=COUNTERS[:1], steps=200)
def resets_add_up(patch):
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


@fault("where its author had seen", keys=SETS)
def discard_takes_what_was_not_seen(patch):
    patch.setitem(WRITES, "discard", unread("discard"))


@fault("where its author had seen", keys=MAPS)
def fields_are_written_blindly(patch):
    patch.setitem(WRITES, "merge", unread("merge"))


@fault("where its author had seen", keys=MAPS[:1], is_tight=True)
def the_last_to_come_is_taken_for_the_winner(patch):
    """Of a field of a large map."""

    def as_they_come(self, entry):
        self.kinds[entry.kind] = self.kinds.get(entry.kind, 0) + 1
        if entry.sub is not None:
            self.by_sub[entry.sub] = (*self.by_sub.get(entry.sub, ()), entry)

    patch.setattr(KeyEntries, "_count", as_they_come)


@fault("that it should leave to its owner")
def every_node_deletes_what_has_expired(patch):
    patch.setattr(Reaper, "_owner", lambda self, replica_, writer: self._node)


@fault("loses the words", keys=TEXTS)
def merged_texts_lose_one(patch):
    patch.setattr(text_join, "union", lambda texts: texts[0])


@fault("was read with", keys=REGISTERS)
def equal_confidences_go_by_their_place(patch):
    """Not by time: then what came last decides, and hosts disagree."""

    def as_they_stand(entries):
        return sorted(entries, key=policies._confidence, reverse=True)

    policy = policies.POLICIES["confidence"]._replace(rank=as_they_stand)
    patch.setitem(policies.POLICIES, "confidence", policy)


@fault(" at host-", keys=REGISTERS)
def a_new_schema_is_not_told(patch):
    """Watchers go on with the winner of before."""
    patch.setattr(Watches, "reranked", lambda self, replica_, now_ms: set())


@fault("the policy is", keys=REGISTERS)
def schemas_of_a_snapshot_go_unnoticed(patch):
    patch.setattr(Schemas, "note_entries", lambda self, entries: None)


@fault("the policy is", keys=REGISTERS)
def a_schema_is_remembered_for_ever(patch):
    """What applies to a key is not found again when another schema comes."""
    refresh = Schemas._refresh

    def keep(self):
        found = dict(self._found)
        refresh(self)
        self._found = found

    patch.setattr(Schemas, "_refresh", keep)


@fault("although it ranks lower than", keys=REGISTERS)
def lower_ones_are_taken(patch):
    patch.setattr(register, "check_rank", lambda *arguments: None)


@fault("that it was blind", keys=REGISTERS)
def blind_writes_are_not_marked(patch):
    patch.setattr(replica, "seen_by", lambda op: past.seen_by(op._replace(blind=False)))


@fault("and it was", keys=REGISTERS)
def an_author_does_not_know_its_own_values(patch):
    patch.setattr(Past, "_is_same_author", lambda self, entry, change: False)


@fault("and it was", keys=REGISTERS[:1])
def of_siblings_the_oldest_counts_as_shown(patch):
    patch.setattr(fates, "_shown", lambda values, policy: {min(values, key=order_of).dot})


@fault("that its author had seen")
def what_an_author_had_seen_is_forgotten(patch):
    patch.setattr(replica, "seen_by", lambda op: pack(None))


@fault("not how it ended")
def the_removal_is_not_found(patch):
    patch.setattr(past, "RemovalRow", lambda *row: RemovalRow(*row)._replace(n=7))


@fault("and ought to tell")
def what_dies_is_not_told(patch):
    patch.setattr(Past, "bury_unknown", lambda *_: None)
    patch.setattr(Reads, "dead", lambda *_args, **_kwargs: [])


@pytest.mark.parametrize("what, plant, how", [pytest.param(*item, id=item[1].__name__) for item in FAULTS])
def test_planted_fault_is_caught(what, plant, how, monkeypatch):
    plant(monkeypatch)
    for seed in SEEDS:
        try:
            run_history(seed, **how)
        except Broken as broken:
            if what in str(broken):
                return
        except Exception:  # noqa: BLE001  # a crash of the code under test is not what is looked for here
            continue
    pytest.fail(f"none of {len(SEEDS)} histories said {what!r}")
