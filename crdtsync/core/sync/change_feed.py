"""Sending peers the changes that they lack, in causal order, once.

Each connection keeps a cursor into this node's log, not a queue: what the peer lacks by its own word is read from
the log as fast as its acknowledgements give credit. A node's own changes go to every connected peer at once. A
change of another node is left to its origin where the peer is connected to that, and relayed if the peer still
lacks it after a delay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from crdtsync.causality import Writer, covers
from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Link, Peer, SpaceLink
from crdtsync.core.peers.relay_tree import Relaying
from crdtsync.core.replica.replica import Replica
from crdtsync.core.space import Applied
from crdtsync.core.sync.snapshot_server import SnapshotServer
from crdtsync.wire.peer.changes import FRAME_CHANGES_MAX, Changes

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext

CREDIT_BYTES_MAX = 4 * 1024 * 1024
"""Changes sent to a peer and not acknowledged."""
SLICE_BYTES_MAX = 256 * 1024
"""Bytes of the log that are read for a peer in one turn."""
RELAY_DELAY_S = 1.0
"""How long a change of another node may take to reach a peer by itself before it is relayed."""


class Feeder:
    """Feeds every peer of a node."""

    def __init__(self, node: NodeContext, snapshots: SnapshotServer, outbox: Outbox, relaying: Relaying) -> None:
        self._node = node
        self._relaying = relaying
        self.is_patient = False
        """Whether nobody here, or at who sent it, waits for what is sent in this turn to be acknowledged."""
        self._snapshots = snapshots
        self._outbox = outbox

    def reconsider(self, here: SpaceLink, replica: Replica) -> None:
        """A peer that was offered a snapshot has got on, by another's perhaps: the log may do by now."""
        if self._snapshots.is_served_by_log(here, replica):
            self.rewind(here, replica)
        else:
            here.offer_due_s = min(here.offer_due_s, self._node.now_s + RELAY_DELAY_S)

    def rewind(self, here: SpaceLink, replica: Replica) -> None:
        """Set the cursor to the first change that the peer lacks. The peer's vector covers the log's floor."""
        here.offered = False
        here.position = self._missing(here, replica)

    def _missing(self, here: SpaceLink, replica: Replica) -> int:
        """The position before the first change that a peer lacks."""
        return self._node.storage.position_missing(replica.id, here.known, replica.vector)

    def rewind_to_lacking(self, link: Link, replica: Replica) -> None:
        """A peer wants to be relayed what was left to others so far."""
        here = link.spaces[replica.name]
        if not here.offered and not here.stopped:
            here.position = min(here.position, self._missing(here, replica))
            link.busy.add(replica.name)

    def push(self, link: Link, here: SpaceLink, replica: Replica, news: Iterable[Applied], durable: int) -> None:
        """Send the next of what a peer lacks of one space: ``news`` of the commit under way, or a slice of the log.

        ``durable`` is the log position before that commit.
        """
        if here.offered:
            if link.sent_bytes - link.acked_bytes < CREDIT_BYTES_MAX:
                link.sent_bytes += self._snapshots.serve(link, here, replica, durable)
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
        rows = self._node.storage.log(replica.id, here.position, SLICE_BYTES_MAX, FRAME_CHANGES_MAX)
        bodies: list[bytes] = []
        for row in rows:
            if not self._lacks(link, here, replica, row.writer, row.seq, row.position):
                continue
            body = replica.spoilt.body_of(row)
            if body is None:
                here.known[row.writer] = row.seq - 1
                here.position = row.position - 1
                self._send_changes(link, replica, bodies)
                self._snapshots.withholds(link, here, replica)
                return
            bodies.append(body)
        here.position = rows[-1].position if rows else durable  # positions of merged snapshots hold no change
        self._send_changes(link, replica, bodies)

    def _lacks(self, link: Link, here: SpaceLink, replica: Replica, writer: Writer, seq: int, position: int) -> bool:
        """Whether to send this change now; marks it as known to the peer if so."""
        if here.known.get(writer, 0) != seq - 1:
            return False  # it has this one, or an earlier one was left to others, and so is this
        if writer != replica.writer and position > here.relay_until:
            origin = replica.origins.get(writer)
            if origin is not None and origin[0] != self._node.identity.node and self._is_left(link, replica, origin[0]):
                return False
        here.known[writer] = seq
        return True

    def _is_left(self, link: Link, replica: Replica, node: str) -> bool:
        """Whether others bring a node's changes: the peer is that node, or is connected to it, or has said so."""
        is_near = node in link.nodes or node == link.peer_node
        return is_near or self._relaying.is_unwanted(link, replica.name, node)

    def _send_changes(self, link: Link, replica: Replica, bodies: list[bytes]) -> None:
        part: list[bytes] = []
        size_bytes = 0
        for body in bodies:
            if part and (size_bytes + len(body) > SLICE_BYTES_MAX or len(part) >= FRAME_CHANGES_MAX):
                self._outbox.send(link, Changes(replica.name, replica.epoch, part, self.is_patient))
                part, size_bytes = [], 0
            part.append(body)
            size_bytes += len(body)
            link.sent_bytes += len(body)
        if part:
            self._outbox.send(link, Changes(replica.name, replica.epoch, part, self.is_patient))

    # -- relaying --------------------------------------------------------------------------------------------

    def check_relays(self, peers: Iterable[Peer]) -> None:
        """Where a peer has made no progress on what was left to others, bring it ourselves."""
        for peer in peers:
            if peer.link is None:
                continue
            link = peer.link
            for name in sorted(link.unsettled):
                here, replica = link.spaces[name], self._node.replicas[name]
                link.busy.add(name)
                if here.stopped or here.offered:
                    continue
                if here.mark_position != replica.position or here.mark_vector:
                    self._check_relay(peer, here, replica)
                self._snapshots.check(link, here, replica)
                if here.mark_position == replica.position and not here.mark_vector and not here.floor_lag:
                    link.unsettled.discard(name)

    def _check_relay(self, peer: Peer, here: SpaceLink, replica: Replica) -> None:
        acked = peer.acked.get(replica.name, {})
        if covers(acked, here.mark_vector):
            settled = here.mark_position == replica.position
            here.mark_vector = {} if settled else dict(replica.vector)
            here.mark_position = replica.position
        elif not here.progressed and not covers(here.known, here.mark_vector):
            here.relay_until = here.mark_position
            lacking = [w for w, seq in here.mark_vector.items() if here.known.get(w, 0) < seq and w in replica.origins]
            assert peer.link is not None
            self._relaying.lacked(peer.link, replica.name, {replica.origins[w][0] for w in lacking})
            here.position = min(here.position, self._missing(here, replica))
        here.progressed = False

    # -- when ------------------------------------------------------------------------------------------------

    def has_more(self, link: Link, durable: Mapping[str, int]) -> bool:
        """Whether :meth:`push` has something to send over a connection at once."""
        if link.hello is None or link.sent_bytes - link.acked_bytes >= CREDIT_BYTES_MAX:
            return False
        for name in link.busy:
            here = link.spaces[name]
            if here.stopped:
                continue
            durable_position = durable.get(name, self._node.replicas[name].position)
            if self._snapshots.can_serve(here, durable_position) if here.offered else here.position < durable_position:
                return True
        return False
