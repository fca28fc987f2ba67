"""The short way of a plain ``get`` or ``set`` does what the plan does: the same requests, results and memory."""

from __future__ import annotations

from typing import Any

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.client.operations.keys import Operations
from crdtsync.client.session.read_memory import ReadMemory
from crdtsync.errors import CrdtSyncError, from_wire

KEYS = ("a", "b", "c", "d")
ENTRY = {
    "key": "a", "kind": "register", "value": msgpack.packb(1), "version": "v1.all", "dot": "1.1.0", "agent": "me",
    "node": "host-a", "time": 1_700_000_000_123, "confidence": None, "meta": None, "ttl": None, "siblings": [],
}  # fmt: skip
VALUES = (msgpack.packb("text"), msgpack.packb({"a": [1]}), 7, [msgpack.packb(1), msgpack.packb(2)], "a text")
REFUSALS: list[dict[str, Any]] = [
    {"code": "unresolved", "message": "m", "current": ENTRY},
    {"code": "unresolved", "message": "m"},
    {"code": "ranks_lower", "message": "m", "current": ENTRY},
    {"code": "version_mismatch", "message": "m", "current": None, "key": "b"},
    {"code": "version_mismatch", "message": "m", "current": ENTRY},
    {"code": "not_allowed", "message": "m"},
]

versions = st.sampled_from(["v1.a", "v1.b", "v1.c"])
tokens = st.sampled_from(["c1.s", "c1.t"])
refusals = st.sampled_from(REFUSALS).map(lambda fields: ("refused", fields))
gets = st.tuples(
    st.just("get"), st.sampled_from(KEYS),
    st.none() | refusals
    | st.builds(lambda value, version: {"value": value, "version": version}, st.sampled_from(VALUES), versions),
)  # fmt: skip
sets = st.tuples(
    st.just("set"), st.sampled_from(KEYS),
    refusals | st.builds(lambda token, version: {"token": token, "version": version}, tokens, versions),
)  # fmt: skip


def by_plan(operations: Operations, name: str, key: str, reply: Any) -> tuple[object, ...]:
    plan: Any = operations.get(key, "default", None, 30.0) if name == "get" else operations.set(key, [key], 30.0)
    call = next(plan)
    asked = (call.operation, dict(call.arguments), call.is_write, call.waits)
    try:
        if type(reply) is tuple:
            plan.throw(from_wire(dict(reply[1])))
        plan.send(reply)
    except StopIteration as done:
        return (*asked, done.value, getattr(done.value, "_reply", None))
    except CrdtSyncError as error:
        return (*asked, type(error), error.details)
    raise AssertionError("a plan of several steps")


def in_short(operations: Operations, name: str, key: str, reply: Any) -> tuple[object, ...]:
    pending = operations.begin_get(key, 30.0) if name == "get" else operations.begin_set(key, [key], 30.0)
    asked = (pending.operation, dict(pending.arguments), name == "set", pending.deadline != pending.limit)
    pending.number = int(name == "set")
    if type(reply) is tuple:
        error = from_wire(dict(reply[1]))
        operations.learn_refusal(pending, error)
        return (*asked, type(error), error.details)
    result = operations.got(key, reply, "default") if name == "get" else operations.did_set(key, reply)
    return (*asked, result, getattr(result, "_reply", None))


@given(
    steps=st.lists(gets | sets, max_size=12),
    overrides=st.sampled_from([{}, {"agent": "ann"}, {"space": "lab", "agent": "ben"}]),
    forgotten_max=st.integers(0, 2),
)
def test_both_ways_ask_learn_and_tell_the_same(
    steps: list[tuple[str, str, Any]], overrides: dict[str, object], forgotten_max: int
) -> None:
    ways = Operations(dict(overrides)), Operations(dict(overrides))
    for operations in ways:
        operations.memory = ReadMemory(keys_max=2, hashes_max=forgotten_max)
    for name, key, reply in steps:
        assert by_plan(ways[0], name, key, reply) == in_short(ways[1], name, key, reply)
        known = [([*ops.memory._read.items()], ops.memory._forgotten, ops.last_token) for ops in ways]
        assert known[0] == known[1]
