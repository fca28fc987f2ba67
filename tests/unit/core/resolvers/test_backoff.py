"""Rounds of answers: which conflicts are slowed down, and how long that is kept in mind."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.causality import Dot, Hlc, Writer
from crdtsync.core.alarms import Alarms
from crdtsync.core.resolvers.backoff import ROUNDS_ALARM, ROUNDS_FREE, RoundBackoff
from crdtsync.wire.change import NO_HASH, Change, Op, value_hash
from crdtsync.wire.kinds import Kind

AGENTS = (Dot(Writer(1), 1, 0), Dot(Writer(2), 1, 0))
START_S = 1000.0


class Answering:
    """Resolvers that answer a conflict of agents, or what others have answered."""

    def __init__(self) -> None:
        self.alarms = Alarms(lambda *_, **__: None)
        self.backoff = RoundBackoff("node", "default", self.alarms)
        self.writers = 10

    def answer(self, removes: tuple[Dot, ...] = AGENTS, now_s: float = START_S) -> Dot:
        self.writers += 1
        value = bytes([self.writers])
        op: Any = Op("k", None, Kind.REGISTER, value, value_hash(value), removes, None)
        writer = Writer(self.writers)
        self.backoff.answered("k", Change(writer, 1, (), NO_HASH, Hlc(1), "a", None, (op,)), [], now_s)
        return Dot(writer, 1, 0)

    def fight(self, rounds: int) -> tuple[Dot, ...]:
        """Two that never agree: what is in conflict after so many rounds."""
        dots = AGENTS
        for _ in range(rounds):
            dots = (self.answer(dots), self.answer(dots))
        return dots

    def wait_s(self, *dots: Dot) -> float:
        return self.backoff.hold_s("k", dots, START_S) - START_S

    def is_alarmed(self) -> bool:
        return any(alarm.code == "resolvers_disagree" for alarm in self.alarms.raised())

    def forget_due(self, now_s: float) -> bool:
        """As the queue does for a key that is no longer in conflict."""
        key = self.backoff.due(now_s)
        if key is not None:
            self.backoff.forget(key)
        return key is not None


@pytest.mark.parametrize("rounds", range(1, 14))
def test_each_round_of_a_fight_doubles_the_longest_wait(rounds: int) -> None:
    many = Answering()
    wait_s = many.wait_s(*many.fight(rounds))
    assert (0 < wait_s <= min(3600, 2**rounds)) if rounds > ROUNDS_FREE else wait_s == 0
    assert many.is_alarmed() is (rounds >= ROUNDS_ALARM)


def test_a_value_of_an_agent_begins_anew() -> None:
    many = Answering()
    fought = many.fight(6)
    assert many.wait_s(*fought) > 0
    assert many.wait_s(*fought, Dot(Writer(3), 1, 0)) == 0
    settled = many.answer((*fought, Dot(Writer(3), 1, 0)))
    assert many.wait_s(settled, many.answer()) == 0


def test_sides_that_come_one_after_the_other_are_not_slowed_down() -> None:
    many = Answering()
    met = many.answer()
    for _ in range(20):
        other = many.answer()
        assert many.wait_s(met, other) == 0
        met = many.answer((met, other))


@pytest.mark.parametrize("sides, is_slowed", [(2, False), (4, False), (8, True)])
def test_sides_that_meet_two_by_two(sides: int, is_slowed: bool) -> None:
    many = Answering()
    answers = [many.answer() for _ in range(sides)]
    while len(answers) > 2:
        answers = [many.answer(pair) for pair in zip(answers[::2], answers[1::2], strict=True)]
    assert (many.wait_s(*answers) > 0) is is_slowed
    assert not many.is_alarmed()


@pytest.mark.parametrize("later_s, is_slowed", [(29.9, True), (30.0, False)])
def test_rounds_are_kept_in_mind_for_30_s_after_the_conflict(later_s: float, is_slowed: bool) -> None:
    many = Answering()
    fought = many.fight(6)
    many.wait_s(*fought)
    many.backoff.settled("k", START_S + 5)
    assert many.forget_due(START_S + 5 + later_s) is not is_slowed
    assert (many.wait_s(*fought) > 0) is is_slowed


def test_the_alarm_ends_when_the_rounds_are_forgotten() -> None:
    many = Answering()
    many.wait_s(*many.fight(ROUNDS_ALARM))
    assert many.is_alarmed()
    assert many.forget_due(START_S + 30)
    assert not many.is_alarmed()


def test_no_more_answers_and_keys_are_kept_in_mind_than_the_bounds_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtsync.core.resolvers.backoff.ROUND_ANSWERS_MAX", 4)
    many = Answering()
    assert many.wait_s(*many.fight(6)) > 0
    assert [len(rounds) for rounds in many.backoff._rounds.values()] == [4]
    monkeypatch.setattr("crdtsync.core.resolvers.backoff.ROUNDS_KEYS_MAX", 0)
    many.answer()
    assert not many.backoff._rounds
    assert many.backoff.next_due() is None
