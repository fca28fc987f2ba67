"""Which nodes are reached over others, and over which peer: what peers tell of it, and what they are told.

Each node tells its peers which nodes it reaches and over how many connections; the nearest word counts (a distance
vector: Bellman 1957). A peer is not told of nodes that are reached over itself, and what is further away than
``HOPS_MAX`` is not reached, so that a node which has gone is forgotten everywhere soon.
"""

from __future__ import annotations

from collections.abc import Mapping

from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Link
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.peer.meshing import HOPS_MAX, Reached

TELL_INTERVAL_S = 0.2
"""How long news is collected before peers are told."""


class Route(NamedTuple):
    """Over how many connections a node is reached, and over which of this node's first."""

    hops: int
    conn: int


class Routes:
    """See the module's description. ``is_stale``: connections, or what peers tell, have changed.

    ``has_far``: some nodes are reached over others alone.
    """

    def __init__(self, node: str, links: Mapping[int, Link], outbox: Outbox) -> None:
        self.is_stale = False
        self.has_far = False
        self._node = node
        self._links = links
        self._outbox = outbox
        self._heard: dict[int, Mapping[str, int]] = {}
        self._told: dict[int, Mapping[str, int]] = {}
        self._by_node: dict[str, Route] = {}
        self._has_news = False
        self._tell_s: float | None = None

    def heard(self, link: Link, message: Reached) -> None:
        """A peer tells which nodes it reaches over others."""
        self._heard[link.conn] = message.nodes
        self.is_stale = True

    def by_node(self) -> Mapping[str, Route]:
        """The nodes that are up, as far as is known, by the route to each."""
        if self.is_stale:
            self._refresh()
        return self._by_node

    def hops(self, node: str) -> int | None:
        """Over how many connections a node is reached; None: it is not."""
        route = self.by_node().get(node)
        return None if route is None else route.hops

    def via(self, node: str) -> str:
        """The peer over which a node is reached, itself if it is connected; empty: it is not reached."""
        route = self.by_node().get(node)
        link = None if route is None else self._links.get(route.conn)
        return "" if link is None else link.peer_node

    def _refresh(self) -> None:
        self.is_stale = False
        for conn in [conn for conn in {*self._heard, *self._told} if conn not in self._links]:
            self._heard.pop(conn, None)
            self._told.pop(conn, None)
        routes: dict[str, Route] = {}
        for conn, link in sorted(self._links.items()):
            if link.hello is None:
                continue
            _offer(routes, link.peer_node, Route(1, conn))
            for node in link.nodes:
                _offer(routes, node, Route(2, conn))
            for node, hops in self._heard.get(conn, {}).items():
                _offer(routes, node, Route(hops + 1, conn))
        routes.pop(self._node, None)
        if routes != self._by_node:
            self._by_node = routes
            self._has_news = True
            self.has_far = any(route.hops > 1 for route in routes.values())

    def tell(self, now_s: float) -> bool:
        """Send what peers have not been told yet, now and then. Whether it was time."""
        self.by_node()
        if self._has_news and self._tell_s is None:
            self._tell_s = now_s + TELL_INTERVAL_S
        if self._tell_s is None or now_s < self._tell_s:
            return False
        self._tell_s, self._has_news = None, False
        for conn, link in self._links.items():
            if not link.takes(Reached):
                continue
            far = self._beyond(link)
            if far != self._told.get(conn, {}):
                self._told[conn] = far
                self._outbox.send(link, Reached(far))
        return True

    def _beyond(self, link: Link) -> Mapping[str, int]:
        """The nodes that a peer may want to know: it is not connected to them, and this node does not reach them over
        the peer itself.
        """
        return {
            node: route.hops
            for node, route in self._by_node.items()
            if 1 < route.hops < HOPS_MAX
            and route.conn != link.conn
            and node not in link.nodes
            and node != link.peer_node
        }

    def deadline_s(self) -> float | None:
        """When :meth:`tell` wants to be called."""
        return 0.0 if self.is_stale or (self._has_news and self._tell_s is None) else self._tell_s


def _offer(routes: dict[str, Route], node: str, route: Route) -> None:
    known = routes.get(node)
    if route.hops <= HOPS_MAX and (known is None or route.hops < known.hops):
        routes[node] = route
