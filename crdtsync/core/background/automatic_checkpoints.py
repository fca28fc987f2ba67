"""Makes the checkpoints that policies ask for: on one node, and no more than are to be kept.

If every node made one, there would be as many as there are nodes. All nodes look at the policies of the spaces that
they hold, and see the checkpoints of all others. When one is due, the live node of the lowest id makes it at once. It
may be unable to, or of an older version: so the next one does after half a minute, and so on. Hosts that are cut off
from each other make one on each side.

Nothing is made while nothing changes: the log says whether a key of the policy was written since the last one. Each is
checked after it was made: what it holds is read back as any read of the past would, the digest is compared with that in
its record, and each value that is new since the checkpoint before with its hash. If the next one is made before a check
has begun, one check is made for both.

A checkpoint of a clock that is ahead, or from before this node's clock was set back, counts as made when this node saw
it first: nobody waits until its time has come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from crdtsync.causality import covers
from crdtsync.core.alarm_catalogue import CHECKPOINT_OVERDUE
from crdtsync.core.history.checkpoint_policies import KEEP_MAX, CheckpointPolicy
from crdtsync.core.history.checkpoints import CHECKPOINT_PREFIX, CHECKPOINTS_MAX, Checkpoint, packed_record
from crdtsync.core.identity import OWN_AGENT
from crdtsync.core.reads.checkpoint_check import CheckpointCheck
from crdtsync.errors import CrdtSyncError
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.kinds import Kind

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.replica.replica import Replica

LOOK_INTERVAL_S = 5.0
"""How often the policies are looked at, if none asks for more."""
LOOK_INTERVAL_S_MIN = 0.5
LOOKS_MAX = 16
"""Policies that are looked at in one turn; only the last of them may read the log."""
SLICE_INTERVAL_S = 0.02
"""Between two slices of the log, or of what is checked."""
SLICE_ROWS = 200
SLICE_BYTES = 256 * 1024
TURN_MS = 30_000
"""How long each node waits for the one before it."""
OVERDUE_MS_MIN = 60_000
"""A checkpoint is overdue when it has been due for so long, or for as long as from one to the next."""


class _Wait:
    """For one policy: when the last one was made, since when one is due (0: none is), and how far the log was looked
    through.
    """

    __slots__ = ("due_ms", "every_ms", "failure", "last", "looked_to", "made_ms")

    def __init__(self, last: Checkpoint | None, failure: str, now_ms: int) -> None:
        self.last = last
        self.made_ms = now_ms if last is None else last.time_ms
        self.every_ms = 0
        self.due_ms = 0
        self.looked_to: int | None = None
        self.failure = failure


class _Checking(NamedTuple):
    """A checkpoint that is read back, and the one ``before`` the first that this check is made for."""

    space: str
    policy: str
    name: str
    before: Checkpoint | None
    check: CheckpointCheck


class AutomaticCheckpoints:
    """The automatic checkpoints of one node. ``due_s``: when :meth:`run` has something to do; ``failures``: by space,
    since the start.

    ``live_holders``: the other nodes that are up and hold a space.
    """

    def __init__(self, node: NodeContext, live_holders: Callable[[str], Collection[str]]) -> None:
        self._node = node
        self._live_holders = live_holders
        self.due_s = self._look_due_s = node.now_s + LOOK_INTERVAL_S
        self.failures: dict[str, int] = {}
        self._wish_s = self._look_due_s
        self._known: list[tuple[str, str]] = []
        self._looked = 0
        self._waits: dict[tuple[str, str], _Wait] = {}
        self._checks: list[_Checking] = []

    def run(self) -> None:
        """Look at some policies, make what is due, and check a slice of what was made."""
        node = self._node
        if node.now_s < self.due_s:
            return
        if node.now_s >= self._look_due_s:
            self._look_at_some()
        self._check_slice()
        self.due_s = min(self._look_due_s, node.now_s + SLICE_INTERVAL_S) if self._checks else self._look_due_s

    def _look_at_some(self) -> None:
        """A round goes over all policies of all spaces."""
        node = self._node
        if not self._looked:
            self._wish_s = node.now_s + LOOK_INTERVAL_S
            self._known = [
                (name, policy.name)
                for name, replica in sorted(node.replicas.items())
                if replica.asleep is None
                for policy in replica.checkpoints.policies()
            ]
        some = self._known[self._looked : self._looked + LOOKS_MAX]
        for name, policy_name in some:
            self._looked += 1
            replica = node.replicas.get(name)
            policies = replica.checkpoints.policies() if replica is not None else []
            policy = next((policy for policy in policies if policy.name == policy_name), None)
            if replica is not None and policy is not None:
                self._again_in(max(LOOK_INTERVAL_S_MIN, policy.every_ms / 4000))
                if self._look(replica, policy):
                    break
        if self._looked < len(self._known):
            self._look_due_s = node.now_s + SLICE_INTERVAL_S
            return
        self._looked, self._look_due_s = 0, self._wish_s
        gone = self._waits.keys() - {*self._known}
        for each in gone:
            del self._waits[each]
        by_space: dict[str, list[str]] = {space: [] for space, _ in sorted(gone)}
        for space, policy_name in self._known:
            by_space.setdefault(space, []).append(policy_name)
        for space, names in by_space.items():
            self._tell(space, names)

    def _again_in(self, seconds: float) -> None:
        self._wish_s = min(self._wish_s, self._node.now_s + seconds)

    def _look(self, replica: Replica, policy: CheckpointPolicy) -> bool:
        """Make a checkpoint if one is due. Whether that took more than a look."""
        node = self._node
        made = [record for record in replica.checkpoints.all() if record.policy == policy.name]
        last = made[-1] if made else None
        wait = self._waits.get((replica.name, policy.name))
        if wait is None or (wait.last and wait.last.entry.dot) != (last and last.entry.dot):
            is_own = last is not None and replica.is_own(last.entry.writer)
            failure = wait.failure if wait is not None and is_own else ""  # until it has been checked
            wait = self._waits[replica.name, policy.name] = _Wait(last, failure, node.now_ms)
        wait.every_ms = policy.every_ms
        wait.made_ms, wait.due_ms = min(wait.made_ms, node.now_ms), min(wait.due_ms, node.now_ms)
        if last is not None and not wait.due_ms and node.now_ms < wait.made_ms + policy.every_ms:
            self._again_in((wait.made_ms + policy.every_ms - node.now_ms) / 1000)
            return False
        if not wait.due_ms:
            before = wait.looked_to
            if not self._has_changed(replica, policy, wait):
                return wait.looked_to != before
            wait.due_ms = node.now_ms
        turn = sum(1 for other in self._live_holders(replica.name) if other < node.identity.node)
        can_write = not node.read_only and replica.entries.is_summed
        if can_write and node.now_ms >= wait.due_ms + turn * TURN_MS:
            self._make(replica, policy, made, wait)
        return True

    def _has_changed(self, replica: Replica, policy: CheckpointPolicy, wait: _Wait) -> bool:
        """Whether a key of the policy was written since its last checkpoint, as far as this slice of the log says."""
        last, storage = wait.last, replica.storage
        if last is None:
            keys = (key for prefix in policy.prefixes or ("",) for key in replica.entries.keys(prefix, hidden=True))
            return any(policy.is_about(key) for key in keys)
        if wait.looked_to is None:
            if not covers(last.vector, replica.floor):
                return True
            wait.looked_to = storage.position_missing(replica.id, last.vector, replica.durable_vector())
        rows = storage.log(replica.id, wait.looked_to, SLICE_BYTES, SLICE_ROWS)
        for row in rows:
            wait.looked_to = row.position
            is_new = row.seq > last.vector.get(row.writer, 0)
            if not is_new:
                continue
            change = replica.spoilt.change_of(row)
            if change is None or any(policy.is_about(op.key) for op in change.ops):
                return True
        if rows:
            self._again_in(SLICE_INTERVAL_S)
        return False

    def _make(self, replica: Replica, policy: CheckpointPolicy, made: list[Checkpoint], wait: _Wait) -> None:
        node, checkpoints = self._node, replica.checkpoints
        age_ms = policy.age_ms or 0
        older = made[: max(0, len(made) + 1 - policy.keep)]
        gone = [record for record in older if record.time_ms <= node.now_ms - age_ms]
        gone += [record for record in older[: max(0, len(made) + 1 - KEEP_MAX)] if record not in gone]
        if len(checkpoints.all()) - len(gone) >= CHECKPOINTS_MAX:
            self._failed(replica.name, wait, f"the space has {CHECKPOINTS_MAX} checkpoints: delete some")
            return
        if checkpoints.held_bytes >= checkpoints.bytes_max:
            self._failed(replica.name, wait, "checkpoints hold back as much of the past as they may: delete some")
            return
        stamp = datetime.fromtimestamp(node.now_ms / 1000, UTC).strftime("%Y%m%d-%H%M%S")
        name = f"{policy.name}-{stamp}-{node.identity.node[:4]}"
        if replica.entries.held(CHECKPOINT_PREFIX + name):
            return  # the clock was set back: in a second it is another name
        value = packed_record(replica, "automatic", list(policy.prefixes), policy.name)
        ops = [Op(CHECKPOINT_PREFIX + name, None, Kind.REGISTER, value, value_hash(value), (), None)]
        ops += [Op(record.entry.key, None, Kind.REGISTER, None, None, (record.entry.dot,), None) for record in gone]
        node.applied(replica, [replica.commit(ops, OWN_AGENT, None, node.now_ms)])
        node.log("checkpoint_made", space=replica.name, name=name, deleted=len(gone))
        before, waiting = wait.last, self._checks[1:]
        for each in waiting:
            if (each.space, each.policy) == (replica.name, policy.name):
                self._checks.remove(each)
                before = each.before
        check = CheckpointCheck(replica, node.storage, checkpoints.get(name), before)
        self._checks.append(_Checking(replica.name, policy.name, name, before, check))
        wait.made_ms, wait.due_ms = node.now_ms, 0

    def _check_slice(self) -> None:
        """Those of a replica that was read anew meanwhile are given up: what it holds was read for that."""
        node = self._node
        if not self._checks:
            return
        space, policy, name, _, check = self._checks[0]
        wait = self._waits.get((space, policy))
        try:
            if node.replicas.get(space) is check.replica and not check.advance():
                return
        except CrdtSyncError as error:
            if wait is not None:
                self._failed(
                    space, wait, f"the checkpoint {name} was made, and is not what it should be: {error.message}"
                )
        else:
            if wait is not None:
                wait.failure = ""
            node.log("checkpoint_checked", level="debug", space=space, name=name)
        del self._checks[0]

    def _failed(self, space: str, wait: _Wait, why: str) -> None:
        if wait.failure != why:
            wait.failure = why
            self.failures[space] = self.failures.get(space, 0) + 1
            self._node.log("checkpoint_failed", level="warning", space=space, why=why)

    def _tell(self, space: str, names: list[str]) -> None:
        """Raise the alarm, or end it."""
        node = self._node
        told: list[str] = []
        for name in names:
            wait = self._waits.get((space, name))
            if wait is None:
                continue
            is_late = wait.due_ms and node.now_ms > wait.due_ms + max(OVERDUE_MS_MIN, wait.every_ms)
            if wait.failure:
                told.append(f"{name}: {wait.failure}")
            elif is_late:
                told.append(
                    f"{name}: one has been due for {(node.now_ms - wait.due_ms) // 1000:,} s, and no node made it"
                )
        if told:
            node.alarms.set(CHECKPOINT_OVERDUE, space, f"space {space}: automatic checkpoints fail: {'; '.join(told)}")
        else:
            node.alarms.clear(CHECKPOINT_OVERDUE, space)
