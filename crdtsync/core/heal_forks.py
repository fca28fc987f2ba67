"""Forks that this node has to heal: between two turns its branch is moved, and memory read anew.

How is said in :mod:`crdtsync.core.replica.fork_healing`. Here is when: in a turn with nothing else to commit, so that
what is on disk is what memory holds. Agents attach again after it, to what they know as another database, since tokens
and versions that were handed out before may name other changes now.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from crdtsync.causality import Writer
from crdtsync.core.alarm_catalogue import FORK_HEALED
from crdtsync.core.interface import Ready
from crdtsync.core.replay import take_back
from crdtsync.core.replica.fork_healing import NEW_NAMES_MAX, CannotHeal, Healing, heal, slices
from crdtsync.core.storage.interface import Batch, moved_name, new_names_name
from crdtsync.errors import CrdtSyncError
from crdtsync.wire.codec import pack, unpack

if TYPE_CHECKING:
    from crdtsync.core.node import Node
    from crdtsync.core.replica.replica import Replica

_SAYS = "this node has healed a fork: attach again"


class ForkHealing:
    """Of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._committing: tuple[str, str, bytes] | None = None  # the space, what is to be told, the next incarnation
        self.is_put_off = False

    def begin(self) -> Batch | None:
        """What this turn commits, and nothing else, to heal a fork; None: it is a turn as others."""
        self.is_put_off = self.is_due and not self._node.is_settled
        return self.rewind() if self.is_due and not self.is_put_off else None

    @property
    def is_due(self) -> bool:
        """Whether there may be something to heal."""
        return bool(self._node.sync.forks.lost) and not self._node.read_only

    def rewind(self) -> Batch | None:
        """What takes a branch back, and keeps what is to come instead; None: nothing can be healed now.

        To be called when all that memory holds is on disk.
        """
        node = self._node
        for name, lost in sorted(node.sync.forks.lost.items()):
            replica = node.replicas.get(name)
            if replica is None or replica.short_hash(lost.change.writer, lost.change.seq) is None:
                del node.sync.forks.lost[name]
                continue
            try:
                healing = heal(replica, lost.change)
            except CannotHeal as error:
                del node.sync.forks.lost[name]
                node.sync.cannot_heal(name, lost.conn, str(error))
                continue
            if healing is not None:
                author = replica.node_of(lost.change.writer)
                what = (
                    f"space {name}: two different changes were both number {lost.change.seq} of writer "
                    f"{lost.change.writer} of {author}; the branch that was here, {len(healing.bodies) - 1:,} changes, "
                    "has new names"
                )
                self._committing = name, what, node.random_bytes(16)
                return self._batch(replica, healing, self._committing[2])
        return None

    def forget(self) -> None:
        """Nothing of the commit is on disk."""
        self._committing = None

    def _batch(self, replica: Replica, healing: Healing, incarnation: bytes) -> Batch:
        batch = Batch()
        batch.rewinds.append(healing.rewind)
        batch.heads += healing.heads
        if replica.writer in healing.names:
            batch.retired_writers.append((replica.id, replica.writer))
        for number, bodies in enumerate(slices(healing.bodies)):
            batch.metas.append((moved_name(replica.id, number), pack([replica.position, bodies])))
        firsts = [(Writer(writer), first) for writer, first in healing.rewind.firsts]
        moved = [(writer, first, replica.vector[writer], healing.names[writer]) for writer, first in firsts]
        new_names = [[*names] for names in (*replica.new_names, *moved)]
        batch.metas.append((new_names_name(replica.id), pack(new_names[-NEW_NAMES_MAX:])))
        batch.metas.append(("incarnation", incarnation))
        return batch

    def advance(self) -> bool:
        """A commit is done: if it was the one that takes a branch back, go on from there. Whether it was."""
        if self._committing is None:
            return False
        node, (name, what, incarnation) = self._node, self._committing
        node.identity = node.desk.identity = replace(node.identity, incarnation=incarnation)
        node.sync.healed(name)
        after = node.persist_failed(Ready(Batch(), [], [], [], []), CrdtSyncError(_SAYS))
        node.sync.outbox.closes += after.peer_closes
        node.desk.replies += after.replies
        node.desk.closes += [(conn, _SAYS) for conn in sorted(node.desk.agents)]
        self.finish()
        node.alarms.journal("fork_healed", space=name, message=what)
        node.alarms.raise_once(FORK_HEALED, name, what)
        return True

    def finish(self) -> None:
        """Apply what was kept when a branch was taken back: at once, or at the start after a crash."""
        node = self._node
        for replica in [*node.replicas.values()]:
            for number, packed in enumerate(node.storage.metas(moved_name(replica.id, None))):
                position, bodies = unpack(packed)
                node.ledger.position = max(node.ledger.position, position)  # where others stood stands nothing anew
                for body in bodies:
                    take_back(node, replica.id, body)
                node.ledger.batch.metas.append((moved_name(replica.id, number), None))
