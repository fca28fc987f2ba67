"""Which answers of resolvers contradict each other, and how long to wait before the next.

An answer supersedes what its resolver was shown. Two answers contradict each other where they differ, supersede a value
in common, so that neither had seen the other, and neither was the first to settle a value of an agent that the other
was not shown. Where no two do, every answer settles what an agent has written or leaves fewer values than there were,
and all comes to an end by itself: so nothing else is counted, least of all that the answers of two sides meet, each to
what its own agents had written. An answer to what an agent has written anew begins at nothing, every other goes on
from what it supersedes, and a key that has stood without a conflict for a while is forgotten.
"""

from __future__ import annotations

from hashlib import blake2b
from heapq import nsmallest
from typing import NamedTuple

from crdtsync.causality import Dot, Writer
from crdtsync.core.alarm_catalogue import RESOLVERS_DISAGREE
from crdtsync.core.alarms import Alarms
from crdtsync.core.crdt.entries import Entry
from crdtsync.core.crdt.timer_heap import Timeline
from crdtsync.wire.change import Change, RemoveRange

ROUNDS_FREE = 1
ROUNDS_ALARM = 4
"""How often in a row the answers of resolvers may contradict each other before an alarm says so."""
ROUND_BACKOFF_S_MIN, ROUND_BACKOFF_S_MAX = 1.0, 3600.0
ROUNDS_KEYS_MAX = 10_000
ROUND_DOTS_MAX = 64
"""Superseded values kept in mind of an answer: the first in an order that is the same everywhere."""
ROUND_ANSWERS_MAX = 16
"""Answers kept in mind of a key."""
SETTLED_S = 30.0
"""How long a key has to be without a conflict until its answers are forgotten, and the alarm ends."""


class Answer:
    """What a resolver has written. ``fresh``: the values of agents that it was the first to supersede; ``round``: how
    many contradictions in a row have led to it, its own included.
    """

    __slots__ = ("content", "fresh", "round")

    def __init__(self, content: int, fresh: frozenset[Dot], round_: int) -> None:
        self.content = content
        self.fresh = fresh
        self.round = round_


class Told(NamedTuple):
    """The answers for one key, by the change that each is in, and who was the first to supersede what."""

    answers: dict[tuple[Writer, int], Answer]
    superseded: dict[Dot, Answer]


class Rounds:
    """The contradictions in one space, as one node sees them."""

    def __init__(self, node: str, space: str, alarms: Alarms) -> None:
        self._node = node
        self._space = space
        self._alarms = alarms
        self._told: dict[str, Told] = {}
        self._holds: dict[str, float] = {}
        self._forget: Timeline[str] = Timeline()

    def answered(self, key: str, change: Change, removed: list[Entry], now_s: float) -> None:
        """A change holds an answer for a key; ``removed`` is what went with it here."""
        told = self._told.get(key)
        if told is None:
            told = self._told[key] = Told({}, {})
        if len(self._told) > ROUNDS_KEYS_MAX:
            self.forget(next(iter(self._told)))
        self._forget.add(key, now_s + SETTLED_S)
        dots = _superseded(key, change, told, removed)
        content = hash(tuple((op.sub, op.kind, op.value_hash) for op in change.ops if op.key == key and op.value_hash))
        of = {dot: told.answers.get((dot.writer, dot.seq)) for dot in dots}
        fresh = frozenset(dot for dot, one in of.items() if one is None and dot not in told.superseded)
        before = max((one.round for one in of.values() if one is not None), default=0)
        answer = Answer(content, fresh, 0 if fresh else before)
        rivals = [told.superseded[dot] for dot in dots if dot in told.superseded]
        rivals = [one for one in rivals if one.content != content and one.fresh <= of.keys()]
        if rivals and not fresh:
            for one in (answer, *rivals):
                one.round = max(one.round, before + 1)
            self._contradicted(key, before + 1, now_s)
        told.answers[change.writer, change.seq] = answer
        for dot in dots:
            told.superseded.setdefault(dot, answer)
        while len(told.answers) > ROUND_ANSWERS_MAX:
            del told.answers[next(iter(told.answers))]
        while len(told.superseded) > ROUND_ANSWERS_MAX * ROUND_DOTS_MAX:
            del told.superseded[next(iter(told.superseded))]

    def _contradicted(self, key: str, rounds: int, now_s: float) -> None:
        self._holds[key] = now_s + self.wait_s(key, rounds)
        if rounds >= ROUNDS_ALARM:
            self._alarms.raise_once(
                RESOLVERS_DISAGREE,
                self._scope(key),
                f"space {self._space}: resolvers have answered {rounds} times in a row for {key!r}, each time against "
                "another's answer: make them agree, or let one of them go",
            )

    def wait_s(self, key: str, rounds: int) -> float:
        """How long this node waits after so many contradictions in a row.

        Two sides whose resolvers never agree would otherwise answer each other for ever, where they do not know of
        each other's resolvers. Each node waits another time, so that sooner or later only one answers.
        """
        if rounds <= ROUNDS_FREE:
            return 0.0
        longest_s = min(ROUND_BACKOFF_S_MAX, ROUND_BACKOFF_S_MIN * 2.0 ** min(rounds - ROUNDS_FREE, 40))
        seed = f"{self._node} {rounds} {key}".encode()
        part = int.from_bytes(blake2b(seed, digest_size=4).digest(), "big") / 2**32
        return longest_s * part

    def take_hold(self, key: str) -> float:
        """Until when nobody is to be asked about a key, once for each contradiction; 0.0: there was none."""
        return self._holds.pop(key, 0.0)

    def settled(self, key: str, now_s: float) -> None:
        """A key is no longer in conflict."""
        if key in self._told:
            self._forget.add(key, now_s + SETTLED_S)

    def due(self, now_s: float) -> str | None:
        """A key to be forgotten, unless it is in conflict: then :meth:`settled` says when it no longer is."""
        return self._forget.take(now_s)

    def next_due(self) -> float | None:
        """When :meth:`due` has something."""
        return self._forget.next_due()

    def forget(self, key: str) -> None:
        """The key has settled, for a while now, or there are too many."""
        self._told.pop(key, None)
        self._holds.pop(key, None)
        self._forget.discard(key)
        self._alarms.clear(RESOLVERS_DISAGREE, self._scope(key))

    def close(self) -> None:
        """Nobody is left to contradict."""
        for key in list(self._told):
            self.forget(key)

    def _scope(self, key: str) -> str:
        return f"{self._space} {key}"


def _superseded(key: str, change: Change, told: Told, removed: list[Entry]) -> list[Dot]:
    """What an answer supersedes, whether or not another had done so before."""
    dots: set[Dot] = set()
    for op in change.ops:
        if op.key != key:
            continue
        if not isinstance(op.removes, RemoveRange):
            dots.update(op.removes)
            continue
        # Of many values at once: those that went here, and those that had gone before by an answer that it knew not.
        vector = op.removes.vector
        later = {id(one) for (writer, seq), one in told.answers.items() if seq > vector.get(writer, 0)}
        for dot, one in told.superseded.items():
            if id(one) in later and dot.seq <= vector.get(dot.writer, 0):
                dots.add(dot)
    dots.update(entry.dot for entry in removed)
    return nsmallest(ROUND_DOTS_MAX, dots)
