"""What the log says of a slow turn: enough to know what to look at, and no more lines than somebody reads."""

from __future__ import annotations

from typing import Any

import pytest
from crdtsyncd.telemetry.slow_turns import LINES_PER_MINUTE_MAX, SlowTurns, operation_of
from crdtsyncd.telemetry.turn_times import Hold

from crdtsync.core.agents.frames import Reply
from crdtsync.core.interface import AgentFrame, Event, PeerFrame, Ready, Tick
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.wire.codec import pack
from crdtsync.wire.peer.changes import Ack, Changes

NO_EVENTS = Hold("outside", 0.1234, {}, {"settle": 0.12}, (), None, 0.1)


class Log:
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.now_s = 1000.0
        names = {1: "planner", 2: "critic"}
        self.slow = SlowTurns(self, lambda conn: names.get(conn, ""), lambda: self.now_s)

    def __call__(self, event: str, level: str = "info", **fields: object) -> None:
        assert (event, level) == ("slow_turn", "warning")
        self.lines.append(fields)


@pytest.fixture
def log() -> Log:
    return Log()


def asked(conn: int, operation: str, size: int = 0) -> AgentFrame:
    return AgentFrame(conn, pack([7, operation, {"value": b"x" * size}]))


def test_it_names_requests_agents_messages_and_work(log: Log) -> None:
    batch = WriteBatch()
    batch.own_changes = 1
    batch.metas.extend([("a", None), ("b", None)])
    changes = Changes("default", 0, [b"body"]).encode()
    ack = Ack(1, []).encode()
    ready = Ready(batch, [(9, ack), (9, changes)], [Reply(1, 7, b"done"), Reply(2, None, b"told")], [], [])
    batched = asked(2, "batch", 100_000)
    events: list[Event] = [
        asked(1, "set"),
        asked(1, "set"),
        batched,
        asked(3, "get"),
        PeerFrame(9, changes),
        Tick(),
    ]
    stages = {"step": 0.07, "ready": 0.001, "commit": 0.0105, "deliver": 0.0}
    log.slow.tell(Hold("full", 0.0815, stages, {"garbage": 0.0234}, events, ready, 0.0712))
    small = len(asked(1, "set").payload)
    assert log.lines == [
        {
            "kind": "full", "ms": 81.5, "cpu_ms_max": 71.2,
            "step_ms": 70.0, "ready_ms": 1.0, "commit_ms": 10.5, "deliver_ms": 0.0,
            "work_ms": {"garbage": 23.4},
            "requests": {
                "batch": {"count": 1, "bytes": len(batched.payload)},
                "set": {"count": 2, "bytes": 2 * small},
                "get": {"count": 1, "bytes": small},
            },
            "agents": ["critic", "planner", "connection 3"],
            "messages": {"CHANGES": {"count": 1, "bytes": len(changes)}},
            "other_events": {"Tick": 1},
            "wrote_rows": {"metas": 2},
            "sent": {
                "ACK": {"count": 1, "bytes": len(ack)},
                "CHANGES": {"count": 1, "bytes": len(changes)},
                "events": {"count": 1, "bytes": 4},
                "replies": {"count": 1, "bytes": 4},
            },
        }
    ]  # fmt: skip


def test_what_there_is_none_of_is_left_out(log: Log) -> None:
    log.slow.tell(NO_EVENTS)
    assert log.lines == [{"kind": "outside", "ms": 123.4, "cpu_ms_max": 100.0, "work_ms": {"settle": 120.0}}]


def test_a_storm_does_not_fill_the_log(log: Log) -> None:
    for number in range(100):
        log.slow.tell(NO_EVENTS._replace(held_s=0.1 + number))
    assert len(log.lines) == LINES_PER_MINUTE_MAX
    log.slow.tell(NO_EVENTS._replace(kind="full"))
    assert log.lines[-1]["kind"] == "full", "those of another kind are told all the same"
    assert (log.lines[-1]["left_out"], log.lines[-1]["left_out_ms_max"]) == (100 - LINES_PER_MINUTE_MAX, 99_100.0)
    log.now_s += 61
    log.slow.tell(NO_EVENTS)
    assert "left_out" not in log.lines[-1]


@pytest.mark.parametrize(
    "payload", [b"", b"\x93", b"\xc1", pack([1, 2, {}]), pack("set"), pack([1, "set"]), b"\xdd\xff\xff\xff\xff"]
)
def test_a_request_that_is_none_has_no_operation(payload: bytes) -> None:
    assert operation_of(payload) == "?"


def test_an_operation_is_found_in_a_request_of_any_length() -> None:
    assert operation_of(asked(1, "text_apply", 1 << 20).payload) == "text_apply"
    assert len(operation_of(pack([1, "x" * 40, {}]))) == 32
    assert operation_of(pack([1, "x" * 100, {}])) == "?", "of this no operation has the beginning alone"


def busy(*events: Event, cpu_s: float = 0.2, work: str = "settle") -> Hold:
    return Hold("full", 0.3, {}, {work: 0.1}, events, None, cpu_s)


def test_what_holds_the_loop_again_and_again_is_named(log: Log) -> None:
    told = ""
    for _ in range(2):
        for _ in range(3):
            log.slow.tell(busy(asked(1, "set"), asked(2, "batch", 1000)))
        log.slow.tell(busy(cpu_s=0.25))
        told = log.slow.look()
    assert told == (
        "turns took up to 250 ms of processor time, 4 of them lately: batch of agent critic, work of its own (settle)"
    )
    assert log.slow.look() == "", "it is over"


@pytest.mark.parametrize("turns, cpu_s", [(2, 0.2), (9, 0.04)])
def test_what_holds_it_seldom_or_waits_for_the_disk_is_not(log: Log, turns: int, cpu_s: float) -> None:
    for _ in range(3):
        for _ in range(turns):
            log.slow.tell(busy(asked(1, "set"), cpu_s=cpu_s))
        assert log.slow.look() == ""
