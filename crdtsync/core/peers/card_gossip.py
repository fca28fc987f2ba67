"""Which cards agents show on which nodes: heard from peers, and handed on to those who do not hear it themselves.

For example, host-a and host-c are connected to host-b alone; host-b hands on what host-a tells. If there are two
messages about one node, the later one counts, so that none goes in circles; a node's own message always counts. The
cards of a node are shown while it can be reached. A node tells all its cards at once, and at most once in
:data:`TELL_INTERVAL_S`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crdtsync.core.identity import Identity
from crdtsync.core.peers.distance_vector import Routes
from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Link
from crdtsync.wire.peer.gossip import Cards, ToldCard

TELL_INTERVAL_S = 0.2
"""How long news is collected before peers are told."""
CARDS_HEARD_MAX = 2000
"""Cards, and nodes, of which one node remembers what was told: the cards fit into one reply."""


class CardNews:
    """See the module's description."""

    def __init__(self, identity: Identity, links: Mapping[int, Link], outbox: Outbox, routes: Routes) -> None:
        self.own = Cards(identity.node, identity.name, 0)
        self._nodes: dict[str, Cards] = {}
        self._links = links
        self._outbox = outbox
        self._routes = routes
        self._untold: dict[int, set[str]] = {}
        self._due_s = 0.0

    def shown(self) -> Iterator[tuple[str, ToldCard]]:
        """All cards that are shown now, each with the name of the node on which it is."""
        for card in self.own.cards:
            yield self.own.name, card
        for node, cards in sorted(self._nodes.items()):
            if self._routes.via(node):
                for card in cards.cards:
                    yield cards.name, card

    def introduced(self, link: Link) -> None:
        """A peer is there, or has come into a space: it is told of everything."""
        self._untold[link.conn] = {self.own.node, *self._nodes}

    def heard(self, link: Link, cards: Cards) -> None:
        """A peer tells of the cards on it, or on another node."""
        before = self._nodes.get(cards.node)
        is_late = before is not None and cards.told <= before.told and cards.node != link.peer_node
        if cards.node == self.own.node or is_late or not self._has_room(len(cards.cards)):
            return
        self._nodes[cards.node] = cards
        self._tell_all(cards.node, link)

    def set_own(self, cards: tuple[ToldCard, ...], now_ms: int) -> None:
        """The cards that the agents of this node show now."""
        self.own = self.own.replaced(told=max(self.own.told + 1, now_ms), cards=cards)
        self._tell_all(self.own.node)

    def tick(self, now_s: float) -> None:
        """Send what peers have not been told, if it is time."""
        if not self._untold or now_s < self._due_s:
            return
        for conn, nodes in self._untold.items():
            link = self._links.get(conn)
            if link is not None and link.takes(Cards):
                near = {link.peer_node, *link.nodes} - {self.own.node}
                for node in sorted(nodes - near):
                    cards = self.own if node == self.own.node else self._nodes[node]
                    here = tuple(card for card in cards.cards if card.space in link.spaces)
                    self._outbox.send(link, cards.replaced(cards=here))
        self._untold.clear()
        self._due_s = now_s + TELL_INTERVAL_S

    def deadline_s(self) -> float | None:
        """When :meth:`tick` wants to be called."""
        return self._due_s if self._untold else None

    def _has_room(self, count: int) -> bool:
        """Whether so many more can be remembered; for that, what cannot be reached is forgotten."""
        if self._count() + count > CARDS_HEARD_MAX:
            self._nodes = {node: cards for node, cards in self._nodes.items() if self._routes.via(node)}
            self._untold = {conn: nodes & {self.own.node, *self._nodes} for conn, nodes in self._untold.items()}
        return self._count() + count <= CARDS_HEARD_MAX

    def _count(self) -> int:
        return sum(len(cards.cards) + 1 for cards in self._nodes.values())

    def _tell_all(self, node: str, but: Link | None = None) -> None:
        for conn, link in self._links.items():
            if link is not but and link.hello is not None:
                self._untold.setdefault(conn, set()).add(node)
