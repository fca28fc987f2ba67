"""Checkpoints by policy: one node makes each while something changes, checks it, and deletes old ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crdtsync.causality import Dot, Writer, flatten
from crdtsync.core.background import automatic_checkpoints
from crdtsync.core.background.automatic_checkpoints import LOOKS_MAX
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.history.checkpoint_policies import EVERY_MS_MIN, KEEP_MAX, KEEP_MIN, PREFIXES_MAX, policy_of
from crdtsync.core.history.checkpoints import CHECKPOINT_PREFIX, Checkpoint, packed_record, record_of
from crdtsync.core.interface import Now
from crdtsync.core.replica.replica import Replica
from crdtsync.core.storage.interface import Storage
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import TTL_MS_MAX
from tests.fleet.agent import Agent, Refusal
from tests.fleet.fleet import Fleet, fleet_of
from tests.simulator.cuts import patiently, shown

MINUTE = 60_000


def policy(agent: Agent, **args: object) -> None:
    agent.do("checkpoint_policy", **{"name": "auto", "every": MINUTE, "keep": 3} | args)


def made(agent: Agent) -> list[str]:
    return [item["name"] for item in agent.ask("checkpoints")["items"]]


def play(fleet: Fleet, agent: Agent, minutes: int, key: str = "plan/a") -> None:
    for n in range(minutes * 6):
        agent.set(key, n)
        fleet.run(10, step_s=1)


def stamp(time_ms: int) -> str:
    """As the names of automatic ones have it."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y%m%d-%H%M%S")


def lowest(fleet: Fleet) -> tuple[str, str]:
    """The hosts by id: the first makes them."""
    first, second = sorted(fleet.machines, key=lambda name: fleet[name].node.identity.node)
    return first, second


def test_one_node_makes_one_in_each_interval_and_keeps_the_newest():
    with fleet_of("a", "b", linked=True) as fleet:
        ann, bob = fleet["a"].agent("ann"), fleet["b"].agent("bob")
        policy(ann)
        play(fleet, bob, 3)
        names = made(ann)
        assert 2 <= len(names) <= 3
        first, _ = lowest(fleet)
        assert {name[-4:] for name in names} == {fleet[first].node.identity.node[:4]}
        play(fleet, bob, 6)
        assert made(ann) == made(bob)
        assert len(made(ann)) == 3
        (told,) = bob.ask("checkpoints")["policies"]
        assert (told["name"], told["every"], told["keep"], told["count"]) == ("auto", MINUTE, 3, 3)
        for host in fleet.machines.values():
            assert not host.alarms
            assert not host.node.automatic_checkpoints.failures
        newest = made(bob)[-1]
        assert shown(ann, f"checkpoint:{newest}") == shown(bob, f"checkpoint:{newest}")
        fleet.run(600, step_s=5)  # what came after the newest one calls for one more
        count = len(fleet["a"].replica.entries.held(CHECKPOINT_PREFIX + made(ann)[-1]))
        last = made(ann)
        fleet.run(1200, step_s=5)
        assert (count, made(ann)) == (1, last)


def test_what_a_policy_is_not_about_calls_for_none_and_its_end_ends_it():
    with fleet_of("a") as fleet:
        ann = fleet["a"].agent("ann")
        policy(ann, prefixes=["plan/"])
        play(fleet, ann, 3, "other")
        assert made(ann) == []
        play(fleet, ann, 3)
        count = len(made(ann))
        assert 2 <= count <= 3
        fleet.run(100, step_s=1)
        count = len(made(ann))
        play(fleet, ann, 4, "other")
        assert len(made(ann)) == count
        ann.do("checkpoint_policy", name="auto", remove=True)
        play(fleet, ann, 4)
        assert len(made(ann)) == count


def test_the_next_node_makes_it_if_the_first_one_cannot():
    with fleet_of("a", "b", linked=True) as fleet:
        first, second = lowest(fleet)
        agent = fleet[second].agent("ann")
        policy(agent)
        fleet[first].node.read_only = "for a test"
        play(fleet, agent, 4)
        assert {name[-4:] for name in made(agent)} == {fleet[second].node.identity.node[:4]}


def test_one_that_cannot_be_made_is_told_until_it_is():
    with fleet_of("a") as fleet:
        ann = fleet["a"].agent("ann")
        for n in range(100):
            ann.do("checkpoint_set", name=f"{n}")
        policy(ann)
        play(fleet, ann, 1)
        assert "checkpoint_overdue" in fleet["a"].alarms
        assert fleet["a"].node.automatic_checkpoints.failures == {"default": 1}
        ann.do("checkpoint_set", name="0", remove=True)
        play(fleet, ann, 1)
        assert "checkpoint_overdue" not in fleet["a"].alarms
        assert made(ann)[-1].startswith("auto-")


def test_a_name_that_is_there_is_not_made_twice():
    """After a clock was set back, for one: the next second has another name."""
    with fleet_of("a") as fleet:
        ann = fleet["a"].agent("ann")
        ann.set("plan/a", 1)
        node = fleet["a"].node.identity.node[:4]
        taken = [f"auto-{stamp(fleet.now.wall_ms + 1000 * n)}-{node}" for n in range(12)]
        for name in taken:
            ann.do("checkpoint_set", name=name)
        policy(ann)
        fleet.run(9, step_s=0.1)
        assert made(ann) == taken
        fleet.run(10, step_s=0.1)
        assert len(made(ann)) == len({*made(ann)}) == len(taken) + 1


DAY = 24 * 60 * MINUTE


def test_a_clock_that_is_set_back_stops_nothing():
    with fleet_of("a") as fleet:
        host = fleet["a"]
        ann = host.agent("ann")
        host.ahead_ms = 400 * DAY
        policy(ann)
        play(fleet, ann, 2)
        before = made(ann)
        assert before
        host.ahead_ms = 0
        play(fleet, ann, 3)
        assert len({*made(ann)} - {*before}) >= 2
        ann.set("plan/a", "due")
        host.node.read_only = "for a test"
        fleet.run(120, step_s=2)
        before = made(ann)
        host.node.read_only, host.ahead_ms = "", -DAY
        fleet.run(10, step_s=1)
        assert len({*made(ann)} - {*before}) == 1


def test_a_checkpoint_of_a_clock_that_is_ahead_stops_nothing_and_calls_for_no_more():
    with fleet_of("a", "b", linked=True) as fleet:
        first, second = lowest(fleet)
        agent = fleet[second].agent("ann")
        fleet[first].ahead_ms = 4000 * DAY
        policy(agent, keep=40)
        play(fleet, agent, 2)
        (wrong,) = {name[:13] for name in made(agent)}
        fleet.wires[0].close("cut")
        fleet[first].node.read_only = "for a test"
        before = {*made(agent)}
        play(fleet, agent, 8)
        assert wrong[5:9] > stamp(fleet.now.wall_ms)[:4]
        assert 6 <= len({*made(agent)} - before) <= 9


def test_many_policies_are_looked_at_in_several_turns(monkeypatch: pytest.MonkeyPatch):
    with fleet_of("a") as fleet:
        host = fleet["a"]
        ann = host.agent("ann")
        for n in range(LOOKS_MAX):
            policy(ann, name=f"p{n}", prefixes=["plan/"])
        play(fleet, ann, 1)
        reads = 0
        read_log = host.replica.storage.log

        def counted(*args: Any) -> Any:
            nonlocal reads
            rows = read_log(*args)
            reads += bool(rows)
            return rows

        monkeypatch.setattr(host.replica.storage, "log", counted)
        automatic = host.node.automatic_checkpoints
        most = 0
        for round_ in range(8):
            ann.set("other", round_)
            for _ in range(50):
                fleet.now = Now(fleet.now.wall_ms + 500, fleet.now.mono_s + 0.5)
                host.node.now_ms, host.node.now_s = fleet.now.wall_ms, fleet.now.mono_s
                reads = 0
                automatic.run()
                most = max(most, reads)
        assert most == 1


def test_checks_that_take_longer_than_the_next_checkpoint_do_not_pile_up(monkeypatch: pytest.MonkeyPatch):
    with fleet_of("a") as fleet:
        host = fleet["a"]
        ann = host.agent("ann")
        asked: list[tuple[str, str | None]] = []

        class Endless:
            replica = host.replica

            def advance(self) -> bool:
                return False

        def check_of(_replica: Replica, _storage: Storage, record: Checkpoint, before: Checkpoint | None) -> Endless:
            asked.append((record.name, before and before.name))
            return Endless()

        monkeypatch.setattr(automatic_checkpoints, "CheckpointCheck", check_of)
        policy(ann, every=EVERY_MS_MIN)
        for n in range(30):
            ann.set("k", n)
            fleet.run(1.5, step_s=0.5)
        assert len(asked) > 10
        assert len(host.node.automatic_checkpoints._checks) == 2
        assert asked[-1][1] == asked[0][0], "the second one looks at all that is new since the first"


def test_one_that_nobody_makes_is_overdue_everywhere():
    with fleet_of("a", "b", linked=True) as fleet:
        ann = fleet["a"].agent("ann")
        policy(ann)
        ann.set("plan/a", 1)
        fleet.sync()
        for host in fleet.machines.values():
            host.node.read_only = "for a test"
        fleet.run(200, step_s=2)
        for host in fleet.machines.values():
            assert "checkpoint_overdue" in host.alarms


def test_one_that_is_not_what_its_record_says_is_told(monkeypatch: pytest.MonkeyPatch):
    def other_digest(*args: object) -> bytes:
        value = bytearray(packed_record(*args))  # type: ignore[arg-type]
        value[value.index(b"digest") + 12] ^= 1
        return bytes(value)

    monkeypatch.setattr("crdtsync.core.background.automatic_checkpoints.packed_record", other_digest)
    with fleet_of("a") as fleet:
        ann = fleet["a"].agent("ann")
        policy(ann)
        play(fleet, ann, 1)
        assert "checkpoint_overdue" in fleet["a"].alarms
        monkeypatch.undo()
        play(fleet, ann, 2)
        assert "checkpoint_overdue" not in fleet["a"].alarms


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
RECORDS = st.binary() | st.builds(
    pack,
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(("cut", "digest", "keys", "note", "prefixes", "policy", "every", "keep", "age"), VALUES),
    ),
)


@given(RECORDS)
@example(pack({"prefixes": [], "every": float("inf"), "keep": 3, "age": None}))
@example(pack({"prefixes": [], "every": "9" * 4000, "keep": "9" * 4000, "age": "9" * 4000}))
@example(pack({"prefixes": [], "every": 3_600_000, "keep": 3, "age": -(2**60)}))
@example(pack({"prefixes": ["a"] * 200_000, "every": 3_600_000, "keep": 3, "age": None}))
@example(pack({"cut": [1, float("inf")], "digest": b"", "keys": 1, "note": "", "prefixes": []}))
@example(pack({"cut": [1, 1], "digest": 2**50, "keys": 1, "note": "", "prefixes": []}))
@example(pack({"cut": [1, 1e300], "digest": b"", "keys": 1, "note": "", "prefixes": []}))
@example(pack({"cut": [1, 1], "digest": b"", "keys": 1e300, "note": "", "prefixes": []}))
def test_careless_records_are_read_as_none_or_as_something_within_bounds(value: bytes) -> None:
    """A member may write anything into a register, and every node reads it."""
    entry = Entry(0, Dot(Writer(1), 1, 0), "k", None, Kind.REGISTER, 1, "ann", value, b"", None)
    record = record_of(entry)
    if record is not None:
        pack([flatten(record.vector), record.keys, record.digest])  # as who asks for it is told
    policy = policy_of("auto", [entry])
    if policy is not None:
        assert EVERY_MS_MIN <= policy.every_ms <= TTL_MS_MAX
        assert KEEP_MIN <= policy.keep <= KEEP_MAX
        assert policy.age_ms is None or 1 <= policy.age_ms <= TTL_MS_MAX
        assert len(policy.prefixes) <= PREFIXES_MAX


@pytest.mark.parametrize(
    "wrong",
    [{"name": "A"}, {"name": "a" * 65}, {"every": 10}, {"every": "1h"}, {"keep": 2}, {"keep": 51}, {"age": 0},
     {"every": 2**63}, {"age": 2**63},
     {"prefixes": "plan/"}],
)  # fmt: skip
def test_what_is_no_policy_is_refused(pair: Fleet, wrong: dict[str, object]):
    with pytest.raises(Refusal, match="invalid_request"):
        policy(pair["a"].agent("ann"), **wrong)
    assert patiently(pair["a"].agent("ann"), "checkpoints")["policies"] == []
