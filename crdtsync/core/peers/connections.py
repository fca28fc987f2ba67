"""Connections to other nodes, how two nodes introduce themselves, and which of two connections stays."""

from __future__ import annotations

from collections.abc import Iterable

from crdtsync.causality import HLC_AHEAD_MS_MAX, Frontier
from crdtsync.core.alarm_catalogue import CLOCK_AHEAD, COPIED_NODE
from crdtsync.core.node_context import NodeContext
from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Dial, Link, Peer
from crdtsync.core.replica.replica import Replica
from crdtsync.core.storage.rows import FORGOTTEN_MS, PeerRow
from crdtsync.errors import PeerError
from crdtsync.wire.limits import PROTOCOL_VERSION
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.meshing import Links
from crdtsync.wire.peer.messages import FEATURES

HELLO_TIMEOUT_S = 10.0
HELLO_SPACES_MAX = 256
"""Spaces of which a hello tells, and that are introduced in one turn after it: some ms."""
HELLO_WRITERS_MAX = 20_000
"""Their writers, of all together; one space goes into a hello however many it has."""
PEERS_KNOWN_MAX = 10_000
COPIES_WINDOW_S = 60.0
COPIES_REPLACEMENTS_MIN = 10
HOUR_MS = 3600 * 1000


class Contacts:
    """The connections of a node by number, the nodes that it knows by id, the addresses that it dials by URL."""

    def __init__(self, node: NodeContext, outbox: Outbox) -> None:
        self._node = node
        self.links: dict[int, Link] = {}
        self.peers: dict[str, Peer] = {
            row.node: Peer(row.node, row.name, last_seen_ms=row.last_seen_ms) for row in node.storage.peers()
        }
        self.dials: dict[str, Dial] = {}
        self._outbox = outbox

    def opened(self, link: Link, replicas: Iterable[Replica]) -> None:
        """A connection stands: introduce ourselves, and what we have of these spaces: as many as one message may tell.

        The rest follows when the other side has introduced itself, some in each turn.
        """
        self.links[link.conn] = link
        spaces: dict[str, tuple[int, Frontier]] = {}
        writers = 0
        for replica in replicas:
            writers += len(replica.vector)
            if spaces and (len(spaces) >= HELLO_SPACES_MAX or writers > HELLO_WRITERS_MAX):
                break
            spaces[replica.name] = (replica.epoch, replica.frontier)
            link.introduced[replica.name] = dict(replica.vector)
        me = self._node.identity
        hello = Hello(me.node, me.name, me.cluster, me.database, spaces, self._node.now_ms, features=FEATURES)
        self._outbox.send(link, hello)

    def closed(self, link: Link, reason: str) -> None:
        """A connection over which the other side had introduced itself is gone."""
        peer = self.peers[link.peer_node]
        if peer.link is link:
            peer.link = None
            peer.last_error = reason
            self._outbox.met.append(PeerRow(peer.node, peer.name, peer.last_seen_ms))
            self._node.log("peer_down", peer=peer.name, node=peer.node, reason=reason)
            self.tell_links()

    def forget(self, node: str) -> None:
        """Know a node no longer; one that is connected stays until that ends. Whether it had answered at an address is
        forgotten too: whoever is there counts where all nodes must have something, as after a start.
        """
        peer = self.peers.get(node)
        if peer is not None and peer.link is None:
            del self.peers[node]
            self.dials |= {url: dial._replace(node="") for url, dial in self.dials.items() if dial.node == node}
            self._node.alarms.clear(CLOCK_AHEAD, node)
            self._outbox.seen.pop(node, None)
            self._outbox.met.append(PeerRow(node, peer.name, FORGOTTEN_MS))
            self._node.log("peer_forgotten", peer=peer.name, node=node)

    def introduced(self, link: Link, hello: Hello) -> None:
        """The other side says who it is.

        :raises PeerError: the connection must be closed, with this reason.
        """
        now_ms = self._node.now_ms
        if link.dialled and hello.node == self._node.identity.node:
            self.dials[link.url] = Dial(link.url, is_self=True)
        self._check_hello(hello)
        if link.node and hello.node != link.node:
            raise PeerError(
                f"the peer {hello.name} says that it is {hello.node[:12]}, and its key is that of the member "
                f"{link.node[:12]}: its database is another one than the key goes with. Put back the one or the other, "
                "or stop it, move its data directory away and join it anew"
            )
        link.hello = hello.replaced(spaces={})  # they are looked at now, and may be large
        before = self.peers.get(hello.node)
        is_news = before is None or before.name != hello.name
        peer = self.peers.setdefault(hello.node, Peer(hello.node, hello.name))
        if link.dialled:
            peer.url = link.url
            self.dials[link.url] = Dial(link.url, "connected", node=hello.node)
        rival = peer.link
        if rival is not None and self._rank(rival) < self._rank(link):
            link.hello = None
            raise PeerError("duplicate: there is another connection to the same node")
        if rival is not None:
            self._outbox.close(rival, "duplicate: there is another connection to the same node")
            self._check_copies(peer, rival, link)
        peer.link, peer.name, peer.last_seen_ms, peer.last_error = link, hello.name, now_ms, ""
        if peer.clock_skew_ms is None:  # the first answer to a probe knows better
            peer.clock_skew_ms = hello.time_ms - now_ms
        self.look_at_clock(peer)
        peer.database = hello.database
        peer.acked = {}
        row = PeerRow(peer.node, peer.name, now_ms)
        if is_news:
            self._outbox.met.append(row)  # from now on it counts where all nodes must have something
        else:
            self._outbox.seen[peer.node] = row
        self._node.log("peer_up", peer=hello.name, node=hello.node, url=link.url, dialled=link.dialled)

    def look_at_clock(self, peer: Peer) -> None:
        """Whether a peer's clock is so far ahead that its time is not taken over, as it was measured last.

        Its clock counts, and not the changes that it makes: those of a year ago, which a newcomer gets, tell nothing of
        today, and when the clock is right, the alarm ends.
        """
        skew_ms = peer.clock_skew_ms or 0
        message = (
            f"the clock of {peer.name} ({peer.node[:12]}) is {skew_ms // HOUR_MS} hours ahead of this node's, and its "
            "time is not taken over: set the one that is wrong"
        )
        self._node.alarms.set(CLOCK_AHEAD, peer.node, message if skew_ms > HLC_AHEAD_MS_MAX else "")

    def _check_hello(self, hello: Hello) -> None:
        me = self._node.identity
        if hello.node == me.node:
            raise PeerError(
                "this is the node itself: its own address is among its peers, or its data directory was copied"
            )
        if hello.node not in self.peers and len(self.peers) >= PEERS_KNOWN_MAX:
            raise PeerError(f"this node knows {PEERS_KNOWN_MAX:,} others already, the most that it may")
        if hello.cluster != me.cluster:
            raise PeerError(f"the peer {hello.name} belongs to another cluster")
        if hello.protocol < PROTOCOL_VERSION:
            raise PeerError(
                f"the peer {hello.name} speaks protocol {hello.protocol}; this node needs {PROTOCOL_VERSION} or newer"
            )

    def _check_copies(self, peer: Peer, rival: Link, link: Link) -> None:
        """A node replaces a stale connection now and then; two of one identity do it to each other all the time."""
        if rival.dialled != link.dialled:
            return
        peer.replaced_s = [moment for moment in peer.replaced_s if moment > link.since_s - COPIES_WINDOW_S]
        peer.replaced_s.append(link.since_s)
        if len(peer.replaced_s) >= COPIES_REPLACEMENTS_MIN:
            self._node.alarms.raise_once(
                COPIED_NODE,
                peer.node,
                f"two daemons seem to run as node {peer.name} ({peer.node[:12]}), from copies of one data directory: "
                "stop one, clear its data directory, and start it again",
            )

    def _rank(self, link: Link) -> tuple[str, float]:
        """If two nodes have two connections, both sides keep the one with the lower rank.

        Dialled by the lower node id, then the newer.
        """
        return (self._node.identity.node if link.dialled else link.peer_node, -link.since_s)

    def tell_links(self) -> None:
        """Tell every peer which nodes this one is connected to."""
        nodes = frozenset(peer.node for peer in self.peers.values() if peer.link is not None)
        for link in self.links.values():
            if link.hello is not None:
                self._outbox.send(link, Links(nodes))

    def seen_ms(self, node: str) -> int:
        """When a node was connected last, in ms since 1970; 0: never."""
        peer = self.peers.get(node)
        return 0 if peer is None else peer.last_seen_ms

    def tick(self, now_s: float) -> None:
        """Close connections whose other side does not say who it is."""
        for link in list(self.links.values()):
            if link.hello is None and now_s >= link.since_s + HELLO_TIMEOUT_S:
                self._outbox.close(link, f"no hello within {HELLO_TIMEOUT_S:.0f} s")

    def deadline_s(self) -> float | None:
        """When :meth:`tick` wants to be called."""
        return min((link.since_s + HELLO_TIMEOUT_S for link in self.links.values() if link.hello is None), default=None)
