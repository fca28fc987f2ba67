"""Forks that stand between this node and its peers: where two chains of one writer part, and who is shown what.

Each side says by what hashes some of its changes are known, and the other answers with points between the last that is
equal and the first that differs (:class:`~crdtsync.wire.peer.comparing.Chain`). Once these are neighbours, the change
there is shown. A node that is shown one with a lower hash than its own has lost, and moves its branch
(:mod:`crdtsync.core.replica.fork_healing`); a node that is shown one with a higher hash shows its own.

No word of a peer is taken for it: a node moves a branch only for a change that it has been given, that follows on the
changes it holds, and that it applies in the same breath. So whoever hears of the move gets that change too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.causality import Writer
from crdtsync.core.alarm_catalogue import FORK
from crdtsync.core.replica.fork_healing import is_other_branch
from crdtsync.errors import ForkDetected, InvalidEncoding, PeerError
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.peer.changes import STOP_CHARS_MAX, Stop
from crdtsync.wire.peer.comparing import CHAIN_POINTS_MAX, Chain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.peers.outbox import Outbox
    from crdtsync.core.peers.peer_state import Link, Peer, SpaceLink
    from crdtsync.core.replica.replica import Replica
    from crdtsync.wire.change import Change

ROUNDS_MAX = 12
"""About one writer over one connection, until its fork counts as one that cannot be healed: 4 find a place among
16 million changes.
"""


class Lost(NamedTuple):
    """A branch that is held here has lost against the one that begins with ``change``, which came over ``conn``."""

    change: Change
    conn: int


class ForkSearch:
    """The search of one node. ``lost``: by space, the branch that has to be moved next."""

    def __init__(self, node: NodeContext, links: Mapping[int, Link], peers: Mapping[str, Peer], outbox: Outbox) -> None:
        self.lost: dict[str, Lost] = {}
        self._node = node
        self._links = links
        self._peers = peers
        self._outbox = outbox
        self._parted: dict[str, set[str]] = {}  # by space, the nodes with which a fork stands between

    # -- a fork begins and ends --------------------------------------------------------------------------------

    def found(self, link: Link | None, space: str, error: ForkDetected) -> None:
        """A change of a peer is another than that of its number here."""
        self._node.alarms.raise_once(FORK, space, f"{error.message}; {self._whence(space, error)}")
        if link is None:
            return
        here, writer = link.spaces[space], error.details["writer"]
        assert isinstance(writer, int)
        self._parted.setdefault(space, set()).add(link.peer_node)
        if link.takes(Chain):
            self._begin(link, here, self._node.replicas[space], Writer(writer))
        elif not here.stopped:
            self._part_ways(link, space, error.message)

    def _whence(self, space: str, error: ForkDetected) -> str:
        """How the change came that is held here under the number of another: one of the two is not its author's."""
        writer, seq = error.details["writer"], error.details["seq"]
        assert isinstance(writer, int)
        assert isinstance(seq, int)
        arrival = self._node.replicas[space].arrivals.of(Writer(writer), seq)
        if arrival is not None:
            peer = self._peers.get(arrival.node)
            return f"the change that is held here came over {peer.name if peer is not None else arrival.node}"
        return "the change that is held here was made here, or came before this daemon was started"

    def cannot_heal(self, space: str, conn: int, why: str) -> None:
        """A fork stays: the space stops syncing with the peer at the other end of a connection."""
        link = self._links.get(conn)
        message = f"space {space}: a fork cannot be healed: {why}"
        self._node.alarms.journal("fork_not_healed", space=space, peer=link and link.peer_node, reason=why)
        self._node.alarms.raise_once(FORK, space, message)
        if link is not None and space in link.spaces and not link.spaces[space].stopped:
            self._parted.setdefault(space, set()).add(link.peer_node)
            self._part_ways(link, space, message)

    def _part_ways(self, link: Link, space: str, why: str) -> None:
        """A fork that cannot be healed stands between: no more of this space over this connection."""
        link.spaces[space].stopped = True
        self._outbox.send(link, Stop(space, FORK.code, why[:STOP_CHARS_MAX]))

    def is_over(self, link: Link, replica: Replica) -> bool:
        """Whether a fork stood between this node and a peer, which has the same chains now."""
        parted = self._parted.get(replica.name)
        if parted is None or link.peer_node not in parted:
            return False
        replica.gate.clear()  # what waits for the branch that has moved would wait for good
        parted.discard(link.peer_node)
        if not parted:
            del self._parted[replica.name]
            self._node.alarms.clear(FORK, replica.name)
        return True

    def healed(self, space: str) -> None:
        """This node has moved its branch. Earlier messages of peers were about its former state; the
        connections end.
        """
        for link in self._links.values():
            if space in link.spaces:
                link.spaces[space].stopped = True
        self.lost.pop(space, None)
        self._parted.pop(space, None)
        self._node.alarms.clear(FORK, space)

    # -- where the chains part ---------------------------------------------------------------------------------

    def _begin(self, link: Link, here: SpaceLink, replica: Replica, writer: Writer) -> None:
        """A fork of a writer has shown on a connection: say what is held here, once."""
        if writer in here.forked:
            return
        head, back = replica.vector.get(writer, 0), 0
        places = [head]
        while head - back > 1 and len(places) < CHAIN_POINTS_MAX:
            back = 2 * back or 1
            places.append(max(1, head - back))
        self._say(link, here, replica, writer, places)

    def heard(self, link: Link, here: SpaceLink, replica: Replica, message: Chain) -> None:
        """A peer has said what it holds, or shown a change.

        :raises PeerError: it is no change.
        """
        if not self._narrow(link, here, replica, message):
            self.cannot_heal(replica.name, link.conn, "the change at which the two part is no longer known")

    def _narrow(self, link: Link, here: SpaceLink, replica: Replica, message: Chain) -> bool:
        """Answer, closer to the place. False: nothing can come of it any more."""
        writer = message.writer
        if writer not in replica.vector:
            return True
        if here.forked.get(writer, 0) >= ROUNDS_MAX:
            return False
        if message.body:
            return self._shown(link, here, replica, message)
        low, high = 0, 0
        for seq, theirs in sorted(message.points.items()):
            mine = replica.short_hash(writer, seq)
            if mine == theirs and not high:
                low = seq
            elif mine is not None and mine != theirs and not high:
                high = seq
        if not high:
            self._begin(link, here, replica, writer)
            return True
        if high == low + 1:
            return self._show(link, here, replica, writer, high)
        step = max(1, (high - low) // (CHAIN_POINTS_MAX - 2))
        between = [*range(low + step, high, step)]
        return self._say(link, here, replica, writer, [*between[: CHAIN_POINTS_MAX - 1], high])

    def _say(self, link: Link, here: SpaceLink, replica: Replica, writer: Writer, places: Iterable[int]) -> bool:
        known = {seq: hashed for seq in places if (hashed := replica.short_hash(writer, seq)) is not None}
        here.forked[writer] = here.forked.get(writer, 0) + 1
        self._outbox.send(link, Chain(replica.name, replica.epoch, writer, known))
        return bool(known)

    def _show(self, link: Link, here: SpaceLink, replica: Replica, writer: Writer, seq: int) -> bool:
        row = replica.storage.change(replica.id, writer, seq)
        body = None if row is None else replica.spoilt.body_of(row)
        here.forked[writer] = here.forked.get(writer, 0) + 1
        if body is not None:
            self._outbox.send(link, Chain(replica.name, replica.epoch, writer, {}, body))
        return body is not None

    def _shown(self, link: Link, here: SpaceLink, replica: Replica, message: Chain) -> bool:
        try:
            change = replica.codec.decode(message.body)
        except InvalidEncoding as error:
            raise PeerError(error.message) from None
        mine = replica.short_hash(change.writer, change.seq)
        if change.writer != message.writer or mine is None or not is_other_branch(replica, change):
            return True
        if change.short_hash < mine:
            self.lost[replica.name] = Lost(change, link.conn)
            return True
        return self._show(link, here, replica, change.writer, change.seq)
