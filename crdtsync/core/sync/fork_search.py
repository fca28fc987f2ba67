"""Finding with a peer where two chains of one writer part, and which change is to be shown to whom.

Each side says by what hashes some of its changes are known, and the other answers with points between the last that is
equal and the first that differs (:class:`~crdtsync.wire.peer.forks.Chain`). Once these are neighbours, the change there
is shown. Who is shown one with a lower hash than its own has lost, and moves its branch
(:mod:`crdtsync.core.replica.fork_healing`); who is shown one with a higher hash shows its own.

No word of a peer is taken for it: a node moves a branch only for a change that it has been given, that follows on the
changes it holds, and that it applies in the same breath. So whoever hears of the move gets that change too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crdtsync.core.replica.fork_healing import is_other_branch
from crdtsync.errors import InvalidEncoding, PeerError
from crdtsync.wire.peer.forks import CHAIN_POINTS_MAX, Chain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crdtsync.causality import Writer
    from crdtsync.core.peers.outbox import Outbox
    from crdtsync.core.peers.peer_state import Link, SpaceLink
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
    """Of one node. ``lost``: by space, the branch that has to be moved next."""

    def __init__(self, outbox: Outbox) -> None:
        self.lost: dict[str, Lost] = {}
        self._outbox = outbox

    def begin(self, link: Link, here: SpaceLink, replica: Replica, writer: Writer) -> None:
        """A fork of a writer has shown on a connection: say what is held here, once."""
        if writer in here.forked:
            return
        head, back = replica.vector.get(writer, 0), 0
        places = [head]
        while head - back > 1 and len(places) < CHAIN_POINTS_MAX:
            back = 2 * back or 1
            places.append(max(1, head - back))
        self._say(link, here, replica, writer, places)

    def heard(self, link: Link, here: SpaceLink, replica: Replica, message: Chain) -> bool:
        """A peer has said what it holds, or shown a change. False: nothing can come of it any more.

        :raises PeerError: it is no change.
        """
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
            self.begin(link, here, replica, writer)
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
        body = replica.storage.change_body(replica.id, writer, seq)
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
