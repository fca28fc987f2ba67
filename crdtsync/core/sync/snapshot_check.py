"""Whether a snapshot may be merged: asking those who can know before much is taken away.

The problem. A snapshot says what is alive, and that everything else up to its frontier is gone. A member that keeps to
no rule sends an empty one with the heads of all writers: whoever merges it has nothing left, and takes no later change
of these writers either, for it would hold them all.

The rule. A change takes away what a snapshot lacks, and the taker lacks that change: it is one of those that the
snapshot claims to know beyond the taker. So whoever holds all of these has applied it. Before host-b merges a snapshot
of host-a, it asks

- the authors that it is connected to, if the snapshot claims to know later changes of theirs, for they know best;
- all other nodes that it is connected to, if much goes: about some entries that would go, chosen by chance.

If an author never made such a change, or a node that holds all of them still has one of the entries, host-a is wrong:
nothing is merged, and an alarm names it. If a node that lacks some of them has one of the entries, nobody can tell: it
may be behind too, or host-a may have made those changes up. Then an alarm names host-a, and host-b waits, long enough
for somebody to come and remove host-a. In the end it merges, for otherwise two nodes that are behind would hold each
other up for good. In the cluster's own space the records of members, removals and spaces are never taken away, whatever
anybody says: no correct node removes them.

An author forgets. The disk of host-c went back, and host-c goes on as a new writer: it lacks what it wrote before, and
host-a, which has that, tells the truth. So an author denies only changes of the writer that it goes on as.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from crdtsync.causality import VersionVector, covers
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.limits import CLUSTER_SPACE
from crdtsync.wire.peer.comparing import SAMPLE_ENTRIES_MAX, SAMPLE_WRITERS_MAX, Removed, Sample, Sampled

if TYPE_CHECKING:
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.peers.peer_state import Link
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.replica.snapshots.snapshot import Taking

TAKEN_AWAY_MAX = 1000
"""More entries than that are much to be taken away, by the snapshots of one giver in a day."""
TAKEN_AWAY_MIN = 16
"""Fewer are not, though they be more than half of all."""
ANSWERS_S = 30.0
"""How long others have to answer if much goes."""
AUTHORS_S = 2.0
"""How long authors have if little does."""
DOUBTED_S = 600.0
"""How long a snapshot waits that somebody doubts, from the first one of its giver on."""
_DAY_S = 86_400.0
_KEPT = ("member/", "removed/", "space/")


class Contradicted(InvalidEncoding):
    """Somebody who must know says that a snapshot is wrong."""


class SnapshotCheck:
    """The check of one snapshot that is whole and not merged yet. ``asked`` are nodes that have not answered."""

    def __init__(self, is_much: bool, begun_s: float, doubted_until_s: float) -> None:
        self.is_much = is_much
        self.deadline_s = begun_s + (ANSWERS_S if is_much else AUTHORS_S)
        self.asked: set[str] = set()
        self.is_confirmed = False
        self.denied = ""
        self.doubted_by = ""
        self._doubted_until_s = doubted_until_s

    def heard(self, link: Link, message: Sampled) -> None:
        """A node has answered."""
        assert link.hello is not None
        if link.peer_node not in self.asked:
            return
        self.asked.discard(link.peer_node)
        name = link.hello.name
        if message.is_denied:
            self.denied = f"it names changes of {name} that {name} never made"
        elif message.live and message.is_known:
            self.denied = f"{name} knows all that it does, and has {message.live} of the entries that it leaves out"
        elif message.live:
            self.doubted_by, self.deadline_s = name, self._doubted_until_s
        else:
            self.is_confirmed = True

    def is_over(self, now_s: float) -> bool:
        """Whether nothing more is waited for."""
        return bool(self.denied) or now_s >= self.deadline_s or not (self.asked or self.doubted_by)

    def due_s(self) -> float:
        """When it is, at the latest."""
        return self.deadline_s if self.asked or self.doubted_by else 0.0


class Checks:
    """How much each giver has taken away today."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._taken_away: dict[tuple[str, str], tuple[float, int]] = {}
        self._doubted_since_s: dict[tuple[str, str], float] = {}

    def begin(
        self, replica: Replica, taking: Taking, links: Iterable[Link]
    ) -> tuple[SnapshotCheck, list[tuple[Link, Sample]]]:
        """Look at a snapshot that is whole, and whom to ask what.

        :raises Contradicted: it is wrong whatever they say.
        """
        beyond = {writer: seq for writer, seq in taking.vector.items() if seq > replica.vector.get(writer, 0)}
        gone = going(replica, taking) if beyond else []  # one that knows nothing new takes nothing away
        if replica.name == CLUSTER_SPACE:
            _check_records(replica, taking, gone)
        is_all_much = replica.name == CLUSTER_SPACE and bool(gone)  # each record says who belongs here, or who may what
        before = self._today(replica.name, taking.node)
        check = SnapshotCheck(
            is_all_much or is_much(replica, gone, before),
            self._node.now_s,
            self._doubted_until_s(replica.name, taking.node),
        )
        authors = {replica.origins[writer][0] for writer in beyond if writer in replica.origins}
        authors |= {row.origin[0] for row in taking.writers.values() if row.origin is not None and row.writer in beyond}
        vector = dict(sorted(beyond.items())[:SAMPLE_WRITERS_MAX])
        is_askable = check.is_much and len(vector) == len(beyond)  # else nobody could tell that all is known
        some = self._node.random.sample(gone, min(len(gone), SAMPLE_ENTRIES_MAX)) if is_askable else []
        entries = [(entry.key, entry.dot) for entry in some]
        questions = []
        for link in links:
            node = link.peer_node if link.hello is not None else taking.node
            if node == taking.node or not link.takes(Sample) or not (check.is_much or node in authors):
                continue
            if replica.name in link.spaces and not link.spaces[replica.name].stopped:
                check.asked.add(node)
                questions.append((link, Sample(replica.name, replica.epoch, taking.id, vector, entries)))
        return check, questions

    def may_remove(self, replica: Replica, link: Link, message: Removed) -> bool:
        """Whether a peer that mends a difference is believed that these entries were removed: not if they are many, or
        records that no correct node removes.
        """
        node, held = link.peer_node, replica.entries
        gone = [(key, dot) for key, dot in message.entries if held.holds_dot(key, dot)]
        if is_much(replica, gone, self._today(replica.name, node)) or (
            replica.name == CLUSTER_SPACE and any(key.startswith(_KEPT) for key, _ in gone)
        ):
            return False
        self.merged(replica.name, node, len(gone))
        return True

    def _doubted_until_s(self, space: str, node: str) -> float:
        """Also if the giver's connection breaks meanwhile, and it gives another one."""
        now_s = self._node.now_s
        since_s = self._doubted_since_s.get((space, node), now_s)
        self._doubted_since_s[space, node] = since_s = since_s if now_s < since_s + _DAY_S else now_s
        return since_s + DOUBTED_S

    def _today(self, space: str, node: str) -> int:
        now_s = self._node.now_s
        since_s, count = self._taken_away.get((space, node), (now_s, 0))
        return count if now_s < since_s + _DAY_S else 0

    def merged(self, space: str, node: str, gone: int) -> None:
        """A snapshot has taken so much away."""
        self._doubted_since_s.pop((space, node), None)
        before = self._today(space, node)
        since_s = self._taken_away[space, node][0] if before else self._node.now_s
        self._taken_away[space, node] = (since_s, before + gone)


def going(replica: Replica, taking: Taking) -> list[Entry]:
    """The entries that merging a snapshot would take away."""
    cut, kept = taking.vector, taking.entries
    return [
        entry for entry in replica.entries.all() if (dot := entry.dot) not in kept and dot.seq <= cut.get(dot.writer, 0)
    ]


def is_much(replica: Replica, gone: Collection[object], before: int) -> bool:
    """Whether that is much, after so many ``before``."""
    count = len(gone) + before
    half = (replica.entries.count + before) / 2
    return bool(gone) and (count > TAKEN_AWAY_MAX or (count >= TAKEN_AWAY_MIN and count >= half))


def _check_records(replica: Replica, taking: Taking, gone: Collection[Entry]) -> None:
    left = {entry.key for entry in taking.entries.values()}
    lost = {entry.dot for entry in gone}
    for entry in gone:
        key = entry.key
        if key.startswith(_KEPT) and key not in left and all(held.dot in lost for held in replica.entries.held(key)):
            raise Contradicted(f"it leaves out the record {key}, which no correct node removes")


def answer(replica: Replica, message: Sample) -> Sampled:
    """The facts that this node knows of a snapshot that another one was sent."""
    vector: VersionVector = replica.vector
    is_known = covers(vector, message.vector)
    live = sum(replica.entries.holds_dot(key, dot) for key, dot in message.entries)
    own = replica.writer
    is_denied = own is not None and vector.get(own, 0) < message.vector.get(own, 0)
    return Sampled(message.space, message.epoch, message.snapshot, is_known, live, is_denied)
