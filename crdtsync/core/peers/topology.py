"""Reaching all nodes with few connections: hints about relays, ways over others, questions that are passed on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from crdtsync.causality import VersionVector
from crdtsync.core.node_context import NodeContext
from crdtsync.core.peers.ack_queries import ASKED_S, Inquiries, learn
from crdtsync.core.peers.connections import PEERS_KNOWN_MAX
from crdtsync.core.peers.distance_vector import Routes
from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Link, Peer
from crdtsync.core.peers.relay_tree import Relaying
from crdtsync.core.storage.rows import PeerRow
from crdtsync.wire.peer.meshing import Held

WHOLE_WRITERS_MAX = 128
"""Writers that are asked for at once where somebody looks at whole spaces; the rest is for write concerns."""


class Meshwork:
    """The mesh of one node; see :mod:`~crdtsync.core.peers.relay_tree`, :mod:`~crdtsync.core.peers.distance_vector`,
    :mod:`~crdtsync.core.peers.ack_queries`.
    """

    def __init__(
        self,
        node: NodeContext,
        links: Mapping[int, Link],
        peers: dict[str, Peer],
        outbox: Outbox,
        is_public: Callable[[str], bool],
        is_member: Callable[[str], bool],
    ) -> None:
        self._node = node
        self._peers = peers
        self._outbox = outbox
        self.routes = Routes(node.identity.node, links, outbox)
        self.relaying = Relaying(links, self.routes, outbox, is_public)
        self._heard: set[tuple[str, str]] = set()
        self._whole_until_s: dict[str, float] = {}
        self.inquiries = Inquiries(node, links, outbox, self._learn, is_member)

    def closed(self, conn: int) -> None:
        """A connection is gone."""
        self.routes.is_stale = True
        self.relaying.closed(conn)

    def ask(self, needed: Mapping[str, VersionVector]) -> None:
        """Somebody waits for this to be on disk elsewhere: ask nodes that are not connected, if there are such."""
        self.routes.by_node()
        if self.routes.has_far:
            if not self.inquiries.is_asking():  # what was told then is of then
                self._heard.clear()
                self._whole_until_s.clear()
            self.inquiries.want(needed)

    def ask_whole(self, vectors: Mapping[str, VersionVector]) -> list[str]:
        """Ask how far others are in whole spaces, as long as these have few writers. Returns the spaces asked for."""
        asked: dict[str, VersionVector] = {}
        room = WHOLE_WRITERS_MAX
        for space, vector in sorted(vectors.items(), key=lambda item: (len(item[1]), item[0])):
            room -= len(vector)
            if room < 0:
                break
            asked[space] = vector
        if asked:
            self.ask(asked)
            self._whole_until_s |= dict.fromkeys(asked, self._node.now_s + ASKED_S)
        return list(asked)

    def knows(self, space: str, node: str) -> bool:
        """Whether it is known how far a node is in a space that is reached over others: it was asked, and has told."""
        return self._node.now_s < self._whole_until_s.get(space, 0.0) and (space, node) in self._heard

    def _learn(self, held: Held) -> None:
        self._heard.add((held.space, held.node))
        new = learn(self._peers, held, self._node.replicas, PEERS_KNOWN_MAX)
        if new is not None:
            self._outbox.met.append(PeerRow(new.node, new.name, 0))

    def tick(self, now_s: float) -> None:
        """Tell peers of routes, and plan anew who relays, if that is due."""
        if self.routes.tell(now_s):
            self.relaying.plan()

    def deadline_s(self) -> float | None:
        """When :meth:`tick` wants to be called."""
        return self.routes.deadline_s()
