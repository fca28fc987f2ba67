"""Which resolvers are attached to which nodes: what peers tell, and what they are told.

Each node tells its peers of its own resolvers. It also tells them of those of all nodes that it has heard of over
others and that the peers are not connected to. If a node is reached only over others, the word of the peer on the way
to it counts (see :mod:`~crdtsync.core.peers.distance_vector`), so news goes no circles, and is forgotten with the node.
A message tells a state, not an event: it goes out again, as a whole, when the state has changed, and is forgotten when
the connection ends.
"""

from __future__ import annotations

from collections.abc import Mapping

from crdtsync.core.peers.distance_vector import Route, Routes
from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Link
from crdtsync.errors import InvalidRequest
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.patterns import Pattern, check_pattern
from crdtsync.wire.peer.gossip import ResolvedPattern, Resolvers

TOLD_MAX = 16_384
"""Patterns, and keys that are worked on, of which one peer may tell, of all nodes: some 25 MB."""
TELL_INTERVAL_S = 0.1
"""How long news is collected before it is told on a connection."""
LINGER_S = 1.0
"""How long a node counts as there that is not connected any more: connections break, are replaced, and come back."""


class NodeResolvers:
    """The resolvers of one node, as far as they are known."""

    __slots__ = ("asked", "message", "patterns")

    def __init__(self, message: Resolvers) -> None:
        self.message = message
        self.patterns: dict[str, list[tuple[Pattern, float]]] = {}
        for space, text, takeover_ms in message.patterns:
            try:
                pattern = check_pattern(text)
            except InvalidRequest:
                continue  # of a newer version, which knows more about patterns
            self.patterns.setdefault(space, []).append((pattern, takeover_ms / 1000))
        self.asked = {(one.space, one.key): one.asked for one in message.keys}

    def takeover_s(self, space: str, key: str) -> float | None:
        """How long it may take over a conflict of ``key``; None: it has no resolver for that, or none that can."""
        if self.asked.get((space, key)) == 0:
            return None
        found = [takeover_s for pattern, takeover_s in self.patterns.get(space, ()) if pattern.matches(key)]
        return max(found, default=None)


class NodeAhead(NamedTuple):
    """A node that comes before this one: how long its resolver may take, and how many of them it has asked by now."""

    node: str
    takeover_s: float
    asked: int


class ResolverNews:
    """See the module's description. ``is_stale``: connections or what is told of nodes have changed."""

    def __init__(self, node: str, links: Mapping[int, Link], outbox: Outbox, routes: Routes) -> None:
        self.is_stale = False
        self._routes = routes
        self._by_node: Mapping[str, Route] = {}
        self._relayed: dict[str, tuple[int, Resolvers]] = {}
        self.nodes: dict[str, NodeResolvers] = {}
        self._node = node
        self._links = links
        self._outbox = outbox
        self._heard: dict[int, dict[str, NodeResolvers]] = {}
        self._told: dict[int, dict[str, Resolvers]] = {}
        self._own = Resolvers(node)
        self._has_news = False
        self._has_changed = False  # since peers were told last, so that some of it may be for them to know at once
        self._tell_s = 0.0
        self._due_s: dict[int, float] = {}
        self._lingering: dict[str, float] = {}
        self._withdrawn: set[str] = set()

    def heard(self, link: Link, message: Resolvers) -> None:
        """A peer told of its resolvers, or of those of another node."""
        heard = self._heard.setdefault(link.conn, {})
        before = heard.pop(message.node, None)
        told = [message, *(known.message for known in heard.values())]
        count = sum(len(each.patterns) + len(each.keys) for each in told)
        if message.node != self._node and message.patterns and count <= TOLD_MAX:
            heard[message.node] = NodeResolvers(message)
        elif link.hello is not None and link.peer_node == message.node:
            self._withdrawn.add(message.node)
        if before is not None or message.node in heard:
            self.is_stale = True

    def refresh(self, now_s: float) -> bool:
        """Look again at who is connected and what they told; whether another picture has come out."""
        routes = self._routes.by_node()
        if not self.is_stale and routes is self._by_node and now_s < min(self._lingering.values(), default=now_s + 1):
            return False
        self.is_stale = False
        self._has_news = self._has_changed = True
        self._by_node = routes
        for conn in [conn for conn in {*self._heard, *self._told, *self._due_s} if conn not in self._links]:
            for kept in (self._heard, self._told, self._due_s):
                kept.pop(conn, None)
        found = self._known(routes)
        self._relayed = {node: (conn, known.message) for node, (conn, known) in found.items()}
        nodes = {node: known for node, (_, known) in found.items()}
        self._keep_lingering(nodes, now_s)
        if {node: known.message for node, known in nodes.items()} == {n: k.message for n, k in self.nodes.items()}:
            return False
        self.nodes = nodes
        return True

    def _keep_lingering(self, nodes: dict[str, NodeResolvers], now_s: float) -> None:
        """Add those that were there until a moment ago, and did not say themselves that they have none any more."""
        gone = {node: known for node, known in self.nodes.items() if node not in nodes and node not in self._withdrawn}
        self._withdrawn.clear()
        self._lingering = {node: self._lingering.get(node, now_s + LINGER_S) for node in gone}
        for node, until_s in list(self._lingering.items()):
            if now_s < until_s:
                nodes[node] = gone[node]
            else:
                del self._lingering[node]

    def _known(self, routes: Mapping[str, Route]) -> dict[str, tuple[int, NodeResolvers]]:
        """The resolvers of each node, and over which connection they are known: by its own word, its peers', or that on
        the way to it.

        Two nodes that dial each other have two connections for a moment, of which one has told nothing yet, or never
        will: the word over the other counts, and until there is one, that of a peer.
        """
        own: dict[str, tuple[int, NodeResolvers]] = {}
        near: dict[str, tuple[int, NodeResolvers]] = {}
        further: dict[str, tuple[int, NodeResolvers]] = {}
        for conn, heard in sorted(self._heard.items()):
            link = self._links[conn]
            for node, known in heard.items():
                route = routes.get(node)
                if link.hello is not None and link.peer_node == node:
                    own[node] = conn, known
                elif node in link.nodes:
                    near.setdefault(node, (conn, known))
                elif route is not None and route.conn == conn:
                    further[node] = conn, known
        return further | near | own

    def ahead(self, space: str, key: str) -> list[NodeAhead]:
        """The nodes whose resolvers come before those of this one: the lower ones, and any that is at work on it."""
        found = []
        for node, known in sorted(self.nodes.items()):
            asked = known.asked.get((space, key), 0)
            if node < self._node or asked:
                takeover_s = known.takeover_s(space, key)
                if takeover_s is not None:
                    found.append(NodeAhead(node, takeover_s, asked))
        return found

    # -- telling -----------------------------------------------------------------------------------------------

    def set_own(self, own: Resolvers) -> None:
        """The resolvers of this node's own agents."""
        if own != self._own:
            self._own = own
            self._has_news = self._has_changed = True

    def tell(self, now_s: float) -> None:
        """Send what peers have not been told yet: of a node that has come into a space at once, so that it is there
        before the changes that come with it, and else now and then.
        """
        if not self._has_news:
            return
        late: list[float] = []
        for conn, link in self._links.items():
            if link.hello is None or not link.takes(Resolvers):
                continue
            is_early = now_s < self._due_s.get(conn, 0.0)
            if is_early:
                late.append(self._due_s[conn])
                if not self._has_changed:
                    continue
            near = {link.peer_node, *link.nodes}
            wanted = {node: told for node, (over, told) in self._relayed.items() if over != conn and node not in near}
            wanted[self._node] = self._own
            if self._tell(link, wanted, only_first=is_early) and not is_early:
                self._due_s[conn] = now_s + TELL_INTERVAL_S
        self._has_news, self._has_changed, self._tell_s = bool(late), False, min(late, default=0.0)

    def _tell(self, link: Link, wanted: dict[str, Resolvers], *, only_first: bool) -> bool:
        """Whether there was something that this peer had not been told. ``only_first``: it is told alone of nodes in
        spaces in which it knew of no resolver there.
        """
        is_news = False
        told = self._told.setdefault(link.conn, {})
        for node in sorted(wanted.keys() | told.keys()):
            before, message = told.get(node, Resolvers(node)), _shared(wanted.get(node, Resolvers(node)), link)
            if message == before or (only_first and _spaces(message) <= _spaces(before)):
                continue
            if message.patterns:
                told[node] = message
            else:
                told.pop(node, None)
            self._outbox.send(link, message)
            is_news = True
        return is_news

    def deadline_s(self) -> float | None:
        """When :meth:`refresh` and :meth:`tell` want to be called again."""
        due = list(self._lingering.values())
        if self._has_news:
            due.append(self._tell_s)
        return min(due, default=None)


def _shared(message: Resolvers, link: Link) -> Resolvers:
    """The part of it about spaces that the peer has too: it is not to learn of others."""
    patterns: tuple[ResolvedPattern, ...] = tuple(one for one in message.patterns if one.space in link.spaces)
    return Resolvers(message.node, patterns, tuple(one for one in message.keys if one.space in link.spaces))


def _spaces(message: Resolvers) -> set[str]:
    return {one.space for one in message.patterns}
