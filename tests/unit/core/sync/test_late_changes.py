"""Changes that waited for one that comes late are applied in slices, and others are served meanwhile."""

from __future__ import annotations

import pytest

from crdtsync.core.replica import replica as module
from crdtsync.wire.codec import unpack
from tests.fleet.fleet import fleet_of
from tests.fleet.host import Host

CHANGES = 120


@pytest.fixture
def fleet(monkeypatch):
    monkeypatch.setattr(module, "TAKEN_OPS_MAX", 10)
    with fleet_of("a", "b", "c") as made:
        yield made


def late(host: Host) -> int:
    return sum(map(len, host.node.ledger.late.values()))


def make_late(fleet) -> tuple[Host, list[bytes]]:
    """What all waits for is the first of these changes, and was not sent."""
    a = fleet["a"]
    for n in range(CHANGES):
        a.agent().set(f"k/{n}", n)
    bodies = [row.body for row in a.store.log(1, 0, 10**9, 10**6)]
    b = fleet["b"]
    for body in bodies[1:]:
        applied, kept = b.replica.receive(b.replica.codec.decode(body), b.now.wall_ms)
        assert (applied, kept) == ([], True)
    return b, bodies


def test_each_turn_applies_a_slice_and_serves_others(fleet):
    b, bodies = make_late(fleet)
    agent = b.agent("other")
    applied, kept = b.replica.receive(b.replica.codec.decode(bodies[0]), b.now.wall_ms)
    b.node.received(applied)
    assert (len(applied), kept, late(b)) == (10, True, 1)
    turns = 0
    while late(b):
        assert b.node.turn_due_s() == b.now.mono_s
        number = agent.send("get", key=f"k/{turns * 10}")
        ready = b.turn()
        assert len(ready.persist.changes) <= 20
        assert unpack(agent.result(number)["value"]) == turns * 10
        turns += 1
        assert turns < CHANGES
    assert turns > 5
    b.turn()
    assert len(b.replica.vector) == 1
    assert b.replica.vector == fleet["a"].replica.vector
    assert b.replica.entries.digest == fleet["a"].replica.entries.digest
    assert not len(b.replica.gate)


def test_what_is_left_of_them_after_a_crash_comes_from_the_others(fleet):
    b, bodies = make_late(fleet)
    applied, _ = b.replica.receive(b.replica.codec.decode(bodies[0]), b.now.wall_ms)
    b.node.received(applied)
    b.turn()
    assert late(b)
    b.restart()
    fleet.link("a", "b")
    fleet.run(2.0, 0.5)
    assert b.replica.entries.digest == fleet["a"].replica.entries.digest
