"""What lets nodes do with few connections: hints about relays, ways over others, questions that are passed on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from crdtsync.causality import VersionVector
from crdtsync.core.identity import Identity
from crdtsync.core.inquiries import Inquiries, learn
from crdtsync.core.outbox import Outbox
from crdtsync.core.peers import Link, Peer
from crdtsync.core.reach import Reach
from crdtsync.core.relaying import Relaying
from crdtsync.core.replica import Replica
from crdtsync.core.storage import PeerRow
from crdtsync.wire.meshing import Ask, Held, Holding, Reached, Relays


class Meshwork:
    """Of one node; see :mod:`~crdtsync.core.relaying`, :mod:`~crdtsync.core.reach`, :mod:`~crdtsync.core.inquiries`."""

    def __init__(
        self,
        identity: Identity,
        links: Mapping[int, Link],
        peers: dict[str, Peer],
        replicas: Mapping[str, Replica],
        outbox: Outbox,
        is_public: Callable[[str], bool],
        peers_max: int,
    ) -> None:
        self._peers = peers
        self._replicas = replicas
        self._outbox = outbox
        self._peers_max = peers_max
        self.reach = Reach(identity.node, links, outbox)
        self.relaying = Relaying(links, self.reach, outbox, is_public)
        self.inquiries = Inquiries(identity, links, replicas, outbox, self._learn)

    def heard(self, link: Link, message: Relays | Reached | Ask | Holding, now_s: float) -> list[str]:
        """A peer says something. Returns the spaces in which something may have to be sent to it now."""
        match message:
            case Relays():
                return self.relaying.heard(link, message)
            case Reached():
                self.reach.heard(link, message)
            case Ask() | Holding():
                self.inquiries.heard(link, message, now_s)
        return []

    def closed(self, conn: int) -> None:
        """A connection is gone."""
        self.reach.is_stale = True
        self.relaying.closed(conn)

    def ask(self, needed: Mapping[str, VersionVector], now_s: float) -> None:
        """Somebody waits for this to be on disk elsewhere: ask nodes that are not connected, if there are such."""
        self.reach.ways()
        if self.reach.has_far:
            self.inquiries.want(needed, now_s)

    def _learn(self, held: Held) -> None:
        new = learn(self._peers, held, self._replicas, self._peers_max)
        if new is not None:
            self._outbox.met.append(PeerRow(new.node, new.name, 0))

    def run(self, applied: Iterable[str], now_s: float) -> None:
        """Send what is due."""
        if self.reach.tell(now_s):
            self.relaying.plan()
        self.inquiries.run(applied, now_s)

    def deadlines_s(self) -> list[float]:
        """When :meth:`run` wants to be called."""
        return [due for due in (self.reach.deadline_s(), self.inquiries.deadline_s()) if due is not None]
