"""Answers of resolvers that contradict each other, and how long they are kept in mind."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.causality import Dot, Hlc, Writer
from crdtsync.core.alarms import Alarms
from crdtsync.core.resolvers.disagreements import Rounds
from crdtsync.wire.change import NO_HASH, Change, Kind, Op, value_hash

ASKED = (Dot(Writer(1), 1, 0), Dot(Writer(2), 1, 0))
START_S = 1000.0


class Answering:
    """Resolvers of several nodes that each answer the same conflict, or what another has answered."""

    def __init__(self) -> None:
        self.alarms = Alarms(lambda *_, **__: None)
        self.rounds = Rounds("node", "default", self.alarms)
        self.writers = 10

    def answer(self, now_s: float, removes: tuple[Dot, ...] = ASKED) -> Dot:
        self.writers += 1
        value = bytes([self.writers])
        op: Any = Op("k", None, Kind.REGISTER, value, value_hash(value), removes, None)
        writer = Writer(self.writers)
        self.rounds.answered("k", Change(writer, 1, (), NO_HASH, Hlc(1), "a", None, (op,)), [], now_s)
        return Dot(writer, 1, 0)

    def forget_due(self, now_s: float) -> bool:
        """As the docket does for a key that is no longer in conflict."""
        key = self.rounds.due(now_s)
        if key is not None:
            self.rounds.forget(key)
        return key is not None


@pytest.mark.parametrize("later_s, is_contradicted", [(29.9, True), (30.0, False)])
def test_an_answer_is_kept_in_mind_for_30_s_after_the_conflict(later_s: float, is_contradicted: bool) -> None:
    many = Answering()
    many.answer(START_S)
    many.rounds.settled("k", START_S + 5)
    assert many.forget_due(START_S + 5 + later_s) is not is_contradicted
    many.answer(START_S + 5 + later_s)
    assert (many.rounds.take_hold("k") > 0) is is_contradicted
