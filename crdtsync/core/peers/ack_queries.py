"""Questions to nodes that are not connected, about what they have on disk: asked through others, and answered the way
back.

A write concern counts nodes, and acknowledgements go to peers alone. So where a request waits for a node that is
reached only over others, this node *asks*: of which writers of which spaces it wants to know how much each node has on
disk. The question is passed on to every node once; each remembers from whom it had it first, and tells there what it
has and what it is told, whenever that has grown, for as long as the question is repeated. So a change costs each node
one short message while somebody waits for it, and nothing where nobody does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from crdtsync.causality import VersionVector, Writer, merge
from crdtsync.core.node_context import NodeContext
from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Link, Peer
from crdtsync.core.replica.replica import Replica
from crdtsync.wire.peer.meshing import ASKED_WRITERS_MAX, HOLDING_NODES_MAX, Ask, Asked, Held, Holding

ASK_INTERVAL_S = 2.0
"""How often a question is repeated while somebody waits: connections come and go."""
ASKED_S = 10.0
"""How long a question stands that is not repeated."""
TELL_DELAY_S = 0.05
"""How long answers are collected."""
QUESTIONS_MAX = 1000
"""Nodes whose questions are remembered at once."""
KNOWN_MAX = 100_000
"""Nodes times spaces, and writers there, that are remembered to answer all questions: some 20 MB."""
HOLDING_AT_ONCE_MAX = 500
"""Nodes that one message tells of: it has a bounded number of items."""

Key = tuple[str, int, str]
"""Space, epoch and node."""


class AckQuestion:
    """A question of another node: by space and epoch the writers; ``conn``: the connection that it came over."""

    __slots__ = ("conn", "known", "round", "told", "until_s", "wanted")

    def __init__(self) -> None:
        self.round = -1
        self.conn = 0
        self.until_s = 0.0
        self.wanted: dict[tuple[str, int], set[Writer]] = {}
        self.known: dict[Key, Held] = {}
        self.told: dict[Key, VersionVector] = {}


class Inquiries:
    """The questions of one node, and those that it is asked."""

    def __init__(
        self,
        node: NodeContext,
        links: Mapping[int, Link],
        outbox: Outbox,
        learnt: Callable[[Held], None],
        is_member: Callable[[str], bool],
    ) -> None:
        self._node = node
        self._links = links
        self._outbox = outbox
        self._learnt = learnt
        self._is_member = is_member
        self._wanted: dict[tuple[str, Writer], float] = {}
        self._round = 0
        self._ask_s: float | None = None
        self._tell_s: float | None = None
        self.questions: dict[str, AckQuestion] = {}

    def is_asking(self) -> bool:
        """Whether a question of this node stands: then what others have told since holds."""
        now_s = self._node.now_s
        return any(now_s < until_s for until_s in self._wanted.values())

    # -- asking ------------------------------------------------------------------------------------------------

    def want(self, needed: Mapping[str, VersionVector]) -> None:
        """Somebody waits for nodes that are not connected to have this on disk."""
        now_s = self._node.now_s
        for space, vector in needed.items():
            for writer in vector:
                place = (space, writer)
                if place not in self._wanted:
                    if len(self._wanted) >= ASKED_WRITERS_MAX:
                        return
                    self._ask_s = now_s
                self._wanted[place] = now_s + ASKED_S

    def _ask(self) -> None:
        now_s = self._node.now_s
        self._wanted = {place: until_s for place, until_s in self._wanted.items() if now_s < until_s}
        self._ask_s = now_s + ASK_INTERVAL_S if self._wanted else None
        by_space: dict[str, list[Writer]] = {}
        for space, writer in sorted(self._wanted):
            if space in self._node.replicas:
                by_space.setdefault(space, []).append(writer)
        if not by_space:
            return
        self._round += 1
        spaces = [Asked(space, self._node.replicas[space].epoch, tuple(writers)) for space, writers in by_space.items()]
        self._pass_on(Ask(self._node.identity.node, self._round, tuple(spaces)), None)

    def _pass_on(self, ask: Ask, source: Link | None) -> None:
        for link in self._links.values():
            if link is source or link.peer_node == ask.node or not link.takes(Ask):
                continue
            shared = tuple(one for one in ask.spaces if one.space in link.spaces)
            if shared:
                self._outbox.send(link, Ask(ask.node, ask.round, shared))

    # -- being asked -------------------------------------------------------------------------------------------

    def asked(self, link: Link, ask: Ask) -> None:
        """A peer asks, or passes on a question. A node that is linked asks for itself: somebody else could ask under
        its name with a higher round, and its own questions would count as late.
        """
        now_s = self._node.now_s
        is_own = ask.node == link.peer_node
        if ask.node == self._node.identity.node or not self._is_member(ask.node):
            return
        if not is_own and any(other.peer_node == ask.node for other in self._links.values()):
            return
        question = self.questions.get(ask.node)
        if question is None:
            if len(self.questions) >= QUESTIONS_MAX:
                return
            question = self.questions[ask.node] = AckQuestion()
        is_lost = question.conn not in self._links or (is_own and question.conn != link.conn)
        if ask.round <= question.round and not is_lost and now_s < question.until_s:
            return
        if question.conn != link.conn:
            question.conn = link.conn
            question.told.clear()
        question.round, question.until_s = ask.round, now_s + ASKED_S
        allowed = [one for one in ask.spaces if one.space in link.spaces]
        question.wanted = {(one.space, one.epoch): set(one.writers) for one in allowed}
        self._pass_on(Ask(ask.node, ask.round, tuple(allowed)), link)
        self._note_own(question, question.wanted)
        self._soon()

    def _note_own(self, question: AckQuestion, places: Iterable[tuple[str, int]]) -> None:
        me = self._node.identity
        for space, epoch in places:
            replica = self._node.replicas.get(space)
            if replica is not None and replica.epoch == epoch:
                wanted = question.wanted[space, epoch]
                vector = {writer: seq for writer, seq in replica.vector.items() if writer in wanted}
                question.known[space, epoch, me.node] = Held(space, epoch, me.node, me.name, me.database, vector)

    def answered(self, link: Link, message: Holding) -> None:
        """A peer answers a question, of this node or of one that this node passed it on for.

        A node ignores answers that it has not asked for, and nodes that are no members: each name would stay.
        """
        question = self.questions.get(message.node)
        if message.node == self._node.identity.node:
            wanted = self._wanted_now()
        elif question is not None:
            wanted = question.wanted
        else:
            return
        held = [
            one._replace(vector={w: seq for w, seq in one.vector.items() if w in wanted[one.space, one.epoch]})
            for one in message.held
            if (one.space, one.epoch) in wanted
            and one.space in link.spaces
            and one.node != self._node.identity.node
            and self._is_member(one.node)
        ]
        if question is None:
            for one in held:
                self._learnt(one)
        else:
            self._note(question, held)

    def _wanted_now(self) -> dict[tuple[str, int], set[Writer]]:
        wanted: dict[tuple[str, int], set[Writer]] = {}
        for (space, writer), until_s in self._wanted.items():
            replica = self._node.replicas.get(space)
            if self._node.now_s < until_s and replica is not None:
                wanted.setdefault((space, replica.epoch), set()).add(writer)
        return wanted

    def _note(self, question: AckQuestion, held: Iterable[Held]) -> None:
        """Remember this, to pass it on."""
        size = sum(1 + len(known.vector) for each in self.questions.values() for known in each.known.values())
        for one in held:
            place = (one.space, one.epoch, one.node)
            before = question.known.get(place)
            size += 1 + len(one.vector)
            if size > KNOWN_MAX:
                break
            if before is not None and before.database == one.database:
                vector = dict(before.vector)
                merge(vector, one.vector)
                question.known[place] = one._replace(vector=vector)
            else:
                question.known[place] = one
        self._soon()

    def _soon(self) -> None:
        if self._tell_s is None:
            self._tell_s = self._node.now_s + TELL_DELAY_S

    # -- a turn ------------------------------------------------------------------------------------------------

    def run(self, applied: Iterable[str]) -> None:
        """Ask and tell what is due. ``applied``: the spaces in which something is committed with this turn."""
        now_s = self._node.now_s
        if self._ask_s is not None and now_s >= self._ask_s:
            self._ask()
        for node in [node for node, question in self.questions.items() if now_s >= question.until_s]:
            del self.questions[node]
        news = set(applied)
        if news:
            for question in self.questions.values():
                places = [place for place in question.wanted if place[0] in news]
                if places:
                    self._note_own(question, places)
                    self._soon()
        if self._tell_s is not None and now_s >= self._tell_s:
            self._tell_s = None
            for node, question in self.questions.items():
                self._tell(node, question)

    def _tell(self, node: str, question: AckQuestion) -> None:
        link = self._links.get(question.conn)
        if link is None or link.hello is None:
            return
        news: list[Held] = []
        for place, held in islice(question.known.items(), HOLDING_NODES_MAX):
            told = question.told.get(place)
            if told is None:
                news.append(held)
            elif told != held.vector:
                news.append(held._replace(vector={w: s for w, s in held.vector.items() if told.get(w) != s}))
            question.told[place] = held.vector
        for start in range(0, len(news), HOLDING_AT_ONCE_MAX):
            self._outbox.send(link, Holding(node, tuple(news[start : start + HOLDING_AT_ONCE_MAX])))

    def deadline_s(self) -> float | None:
        """When :meth:`run` wants to be called."""
        ends = [question.until_s for question in self.questions.values()]
        return min((due for due in (self._ask_s, self._tell_s, *ends) if due is not None), default=None)


def learn(peers: dict[str, Peer], held: Held, replicas: Mapping[str, Replica], peers_max: int) -> Peer | None:
    """Take in what a node that is not connected has on disk. Returns it if it was not known before."""
    replica = replicas.get(held.space)
    if replica is None or replica.epoch != held.epoch:
        return None
    peer = peers.get(held.node)
    new = None
    if peer is None:
        if len(peers) >= peers_max:
            return None
        peer = new = peers[held.node] = Peer(held.node, held.name, database=held.database)
    if peer.link is not None:
        return None  # it says so itself
    if peer.database != held.database:
        peer.database, peer.acked = held.database, {}
    merge(peer.acked.setdefault(held.space, {}), held.vector)
    return new
