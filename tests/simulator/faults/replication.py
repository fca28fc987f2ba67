"""Faults in how changes travel and are applied."""

from __future__ import annotations

from crdtsync.core.crdt.entries import Entries
from crdtsync.core.replica import replica
from crdtsync.core.replica.replica import Replica
from crdtsync.core.space import Effect
from crdtsync.core.sync.change_feed import Feeder
from tests.simulator.faults.planting import Patches, fault


@fault("before its causal past")
def no_causal_gate(patch: Patches):
    """A change is applied although what its author had seen is not there yet."""

    def own_order_only(change, vector):
        return None if vector.get(change.writer, 0) == change.seq - 1 else (change.writer, change.seq - 1)

    patch.setattr(replica, "blocker", own_order_only)


@fault("")
def no_order_at_all(patch: Patches):
    patch.setattr(replica, "blocker", lambda change, vector: None)


@fault("before its causal past")
def deps_omitted(patch: Patches):
    """Changes do not say what their author had seen."""
    commit = Replica.commit

    def forgetful(self, ops, *arguments):
        self.since_own.clear()
        return commit(self, ops, *arguments)

    patch.setattr(Replica, "commit", forgetful)


@fault("ought to have")
def deletes_of_others_dropped(patch: Patches):
    apply_op = Replica._apply_op

    def forgetful(self, change, n, op, *where):
        if op.value_hash is None and change.writer != self.writer:
            return Effect(op, None, [])
        return apply_op(self, change, n, op, *where)

    patch.setattr(Replica, "_apply_op", forgetful)


@fault("not above its causal past")
def clock_ignores_others(patch: Patches):
    """Without the hybrid part of the clock a log is not in causal order when the hosts' clocks differ."""
    patch.setattr("crdtsync.causality.HybridClock.witness", lambda self, hlc, now_ms: True)


@fault("raises the alarms")
def digest_depends_on_history(patch: Patches):
    """Two nodes with the same entries and other digests: the exchange of digests says so."""
    remove = Entries.remove

    def careless(self, key, removes):
        gone = remove(self, key, removes)
        self._digest += len(gone) > 1
        return gone

    patch.setattr(Entries, "remove", careless)


@fault("do not come to rest")
def nothing_relayed(patch: Patches):
    """A change of a third node is always left to its origin."""
    lacks = Feeder._lacks

    def own_only(self, link, here, replica_, writer, seq, position):
        return writer == replica_.writer and lacks(self, link, here, replica_, writer, seq, position)

    patch.setattr(Feeder, "_lacks", own_only)
