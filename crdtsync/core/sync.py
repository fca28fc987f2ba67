"""Anti-entropy between peers: who lacks what, and sending it, in causal order, once.

Each connection keeps a cursor into this node's log, not a queue: what the peer lacks by its own word is read from
the log as fast as its acknowledgements give credit. A node's own changes go to every connected peer at once. A
change of another node is left to its origin where the peer is connected to that, and relayed if the peer still
lacks it after a delay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING

from crdtsync.causality import Frontier, VersionVector, Writer, covers, flatten, merge
from crdtsync.core.alarms import Alarms
from crdtsync.core.identity import Identity
from crdtsync.core.peers import Dial, Link, Peer, SpaceLink
from crdtsync.core.replica import Applied, Replica
from crdtsync.core.storage import PeerRow, Storage
from crdtsync.core.transfer import Transfers
from crdtsync.errors import ForkDetected, InvalidEncoding, PeerError
from crdtsync.wire.codec import pack
from crdtsync.wire.limits import CHANGE_DEPS_MAX, PROTOCOL_VERSION
from crdtsync.wire.messages import (
    FRAME_CHANGES_MAX,
    SNAPSHOTS,
    Ack,
    Changes,
    Hello,
    Links,
    Message,
    Offer,
    Part,
    SpaceAck,
    Stop,
    Take,
    Want,
    decode_message,
    encode_message,
)

if TYPE_CHECKING:
    from random import Random

RELAY_DELAY_S = 1.0
"""How long a change of another node may take to reach a peer by itself before it is relayed."""
ACK_DELAY_S = 0.05
"""How long acknowledgements are collected for peers that are not waiting for them."""
WANT_INTERVAL_S = 1.0
HELLO_TIMEOUT_S = 10.0
PEERS_KNOWN_MAX = 10_000
COPIES_WINDOW_S = 60.0
COPIES_REPLACEMENTS_MIN = 10
CREDIT_BYTES_MAX = 4 * 1024 * 1024
SLICE_BYTES_MAX = 256 * 1024

Log = Callable[..., None]


class Sync:
    """All peers of a node. Messages to send collect in ``sends``, connections to close in ``closes``."""

    def __init__(
        self,
        identity: Identity,
        replicas: dict[str, Replica],
        storage: Storage,
        alarms: Alarms,
        random: Random,
        log: Log,
        now_s: float,
    ) -> None:
        self.identity = identity
        self.replicas = replicas
        self.storage = storage
        self.log = log
        self.links: dict[int, Link] = {}
        self.peers: dict[str, Peer] = {
            row.node: Peer(row.node, row.name, last_seen_ms=row.last_seen_ms) for row in storage.peers()
        }
        self.dials: dict[str, Dial] = {}
        self.sends: list[tuple[int, bytes]] = []
        self.closes: list[tuple[int, str]] = []
        self.met: list[PeerRow] = []
        self.alarms = alarms
        self.read_only = False
        self._check_due_s = 0.0
        self.transfers = Transfers(replicas, storage, alarms, random, log, self.links, self._send, now_s)

    # -- connections -------------------------------------------------------------------------------------

    def opened(self, conn: int, url: str, dialled: bool, now_s: float, now_ms: int) -> None:
        """A connection stands: introduce ourselves."""
        link = self.links[conn] = Link(conn, url, dialled, now_s)
        spaces = {name: (replica.epoch, replica.frontier) for name, replica in self.replicas.items()}
        link.introduced = {name: dict(replica.vector) for name, replica in self.replicas.items()}
        me = self.identity
        self._send(link, Hello(me.node, me.name, me.cluster, me.database, spaces, now_ms, features=(SNAPSHOTS,)))

    def closed(self, conn: int, reason: str, now_s: float, now_ms: int) -> None:
        """A connection is gone."""
        link = self.links.pop(conn, None)
        if link is None or link.hello is None:
            return
        self.transfers.taker.closed(link, now_s)
        peer = self.peers[link.hello.node]
        if peer.link is link:
            peer.link = None
            peer.last_seen_ms = now_ms
            peer.last_error = reason
            self.met.append(PeerRow(peer.node, peer.name, now_ms))
            self.log("peer_down", peer=peer.name, node=peer.node, reason=reason)
            self._send_links()

    def received(self, conn: int, data: bytes, now_s: float, now_ms: int) -> list[Applied]:
        """Handle one message. Returns the changes that could be applied.

        :raises PeerError: the connection must be closed, with this reason.
        """
        link = self.links.get(conn)
        if link is None:
            return []
        try:
            message = decode_message(data)
        except InvalidEncoding as error:
            raise PeerError(error.message) from None
        if link.hello is None:
            if not isinstance(message, Hello):
                raise PeerError("the first message of a connection must be a hello")
            self._hello(link, message, now_s, now_ms)
            return []
        self.peers[link.hello.node].last_seen_ms = now_ms
        match message:
            case Changes():
                return self._changes(link, message, now_s, now_ms)
            case Ack():
                self._ack(link, message, now_s)
            case Want():
                self._want(link, message, now_s)
            case Offer() | Take() | Part():
                return self._transfer(link, message, now_s, now_ms)
            case Links():
                link.nodes = message.nodes
            case Stop():
                self._stop(link, message)
            case Hello():
                raise PeerError("a second hello on one connection")
        return []

    def _hello(self, link: Link, hello: Hello, now_s: float, now_ms: int) -> None:
        self._check_hello(hello)
        link.hello = hello
        peer = self.peers.setdefault(hello.node, Peer(hello.node, hello.name))
        if link.dialled:
            peer.url = link.url
            self.dials[link.url] = Dial(link.url, "connected", node=hello.node)
        rival = peer.link
        if rival is not None and self._rank(rival) < self._rank(link):
            link.hello = None
            raise PeerError("duplicate: there is another connection to the same node")
        if rival is not None:
            self._close(rival, "duplicate: there is another connection to the same node")
            self._check_copies(peer, rival, link)
        peer.link, peer.name, peer.last_seen_ms, peer.last_error = link, hello.name, now_ms, ""
        peer.clock_skew_ms = hello.time_ms - now_ms
        peer.database = hello.database
        peer.acked = {}
        self.met.append(PeerRow(peer.node, peer.name, now_ms))
        self.log("peer_up", peer=hello.name, node=hello.node, url=link.url, dialled=link.dialled)
        for name, (epoch, frontier) in sorted(hello.spaces.items()):
            if name in self.replicas:
                self._start(link, self.replicas[name], epoch, frontier, now_s)
                self._acknowledge_since_introduction(link, name)
        self._send_links()

    def _acknowledge_since_introduction(self, link: Link, name: str) -> None:
        """What came to this node after it introduced itself, and before it could acknowledge anything."""
        told, replica = link.introduced.pop(name, {}), self.replicas[name]
        news = {writer for writer, seq in replica.vector.items() if told.get(writer, 0) < seq}
        if news:
            link.spaces[name].ack_writers |= news
            link.ack_due_s = link.since_s

    def _check_hello(self, hello: Hello) -> None:
        me = self.identity
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
            self.alarms.raise_once(
                "copied_node",
                peer.node,
                f"two daemons seem to run as node {peer.name} ({peer.node[:12]}), from copies of one data directory: "
                "stop one, clear its data directory, and start it again",
            )

    def _rank(self, link: Link) -> tuple[str, float]:
        """Of two connections to one node both sides keep the one with the lower rank.

        Dialled by the lower node id, then the newer.
        """
        assert link.hello is not None
        return (self.identity.node if link.dialled else link.hello.node, -link.since_s)

    def _start(self, link: Link, replica: Replica, epoch: int, frontier: Frontier, now_s: float) -> None:
        """Begin, or begin again, to sync one space from what the peer says that it has."""
        assert link.hello is not None
        vector = {writer: seq for writer, (seq, _) in frontier.items()}
        known = {w: seq for w, seq in vector.items() if seq}
        here = link.spaces.setdefault(replica.name, SpaceLink(known, 0))
        here.known = known
        self.peers[link.hello.node].acked[replica.name] = dict(known)
        if epoch != replica.epoch:
            here.stopped = True
            self.alarms.raise_once(
                "epoch",
                replica.name,
                f"space {replica.name}: {link.hello.name} has epoch {epoch}, this node {replica.epoch}",
            )
            return
        try:
            for writer, (seq, short_hash) in sorted(frontier.items()):
                replica.check_head(writer, seq, short_hash, stored=True)
        except ForkDetected as error:
            self._forked(link, replica.name, error)
            return
        if not self.transfers.giver.withholds(link, here, replica, now_s):
            self._rewind(here, replica)

    def _reconsider(self, here: SpaceLink, replica: Replica, now_s: float) -> None:
        """A peer that was offered a snapshot has got on, by another's perhaps: the log may do by now."""
        if self.transfers.giver.is_served_by_log(here, replica):
            self._rewind(here, replica)
        else:
            here.offer_due_s = min(here.offer_due_s, now_s + RELAY_DELAY_S)

    def _rewind(self, here: SpaceLink, replica: Replica) -> None:
        """Set the cursor to the first change that the peer lacks. What it knows covers the log's floor."""
        here.offered = False
        here.position = self.storage.position_missing(replica.id, here.known, replica.vector)

    # -- messages --------------------------------------------------------------------------------------------

    def _changes(self, link: Link, message: Changes, now_s: float, now_ms: int) -> list[Applied]:
        size_bytes = sum(map(len, message.bodies))
        if self.read_only:
            link.dropped_bytes += size_bytes
            link.dropped_spaces.add(message.space)
            return []
        replica = self.replicas.get(message.space)
        link.received_bytes += size_bytes
        link.ack_due_s = now_s
        here = link.spaces.get(message.space)
        if replica is None or here is None or here.stopped or message.epoch != replica.epoch:
            return []
        applied: list[Applied] = []
        try:
            for body in message.bodies:
                change = replica.codec.decode(body)
                done, kept = replica.receive(change, now_ms)
                applied.extend(done)
                if replica.unknown is not None:
                    kept = self._seek_document(link, here, replica, applied, now_s, now_ms) and kept
                if change.seq <= replica.vector.get(change.writer, 0):
                    here.ack_writers.add(change.writer)  # a repeat too: who sent it does not know that it is here
                if change.seq > here.known.get(change.writer, 0):
                    here.known[change.writer] = change.seq
                if not kept:
                    link.wants.setdefault(replica.name, now_s + WANT_INTERVAL_S)
        except InvalidEncoding as error:
            self.log("change_refused", space=message.space, peer=link.hello and link.hello.name, reason=error.message)
            self._close(link, error.message)
        except ForkDetected as error:
            self._forked(link, message.space, error)
        return applied

    def _seek_document(
        self, link: Link, here: SpaceLink, replica: Replica, applied: list[Applied], now_s: float, now_ms: int
    ) -> bool:
        """An edit came for a text that is not held here: get that from the peer, or skip the edit if it cannot be had.

        False: the edit must be asked for again.
        """
        kept = True
        while replica.unknown is not None and kept:
            change, document = replica.unknown
            answer = self.transfers.taker.want_document(link, here, replica, document, now_s)
            if answer is not None:
                return answer
            replica.skip_document(document)
            done, kept = replica.receive(change, now_ms)
            applied.extend(done)
        return kept

    def _transfer(self, link: Link, message: Offer | Take | Part, now_s: float, now_ms: int) -> list[Applied]:
        size_bytes = len(message.data) if isinstance(message, Part) else 0
        if self.read_only and size_bytes:
            link.dropped_bytes += size_bytes
            return []
        replica, here = self.replicas.get(message.space), link.spaces.get(message.space)
        if size_bytes:
            link.received_bytes += size_bytes
            link.ack_due_s = now_s
        if replica is None or here is None or here.stopped or message.epoch != replica.epoch:
            return []
        try:
            merged = self.transfers.received(link, here, replica, message, now_s, now_ms)
        except ForkDetected as error:
            self._forked(link, message.space, error)
            return []
        if merged is None:
            return []
        if not merged.kept:
            link.wants.setdefault(replica.name, now_s + WANT_INTERVAL_S)
        return merged.applied

    def _ack(self, link: Link, ack: Ack, now_s: float) -> None:
        assert link.hello is not None
        if ack.received_bytes > link.sent_bytes:
            raise PeerError("acknowledges more than it was sent")
        link.acked_bytes = max(link.acked_bytes, ack.received_bytes)
        peer = self.peers[link.hello.node]
        for part in ack.spaces:
            replica, here = self.replicas.get(part.space), link.spaces.get(part.space)
            if replica is None or here is None or part.epoch != replica.epoch:
                continue
            acked = peer.acked.setdefault(part.space, {})
            awaited = here.mark_vector
            here.progressed |= any(acked.get(w, 0) < min(seq, awaited.get(w, 0)) for w, seq in part.vector.items())
            merge(acked, part.vector)
            if len(acked) > CHANGE_DEPS_MAX:
                raise PeerError(f"acknowledges over {CHANGE_DEPS_MAX:,} writers, more than a space can have")
            merge(here.known, part.vector)
            if here.offered and part.vector:
                self._reconsider(here, replica, now_s)
            if part.digest and part.cut == cut_of(replica.vector) and part.digest != digest_of(replica):
                self.alarms.raise_once(
                    "divergence",
                    part.space,
                    f"space {part.space}: {peer.name} holds the same changes but another state",
                )

    def set_read_only(self, read_only: bool, now_s: float) -> None:
        """Take no changes while there is no room: they are dropped, earn no credit, and are asked for later."""
        self.read_only = read_only
        self.transfers.taker.set_read_only(read_only, now_s)
        if read_only:
            return
        for link in self.links.values():
            if not link.dropped_bytes:
                continue
            link.received_bytes += link.dropped_bytes
            link.ack_due_s = now_s
            for name in link.dropped_spaces & link.spaces.keys():
                link.wants[name] = now_s
            link.dropped_bytes = 0
            link.dropped_spaces = set()

    def _want(self, link: Link, want: Want, now_s: float) -> None:
        replica = self.replicas.get(want.space)
        if replica is not None and want.space in link.spaces:
            self._start(link, replica, want.epoch, want.frontier, now_s)

    def _stop(self, link: Link, stop: Stop) -> None:
        assert link.hello is not None
        here = link.spaces.get(stop.space)
        if here is not None:
            here.stopped = True
            self.alarms.raise_once(stop.code, stop.space, f"{link.hello.name} stopped syncing: {stop.message}")

    def _forked(self, link: Link, space: str, error: ForkDetected) -> None:
        link.spaces[space].stopped = True
        self.alarms.raise_once("fork", space, error.message)
        self._send(link, Stop(space, error.code, error.message))

    # -- who is there ------------------------------------------------------------------------------------------

    def live_nodes(self) -> set[str]:
        """The other nodes that are up, as far as is known: those that are connected, and those connected to them."""
        links = [(peer.node, peer.link.nodes) for peer in self.peers.values() if peer.link is not None]
        return {node for peer, nodes in links for node in (peer, *nodes)} - {self.identity.node}

    def seen_ms(self, node: str) -> int:
        """When a node was connected last, in ms since 1970; 0: never."""
        peer = self.peers.get(node)
        return 0 if peer is None else peer.last_seen_ms

    # -- sending -----------------------------------------------------------------------------------------------

    def pump(self, applied: dict[str, list[Applied]], durable: dict[str, int], now_s: float) -> None:
        """Send what peers lack.

        ``applied`` are the changes of the commit under way; ``durable``, per space, the log position before it.
        """
        self.transfers.tick(now_s)
        for link in list(self.links.values()):
            if link.hello is None:
                if now_s >= link.since_s + HELLO_TIMEOUT_S:
                    self._close(link, f"no hello within {HELLO_TIMEOUT_S:.0f} s")
                continue
            for name, here in link.spaces.items():
                replica = self.replicas[name]
                news = applied.get(name, ())
                for item in news:
                    here.ack_writers.add(item.change.writer)
                if news and link.ack_due_s is None:
                    link.ack_due_s = now_s + ACK_DELAY_S
                if not here.stopped:
                    self._push(link, here, replica, news, durable.get(name, replica.position), now_s)
            self._acknowledge(link, now_s)
        if now_s >= self._check_due_s:
            self._check_due_s = now_s + RELAY_DELAY_S
            self._check_relays(now_s)

    def _push(
        self, link: Link, here: SpaceLink, replica: Replica, news: Iterable[Applied], durable: int, now_s: float
    ) -> None:
        if here.offered:
            if link.sent_bytes - link.acked_bytes < CREDIT_BYTES_MAX:
                link.sent_bytes += self.transfers.giver.serve(link, here, replica, durable, now_s)
            return
        if here.position < durable:
            self._walk(link, here, replica, durable)
            return
        if not news or link.sent_bytes - link.acked_bytes >= CREDIT_BYTES_MAX:
            return  # the cursor stays behind, and the log is walked when there is credit
        bodies = [
            item.change.body
            for item in news
            if self._lacks(link, here, replica, item.change.writer, item.change.seq, item.position)
        ]
        here.position = replica.position
        self._send_changes(link, replica, bodies)

    def _walk(self, link: Link, here: SpaceLink, replica: Replica, durable: int) -> None:
        """Send a slice of the log."""
        if link.sent_bytes - link.acked_bytes >= CREDIT_BYTES_MAX:
            return
        rows = self.storage.log(replica.id, here.position, SLICE_BYTES_MAX, FRAME_CHANGES_MAX)
        bodies = [row.body for row in rows if self._lacks(link, here, replica, row.writer, row.seq, row.position)]
        here.position = rows[-1].position if rows else durable  # positions of merged snapshots hold no change
        self._send_changes(link, replica, bodies)

    def _lacks(self, link: Link, here: SpaceLink, replica: Replica, writer: Writer, seq: int, position: int) -> bool:
        """Whether to send this change now; marks it as known to the peer if so."""
        if here.known.get(writer, 0) != seq - 1:
            return False  # it has this one, or an earlier one was left to others, and so is this
        if writer != replica.writer and position > here.relay_until:
            origin = replica.origins.get(writer)
            if origin is not None and origin[0] != self.identity.node and self._is_near(link, origin[0]):
                return False
        here.known[writer] = seq
        return True

    @staticmethod
    def _is_near(link: Link, node: str) -> bool:
        """Whether the peer is that node, or is connected to it."""
        return node in link.nodes or (link.hello is not None and link.hello.node == node)

    def _send_changes(self, link: Link, replica: Replica, bodies: list[bytes]) -> None:
        part: list[bytes] = []
        size_bytes = 0
        for body in bodies:
            if part and (size_bytes + len(body) > SLICE_BYTES_MAX or len(part) >= FRAME_CHANGES_MAX):
                self._send(link, Changes(replica.name, replica.epoch, part))
                part, size_bytes = [], 0
            part.append(body)
            size_bytes += len(body)
            link.sent_bytes += len(body)
        if part:
            self._send(link, Changes(replica.name, replica.epoch, part))

    def _acknowledge(self, link: Link, now_s: float) -> None:
        for name, due_s in list(link.wants.items()):
            if now_s >= due_s:
                del link.wants[name]
                self._send(link, Want(name, self.replicas[name].epoch, self.replicas[name].frontier))
        if link.ack_due_s is None or now_s < link.ack_due_s:
            return
        link.ack_due_s = None
        spaces = []
        for name, here in link.spaces.items():
            if here.ack_writers:
                replica = self.replicas[name]
                vector: VersionVector = {writer: replica.vector[writer] for writer in here.ack_writers}
                spaces.append(SpaceAck(name, replica.epoch, vector, cut_of(replica.vector), digest_of(replica)))
                here.ack_writers = set()
        self._send(link, Ack(link.received_bytes, spaces))

    def _check_relays(self, now_s: float) -> None:
        """Where a peer has made no progress on what was left to others, bring it ourselves."""
        for peer in self.peers.values():
            if peer.link is None:
                continue
            for name, here in peer.link.spaces.items():
                replica = self.replicas[name]
                if here.stopped or here.offered:
                    continue
                if here.mark_position != replica.position or here.mark_vector:
                    self._check_relay(peer, here, replica)
                self.transfers.giver.check(peer.link, here, replica, now_s)

    def _check_relay(self, peer: Peer, here: SpaceLink, replica: Replica) -> None:
        acked = peer.acked.get(replica.name, {})
        if covers(acked, here.mark_vector):
            settled = here.mark_position == replica.position
            here.mark_vector = {} if settled else dict(replica.vector)
            here.mark_position = replica.position
        elif not here.progressed and not covers(here.known, here.mark_vector):
            here.relay_until = here.mark_position
            here.position = min(here.position, self.storage.position_missing(replica.id, here.known, replica.vector))
        here.progressed = False

    # -- the rest ------------------------------------------------------------------------------------------------

    def deadline_s(self, durable: dict[str, int]) -> float | None:
        """When :meth:`pump` wants to be called again."""
        due = [link.ack_due_s for link in self.links.values() if link.ack_due_s is not None]
        due += [due_s for link in self.links.values() for due_s in link.wants.values()]
        due += [link.since_s + HELLO_TIMEOUT_S for link in self.links.values() if link.hello is None]
        if any(link.hello for link in self.links.values()):
            due.append(self._check_due_s)
        if any(self._has_more(link, durable) for link in self.links.values()):
            due.append(0.0)
        due += self.transfers.deadlines_s()
        return min(due, default=None)

    def _has_more(self, link: Link, durable: dict[str, int]) -> bool:
        if link.hello is None or link.sent_bytes - link.acked_bytes >= CREDIT_BYTES_MAX:
            return False
        for name, here in link.spaces.items():
            if here.stopped:
                continue
            durable_position = durable.get(name, self.replicas[name].position)
            if (
                self.transfers.giver.can_serve(here, durable_position)
                if here.offered
                else here.position < durable_position
            ):
                return True
        return False

    def _send_links(self) -> None:
        nodes = frozenset(peer.node for peer in self.peers.values() if peer.link is not None)
        for link in self.links.values():
            if link.hello is not None:
                self._send(link, Links(nodes))

    def _send(self, link: Link, message: Message) -> None:
        self.sends.append((link.conn, encode_message(message)))

    def _close(self, link: Link, reason: str) -> None:
        self.closes.append((link.conn, reason))


def cut_of(vector: VersionVector) -> bytes:
    """A short name for a version vector, to compare digests at a common cut."""
    return blake2b(pack(flatten(vector)), digest_size=8).digest()


def digest_of(replica: Replica) -> bytes:
    """The digest of a replica's live entries."""
    return replica.entries.digest.to_bytes(16, "big")
