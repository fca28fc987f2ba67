"""How long the event loop is held, by what, and in which stage of a turn: a write waits for all of it.

Agent ``a`` sends a batch that takes 70 ms to step, and ``b`` a small ``set`` meanwhile: ``b`` waits 70 ms, and the time
of commits shows nothing of it. So a *hold* is measured as a whole, from the first thing that is done after the loop
was free until nothing follows from it that is done at once:

- A turn, from its first event on. Its stages follow each other without a gap, so that what other callbacks took in
  between is in it: ``step`` (until the last event is stepped and the turn comes to its end), ``ready`` (what is to be
  written and sent), ``commit`` (to the disk), ``deliver`` (replies and messages leave, and the next turn is planned).
- Frames that are answered at once and need no commit: most reads, and acknowledgements of peers.
- Work outside of turns: bringing the journal into the tables, checkpoints, garbage.

Timers tell, since they come late, of anything else that holds the loop (a TLS handshake, the libraries' own work), and
of times in which the process did not run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from threading import get_ident
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any

from crdtsyncd.telemetry.commit_histogram import BOUNDS_S, Durations

from crdtsync.named_tuple import NamedTuple

if TYPE_CHECKING:
    from crdtsync.core.interface import Event, Ready

SLOW_TURN_S = 0.05
"""No turn is to hold the loop for longer. A bound of :data:`crdtsyncd.telemetry.commit_histogram.BOUNDS_S`."""
STAGES = ("step", "ready", "commit", "deliver")
KINDS = {
    "full": "a turn that looked for everything that may be due",
    "short": "a turn with plain writes alone",
    "at_once": "reads that need no commit, and acknowledgements of peers",
    "outside": "work in the background, outside of turns",
}
"""Kinds of holds, by what held the loop. The first two are turns: a short one ran nothing of
:class:`crdtsync.core.agenda.NodePart`.
"""
_SHORTEST_S = BOUNDS_S[0]
UNMEASURED = "unmeasured"
"""The kind of slow holds that only a late timer tells of."""
WORK = {
    "settle": "brings the journal into the tables",
    "flush": "flushes the tables so that the journal's file begins anew",
    "checkpoint": "moves the end of the write-ahead log into the database",
    "vacuum": "gives free space in the database back to the disk",
    "garbage": "looks for objects that nothing refers to",
    "plan": "works out when the next turn is due",
    "disk": "looks at the room on the disk",
    "usage": "looks at how full everything is",
    "digests": "sums up what is stored, for comparing it with peers",
    "metrics": "answers with these figures",
    "join": "begins anew as a member of another cluster",
    "release": "gives memory back that only the start needed",
}
"""Work in the background, by name: what the daemon does."""
CPU_INTERVAL_S = 0.02
"""How often the thread's processor time is read at most: that takes 0.2 to 3 µs, and no vDSO knows it."""
EVENTS_KEPT_MAX = 1024
"""So many of a turn are kept until it is over, the last ones: what they write waits in memory for its commit anyway."""


class Hold(NamedTuple):
    """One that was slow. ``stages`` in seconds; ``work``: what ran in the background, likewise; ``events``: what it was
    about, the last of it at least; ``ready``: what came of it, if anything did; ``cpu_s_max``: so much processor time
    the loop took for it at most. The rest it waited, for the disk or for a processor.
    """

    kind: str
    held_s: float
    stages: Mapping[str, float]
    work: Mapping[str, float]
    events: Sequence[Event]
    ready: Ready | None
    cpu_s_max: float


class TurnTimes:
    """The turn times of one event loop, in whose thread all is called. ``tell`` is called with each slow hold.

    The driver sets ``since_s`` when the loop begins to be held (0.0: it is free), and adds to ``events``. If a turn
    follows it sets ``has_turn``, then when its stages ended (``stepped_s``, ``readied_s``, ``committed_s``), and calls
    :meth:`over`; else it calls :meth:`at_once`.
    """

    __slots__ = (
        "_collecting", "_commit", "_cpu_clock", "_cpu_due_s", "_cpu_s", "_deliver", "_ready", "_stages", "_step",
        "_tell", "_thread", "_work", "clock", "committed_s", "events", "has_turn", "held", "held_s", "lag", "readied_s",
        "since_s", "slow", "stepped_s", "work_sums",
    )  # fmt: skip

    def __init__(
        self,
        tell: Callable[[Hold], None],
        clock: Callable[[], float] = monotonic,
        cpu_clock: Callable[[], float] = thread_time,
    ) -> None:
        self._tell = tell
        self.clock = clock
        self._cpu_clock = cpu_clock
        self._cpu_s = cpu_clock()
        self._cpu_due_s = 0.0
        self._thread = get_ident()
        self.since_s = self.stepped_s = self.readied_s = self.committed_s = 0.0
        self.has_turn = False
        self.events: deque[Event] = deque(maxlen=EVENTS_KEPT_MAX)
        self._work: dict[str, float] = {}
        self._collecting: tuple[float, bool] | None = None
        self._stages = {stage: Durations() for stage in STAGES}
        self._step, self._ready, self._commit, self._deliver = self._stages.values()
        self.held = {kind: Durations() for kind in KINDS}
        self.held_s = 0.0
        """The sum of all holds that are over."""
        self.slow = dict.fromkeys((*KINDS, UNMEASURED), 0)
        self.lag = Durations()
        self.work_sums = dict.fromkeys(WORK, (0, 0.0))
        """How often each kind of work ran in the background, and how long in all."""

    # -- turns ---------------------------------------------------------------------------------------------------

    def at_once(self) -> None:
        """Nothing follows from what has been done; unless a turn is under way the loop is free."""
        if not self.has_turn and self.since_s:
            held_s = self.clock() - self.since_s
            if held_s > SLOW_TURN_S:
                self._was_slow("at_once", held_s, {})
            self._free("at_once", held_s)

    def over(self, kind: str, ready: Ready | None) -> None:
        """A turn has ended; ``ready`` came of it, or it has failed: what that took counts as its last stage."""
        now_s, stepped_s, readied_s, committed_s = self.clock(), self.stepped_s, self.readied_s, self.committed_s
        since_s = self.since_s or stepped_s
        times, took_s = self._step, stepped_s - since_s  # written out: with calls it would all cost a third more
        times.sum_s += took_s
        if took_s > _SHORTEST_S:
            times.counts[bisect_left(BOUNDS_S, took_s)] += 1
        times, took_s = self._ready, readied_s - stepped_s
        times.sum_s += took_s
        if took_s > _SHORTEST_S:
            times.counts[bisect_left(BOUNDS_S, took_s)] += 1
        times, took_s = self._commit, committed_s - readied_s
        times.sum_s += took_s
        if took_s > _SHORTEST_S:
            times.counts[bisect_left(BOUNDS_S, took_s)] += 1
        times, took_s = self._deliver, now_s - committed_s
        times.sum_s += took_s
        if took_s > _SHORTEST_S:
            times.counts[bisect_left(BOUNDS_S, took_s)] += 1
        held_s = now_s - since_s
        if held_s > SLOW_TURN_S:
            moments = (since_s, stepped_s, readied_s, committed_s, now_s)
            stages = dict(zip(STAGES, (to - at for at, to in pairwise(moments)), strict=True))
            self._was_slow(kind, held_s, stages, ready)
        self.has_turn = False
        self._free(kind, held_s)

    @property
    def stages(self) -> dict[str, Durations]:
        """How long the stages of all turns took. Each turn has each of them: so the shortest need no counting."""
        turns = sum(sum(self.held[kind].counts) for kind in ("full", "short"))
        for times in self._stages.values():
            times.counts[0] = turns - sum(times.counts[1:])
        return self._stages

    def _free(self, kind: str, held_s: float) -> None:
        """The loop is free again."""
        self.since_s = 0.0
        self.held_s += held_s
        self.held[kind].note(held_s)
        self.events.clear()
        if self._work:
            self._work.clear()

    def _was_slow(self, kind: str, held_s: float, stages: Mapping[str, float], ready: Ready | None = None) -> None:
        self.slow[kind] += 1
        cpu_s_max = min(held_s, self._take_cpu_s())
        self._tell(Hold(kind, held_s, stages, dict(self._work), tuple(self.events), ready, cpu_s_max))

    def _take_cpu_s(self) -> float:
        """The processor time since this was called last."""
        before_s, self._cpu_s = self._cpu_s, self._cpu_clock()
        return self._cpu_s - before_s

    # -- work in the background ----------------------------------------------------------------------------------

    @contextmanager
    def work(self, name: str) -> Iterator[None]:
        """Around something of :data:`WORK` that is done in the loop's thread, without waiting.

        Work within work counts for both.
        """
        started_s = self.clock()
        is_first = self._hold(started_s)
        try:
            yield
        finally:
            self._worked(name, started_s, is_first)

    def collected(self, phase: str, _info: Mapping[str, Any]) -> None:
        """For :data:`gc.callbacks`: the interpreter looks for garbage, or has. Other threads hold up the loop too."""
        if phase == "start":
            now_s = self.clock()
            self._collecting = (now_s, get_ident() == self._thread and self._hold(now_s))
        elif self._collecting is not None:
            started_s, is_first = self._collecting
            self._collecting = None
            self._worked("garbage", started_s, is_first)

    def _hold(self, now_s: float) -> bool:
        """The loop is held. Whether it was free before."""
        if self.since_s:
            return False
        self.since_s = now_s
        return True

    def _worked(self, name: str, started_s: float, is_first: bool) -> None:
        now_s = self.clock()
        count, sum_s = self.work_sums[name]
        self.work_sums[name] = (count + 1, sum_s + now_s - started_s)
        self._work[name] = self._work.get(name, 0.0) + now_s - started_s
        if is_first and not self.has_turn:
            held_s = now_s - (self.since_s or now_s)
            if held_s > SLOW_TURN_S:
                self._was_slow("outside", held_s, {})
            self._free("outside", held_s)

    # -- timers that come late -----------------------------------------------------------------------------------

    def came_late(self, due_s: float, held_before_s: float) -> None:
        """A timer came that was due then; ``held_before_s`` is what :attr:`held_s` was when it was set."""
        now_s = self.clock()
        lag_s = max(0.0, now_s - due_s)
        self.lag.note(lag_s)
        if lag_s > SLOW_TURN_S:
            under_way_s = now_s - self.since_s if self.since_s else 0.0
            if lag_s - (self.held_s - held_before_s) - under_way_s > SLOW_TURN_S:
                self.slow[UNMEASURED] += 1
                self._tell(Hold(UNMEASURED, lag_s, {}, {}, (), None, min(lag_s, self._cpu_clock() - self._cpu_s)))
        if now_s >= self._cpu_due_s and not self.since_s:  # amid a hold it would be lost what that has taken
            self._cpu_due_s = now_s + CPU_INTERVAL_S
            self._take_cpu_s()
