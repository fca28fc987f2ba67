"""Faults in the healing of forks."""

from __future__ import annotations

from crdtsyncd.storage.writes import Writing

from crdtsync.core.heal_forks import ForkHealing
from crdtsync.core.replica.fork_healing import _Branch, is_other_branch
from crdtsync.core.replica.replica import Replica
from crdtsync.core.sync.fork_search import ForkSearch, Lost
from tests.simulator.faults.planting import Patches, fork_fault


@fork_fault("after a fork")
def whoever_is_shown_another_branch_moves(patch: Patches):
    """Both branches move, and neither keeps its numbers"""

    def shown(self, link, here, replica, message):
        change = replica.codec.decode(message.body)
        if is_other_branch(replica, change):
            self.lost[replica.name] = Lost(change, link.conn)
        return True

    patch.setattr(ForkSearch, "_shown", shown)


@fork_fault("after a fork")
def each_node_names_a_moved_branch_by_itself(patch: Patches):
    """Two nodes that hold one branch give it two names"""
    move = _Branch._move

    def named(self, change):
        hashed = change.hash
        change.hash = self._replica.node.encode()[:7] + hashed
        move(self, change)
        change.hash = hashed

    patch.setattr(_Branch, "_move", named)


@fork_fault("after a fork")
def totals_move_as_they_are(patch: Patches):
    """Of two branches of a counter the higher total counts, and not both"""
    patch.setattr(_Branch, "_count", lambda self, op, dot: op._replace(removes=self._removes(op.removes)))


@fork_fault("after a fork")
def what_was_built_on_a_branch_does_not_move(patch: Patches):
    patch.setattr(_Branch, "_comes_after", lambda self, change: change.writer in self.firsts)


@fork_fault("after a fork")
def moved_changes_remove_by_their_old_names(patch: Patches):
    """What was overwritten on a branch that moves comes back beside its successor"""
    patch.setattr(_Branch, "_removes", lambda self, removes: removes)


@fork_fault("after a fork")
def what_a_moved_branch_had_removed_stays_gone(patch: Patches):
    patch.setattr(Writing, "_revive", lambda self, space, which, begin: None)


@fork_fault("after a fork")
def moved_changes_are_in_memory_alone(patch: Patches):
    """A crash between taking a branch back and writing it anew loses it"""

    def forgetful(self):
        if hasattr(self._node, "_handlers"):  # else it is just starting
            finish(self)

    finish = ForkHealing.finish
    patch.setattr(ForkHealing, "finish", forgetful)


@fork_fault("after a fork")
def what_others_had_seen_is_checked_in_memory_alone(patch: Patches):
    """A host that was restarted takes in what was built on the other branch"""
    check = Replica.check_head

    def forgetful(self, writer, seq, short_hash, stored=False):
        check(self, writer, seq, short_hash)

    patch.setattr(Replica, "check_head", forgetful)
