"""Comparing whole replicas with those of peers, at a common cut, and having a difference mended.

Acknowledgements carry the digest of the entries. Once a space has been quiet for a while its texts are hashed too, and
peers are told both, so that also what nobody writes to is compared: after each connection, at least.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from crdtsync.core.alarm_catalogue import DIVERGENCE
from crdtsync.core.sync.acks import cut_of, digest_of
from crdtsync.core.text.digest import NO_TEXTS, texts_digest
from crdtsync.wire.peer.comparing import Digests
from crdtsync.wire.peer.transfer import Take

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.peers.outbox import Outbox
    from crdtsync.core.peers.peer_state import Link, SpaceLink
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.sync.snapshot_client import SnapshotClient

QUIET_S = 5.0
"""So long nothing must have happened in a space before its texts are compared."""
SLICE_DOCUMENTS_MAX = 2
"""Documents hashed at once, every 0.05 seconds."""
SLICE_INTERVAL_S = 0.05
SLICE_SPACES_MAX = 50
"""Spaces looked at in one turn for what is to be compared."""
REPAIR_WAIT_S = 600.0
"""After a repair the next one with the same peer waits for so long, and then twice as long each time."""
REPAIR_WAIT_S_MAX = 86_400.0
"""The longest that the next repair with one peer waits."""


class Comparer:
    """The digests of a node's spaces, and which peers differ."""

    def __init__(self, node: NodeContext, links: Mapping[int, Link], outbox: Outbox, snapshots: SnapshotClient) -> None:
        self._node = node
        self._links = links
        self._outbox = outbox
        self._snapshots = snapshots
        self.is_on = True
        """Simulated fleets switch it off: what they look for must not be mended before they have looked."""
        self._due_s: OrderedDict[str, float] = OrderedDict()  # the first due first: a turn looks at those alone
        self._unfinished_s: dict[str, float] = {}
        self._own: dict[str, Digests] = {}
        self._differing: dict[str, set[str]] = {}
        self._repairs: dict[tuple[str, str], tuple[float, float]] = {}

    def forget(self, name: str) -> None:
        """The space is no longer here, or another one."""
        self._due_s.pop(name, None)
        self._unfinished_s.pop(name, None)
        self._own.pop(name, None)
        self._repairs = {key: found for key, found in self._repairs.items() if key[0] != name}
        if self._differing.pop(name, None):
            self._node.alarms.clear(DIVERGENCE, name)

    def reload(self) -> None:
        """The replicas have been read anew from disk."""
        self._own.clear()

    def note(self, names: Iterable[str]) -> None:
        """Something has happened in these spaces, or somebody new is there to compare them with."""
        for name in names if self.is_on else ():
            self._due_s[name] = self._node.now_s + QUIET_S
            self._due_s.move_to_end(name)
            self._unfinished_s.pop(name, None)
            self._own.pop(name, None)

    # -- what this node has ------------------------------------------------------------------------------------

    def tick(self, now_s: float) -> None:
        """Work on what is due, for a moment."""
        for name in self._take_due(now_s):
            replica = self._node.replicas.get(name)
            links = self._asking(name)
            if replica is None or not links:
                continue
            has_texts = replica.asleep is None or replica.asleep.texts
            texts = texts_digest(replica.documents, SLICE_DOCUMENTS_MAX) if has_texts else NO_TEXTS
            digest = digest_of(replica)
            if texts is None or not digest:
                self._unfinished_s[name] = now_s + SLICE_INTERVAL_S
                continue
            own = Digests(name, replica.epoch, cut_of(replica.vector), digest, texts)
            self._own[name] = own
            for link in links:
                here = link.spaces[name]
                if here.told != own:
                    here.told = own
                    self._outbox.send(link, own)
                self._compare(link, here, replica)

    def _take_due(self, now_s: float) -> list[str]:
        due = [name for name, due_s in self._unfinished_s.items() if due_s <= now_s]
        for name in due:
            del self._unfinished_s[name]
        while len(due) < SLICE_SPACES_MAX and self._due_s:
            name, due_s = next(iter(self._due_s.items()))
            if due_s > now_s:
                break
            del self._due_s[name]
            due.append(name)
        return due

    def _asking(self, name: str) -> list[Link]:
        return [
            link
            for link in self._links.values()
            if link.takes(Digests)
            and (here := link.spaces.get(name)) is not None
            and not here.stopped
            and not here.forked
        ]

    def deadline_s(self) -> float | None:
        """When :meth:`tick` wants to be called."""
        return min((*self._unfinished_s.values(), *islice(self._due_s.values(), 1)), default=None)

    # -- what a peer has ---------------------------------------------------------------------------------------

    def heard(self, link: Link, here: SpaceLink, replica: Replica, message: Digests) -> None:
        """A peer says what it has."""
        if not here.forked:
            here.heard = message
            self._compare(link, here, replica)

    def _compare(self, link: Link, here: SpaceLink, replica: Replica) -> None:
        theirs, own = here.heard, self._own.get(replica.name)
        if theirs is None or theirs.epoch != replica.epoch or theirs.cut != cut_of(replica.vector):
            return
        digest = digest_of(replica)
        if not digest:
            return  # it is due again when it is known
        if theirs.digest != digest:
            self.differs(link, replica)
        elif own is not None and own.cut == theirs.cut and own.digest == theirs.digest:
            if own.texts != theirs.texts:
                self.differs(link, replica, is_order=True)
            else:
                self._agrees(link, replica.name)

    def differs(self, link: Link, replica: Replica, is_order: bool = False) -> None:
        """A peer holds the same changes and another state. ``is_order``: perhaps the same characters in another order,
        as late edits of a compacted text may leave them until all load one state. That is nobody's fault, so nobody is
        told before it was tried to mend it.
        """
        assert link.hello is not None
        name, peer = replica.name, link.hello
        self._differing.setdefault(name, set()).add(peer.node)
        if self._repair(link, replica) and is_order:
            return
        self._node.alarms.raise_once(
            DIVERGENCE, name, f"space {name}: {peer.name} holds the same changes but another state"
        )

    def _repair(self, link: Link, replica: Replica) -> bool:
        """Begin to mend the difference, unless it was tried lately."""
        now_s = self._node.now_s
        name, peer = replica.name, link.hello
        if peer is None or not self.is_on or not (link.takes(Digests) and link.takes(Take)):
            return False
        due_s, wait_s = self._repairs.get((name, peer.node), (0.0, REPAIR_WAIT_S))
        if now_s < due_s or not self._snapshots.want_repair(link, replica):
            return False
        self._repairs[name, peer.node] = (now_s + wait_s, min(2 * wait_s, REPAIR_WAIT_S_MAX))
        self._node.log("repair_started", level="warning", space=name, peer=peer.name)
        return True

    def is_differing(self, name: str, node: str) -> bool:
        """Whether a peer was found to have another state, and has not been found equal since."""
        return node in self._differing.get(name, ())

    def _agrees(self, link: Link, name: str) -> None:
        differing = self._differing.get(name)
        if differing is None:
            return
        differing.discard(link.peer_node)
        if not differing:
            del self._differing[name]
            self._node.alarms.clear(DIVERGENCE, name)
            self._node.log("divergence_over", space=name)
