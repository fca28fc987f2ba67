"""Resolvers without a socket: what they ask of the daemon, and what their answers become."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from crdtsync.client.operations.conflict_answer import answering
from crdtsync.client.operations.keys import Operations
from crdtsync.client.protocol.frames import ERROR, EVENTS, RESULT
from crdtsync.client.session.read_memory import ReadMemory
from crdtsync.client.streams.resolver_state import (
    Conflict,
    Decline,
    Merge,
    ResolverState,
    conflict_from_wire,
    reason_of,
)
from crdtsync.errors import InvalidRequest, InvalidValue, Timeout


def packed(value: object) -> bytes:
    return bytes(msgpack.packb(value))


def part(value: object, dot: str, kind: str = "register", **more: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "value": None if value is ... else packed(value),
        "dot": dot,
        "agent": "a",
        "node": "n",
        **more,
    }


def asked(*parts: dict[str, Any], key: str = "k") -> dict[str, Any]:
    winner, *others = parts
    return {"event": "conflict", "key": key, "version": "v1.x", **winner, "siblings": others}


def request_of(frame: bytes) -> list[Any]:
    plain: list[Any] = msgpack.unpackb(frame[4:])
    return plain


def call_of(conflict: Conflict, answer: object) -> tuple[str, dict[str, Any]]:
    """The request that an answer becomes."""
    call = answering(Operations(), conflict, answer, 1.0)
    return call.operation, call.arguments


@pytest.fixture
def state() -> ResolverState:
    return ResolverState(ReadMemory(), "plan/*", {"takeover": 5000, "space": "team"})


def test_it_registers_anew_on_each_connection_and_forgets_what_it_had_been_asked(state):
    first = request_of(state.request())
    assert first == [2, "resolver", {"pattern": "plan/*", "takeover": 5000, "space": "team"}]
    assert not state.is_confirmed
    assert state.take((2, RESULT, {}))
    assert state.is_confirmed
    state.take((2, EVENTS, [asked(part("a", "1.1.0"), part("b", "1.2.0"))]))
    assert request_of(state.request()) == first
    assert state.attachment == 2
    assert state.next_event() is None


def test_a_conflict_shows_all_values(state):
    state.request()
    state.take((2, EVENTS, [asked(part("a", "1.1.0"), part("b", "1.2.0", confidence=0.5))]))
    event = state.next_event()
    assert event is not None
    assert (event.event, event.key) == ("conflict", "k")
    assert state.conflict is not None
    assert state.conflict.values == ["a", "b"]
    assert [entry.confidence for entry in state.conflict.entries] == [None, 0.5]
    assert not state.conflict.is_partial
    assert state.conflict.version == "v1.x"


def test_to_be_done_has_a_number_of_its_own_and_its_answer_is_passed_over(state):
    state.request()
    one, other = request_of(state.done("k", None)), request_of(state.done("k", "x" * 1000))
    assert one == [3, "resolver_done", {"resolver": 2, "key": "k"}]
    assert (other[0], len(other[2]["error"])) == (4, 300)
    assert not state.take((3, ERROR, {"code": "invalid_request", "message": "asked somebody else"}))
    with pytest.raises(InvalidRequest):
        state.take((2, ERROR, {"code": "invalid_request", "message": "no pattern"}))


def test_a_value_replaces_what_was_shown():
    conflict = conflict_from_wire(asked(part("a", "1.1.0"), part("b", "1.2.0")))
    assert call_of(conflict, "ab") == (
        "resolve",
        {"key": "k", "value": packed("ab"), "seen": "v1.x", "strict": True, "timeout": 1000},
    )
    assert call_of(conflict, None)[1]["value"] == packed(None)
    assert call_of(conflict, conflict.take(conflict.entries[1]))[1]["take"] == "1.2.0"
    assert call_of(conflict, conflict.take("1.1.0"))[1]["take"] == "1.1.0"
    with pytest.raises(InvalidValue, match="not the dot"):
        conflict.take("9.9.9")
    with pytest.raises(InvalidValue):
        call_of(conflict, {1, 2})


def test_fields_of_a_map_are_merged():
    whole = part({"name": "b", "age": 1}, "1.2.0", "map")
    conflict = conflict_from_wire(asked(whole, part("a", "1.1.0", "map", field="name")))
    assert conflict.fields == {"name"}
    operation, arguments = call_of(conflict, {"name": "ab", "age": 1, "city": "x"})
    assert operation == "merge"
    assert arguments["fields"] == {"name": packed("ab"), "city": packed("x")}
    assert arguments["seen"] == "v1.x"
    for wrong in ("ab", {"age": 2}):
        with pytest.raises(InvalidValue, match="name"):
            call_of(conflict, wrong)


def test_texts_are_merged_or_taken_and_not_replaced_by_a_value():
    conflict = conflict_from_wire(asked(part("a", "1.1.0", "text"), part("b", "1.2.0", "text")))
    assert call_of(conflict, conflict.merge())[1]["merge"] is True
    assert isinstance(conflict.merge(), Merge)
    with pytest.raises(InvalidValue, match="merge"):
        call_of(conflict, "joined")


def test_what_was_too_much_for_one_message_is_said():
    assert conflict_from_wire(asked(part("a", "1.1.0"), part(..., "1.2.0"))).is_partial


def test_reasons_are_short():
    assert reason_of(RuntimeError("down")) == "RuntimeError: down"
    assert reason_of(RuntimeError()) == "RuntimeError"
    assert reason_of(InvalidRequest("no")) == "no"
    assert reason_of(Timeout("late")).startswith("Timeout")
    assert conflict_from_wire(asked(part("a", "1.1.0"), part("b", "1.2.0"))).decline("why") == Decline("why")
