"""Forks that this node has to heal: its branch is moved, some of it each turn.

How is said in :mod:`crdtsync.core.replica.fork_healing`. Here is when:

1. The branch is collected, a slice a turn, while all others are served.
2. It is taken back in a turn with nothing else to commit, so that what is on disk is what memory holds; what has
   changed on disk is read anew. Agents attach again after that, to what they know as another database, since tokens and
   versions that were handed out before may name other changes now.
3. The moved changes are applied, a slice a turn. Events of agents and peers wait until that is done; then the node
   takes some in each turn. If many wait, the driver reads no more of them.

A member that forges a fork each second has other nodes do that again and again. So they rest in between.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from crdtsync.causality import Writer
from crdtsync.core.alarm_catalogue import FORK_HEALED
from crdtsync.core.interface import AgentFrame, Event, PeerFrame
from crdtsync.core.replay import take_back
from crdtsync.core.replica.fork_healing import NEW_NAMES_MAX, SLICE_BYTES, CannotHeal, Healing, heal, slices
from crdtsync.core.storage.rows import moved_name, new_names_name
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.errors import CrdtSyncError
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.core.interface import Ready
    from crdtsync.core.node_parts import NodeParts
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.sync.fork_search import Lost
    from crdtsync.wire.change import Change
    from crdtsync.wire.yjs.encoding import Steps

REST_FACTOR = 9
"""After a healing a node rests so many times as long as it took: a tenth of the time at most goes into that."""
WAITING_EVENTS_MAX = 1000
WAITING_BYTES_MAX = 4 * 1024 * 1024
"""Waiting events of agents and peers, beyond which no more are read; one frame of each may come on top."""
SLICE_EVENTS = 64
"""Waiting events that are taken in in one turn."""
_SAYS = "this node has healed a fork: attach again"


class _Collecting(NamedTuple):
    """A branch of a replica that is looked through, since ``change`` was shown."""

    replica: Replica
    change: Change
    steps: Steps[Healing | None]


class ForkHealing:
    """Heals the forks of one node. ``waiting``: events of agents and peers since the last turn, or while a healing is
    brought to its end; ``take`` takes such an event in. ``read_anew`` reads a space from disk: see
    :meth:`.node.Node.read_anew`.
    """

    def __init__(
        self,
        node: NodeParts,
        take: Callable[[Event], None],
        read_anew: Callable[[str, CrdtSyncError], Ready],
    ) -> None:
        self.waiting = deque[Event]()
        self._waiting_bytes = 0
        self._node = node
        self._take = take
        self._read_anew = read_anew
        self._collecting: _Collecting | None = None
        self._committing: tuple[str, str, bytes, int] | None = None  # the space, what is to be told, the next
        # incarnation, and how many slices are to be applied then
        self._kept: list[tuple[int, int]] = []  # the slices of the last healing: space and number
        self._left: list[tuple[int, int]] = []  # of these
        self._begun_s = 0.0
        self._rests_until_s = 0.0
        self.is_put_off = False

    def begin(self) -> WriteBatch | None:
        """The batch that this turn commits, and nothing else, to heal a fork; None: it is a turn as others."""
        node = self._node
        if self.is_finishing:
            self._apply(*self._left.pop(0))
            if not self._left:
                self._rests_until_s = node.now_s + REST_FACTOR * (node.now_s - self._begun_s)
        may_heal = bool(node.sync.forks.lost) and not node.read_only and not self._left and self.due_s <= node.now_s
        self.is_put_off = may_heal and not node.is_settled
        rewind = self.rewind() if may_heal and not self.is_put_off else None
        if rewind is None and not self.is_finishing:
            self._take_some()
        return rewind

    def wait(self, event: Event) -> None:
        """Keep what an agent or peer has said for later."""
        self.waiting.append(event)
        self._waiting_bytes += _size_bytes(event)

    def _take_some(self) -> None:
        taken_bytes = 0
        for _ in range(min(SLICE_EVENTS, len(self.waiting))):
            if taken_bytes > SLICE_BYTES:
                break
            event = self.waiting.popleft()
            taken_bytes += _size_bytes(event)
            self._waiting_bytes -= _size_bytes(event)
            self._take(event)

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits that agents and peers are to be read no further."""
        return len(self.waiting) > WAITING_EVENTS_MAX or self._waiting_bytes > WAITING_BYTES_MAX

    @property
    def is_finishing(self) -> bool:
        """Whether moved changes are to be applied before anything else is taken in."""
        return bool(self._left) and not self._node.read_only

    @property
    def has_others_wait(self) -> bool:
        """Whether events of agents and peers wait: else a busy node would always have something to commit. Those that
        came before go first.
        """
        return self.is_put_off or self.is_finishing or bool(self.waiting)

    @property
    def is_busy(self) -> bool:
        """Whether the next turn has something to do for it at once."""
        return self.is_put_off or bool(self.waiting) or self.is_finishing

    @property
    def due_s(self) -> float:
        """From when on the next fork may be healed."""
        return self._rests_until_s

    def rewind(self) -> WriteBatch | None:
        """The batch that takes a branch back, and stores the moved changes; None: nothing can be healed now.

        To be called when all that memory holds is on disk.
        """
        node = self._node
        for name, lost in sorted(node.sync.forks.lost.items()):
            replica = node.replicas.get(name)
            if replica is None or replica.short_hash(lost.change.writer, lost.change.seq) is None:
                del node.sync.forks.lost[name]
                continue
            try:
                healing = self._collect(replica, lost)
            except CannotHeal as error:
                del node.sync.forks.lost[name]
                node.sync.forks.cannot_heal(name, lost.conn, str(error))
                continue
            if self._collecting is not None:
                self.is_put_off = True
                return None
            if healing is not None:
                author = replica.node_of(lost.change.writer)
                what = (
                    f"space {name}: two different changes were both number {lost.change.seq} of writer "
                    f"{lost.change.writer} of {author}; the branch that was here, {len(healing.bodies) - 1:,} changes, "
                    "has new names"
                )
                parts = slices(healing.bodies)
                self._committing = name, what, node.random.randbytes(16), len(parts)
                return self._batch(replica, healing, parts, self._committing[2])
        return None

    def _collect(self, replica: Replica, lost: Lost) -> Healing | None:
        """A step of it; whether it is over :attr:`_collecting` says."""
        now = self._collecting
        if now is None or now.replica is not replica or now.change is not lost.change:
            now = _Collecting(replica, lost.change, heal(replica, lost.change))
            self._begun_s = self._node.now_s
        self._collecting = None
        try:
            next(now.steps)
        except StopIteration as end:
            healing: Healing | None = end.value
            return healing
        self._collecting = now
        return None

    def forget(self) -> None:
        """Nothing of the commit is on disk."""
        self._committing = None
        self._left = [place for place in self._kept if self._node.storage.meta(moved_name(*place)) is not None]

    def _batch(self, replica: Replica, healing: Healing, parts: list[list[bytes]], incarnation: bytes) -> WriteBatch:
        batch = WriteBatch()
        batch.rewinds.append(healing.rewind)
        batch.heads += healing.heads
        if replica.writer in healing.names:
            batch.retired_writers.append((replica.id, replica.writer))
        for number, bodies in enumerate(parts):
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
        node, (name, what, incarnation, count) = self._node, self._committing
        self._committing = None
        node.identity = node.identity._replace(incarnation=incarnation)
        node.sync.forks.healed(name)
        after = self._read_anew(name, CrdtSyncError(_SAYS))
        node.sync.outbox.closes += after.peer_closes
        node.dispatcher.replies += after.replies
        node.dispatcher.closes += [(conn, _SAYS) for conn in sorted(node.dispatcher.agents)]
        self._kept = [(node.replicas[name].id, number) for number in range(count)]
        self._left = [*self._kept]
        node.alarms.journal("fork_healed", space=name, message=what)
        node.alarms.raise_once(FORK_HEALED, name, what)
        return True

    def finish(self) -> None:
        """At the start after a crash: apply what was kept when a branch was taken back."""
        node = self._node
        for replica in [*node.replicas.values()]:
            left, number = len(node.storage.metas(moved_name(replica.id, None))), 0
            while left:
                if node.storage.meta(moved_name(replica.id, number)) is not None:
                    self._kept.append((replica.id, number))
                    self._apply(replica.id, number)
                    left -= 1
                number += 1

    def _apply(self, space: int, number: int) -> None:
        """Apply a slice of it."""
        node = self._node
        packed = node.storage.meta(moved_name(space, number))
        if packed is None:
            return
        position, bodies = unpack(packed)
        node.ledger.position = max(node.ledger.position, position)  # where others stood stands nothing anew
        for body in bodies:
            take_back(node, space, body)
        node.ledger.batch.metas.append((moved_name(space, number), None))


def _size_bytes(event: Event) -> int:
    if isinstance(event, AgentFrame):
        return len(event.payload)
    return len(event.data) if isinstance(event, PeerFrame) else 0
