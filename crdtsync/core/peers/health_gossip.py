"""How the other nodes are, as they say themselves: heard from peers, and handed on to those who do not hear it.

For example, host-a and host-c are connected to host-b alone. Host-c says that its disk is full; host-b hands that on to
host-a. If there are two messages about one node, the later one counts, by that node's own clock, so that none goes in
circles. A node's own message always counts, so that nobody else's false one holds for ever. A message is kept until a
later one comes or the node is forgotten: if the node is down, it says how it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import floor, log10

from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Link
from crdtsync.wire.peer.gossip import Health

HEARD_MAX = 10_000
"""Nodes, and alarms on them, of which one node remembers what others told: up to 20 MiB."""


class HealthNews:
    """See the module's description. ``nodes``: what each of the others said last; ``own``: what this one does."""

    def __init__(self, node: str, links: Mapping[int, Link], outbox: Outbox, is_member: Callable[[str], bool]) -> None:
        self.nodes: dict[str, Health] = {}
        self._held = 0
        self.own: Health | None = None
        self._node = node
        self._links = links
        self._outbox = outbox
        self._is_member = is_member

    def introduced(self, link: Link) -> None:
        """A peer is there: tell it of this node, and of those that it does not hear itself, as far as is known."""
        if self.own is not None:
            self._tell(link, self.own)
        for _, health in sorted(self.nodes.items()):
            self._tell(link, health)

    def heard(self, link: Link, health: Health) -> None:
        """A peer tells how it is, or how another node is."""
        before = self.nodes.get(health.node)
        is_late = before is not None and health.told_ms <= before.told_ms and health.node != link.peer_node
        if health.node == self._node or health == before or is_late or not self._is_member(health.node):
            return
        held = self._held + _size(health) - (0 if before is None else _size(before))
        if held > HEARD_MAX and health.node != link.peer_node:
            return
        self._held = held
        self.nodes[health.node] = health
        for other in self._links.values():
            if other is not link:
                self._tell(other, health)

    def tell(self, own: Health) -> None:
        """How this node is, now. Peers are told if that is news: sizes to two digits, so that they seldom are."""
        told = own.replaced(data_bytes=_rounded(own.data_bytes), free_bytes=_rounded(own.free_bytes))
        if self.own is not None and told.replaced(told_ms=self.own.told_ms) == self.own:
            return
        self.own = told
        for link in self._links.values():
            self._tell(link, told)

    def forget(self, node: str) -> None:
        """A node is known no longer."""
        health = self.nodes.pop(node, None)
        self._held -= 0 if health is None else _size(health)

    def _tell(self, link: Link, health: Health) -> None:
        is_near = health.node in (link.peer_node, *link.nodes)
        if link.takes(Health) and not is_near:
            self._outbox.send(link, health)


def _size(health: Health) -> int:
    """Of :data:`HEARD_MAX`."""
    return 1 + len(health.alarms)


def _rounded(size: int) -> int:
    """To two digits: 12,345 is 12,000."""
    unit: int = 10 ** max(0, floor(log10(size)) - 1) if size > 0 else 1
    return size // unit * unit
