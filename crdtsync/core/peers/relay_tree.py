"""Relays: which node relays whose changes to whom, if not every node is connected to every other one.

A node relays a change of another one to every peer that may lack it, unless that peer has said that it gets that node's
changes from somebody else (``RELAYS``). Every peer says so of all its peers but one, for each node:

- In spaces that are for every node that one is the peer over which the node is reached on the shortest way
(:mod:`crdtsync.core.peers.distance_vector`; reverse path forwarding: Dalal, Metcalfe 1978). All know it before anything
is written.
- In other spaces, whose changes take no way but over nodes that hold them, it is the peer over which a change of the
  node came first; who sends it a second time is told (Leitão, Pereira, Rodrigues: Epidemic Broadcast Trees, 2007).

Should a way fail, the peers' acknowledgements show it: a peer that lacks for long what this node has is brought it
whatever it said (:mod:`crdtsync.core.sync.change_feed`). When a connection breaks others are asked at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from crdtsync.core.peers.distance_vector import Routes
from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Link
from crdtsync.wire.peer.meshing import ALL_SPACES, RELAYS_NODES_MAX, Relays

TREES_MAX = 100_000
"""Spaces times nodes of which is remembered over which connection their changes come."""


class Relaying:
    """The relays of one node. ``is_public``: whether a space is for every node."""

    def __init__(
        self, links: Mapping[int, Link], routes: Routes, outbox: Outbox, is_public: Callable[[str], bool]
    ) -> None:
        self._links = links
        self._routes = routes
        self._outbox = outbox
        self._is_public = is_public
        self._from: dict[tuple[str, str], int] = {}
        self._surplus: dict[str, set[str]] = defaultdict(set)
        self._declined: dict[int, frozenset[str]] = {}

    def _tree(self, space: str) -> str:
        return ALL_SPACES if self._is_public(space) else space

    # -- for whom this node relays -----------------------------------------------------------------------------

    def is_unwanted(self, link: Link, space: str, origin: str) -> bool:
        """Whether a peer has said that it gets the changes of a node from somebody else."""
        return bool(link.unwanted) and origin in link.unwanted.get(self._tree(space), ())

    def lacked(self, link: Link, space: str, origins: Iterable[str]) -> None:
        """The peer has lacked changes of these nodes for long: relay them again."""
        unwanted = link.unwanted.get(self._tree(space))
        if unwanted:
            unwanted.difference_update(origins)

    def heard(self, link: Link, message: Relays) -> list[str]:
        """A peer says what to relay. Returns the spaces in which something may have to be sent to it now."""
        touched: list[str] = []
        for tree, nodes in message.nodes.items():
            if tree != ALL_SPACES and tree not in link.spaces:
                continue
            unwanted = link.unwanted.setdefault(tree, set())
            if not message.wanted:
                if sum(map(len, link.unwanted.values())) + len(nodes) <= RELAYS_NODES_MAX:
                    unwanted |= nodes
                continue
            unwanted -= nodes
            touched += [name for name in sorted(link.unsettled) if self._tree(name) == tree]
        return touched

    # -- who relays to this node -------------------------------------------------------------------------------

    def came(self, link: Link, space: str, origin: str, *, is_new: bool) -> None:
        """A change of a node has come over a connection; not ``is_new``: it is here already."""
        tree = self._tree(space)
        if is_new:
            if len(self._from) < TREES_MAX or (tree, origin) in self._from:
                self._from[tree, origin] = link.conn
            return
        wanted = self._wanted_from(tree, origin)
        if wanted is not None and wanted != link.conn and wanted in self._links and origin != link.peer_node:
            self._surplus[tree].add(origin)

    def _wanted_from(self, tree: str, origin: str) -> int | None:
        route = self._routes.by_node().get(origin) if tree == ALL_SPACES else None
        return self._from.get((tree, origin)) if route is None else route.conn

    def answer(self, link: Link) -> None:
        """Tell a peer which of what it has just sent need not have come from it."""
        if self._surplus:
            self._send(link, wanted=False, nodes={tree: frozenset(of) for tree, of in self._surplus.items()})
            self._surplus.clear()

    def plan(self) -> None:
        """The ways to other nodes may have changed: tell each peer whose changes it need not relay, and whose again."""
        for conn in [conn for conn in self._declined if conn not in self._links]:
            del self._declined[conn]
        routes = self._routes.by_node()
        for conn, link in self._links.items():
            now = frozenset(node for node, route in routes.items() if route.conn != conn and route.hops > 1)
            before = self._declined.get(conn, frozenset())
            if now != before and link.hello is not None:
                self._declined[conn] = now
                self._send(link, wanted=False, nodes={ALL_SPACES: now - before})
                self._send(link, wanted=True, nodes={ALL_SPACES: before - now})

    def closed(self, conn: int) -> None:
        """A connection is gone: ask others for what used to come over it."""
        lost = [place for place, over in self._from.items() if over == conn]
        nodes: dict[str, set[str]] = defaultdict(set)
        for tree, origin in lost:
            del self._from[tree, origin]
            if tree != ALL_SPACES:
                nodes[tree].add(origin)
        for link in self._links.values():
            self._send(link, wanted=True, nodes={t: frozenset(of) for t, of in nodes.items() if t in link.spaces})
        self.plan()

    def _send(self, link: Link, *, wanted: bool, nodes: Mapping[str, frozenset[str]]) -> None:
        told = {tree: of for tree, of in nodes.items() if of}
        if told and link.takes(Relays):
            self._outbox.send(link, Relays(wanted, told))
