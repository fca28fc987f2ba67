"""How long to wait before resolvers are asked again about a conflict that is made of their own answers.

Example: two agents write ``a`` and ``b``. Resolvers on two hosts that do not know of each other answer ``x`` and ``y``:
round 1. The answers meet as a conflict, and the resolvers answer ``x`` and ``y`` again: round 2, and so on for ever.

The rule: an answer comes one round after the earliest value that it supersedes, and a value of an agent is of round 0.
A conflict is of the round of its earliest value. Before it asks about a conflict of round n, each node waits another
time of up to 2^n seconds, so that sooner or later one answers alone.

Resolvers that agree seldom get beyond :data:`ROUNDS_FREE`:

- an agent's new value begins at 0 again
- a side of the fleet that comes into reach brings its own answer, of round 1
- sides that meet two by two make answers of round 2; for a conflict of round 3 it takes eight sides
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from crdtsync.causality import Dot, Writer
from crdtsync.core.alarm_catalogue import RESOLVERS_DISAGREE
from crdtsync.core.alarms import Alarms
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.timer_heap import Timeline
from crdtsync.wire.change import Change, RemoveRange

ROUNDS_FREE = 2
"""Rounds after which nobody waits."""
ROUNDS_ALARM = 4
ROUND_WAIT_S_MAX = 3600.0
"""Until resolvers that answer nothing but each other's answers are asked again."""
ROUNDS_KEYS_MAX = 10_000
"""Keys of a space whose answers by resolvers are kept in mind."""
ROUND_ANSWERS_MAX = 64
"""Answers kept in mind of a key."""
SETTLED_S = 30.0
"""How long a key has to be without a conflict until its rounds are forgotten, and the alarm ends."""


class RoundBackoff:
    """The rounds of each key of one space, as one node has seen them."""

    def __init__(self, node: str, space: str, alarms: Alarms) -> None:
        self._node = node
        self._space = space
        self._alarms = alarms
        self._rounds: dict[str, dict[tuple[Writer, int], int]] = {}  # of answers, by the change that holds one
        self._times: Timeline[str] = Timeline()

    def answered(self, key: str, change: Change, removed: list[Entry], now_s: float) -> None:
        """A change holds an answer for a key; ``removed`` is what went with it here."""
        superseded = {entry.dot for entry in removed}
        for op in change.ops:
            if op.key == key and not isinstance(op.removes, RemoveRange):
                superseded.update(op.removes)
        rounds = self._rounds.setdefault(key, {})
        rounds[change.writer, change.seq] = 1 + self.round_of(key, superseded)
        if len(rounds) > ROUND_ANSWERS_MAX:
            del rounds[next(iter(rounds))]
        if len(self._rounds) > ROUNDS_KEYS_MAX:
            self.forget(next(iter(self._rounds)))
        self.settled(key, now_s)

    def round_of(self, key: str, dots: Iterable[Dot]) -> int:
        """The round of the earliest of these values."""
        rounds = self._rounds.get(key, {})
        return min((rounds.get((dot.writer, dot.seq), 0) for dot in dots), default=0)

    def hold_s(self, key: str, dots: Iterable[Dot], now_s: float) -> float:
        """Until when nobody is to be asked about a conflict of these values."""
        rounds = self.round_of(key, dots)
        if rounds >= ROUNDS_ALARM:
            self._alarms.raise_once(
                RESOLVERS_DISAGREE,
                f"{self._space} {key}",
                f"space {self._space}: resolvers have answered {rounds} times in a row for {key!r}, each time against "
                "another's answer: make them agree, or let one of them go",
            )
        return now_s + self.wait_s(key, rounds)

    def wait_s(self, key: str, rounds: int) -> float:
        """How long this node waits after so many rounds."""
        if rounds <= ROUNDS_FREE:
            return 0.0
        seed = f"{self._node} {rounds} {key}".encode()
        part = int.from_bytes(blake2b(seed, digest_size=4).digest(), "big") / 2**32
        return part * min(ROUND_WAIT_S_MAX, 2.0 ** min(rounds, 40))

    def settled(self, key: str, now_s: float) -> None:
        """A key is no longer in conflict."""
        if key in self._rounds:
            self._times.add(key, now_s + SETTLED_S)

    def due(self, now_s: float) -> str | None:
        """A key to be forgotten, unless it is in conflict: then :meth:`settled` says when it no longer is."""
        return self._times.take(now_s)

    def next_due(self) -> float | None:
        """When :meth:`due` has something."""
        return self._times.next_due()

    def forget(self, key: str) -> None:
        """The key has settled, for a while now, or there are too many."""
        self._rounds.pop(key, None)
        self._times.discard(key)
        self._alarms.clear(RESOLVERS_DISAGREE, f"{self._space} {key}")

    def close(self) -> None:
        """Nobody is left to answer."""
        for key in list(self._rounds):
            self.forget(key)
