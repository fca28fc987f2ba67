"""A peer that gets nowhere is found; one that is slow is waited for."""

from __future__ import annotations

import pytest

from crdtsync.core.peers.liveness import PROBE_ANSWER_S_MAX, PROBE_INTERVAL_S, PROBE_TIMEOUT_S, Liveness
from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Link, Peer
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.messages import decode_message
from crdtsync.wire.peer.probes import PROBES, Probe, Probed

NOW_MS = 1_800_000_000_000


class Stage:
    def __init__(self, features: tuple[str, ...] = (PROBES,)) -> None:
        self.outbox = Outbox()
        self.link = Link(1, "ws://b", True, 0.0)
        self.liveness = Liveness({1: self.link}, self.outbox)
        self.link.hello = Hello("b", "b", b"", b"", {}, 0, features=features)
        self.peer = Peer("b", "b")
        self.now_s = 100.0

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self.liveness.tick(self.now_s)

    def sent(self) -> list[object]:
        sends, self.outbox.sends = self.outbox.sends, []
        return [decode_message(data) for _, data in sends]

    def answer(self, number: int, time_ms: int = NOW_MS, now_ms: int = NOW_MS) -> None:
        self.liveness.answered(self.link, self.peer, Probed(number, time_ms), self.now_s, now_ms)

    @property
    def closed(self) -> list[str]:
        return [reason for _, reason in self.outbox.closes]


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.pass_time(0)
    assert made.sent() == [Probe(1)]
    return made


def test_a_peer_that_answers_is_asked_again_and_again(stage: Stage):
    for number in range(1, 10):
        stage.answer(number)
        stage.pass_time(PROBE_INTERVAL_S - 0.1)
        assert stage.sent() == []
        stage.pass_time(0.1)
        assert stage.sent() == [Probe(number + 1)]
    assert stage.closed == []


def test_a_peer_that_does_not_answer_is_closed_once(stage: Stage):
    stage.pass_time(PROBE_TIMEOUT_S - 0.1)
    assert stage.closed == []
    for _ in range(3):
        stage.pass_time(0.1)
    assert stage.closed == ["it has got nowhere for 20 s: it does not answer"]
    assert stage.liveness.deadline_s() is None


def test_an_answer_to_another_probe_is_none(stage: Stage):
    stage.answer(7)
    stage.pass_time(PROBE_TIMEOUT_S)
    assert stage.closed


def test_it_is_waited_for_while_bytes_flow_but_not_for_ever(stage: Stage):
    waited_s = 0.0
    while waited_s < PROBE_ANSWER_S_MAX - 1:
        stage.liveness.flowed(stage.link, stage.now_s)
        stage.pass_time(1)
        waited_s += 1
    assert stage.closed == []
    stage.liveness.flowed(stage.link, stage.now_s)
    stage.pass_time(1)
    assert stage.closed


def test_what_a_clock_is_ahead_is_told_from_the_way_there_and_back(stage: Stage):
    stage.now_s += 0.4
    stage.answer(1, time_ms=NOW_MS + 5000, now_ms=NOW_MS + 200)
    assert stage.link.rtt_ms == pytest.approx(400)
    assert stage.peer.clock_skew_ms == 5000


def test_an_answer_that_was_long_under_way_says_nothing_of_the_time(stage: Stage):
    stage.peer.clock_skew_ms = 7
    stage.now_s += 14
    stage.answer(1, time_ms=NOW_MS, now_ms=NOW_MS + 14_000)  # all of that on the way back
    assert stage.link.rtt_ms == pytest.approx(14_000)
    assert stage.peer.clock_skew_ms == 7


def test_it_says_when_it_wants_to_be_called(stage: Stage):
    assert stage.liveness.deadline_s() == 100 + PROBE_TIMEOUT_S
    stage.answer(1)
    assert stage.liveness.deadline_s() == 100 + PROBE_INTERVAL_S


def test_a_node_answers_with_its_time(stage: Stage):
    stage.liveness.answer(stage.link, Probe(5), NOW_MS)
    assert stage.sent() == [Probed(5, NOW_MS)]


def test_an_older_version_is_not_asked():
    stage = Stage(features=())
    stage.pass_time(1000)
    assert stage.sent() == stage.closed == []
