"""When each part of a node has something to do.

A turn in which one register is written has little to do: it tells watchers and peers. A turn in which an agent attaches
may have to look at texts, records of the cluster, resolvers and more. A node that looked everywhere in every turn would
spend most of its time on looking in vain.

So each :class:`NodePart` stands in the agenda with the moment when it is due. A turn runs what is due by then, in the
order of the parts. News (what was written, and what watchers and peers are told of it) needs no entry: each turn runs
it.

- An event that may concern everything makes everything due: :meth:`Agenda.all_now`.
- A plain write makes nothing due (:func:`are_plain`), and neither does a read.
- A part that ran is due until it has been asked when it is due next, by :meth:`Agenda.next_s`: nobody knows before.
- News may bring nearer what is due for :data:`FOLLOWERS`: they are asked each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from math import inf
from typing import TYPE_CHECKING

from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import CLUSTER_SPACE

if TYPE_CHECKING:
    from crdtsync.core.space import Applied

_REGISTER = Kind.REGISTER


class NodePart(IntEnum):
    """The parts that a turn runs if they are due, in this order; the news comes after ``RECORDS``."""

    REQUESTS = 0
    EXPIRY = 1
    ARCHIVES = 2
    PURGES = 3
    UPLOADS = 4
    CHECKPOINTS = 5
    TEXTS = 6
    SNAPSHOTS = 7
    RECORDS = 8
    RESOLVERS = 9
    RETENTION = 10
    SLEEP = 11
    PEERS = 12


PARTS = tuple(NodePart)
FOLLOWERS = (NodePart.RETENTION, NodePart.PEERS)
TURN_PATIENCE_S = 0.001
"""A part that is due by time alone may run so much late: to find out when it is due takes longer than many a turn."""
NEWS_PATIENCE_S = 0.02
"""The same if a turn brought nothing but news, after which little is due sooner than was known before."""
_AT_ONCE = [0.0] * len(PARTS)


class Agenda:
    """When each part of a node is due. ``deadlines``, given once all parts are there: how to ask a part when it is due
    (None: never). A part without one is due by :meth:`all_now` alone.

    ``soonest_s``: before this nothing is due, as far as is known. ``ran``: what this turn ran, or else the last one.
    """

    __slots__ = ("_due_s", "_unsure", "deadlines", "ran", "soonest_s")

    def __init__(self) -> None:
        self.deadlines: Mapping[NodePart, Callable[[], float | None]] = {}
        self.ran: list[NodePart] = []
        self.all_now()

    def all_now(self) -> None:
        """Everything may have something to do: the next turn looks."""
        self._due_s = _AT_ONCE.copy()
        self._unsure: tuple[NodePart, ...] = PARTS
        self.soonest_s = 0.0

    def now(self, part: NodePart) -> None:
        """This part may have something to do: the next turn looks."""
        self.at(part, 0.0)
        self._unsure = PARTS

    def at(self, part: NodePart, due_s: float) -> None:
        """This part is due then, if not before."""
        if due_s < self._due_s[part]:
            self._due_s[part] = due_s
            self.soonest_s = min(self.soonest_s, due_s)

    @property
    def patience_s(self) -> float:
        """So late may :meth:`next_s` be asked when the turn is over."""
        return TURN_PATIENCE_S if self.ran else NEWS_PATIENCE_S

    def begin(self) -> None:
        """A turn begins."""
        if self.ran:
            self.ran = []

    def takes(self, part: NodePart, now_s: float) -> bool:
        """Whether this turn runs a part. If so the part must be asked anew when it is due, and others with it."""
        if now_s < self._due_s[part]:
            return False
        self.ran.append(part)
        self._due_s[part] = self.soonest_s = 0.0
        self._unsure = PARTS
        return True

    def next_s(self) -> float:
        """When the next turn is due; infinite: never. Asks those who may say something else than they did last."""
        due_s, asks = self._due_s, self.deadlines
        for part in self._unsure:
            ask = asks.get(part)
            moment_s = None if ask is None else ask()
            due_s[part] = inf if moment_s is None else moment_s
        self._unsure = FOLLOWERS
        self.soonest_s = soonest_s = min(due_s)
        return soonest_s


def are_plain(changes: Iterable[Applied]) -> bool:
    """Whether nothing follows from changes but news."""
    for applied in changes:
        if applied.space == CLUSTER_SPACE:
            return False
        for effect in applied.effects:
            op = effect.op
            if op.kind != _REGISTER or op.attrs is not None or op.key[0] == "_":
                return False
            for gone in effect.removed:
                if gone.kind != _REGISTER or gone.attrs is not None:
                    return False
    return True
