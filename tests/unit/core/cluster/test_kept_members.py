"""Removal is final, and a member stays one, whatever another member writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crdtsync.core.cluster.admission import MEMBERS, REMOVED, Reach
from crdtsync.core.cluster.membership import Member, RemovedMember
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.fleet.renegade import Renegade

GONE = "c" * 32


def pin(name: str) -> str:
    return (name * 64)[:64]


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """Members a and b; c was one and has been removed."""
    with fleet_of("a", "b", linked=True) as found:
        for machine in found.machines.values():
            key = ((pin(machine.name), machine.name.encode()),)
            machine.step(Reach(key, (f"{machine.name}:1",), operators=(0,)))
            node = machine.node.identity.node
            machine.node.cluster.put(MEMBERS, node, Member(node, machine.name, key, (f"{machine.name}:1",)))
        key = ((pin("c"), b"c"),)
        found["a"].node.cluster.put(MEMBERS, GONE, Member(GONE, "c", key))
        found.run(1)
        found["a"].node.cluster.put(REMOVED, GONE, RemovedMember(GONE, "c", key, by="a"))
        found.run(1)
        yield found


def lets_in(machine: Host, name: str) -> bool:
    return not machine.node.fleet.membership.refusal_of(pin(name))


RECORDS: dict[str, Any] = {
    "deleted": None,
    "nonsense": [1, 2],
    "of another": {"node": "d" * 32, "keys": [[pin("d"), b"d"]]},
    "without its keys": {"node": GONE, "name": "c", "keys": []},
    "with another key": {"node": GONE, "name": "c", "keys": [[pin("d"), b"d"]]},
}


@pytest.mark.parametrize("how", RECORDS)
def test_a_removed_node_stays_out_whatever_a_member_writes(fleet: Fleet, how: str):
    b = fleet["b"]
    renegade = Renegade(b)
    if RECORDS[how] is None:
        renegade.take_away(f"removed/{GONE}")
    else:
        renegade.overwrite(f"removed/{GONE}", RECORDS[how])
    fleet.run(1)
    for machine in fleet.machines.values():
        assert GONE in machine.node.fleet.membership.removed
        assert not lets_in(machine, "c")
        record = machine.node.cluster.get(REMOVED, GONE)  # it was written again
        assert record is not None
        assert pin("c") in dict(record.keys)
    said = {alarm.code: alarm.message for alarm in b.node.alarms.raised()}["record_undone"]
    assert "renegade took away the record that c" in said


def test_its_key_stays_out_under_another_name_too(fleet: Fleet):
    renegade = Renegade(fleet["b"])
    renegade.take_away(f"removed/{GONE}")
    renegade.overwrite(f"member/{'d' * 32}", {"node": "d" * 32, "name": "d", "keys": [[pin("c"), b"c"]]})
    fleet.run(1)
    assert not any(lets_in(machine, "c") for machine in fleet.machines.values())


def test_it_stays_out_after_a_restart_and_for_who_was_away(fleet: Fleet):
    a, b = fleet["a"], fleet["b"]
    a.restart()
    renegade = Renegade(b)
    renegade.take_away(f"removed/{GONE}")
    b.restart()
    assert not lets_in(b, "c")
    fleet.link("a", "b")
    fleet.run(1)
    assert not lets_in(a, "c")
    assert a.node.cluster.get(REMOVED, GONE) is not None


def test_who_was_not_there_learns_it_from_those_who_were(fleet: Fleet):
    renegade = Renegade(fleet["b"])
    renegade.take_away(f"removed/{GONE}")
    fleet.add("late")
    fleet.link("late", "a")
    fleet.run(2)
    assert not lets_in(fleet["late"], "c")


@pytest.mark.parametrize("record", [None, "nonsense"])
def test_a_member_stays_one_when_its_record_is_taken_away(fleet: Fleet, record: object):
    a, b = fleet["a"], fleet["b"]
    renegade = Renegade(b)
    for machine in (a, b):
        key = f"member/{machine.node.identity.node}"
        if record is None:
            renegade.take_away(key)
        else:
            renegade.overwrite(key, record)
    assert lets_in(b, "a")
    assert lets_in(b, "b")
    fleet.run(2)
    for machine in fleet.machines.values():
        assert sorted(each.name for each in machine.node.fleet.membership.members.values()) == ["a", "b"]
        assert {name for name, _ in machine.node.cluster.all(MEMBERS)} >= {
            each.node.identity.node for each in (a, b)
        }  # each has written its own again


def test_false_members_do_not_push_out_those_who_are_known(fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("crdtsync.core.cluster.membership.MEMBERS_MAX", 4)
    monkeypatch.setattr("crdtsync.core.cluster.kept_members.MEMBERS_MAX", 4)
    renegade = Renegade(fleet["b"])
    for n in range(8):
        node = f"{n:032}"
        record = {"node": node, "name": f"false-{n}", "keys": [[f"{n:064}", b"x"]]}
        renegade.overwrite(f"member/{node}", record)
        renegade.overwrite(f"removed/{n + 100:032}", {"node": f"{n + 100:032}", "keys": [[f"{n:064}", b"x"]]})
    fleet.run(1)
    for machine in fleet.machines.values():
        assert lets_in(machine, "a")
        assert lets_in(machine, "b")
        assert not lets_in(machine, "c")
    kept = fleet["a"].node.fleet._kept
    assert len(kept.members) <= 4
    assert len(kept.removed) <= 4
