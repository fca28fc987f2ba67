"""Taking in the changes that a peer sends.

Host a sends host b three changes of writer 7. b counts their bytes, so that a earns credit with the acknowledgement;
decodes each; and gives it to the replica, which applies it or lets it wait at the causal gate. While b has no room on
its disk, it drops them, and asks for them once there is room again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Link, SpaceLink
from crdtsync.core.peers.relay_tree import Relaying
from crdtsync.core.replica.replica import Replica
from crdtsync.core.space import Applied
from crdtsync.core.sync.acks import Acknowledger
from crdtsync.core.sync.fork_search import ForkSearch
from crdtsync.core.sync.snapshot_client import SnapshotClient
from crdtsync.errors import ForkDetected, InvalidEncoding
from crdtsync.wire.change import Change
from crdtsync.wire.peer.changes import Changes

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext


class Intake:
    """What comes in from all peers. ``count``: changes taken in since the start, repeats among them."""

    def __init__(
        self,
        node: NodeContext,
        links: Mapping[int, Link],
        outbox: Outbox,
        acks: Acknowledger,
        forks: ForkSearch,
        snapshots: SnapshotClient,
        relaying: Relaying,
    ) -> None:
        self._node = node
        self._links = links
        self._outbox = outbox
        self._acks = acks
        self._forks = forks
        self._snapshots = snapshots
        self._relaying = relaying
        self._is_hurried = False
        self.count = 0

    def count_bytes(self, link: Link, message: Changes) -> bool:
        """Changes have come over a connection, of whatever space. False: there is no room, and they are dropped."""
        size_bytes = sum(map(len, message.bodies))
        if self._node.read_only:
            link.dropped_bytes += size_bytes
            link.dropped_spaces.add(message.space)
            return False
        link.received_bytes += size_bytes
        self._is_hurried |= not message.is_patient
        self._acks.owe(link, message.is_patient)
        return True

    def take_hurry(self) -> bool:
        """Whether somebody has waited for the acknowledgement of anything that came since the last call."""
        is_hurried, self._is_hurried = self._is_hurried, False
        return is_hurried

    def take(self, link: Link, here: SpaceLink, replica: Replica, message: Changes) -> list[Applied]:
        """Take in changes of a space that syncs on the connection. Returns what could be applied of them."""
        applied: list[Applied] = []
        try:
            for body in message.bodies:
                change = replica.codec.decode(body)
                writer, seq = change.writer, change.seq
                if writer in here.forked:
                    continue  # perhaps of the other branch
                is_new = seq > replica.vector.get(writer, 0) and not replica.gate.holds(writer, seq)
                try:
                    done, kept = replica.receive(change, self._node.now_ms)
                except ForkDetected as error:
                    self._forks.found(link, replica.name, error)
                    if here.stopped:
                        break
                    continue  # what does not build on it may come
                applied += done
                if replica.unknown is not None:
                    kept = self._seek_document(link, here, replica, applied) and kept
                if seq <= replica.vector.get(writer, 0):
                    here.ack_writers.add(writer)  # a repeat too: who sent it does not know that it is here
                if not kept:
                    self._acks.want(link, replica.name)
                    continue  # and nothing is noted of it: its writer may be made up
                self._note(link, replica, change, is_new=is_new)
                if seq > here.known.get(writer, 0):
                    here.known[writer] = seq
        except InvalidEncoding as error:
            self._node.log("change_refused", space=replica.name, peer=link.peer_name, reason=error.message)
            self._outbox.close(link, error.message)
        self._relaying.answer(link)
        return applied

    def _note(self, link: Link, replica: Replica, change: Change, *, is_new: bool) -> None:
        """A change is here now: over which connection, and when, if it was not here before."""
        writer, seq = change.writer, change.seq
        origin = change.origin or replica.origins.get(writer)
        if origin is not None:
            self._relaying.came(link, replica.name, origin[0], is_new=is_new)
        if is_new:
            replica.arrivals.note(writer, seq, link.peer_node, self._node.now_ms)
        self.count += 1

    def _seek_document(self, link: Link, here: SpaceLink, replica: Replica, applied: list[Applied]) -> bool:
        """An edit came for a text that is not held here: get that from the peer, or skip the edit if it cannot be had.

        False: the edit must be asked for again.
        """
        kept = True
        while replica.unknown is not None and kept:
            change, document = replica.unknown
            answer = self._snapshots.want_document(link, here, replica, document)
            if answer is not None:
                return answer
            replica.texts.skip_document(document)
            done, kept = replica.receive(change, self._node.now_ms)
            applied.extend(done)
        return kept

    def has_room_again(self) -> None:
        """While there was no room, changes were dropped, earned no credit, and are asked for now."""
        now_s = self._node.now_s
        for link in self._links.values():
            if not link.dropped_bytes:
                continue
            link.received_bytes += link.dropped_bytes
            link.ack_due_s = now_s
            for name in link.dropped_spaces & link.spaces.keys():
                link.wants[name] = now_s
            link.dropped_bytes = 0
            link.dropped_spaces = set()
