"""Anti-entropy between peers: what each message of a peer means, and what a turn sends.

Host b was cut off for an hour. When it is connected to host a again, each tells the other in HELLO which spaces it has,
and up to which change of each writer. From then on each sends what the other lacks, out of its log or as a snapshot,
and acknowledges what it has on disk. If the connection breaks, all of that begins again, and what comes twice is
dropped: no message has to arrive for the replicas to converge in the end.

The parts are :mod:`~crdtsync.core.peers.connections` (who is connected), :mod:`~crdtsync.core.sync.change_feed`
(sending changes), :mod:`~crdtsync.core.sync.change_intake` (taking them in), :mod:`~crdtsync.core.sync.acks` and
:mod:`~crdtsync.core.sync.snapshot_client` (snapshots).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from crdtsync.causality import Frontier
from crdtsync.core.alarm_catalogue import alarm_of
from crdtsync.core.peers.ballots import Ballots
from crdtsync.core.peers.card_gossip import CardNews
from crdtsync.core.peers.connections import HELLO_SPACES_MAX, Contacts
from crdtsync.core.peers.health_gossip import HealthNews
from crdtsync.core.peers.liveness import Liveness
from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Link, Peer, SpaceLink
from crdtsync.core.peers.resolver_gossip import ResolverNews
from crdtsync.core.peers.topology import Meshwork
from crdtsync.core.peers.voter import Voter
from crdtsync.core.replica.replica import Replica
from crdtsync.core.space import Applied
from crdtsync.core.sync.acks import Acknowledger
from crdtsync.core.sync.change_feed import RELAY_DELAY_S, Feeder
from crdtsync.core.sync.change_intake import Intake
from crdtsync.core.sync.divergence_check import Comparer
from crdtsync.core.sync.fork_search import ForkSearch
from crdtsync.core.sync.snapshot_check import answer
from crdtsync.core.sync.snapshot_client import SnapshotClient
from crdtsync.core.sync.snapshot_server import SnapshotServer
from crdtsync.core.sync.value_repair import ValueRepair
from crdtsync.errors import ForkDetected, InvalidEncoding, PeerError
from crdtsync.wire.limits import CLUSTER_SPACE
from crdtsync.wire.peer.base import Message
from crdtsync.wire.peer.changes import Ack, Changes, Stop, Want
from crdtsync.wire.peer.comparing import Chain, Digests, Removed, Sample, Sampled
from crdtsync.wire.peer.gossip import Cards, Health, Resolvers
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.meshing import Ask, Holding, Links, Reached, Relays
from crdtsync.wire.peer.messages import MESSAGES, decode_message
from crdtsync.wire.peer.probes import Probe, Probed
from crdtsync.wire.peer.transfer import Offer, Part, Take
from crdtsync.wire.peer.values import Intact, Recall, Recalled, Spoilt
from crdtsync.wire.peer.votes import Vote, Voted

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext

UNHEARD_WRITERS_MAX = 1_000
"""That a peer said to have changes of, and that are not known here, remembered when it goes."""

Handler = Callable[[Link, Any], list[Applied] | None]
"""Handles a message of one class from a connection; the changes that it could apply."""

_OfSpace = (
    Changes | Offer | Take | Part | Digests | Removed | Sample | Sampled | Chain | Spoilt | Intact | Recall | Recalled
)


def _ignore(_link: Link, _message: Any) -> None:
    """Handles a message until another part does."""


class SpaceAccess(Protocol):
    """The spaces that each node may hear of."""

    def is_public(self, name: str) -> bool:
        """Whether every node may."""

    def may_hold(self, name: str, node: str) -> bool:
        """Whether this node may."""

    def is_member(self, node: str) -> bool:
        """Whether this node is a member of the cluster; where there is none, everybody is."""


class Timed(Protocol):
    """A part that has something to do at times, without a message."""

    def tick(self, now_s: float) -> None:
        """Do what is due."""

    def deadline_s(self) -> float | None:
        """When :meth:`tick` wants to be called."""


class Sync:
    """All peers of a node. Messages that are to leave collect in ``outbox``.

    If a space is not for all nodes, a peer hears nothing of it (no change, no frontier, no digest) before it has
    introduced itself as one that may hold it. Only the spaces in ``link.spaces`` sync on a connection.
    """

    def __init__(self, node: NodeContext, audience: SpaceAccess, voter: Voter, room_bytes: int | None = None) -> None:
        identity, replicas = node.identity, node.replicas
        self._node = node
        self.replicas = replicas
        self._audience = audience
        self.outbox = Outbox()
        self.contacts = Contacts(node, self.outbox)
        self.links = self.contacts.links
        self.peers = self.contacts.peers
        self.dials = self.contacts.dials
        self.liveness = Liveness(self.links, self.outbox)
        self._check_due_s = 0.0
        self.heard_ack = False
        """Whether the last message was an acknowledgement that changed nothing but what a peer is known to have."""
        self.snapshot_server = SnapshotServer(node, self.links, self.outbox.send)
        self.snapshot_client = SnapshotClient(node, self.links, self.outbox.send, room_bytes)
        self.mesh = Meshwork(node, self.links, self.peers, self.outbox, audience.is_public, audience.is_member)
        self.feeder = Feeder(node, self.snapshot_server, self.outbox, self.mesh.relaying)
        self._acks = Acknowledger(node, self.outbox)
        self.comparer = Comparer(node, self.links, self.outbox, self.snapshot_client)
        self.value_repair = ValueRepair(node, self.links, self.outbox, self.snapshot_client)
        self.forks = ForkSearch(node, self.links, self.peers, self.outbox)
        self.resolver_news = ResolverNews(identity.node, self.links, self.outbox, self.mesh.routes)
        self.health = HealthNews(identity.node, self.links, self.outbox, audience.is_member)
        self.ballots = Ballots(voter, self.outbox, self.links, self.peers)
        self.cards = CardNews(identity, self.links, self.outbox, self.mesh.routes)
        self.intake = Intake(
            node, self.links, self.outbox, self._acks, self.forks, self.snapshot_client, self.mesh.relaying
        )
        self._timed: tuple[Timed, ...] = (
            self.snapshot_server,
            self.snapshot_client,
            self.mesh,
            self.contacts,
            self.liveness,
            self.cards,
            self.ballots,
            self.comparer,
            self.value_repair,
        )
        self._handlers: dict[type[Message], Handler] = {
            Health: self.health.heard,
            Cards: self.cards.heard,
            Vote: lambda link, vote: self.ballots.asked(link, vote, node.now_s),
            Voted: lambda link, voted: self.ballots.answered(link, voted, node.now_s),
            Hello: self._hello,
            Changes: self._changes,
            Ack: self._ack,
            Want: self._want,
            Links: self._linked_to,
            Stop: self._stop,
            Offer: self._in_space(self.snapshot_client.hear_offer, is_stirring=True),
            Take: self._in_space(self.snapshot_server.take, is_stirring=True),
            Part: self._snapshot_part,
            Resolvers: self._resolvers,
            Probe: lambda link, probe: self.liveness.answer(link, probe, node.now_ms),
            Probed: self._probed,
            Relays: self._relays,
            Ask: self.mesh.inquiries.asked,
            Holding: self.mesh.inquiries.answered,
            Reached: self.mesh.routes.heard,
            Digests: self._in_space(self.comparer.heard),
            Removed: self._removed,
            Sample: self._in_space(lambda link, _, replica, sample: self.outbox.send(link, answer(replica, sample))),
            Sampled: self._in_space(self._sampled),
            Chain: self._in_space(self.forks.heard),
            Spoilt: self._in_space(lambda link, _, replica, spoilt: self.value_repair.asked(link, replica, spoilt)),
            Intact: self._in_space(lambda _link, _, replica, intact: self.value_repair.came(replica, intact)),
            Recall: _ignore,
            Recalled: _ignore,
        }
        assert self._handlers.keys() == set(MESSAGES.values()), "a message has no handler"

    def answer_by(
        self, message: type[Message], handle: Callable[[Link, SpaceLink, Replica, Any], list[Applied] | None]
    ) -> None:
        """Messages of this class are handled by a part that stands above this one."""
        self._handlers[message] = self._in_space(handle)

    # -- connections -------------------------------------------------------------------------------------

    def opened(self, conn: int, url: str, dialled: bool, node: str = "") -> None:
        """A connection stands: introduce ourselves. ``node``: whose key the other side has proven to have."""
        public = [replica for _, replica in sorted(self.replicas.items()) if self._audience.is_public(replica.name)]
        public.sort(key=lambda replica: replica.name != CLUSTER_SPACE)
        self.contacts.opened(Link(conn, url, dialled, self._node.now_s, node), public)

    def closed(self, conn: int, reason: str) -> None:
        """A connection is gone."""
        link = self.links.pop(conn, None)
        if link is None or link.hello is None:
            return
        self.snapshot_client.closed(link)
        peer = self.peers[link.peer_node]
        if peer.link is link:
            self._forget_unheard(peer)
        self.contacts.closed(link, reason)
        self.mesh.closed(conn)
        self.resolver_news.is_stale = True

    def _forget_unheard(self, peer: Peer) -> None:
        """A peer goes, and its word stays; but not if it has named very many writers that nobody here has heard of."""
        for name, vector in peer.acked.items():
            replica = self.replicas.get(name)
            if replica is not None and len(vector) > len(replica.vector) + UNHEARD_WRITERS_MAX:
                peer.acked[name] = {writer: seq for writer, seq in vector.items() if writer in replica.vector}

    def received(self, conn: int, data: bytes) -> list[Applied]:
        """Handle one message. Returns the changes that could be applied.

        :raises PeerError: the connection must be closed, with this reason.
        """
        self.heard_ack = False
        link = self.links.get(conn)
        if link is None:
            return []
        try:
            message = decode_message(data)
        except InvalidEncoding as error:
            raise PeerError(error.message) from None
        if link.hello is not None:
            self.peers[link.peer_node].last_seen_ms = self._node.now_ms
        elif not isinstance(message, Hello):
            raise PeerError("the first message of a connection must be a hello")
        return [] if message is None else self._handlers[type(message)](link, message) or []

    def _hello(self, link: Link, hello: Hello) -> None:
        if link.hello is not None:
            raise PeerError("a second hello on one connection")
        self.contacts.introduced(link, hello)
        told = set(link.introduced)
        for name, (epoch, frontier) in sorted(hello.spaces.items()):
            if name in told and self._audience.may_hold(name, hello.node):
                self._start(link, self.replicas[name], epoch, frontier)
        link.unintroduced.extend(
            name for name in sorted(self.replicas) if name not in told and self._audience.may_hold(name, hello.node)
        )
        self.contacts.tell_links()
        self.mesh.routes.is_stale = True
        self.resolver_news.is_stale = True
        self.health.introduced(link)
        self.ballots.introduced(self._node.now_s)
        self.cards.introduced(link)

    def _start(self, link: Link, replica: Replica, epoch: int, frontier: Frontier) -> None:
        """Begin, or begin again, to sync one space from what the peer says that it has.

        With another epoch there is nothing to do: the cluster's records are on their way to one of the two, which will
        then take it from there.
        """
        if epoch != replica.epoch:
            self._part(link, replica.name)
            return
        known = {writer: seq for writer, (seq, _) in frontier.items() if seq}
        is_first = replica.name not in link.spaces
        here = link.spaces.setdefault(replica.name, SpaceLink(epoch, known))
        here.known = known
        link.busy.add(replica.name)
        link.unsettled.add(replica.name)
        self.resolver_news.is_stale = True
        self.peers[link.peer_node].acked[replica.name] = dict(known)
        self.comparer.note([replica.name])
        if is_first:
            self.cards.introduced(link)
            self._acks.note_since_introduction(link, replica)
        try:
            for writer, (seq, short_hash) in sorted(frontier.items()):
                replica.check_head(writer, seq, short_hash, stored=True)
        except ForkDetected as error:
            self.forks.found(link, replica.name, error)
            if here.stopped:
                return
        else:
            if self.forks.is_over(link, replica):
                self.ask_again(replica.name)
        if not self.snapshot_server.withholds(link, here, replica):
            self.feeder.rewind(here, replica)

    # -- messages --------------------------------------------------------------------------------------------

    @staticmethod
    def _stir(link: Link, space: str) -> None:
        """A message may have made something due in a space: the turn looks at that space."""
        if space in link.spaces:
            link.busy.add(space)

    def _synced(self, link: Link, message: _OfSpace) -> tuple[SpaceLink, Replica] | None:
        """The space of a message, if that syncs on this connection. None: the message is to be ignored."""
        replica, here = self.replicas.get(message.space), link.spaces.get(message.space)
        if replica is None or here is None or here.stopped or message.epoch != replica.epoch:
            return None
        return here, replica

    def _in_space(
        self, handle: Callable[[Link, SpaceLink, Replica, Any], list[Applied] | None], *, is_stirring: bool = False
    ) -> Handler:
        """Handles a message about a space, unless that does not sync on its connection; ``is_stirring``: then the turn
        looks at the space all the same.
        """

        def handler(link: Link, message: _OfSpace) -> list[Applied] | None:
            if is_stirring:
                self._stir(link, message.space)
            synced = self._synced(link, message)
            return None if synced is None else handle(link, *synced, message)

        return handler

    def _changes(self, link: Link, message: Changes) -> list[Applied]:
        self._stir(link, message.space)
        synced = self._synced(link, message) if self.intake.count_bytes(link, message) else None
        return [] if synced is None else self.intake.take(link, *synced, message)

    def _snapshot_part(self, link: Link, part: Part) -> list[Applied]:
        self._stir(link, part.space)
        if self._node.read_only and part.data:
            link.dropped_bytes += len(part.data)
            return []
        if part.data:
            link.received_bytes += len(part.data)
            link.ack_due_s = self._node.now_s
        synced = self._synced(link, part)
        if synced is None:
            return []
        here, replica = synced
        self.snapshot_client.part(link, here, replica, part)
        return self.conclude()

    def conclude(self) -> list[Applied]:
        """Merge the snapshots that are whole, if nobody contradicts them. Returns the waiting changes that could then
        be applied.
        """
        applied: list[Applied] = []
        for name in self.snapshot_client.checked():
            applied += self._conclude(name)
        return applied

    def _conclude(self, name: str) -> list[Applied]:
        client, replica = self.snapshot_client, self.replicas[name]
        receipt = client.receipts[name]
        link, before = receipt.link, dict(replica.vector)
        try:
            merged = client.conclude(name)
        except ForkDetected as error:
            self.forks.found(link, name, error)
            return []
        if merged is None:
            return []
        came = {writer: replica.vector[writer] for writer in merged.advanced}
        replica.arrivals.merged(before, came, receipt.node, self._node.now_ms)
        if not merged.kept and link is not None:
            self._acks.want(link, name)
        return merged.applied

    def _sampled(self, link: Link, _here: SpaceLink, replica: Replica, sampled: Sampled) -> list[Applied]:
        self.snapshot_client.sampled(link, replica, sampled)
        return self.conclude()

    def _ack(self, link: Link, ack: Ack) -> None:
        """``heard_ack`` says that nothing follows from it, beside what may be sent now."""
        for part in ack.spaces:
            self._stir(link, part.space)
        offered, differing = self._acks.received(link, self.peers[link.peer_node], ack)
        for here, replica in offered:
            self.feeder.reconsider(here, replica)
        for part in ack.spaces:
            self._doubt(link, part.space)
        for replica in differing:
            if not link.spaces[replica.name].forked:
                self.comparer.differs(link, replica)
        self.heard_ack = not (offered or differing)

    def _doubt(self, link: Link, space: str) -> None:
        """If the chain of a writer parts, the changes that a peer says to have of it may be other ones than those held
        here.
        """
        here = link.spaces.get(space)
        for writer in here.forked if here is not None else ():
            self.peers[link.peer_node].acked.get(space, {}).pop(writer, None)

    def _removed(self, link: Link, removed: Removed) -> None:
        synced = self._synced(link, removed)
        if synced is None or self._node.read_only:
            return
        _, replica = synced
        if self.comparer.is_differing(replica.name, link.peer_node):
            self.snapshot_client.removed(link, replica, removed)

    def _linked_to(self, link: Link, links: Links) -> None:
        link.nodes = links.nodes
        self.resolver_news.is_stale = True
        self.mesh.routes.is_stale = True

    def _resolvers(self, link: Link, resolvers: Resolvers) -> None:
        self.resolver_news.heard(link, resolvers)
        self.mesh.routes.is_stale = True

    def _relays(self, link: Link, relays: Relays) -> None:
        for name in self.mesh.relaying.heard(link, relays):
            self.feeder.rewind_to_lacking(link, self.replicas[name])

    def _probed(self, link: Link, probed: Probed) -> None:
        peer = self.peers[link.peer_node]
        self.liveness.answered(link, peer, probed, self._node.now_s, self._node.now_ms)
        self.contacts.look_at_clock(peer)

    def has_room_again(self) -> None:
        """What was dropped while there was no room is asked for now."""
        self.snapshot_client.has_room_again()
        self.intake.has_room_again()

    def _want(self, link: Link, want: Want) -> None:
        """A peer asks for changes again, or says for the first time what it has of a space."""
        self._stir(link, want.space)
        replica = self.replicas.get(want.space)
        if replica is None or not self._audience.may_hold(want.space, link.peer_node):
            return
        is_first = want.space not in link.spaces and want.epoch == replica.epoch
        self._start(link, replica, want.epoch, want.frontier)
        if is_first:
            self._acks.introduce(link, replica)  # what was said before may have come before the peer had the space

    # -- spaces come and go --------------------------------------------------------------------------------------

    def space_opened(self, replica: Replica) -> None:
        """This node has a space from now on: tell the peers that may hold it."""
        for link in self._linked():
            if link.hello is not None and self._audience.may_hold(replica.name, link.peer_node):
                self._acks.introduce(link, replica)

    def space_closed(self, replica: Replica) -> None:
        """This node no longer holds a space, or no longer this epoch of it."""
        for link in self.links.values():
            self._part(link, replica.name)
            link.introduced.pop(replica.name, None)
        for peer in self.peers.values():
            peer.acked.pop(replica.name, None)
        self.snapshot_server.forget(replica)
        self.snapshot_client.forget(replica)
        self.comparer.forget(replica.name)

    def audience_changed(self, replica: Replica) -> None:
        """Other nodes than before may hold a space, perhaps."""
        for link in self._linked():
            if not self._audience.may_hold(replica.name, link.peer_node):
                self._part(link, replica.name)
            elif replica.name not in link.introduced:
                self._acks.introduce(link, replica)

    def reload(self, refusal: str) -> None:
        """The replicas have been read anew from disk: what is not there is synced no longer. ``refusal``: why the disk
        will not take what was to be committed; empty: it may, another time.
        """
        for link in self.links.values():
            for name, here in list(link.spaces.items()):
                if name not in self.replicas or self.replicas[name].epoch != here.epoch:
                    self._part(link, name)
                else:
                    here.ack_writers &= self.replicas[name].vector.keys()
        self.snapshot_server.reload()
        self.snapshot_client.reload(refusal)
        self.comparer.reload()
        self.mesh.inquiries.questions.clear()  # what they know of this node may not have come to its disk

    def _linked(self) -> list[Link]:
        return [link for link in self.links.values() if link.hello is not None]

    def _part(self, link: Link, name: str) -> None:
        """Stop syncing a space over a connection, as if it had never begun."""
        link.spaces.pop(name, None)
        link.busy.discard(name)
        link.unsettled.discard(name)
        link.wants.pop(name, None)
        link.dropped_spaces.discard(name)
        if link.hello is not None:
            self.peers[link.peer_node].acked.pop(name, None)

    def _stop(self, link: Link, stop: Stop) -> None:
        assert link.hello is not None
        here = link.spaces.get(stop.space)
        if here is not None:
            here.stopped = True
            self._node.alarms.raise_once(
                alarm_of(stop.code), stop.space, f"{link.hello.name} stopped syncing: {stop.message}"
            )

    def ask_again(self, space: str) -> None:
        """Something of a space came and was dropped: whoever is connected sends what is lacking."""
        for link in self._linked():
            if space in link.spaces:
                self._acks.want(link, space)

    # -- for others of this node -----------------------------------------------------------------------------

    def live_nodes(self) -> set[str]:
        """The other nodes that are up, as far as is known: that are connected, or reached over others."""
        return set(self.mesh.routes.by_node())

    def snapshot_progress(self, link: Link) -> dict[str, object] | None:
        """The snapshot that is under way on a connection, as the status shows it; None: there is none."""
        for name, here in sorted(link.spaces.items()):
            for direction, found in (
                ("in", self.snapshot_client.progress(name, link)),
                ("out", self.snapshot_server.progress(here)),
            ):
                if found is not None:
                    return {"direction": direction, "space": name, "part": found[0], "parts": found[1]}
        return None

    # -- a turn ------------------------------------------------------------------------------------------------

    def pump(self, applied: dict[str, list[Applied]], durable: dict[str, int], is_patient: bool, is_due: bool) -> None:
        """Send what peers lack.

        ``applied`` are the changes of the commit under way; ``durable``, per space, the log position before it.
        ``is_patient``: nobody here waits for what others have. ``is_due``: :meth:`deadline_s` has come, or more than
        news may have.
        """
        now_s = self._node.now_s
        self.comparer.note(applied)
        if is_due:
            for part in self._timed:
                part.tick(now_s)
            for link in self.links.values():
                if link.unintroduced:
                    self._introduce_more(link)
        if is_due or self.mesh.inquiries.questions:
            self.mesh.inquiries.run(applied)
        if self.links:
            self._pump_news(applied, durable, is_patient)
        if is_due and now_s >= self._check_due_s:
            self._check_due_s = now_s + RELAY_DELAY_S
            self.feeder.check_relays(self.peers.values())

    def _pump_news(self, applied: dict[str, list[Applied]], durable: dict[str, int], is_patient: bool) -> None:
        """The part of :meth:`pump` that follows from changes, and from what peers have said."""
        self.feeder.is_patient = not self.intake.take_hurry() and is_patient
        now_s = self._node.now_s
        for link in self.links.values():
            if link.hello is None:
                continue
            for name in applied:
                if name in link.spaces:
                    link.unsettled.add(name)
                    link.busy.add(name)
            for name in sorted(link.busy):
                here, replica = link.spaces[name], self.replicas[name]
                news = applied.get(name, [])
                self._acks.note(link, here, news)
                if not here.stopped:
                    self.feeder.push(link, here, replica, news, durable.get(name, replica.position))
            if link.wants or (link.ack_due_s is not None and now_s >= link.ack_due_s):
                self._acks.send_due(link, now_s)
            for name in list(link.busy):
                if not self._is_busy(link.spaces[name], self.replicas[name]):
                    link.busy.discard(name)

    def acknowledge(self, now_s: float) -> None:
        """Send the acknowledgements that are due. To be called when all that has been applied is on disk."""
        for link in self.links.values():
            if link.hello is not None and link.ack_due_s is not None and now_s >= link.ack_due_s:
                self._acks.send_due(link, now_s)

    def ack_due_s(self) -> float | None:
        """When :meth:`acknowledge` wants to be called."""
        return min((link.ack_due_s for link in self.links.values() if link.ack_due_s is not None), default=None)

    def _introduce_more(self, link: Link) -> None:
        """Tell a peer of some of the spaces that the hello had no room for."""
        for _ in range(min(HELLO_SPACES_MAX, len(link.unintroduced))):
            replica = self.replicas.get(link.unintroduced.popleft())
            if replica is None or replica.name in link.introduced:
                continue
            if self._audience.may_hold(replica.name, link.peer_node):
                self._acks.introduce(link, replica)

    @staticmethod
    def _is_busy(here: SpaceLink, replica: Replica) -> bool:
        """Whether the next turn has to look at a space of a connection, whatever happens until then."""
        return bool(here.ack_writers) or (not here.stopped and (here.offered or here.position < replica.position))

    def has_more(self, durable: dict[str, int]) -> bool:
        """Whether there is something to send to a peer that can take it."""
        return not self.outbox.is_empty or any(self.feeder.has_more(link, durable) for link in self.links.values())

    def deadline_s(self, durable: dict[str, int]) -> float | None:
        """When :meth:`pump` wants to be called again; not for acknowledgements alone, see :meth:`ack_due_s`."""
        due = [due_s for link in self.links.values() for due_s in link.wants.values()]
        others = (self.mesh.inquiries.deadline_s(), *(part.deadline_s() for part in self._timed))
        due += [due_s for due_s in others if due_s is not None]
        if any(link.unsettled for link in self.links.values() if link.hello):
            due.append(self._check_due_s)
        if any(link.unintroduced for link in self.links.values()) or self.has_more(durable):
            due.append(0.0)
        return min(due, default=None)
