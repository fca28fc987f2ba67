"""Acknowledgements between peers: what each has on disk, credit for sending more, and asking for what was dropped."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from crdtsync.causality import VersionVector, flatten, merge
from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Link, Peer, SpaceLink
from crdtsync.core.replica.replica import Replica
from crdtsync.core.space import Applied
from crdtsync.errors import PeerError
from crdtsync.wire.codec import pack
from crdtsync.wire.limits import CHANGE_DEPS_MAX
from crdtsync.wire.peer.changes import Ack, SpaceAck, Want

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext

ACK_DELAY_S = 0.05
"""How long acknowledgements are collected for peers that are not waiting for them."""
ACK_PATIENCE_S = 0.02
"""The same where a peer has said that nobody there waits for what it sent. An acknowledgement takes both hosts as long
as a fifth of a change does, and the next change may come just then.
"""
WANT_INTERVAL_S = 1.0
ACK_SPACES_MAX = 1000
ACK_WRITERS_MAX = 20_000
"""In one message, of all its spaces; one space goes into it however many it has."""


class Acknowledger:
    """Tells peers what this node has, and takes in what they say that they have."""

    def __init__(self, node: NodeContext, outbox: Outbox) -> None:
        self._node = node
        self._outbox = outbox

    # -- what this node has ------------------------------------------------------------------------------------

    def note(self, link: Link, here: SpaceLink, news: list[Applied]) -> None:
        """A space has changed here, by the commit under way."""
        for item in news:
            here.ack_writers.add(item.change.writer)
        if news and link.ack_due_s is None:
            link.ack_due_s = self._node.now_s + ACK_DELAY_S

    def owe(self, link: Link, is_patient: bool) -> None:
        """Changes have come that must be acknowledged: with this turn, or, to one who is patient, soon."""
        now_s = self._node.now_s
        due_s = now_s + ACK_PATIENCE_S if is_patient else now_s
        if link.ack_due_s is None or due_s < link.ack_due_s:
            link.ack_due_s = due_s

    def note_since_introduction(self, link: Link, replica: Replica) -> None:
        """Note the changes that came to this node after it introduced itself, and before it could
        acknowledge anything.
        """
        told = link.introduced.get(replica.name, {})
        news = {writer for writer, seq in replica.vector.items() if told.get(writer, 0) < seq}
        if news:
            link.spaces[replica.name].ack_writers |= news
            link.ack_due_s = link.since_s

    def introduce(self, link: Link, replica: Replica) -> None:
        """Say what this node has of a space that its hello did not tell of."""
        link.introduced[replica.name] = dict(replica.vector)
        self._outbox.send(link, Want(replica.name, replica.epoch, replica.frontier))

    def want(self, link: Link, space: str) -> None:
        """Ask soon for what was dropped, once."""
        link.wants.setdefault(space, self._node.now_s + WANT_INTERVAL_S)

    def send_due(self, link: Link, now_s: float) -> None:
        """Send what is due over a connection."""
        for name, due_s in list(link.wants.items()):
            if now_s >= due_s:
                del link.wants[name]
                replica = self._node.replicas[name]
                self._outbox.send(link, Want(name, replica.epoch, replica.frontier))
        if link.ack_due_s is None or now_s < link.ack_due_s:
            return
        link.ack_due_s = None
        spaces: list[SpaceAck] = []
        writers = 0
        for name in sorted(link.busy):
            here = link.spaces[name]
            if here.ack_writers:
                writers += len(here.ack_writers)
                if spaces and (len(spaces) >= ACK_SPACES_MAX or writers > ACK_WRITERS_MAX):
                    link.ack_due_s = now_s  # the rest with the next turn
                    break
                replica = self._node.replicas[name]
                vector: VersionVector = {writer: replica.vector[writer] for writer in here.ack_writers}
                spaces.append(SpaceAck(name, replica.epoch, vector, cut_of(replica.vector), digest_of(replica)))
                here.ack_writers = set()
        self._outbox.send(link, Ack(link.received_bytes, spaces))

    # -- what a peer has ---------------------------------------------------------------------------------------

    def received(self, link: Link, peer: Peer, ack: Ack) -> tuple[list[tuple[SpaceLink, Replica]], list[Replica]]:
        """A peer acknowledges. Returns the spaces in which one that was offered a snapshot has got on, and those in
        which it has another state at the same cut.

        :raises PeerError: it cannot be true.
        """
        if ack.received_bytes > link.sent_bytes:
            raise PeerError("acknowledges more than it was sent")
        link.acked_bytes = max(link.acked_bytes, ack.received_bytes)
        offered: list[tuple[SpaceLink, Replica]] = []
        differing: list[Replica] = []
        for part in ack.spaces:
            replica, here = self._node.replicas.get(part.space), link.spaces.get(part.space)
            if replica is None or here is None or part.epoch != replica.epoch:
                continue
            self._take_in(peer, here, part)
            if here.offered and part.vector:
                offered.append((here, replica))
            own = digest_of(replica) if part.digest and part.cut == cut_of(replica.vector) else b""
            if own and part.digest != own:
                differing.append(replica)
        return offered, differing

    @staticmethod
    def _take_in(peer: Peer, here: SpaceLink, part: SpaceAck) -> None:
        acked = peer.acked.setdefault(part.space, {})
        awaited = here.mark_vector
        here.progressed |= any(acked.get(w, 0) < min(seq, awaited.get(w, 0)) for w, seq in part.vector.items())
        merge(acked, part.vector)
        if len(acked) > CHANGE_DEPS_MAX:
            raise PeerError(f"acknowledges over {CHANGE_DEPS_MAX:,} writers, more than a space can have")
        merge(here.known, part.vector)


def cut_of(vector: VersionVector) -> bytes:
    """A short name for a version vector, to compare digests at a common cut."""
    return blake2b(pack(flatten(vector)), digest_size=8).digest()


def digest_of(replica: Replica) -> bytes:
    """The digest of a replica's live entries; empty: it is not worked out yet, and nobody waits for that."""
    digest = replica.digest
    return b"" if digest is None else digest.to_bytes(16, "big")
