"""How long the event loop is held: all of it counts, each stage and what comes between, under a clock of the test's."""

from __future__ import annotations

from threading import Thread

import pytest
from crdtsyncd.telemetry.commit_histogram import BOUNDS_S
from crdtsyncd.telemetry.turn_times import EVENTS_KEPT_MAX, KINDS, SLOW_TURN_S, STAGES, Hold, TurnTimes

from crdtsync.core.interface import AgentFrame, Ready, Tick
from crdtsync.core.storage.write_batch import WriteBatch

READY = Ready(WriteBatch(), [], [], [], [])


class Loop:
    """A loop of which the test says what it does and how long that takes."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slow: list[Hold] = []
        self.cpu_s = 7.0
        self.times = TurnTimes(self.slow.append, lambda: self.now_s, lambda: self.cpu_s)

    def takes(self, ms: float) -> None:
        self.now_s += ms / 1000

    def event(self, ms: float = 0.0, *, has_turn: bool = True) -> None:
        """An event is stepped, as the driver does it."""
        times = self.times
        times.since_s = times.since_s or self.now_s
        times.events.append(AgentFrame(1, b"frame"))
        times.has_turn |= has_turn
        self.takes(ms)

    def end(self, ready_ms: float = 0.0, commit_ms: float = 0.0, deliver_ms: float = 0.0, kind: str = "full") -> None:
        times = self.times
        times.stepped_s = self.now_s
        self.takes(ready_ms)
        times.readied_s = self.now_s
        self.takes(commit_ms)
        times.committed_s = self.now_s
        self.takes(deliver_ms)
        times.over(kind, READY)

    def stages_ms(self) -> list[float]:
        return [round(self.times.stages[stage].sum_s * 1000, 3) for stage in STAGES]

    def held(self) -> dict[str, tuple[int, float]]:
        """How often by kind, and how many ms in all."""
        found = {kind: self.times.held[kind] for kind in KINDS}
        return {
            kind: (sum(each.counts), round(each.sum_s * 1000, 3)) for kind, each in found.items() if any(each.counts)
        }


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_the_stages_of_a_turn_follow_each_other_without_a_gap(loop: Loop) -> None:
    loop.event(3)
    loop.takes(2)  # another callback
    loop.event(1)
    loop.end(4, 5, 6)
    assert loop.stages_ms() == [6, 4, 5, 6]
    assert loop.held() == {"full": (1, 21)}


def test_each_stage_of_each_turn_is_counted_by_how_long_it_took(loop: Loop) -> None:
    loop.event(0.05)
    loop.end(0.15, 3, 10_000)
    loop.event(0.3)
    loop.end(kind="short")
    loop.event(1, has_turn=False)
    loop.times.at_once()
    buckets = {
        stage: [n for n, count in enumerate(times.counts) for _ in range(count)]
        for stage, times in loop.times.stages.items()
    }
    assert buckets == {"step": [0, 2], "ready": [0, 1], "commit": [0, 5], "deliver": [0, len(BOUNDS_S)]}
    assert loop.times.stages["ready"].counts[0] == 1, "also when somebody asks again"


def test_a_turn_that_begins_with_its_end_has_taken_no_time_to_step(loop: Loop) -> None:
    """As at the start of the daemon, which ends a turn without an event."""
    loop.takes(7)
    loop.end(commit_ms=1, kind="short")
    assert loop.stages_ms() == [0, 0, 1, 0]
    assert loop.held() == {"short": (1, 1)}


def test_the_loop_is_free_between_two_turns(loop: Loop) -> None:
    for _ in range(2):
        loop.event(1)
        loop.end()
        loop.takes(10_000)
    assert loop.held() == {"full": (2, 2)}
    assert not loop.slow


def test_reads_that_are_answered_at_once_hold_the_loop_together(loop: Loop) -> None:
    for _ in range(3):
        loop.event(20, has_turn=False)
    loop.times.at_once()
    assert loop.held() == {"at_once": (1, 60)}
    assert [(hold.kind, len(hold.events)) for hold in loop.slow] == [("at_once", 3)]
    loop.times.at_once()
    assert loop.held() == {"at_once": (1, 60)}


def test_reads_before_a_write_are_part_of_its_turn(loop: Loop) -> None:
    loop.event(1, has_turn=False)
    loop.event(2)
    loop.times.at_once()
    loop.end()
    assert loop.held() == {"full": (1, 3)}


def test_a_turn_is_slow_over_the_bound_and_not_at_it(loop: Loop) -> None:
    assert SLOW_TURN_S in BOUNDS_S, "so that the histogram can tell it too"
    loop.now_s = 0.5  # so that sums are exact
    for ms in (31.25, 62.5):
        loop.event(ms)
        loop.end()
    assert [hold.held_s for hold in loop.slow] == [0.0625]
    assert loop.times.slow["full"] == 1


def test_a_slow_turn_is_told_with_its_stages_and_what_was_in_it(loop: Loop) -> None:
    loop.event(10)
    with loop.times.work("settle"):
        loop.takes(15)
    loop.end(1, 20, 30)
    (hold,) = loop.slow
    assert hold.kind == "full"
    assert {stage: round(took_s, 3) for stage, took_s in hold.stages.items()} == {
        "step": 0.025, "ready": 0.001, "commit": 0.02, "deliver": 0.03,
    }  # fmt: skip
    assert {name: round(took_s, 3) for name, took_s in hold.work.items()} == {"settle": 0.015}
    assert list(hold.events) == [AgentFrame(1, b"frame")]
    assert hold.ready is READY
    loop.event(60)
    loop.end()
    assert loop.slow[1].work == {}, "what was in the turn before is not in this one"
    assert len(loop.slow[1].events) == 1


def test_of_a_slow_turn_is_known_how_much_of_it_was_spent_computing_at_most(loop: Loop) -> None:
    """So that a slow machine is told from a slow daemon."""
    loop.cpu_s += 0.3  # before
    loop.times.came_late(loop.now_s, loop.times.held_s)
    loop.event(80)
    loop.cpu_s += 0.02
    loop.end()
    assert loop.slow[0].cpu_s_max == pytest.approx(0.02)
    loop.event(80)
    loop.cpu_s += 0.5
    loop.end()
    assert loop.slow[1].cpu_s_max == loop.slow[1].held_s, "reads that came before it are in this, and it took no more"


def test_a_timer_amid_a_slow_turn_takes_nothing_off_what_it_computed(loop: Loop) -> None:
    loop.event(80)
    loop.cpu_s += 0.06
    loop.times.came_late(loop.now_s - 0.06, loop.times.held_s)
    loop.end()
    assert loop.slow[0].cpu_s_max == pytest.approx(0.06)


def test_of_a_turn_with_very_many_events_the_last_are_kept(loop: Loop) -> None:
    for _ in range(EVENTS_KEPT_MAX):
        loop.event()
    loop.times.events.append(Tick())
    loop.event(60)
    loop.end()
    assert len(loop.slow[0].events) == EVENTS_KEPT_MAX
    assert isinstance(loop.slow[0].events[-2], Tick)


def test_work_outside_of_turns_holds_the_loop_too(loop: Loop) -> None:
    with loop.times.work("vacuum"):
        loop.takes(40)
        with loop.times.work("settle"):
            loop.takes(30)
    assert loop.held() == {"outside": (1, 70)}
    assert [hold.kind for hold in loop.slow] == ["outside"]
    sums = loop.times.work_sums
    assert {name: (count, round(sum_s, 3)) for name, (count, sum_s) in sums.items() if count} == {
        "settle": (1, 0.03), "vacuum": (1, 0.07),
    }  # fmt: skip


def test_work_that_fails_is_measured(loop: Loop) -> None:
    def fail() -> None:
        with loop.times.work("settle"):
            loop.takes(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert loop.held() == {"outside": (1, 1)}


def test_a_turn_that_work_brings_about_begins_with_that_work(loop: Loop) -> None:
    with loop.times.work("disk"):
        loop.takes(5)
        loop.event(2)
        loop.takes(1)
    assert loop.held() == {}, "the turn is still to come to its end"
    loop.end(1)
    assert loop.held() == {"full": (1, 9)}
    assert loop.stages_ms() == [8, 1, 0, 0]


def test_a_turn_that_ends_within_work_is_not_counted_twice(loop: Loop) -> None:
    with loop.times.work("join"):
        loop.event(3)
        loop.end()
        loop.takes(4)
    assert loop.held() == {"full": (1, 3), "outside": (1, 0)}


def test_a_look_for_garbage_is_work(loop: Loop) -> None:
    def look() -> None:
        loop.times.collected("start", {})
        loop.takes(60)
        loop.times.collected("stop", {})

    look()
    assert loop.held() == {"outside": (1, 60)}
    loop.event()
    look()
    loop.end()
    assert [list(hold.work) for hold in loop.slow] == [["garbage"], ["garbage"]]
    elsewhere = Thread(target=look)
    elsewhere.start()
    elsewhere.join()
    assert sum(count for count, _ in loop.held().values()) == 2, "the loop's own thread knows when it is held"
    assert loop.times.work_sums["garbage"][0] == 3


def test_a_late_timer_tells_of_what_nothing_else_measures(loop: Loop) -> None:
    before_s = loop.times.held_s
    loop.takes(70)  # a TLS handshake
    loop.times.came_late(loop.now_s - 0.065, before_s)
    (hold,) = loop.slow
    assert hold.kind == "unmeasured"
    assert hold.held_s == pytest.approx(0.065)
    assert loop.times.slow["unmeasured"] == 1
    assert sum(loop.times.lag.counts) == 1


def test_a_timer_that_is_late_for_a_slow_turn_says_nothing_new(loop: Loop) -> None:
    before_s = loop.times.held_s
    loop.event(70)
    loop.end()
    loop.times.came_late(loop.now_s - 0.069, before_s)
    loop.event(70)  # and in the middle of one
    loop.times.came_late(loop.now_s - 0.069, loop.times.held_s)
    assert loop.times.slow["unmeasured"] == 0


def test_a_timer_that_comes_early_was_not_late(loop: Loop) -> None:
    loop.times.came_late(loop.now_s + 0.0005, 0.0)
    assert (loop.times.lag.counts[0], loop.times.lag.sum_s) == (1, 0.0)
