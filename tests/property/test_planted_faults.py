"""The histories find what they are there to find: each fault, planted alone, is caught within a few seeds."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from crdtsyncd.store import Store

from crdtsync.core import replica, writes
from crdtsync.core.agents import Desk
from crdtsync.core.entries import Entries
from crdtsync.core.node import Ready
from crdtsync.core.replica import Effect, Replica
from crdtsync.core.sync import Sync
from crdtsync.core.watches import Watches
from tests.property.histories import run_history
from tests.property.oracle import Broken
from tests.property.world import Host, World

SEEDS = range(100)

Plant = Callable[[pytest.MonkeyPatch], None]
FAULTS: list[tuple[str, Plant]] = []


def fault(what: str) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        FAULTS.append((what, plant))
        return plant

    return register


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


@fault("where its author had seen")
def seen_means_what_is_alive_here(patch):
    """The lost update: a write supersedes what its daemon holds by then, not what its author had read."""
    patch.setattr(writes, "_covered", lambda held, version, others: list(held))


@fault("removes what its node did not hold")
def seen_is_not_cut(patch):
    """What a session read elsewhere is removed here too, before it has arrived."""
    covered = writes._covered

    def uncut(held, version, others):
        elsewhere = {*version.dots} - {entry.dot for entry in held}
        return [*covered(held, version, others), *(SimpleNamespace(dot=dot, kind=0) for dot in elsewhere)]

    patch.setattr(writes, "_covered", uncut)


@fault("where its author had seen")
def blind_write_removes_all(patch):
    patch.setattr(writes, "siblings", lambda entries, live: [live] if live else [])
    patch.setattr(writes, "_expired", lambda draft, key: tuple(entry.dot for entry in draft.held(key)))


@fault("ought to have")
def deletes_of_others_dropped(patch):
    apply_op = Replica._apply_op

    def forgetful(self, change, n, op, position):
        if op.value_hash is None and change.writer != self.writer:
            return Effect(op, None, [])
        return apply_op(self, change, n, op, position)

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


@fault("which nobody has on disk")
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
    lacks = Sync._lacks

    def own_only(self, link, here, replica_, writer, seq, position):
        return writer == replica_.writer and lacks(self, link, here, replica_, writer, seq, position)

    patch.setattr(Sync, "_lacks", own_only)


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


@pytest.mark.parametrize("what, plant", [pytest.param(*item, id=item[1].__name__) for item in FAULTS])
def test_planted_fault_is_caught(what, plant, monkeypatch):
    plant(monkeypatch)
    for seed in SEEDS:
        try:
            run_history(seed)
        except Broken as broken:
            if what in str(broken):
                return
        except Exception:  # noqa: BLE001  # a crash of the code under test is not what is looked for here
            continue
    pytest.fail(f"none of {len(SEEDS)} histories said {what!r}")
