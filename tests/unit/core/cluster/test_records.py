"""The cluster's own records: written by nodes, seen by all of them, out of reach for agents."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pytest

from crdtsync.core.cluster.records import RecordType
from crdtsync.core.interface import DiskSpace
from crdtsync.errors import NoSpace
from crdtsync.wire.limits import CLUSTER_SPACE
from tests.fleet.agent import Refusal
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host


@dataclass(frozen=True)
class Light:
    """A record for these tests: a lamp that stays red once somebody has made it red."""

    colour: str
    seen_by: tuple[str, ...] = ()


def merge(one: Light, other: Light) -> Light:
    colour = "red" if "red" in (one.colour, other.colour) else other.colour
    return Light(colour, (*one.seen_by, *other.seen_by))


LIGHTS = RecordType(
    "light",
    read=lambda plain: Light(plain["colour"], tuple(plain["seen_by"])),
    write=lambda light: {"colour": light.colour, "seen_by": list(light.seen_by)},
    merge=merge,
)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with fleet_of("a", "b", "c") as found:
        yield found


def put(machine: Host, name: str, colour: str) -> None:
    machine.node.cluster.put(LIGHTS, name, Light(colour, (machine.name,)))
    machine.turn()


def get(machine: Host, name: str) -> Light | None:
    return machine.node.cluster.get(LIGHTS, name)


def test_a_record_reaches_every_node_and_stays(fleet):
    put(fleet["a"], "door", "green")
    fleet.link("a", "b")
    fleet.link("b", "c")
    fleet.sync()
    fleet.run(2.5)
    assert get(fleet["c"], "door") == Light("green", ("a",))
    fleet["c"].restart()
    assert get(fleet["c"], "door") == Light("green", ("a",))
    assert get(fleet["c"], "gate") is None


def test_siblings_come_to_the_same_on_every_node_whatever_the_order(fleet):
    for name, colour in (("a", "green"), ("b", "red"), ("c", "blue")):
        fleet.pass_time(0.01)
        put(fleet[name], "door", colour)
    fleet.link("a", "b")
    fleet.sync()
    fleet.link("c", "b")
    fleet.run(2.5)
    assert {get(machine, "door") for machine in fleet.machines.values()} == {Light("red", ("a", "b", "c"))}
    put(fleet["c"], "door", "green")  # has seen all three
    fleet.run(2.5)
    assert {get(machine, "door") for machine in fleet.machines.values()} == {Light("green", ("c",))}


def test_whoever_listens_is_told_at_once_of_own_and_foreign_changes(fleet):
    a, b = fleet["a"], fleet["b"]
    told: list[tuple[str, list[str]]] = []

    def listener(who: str):
        def listen(names: Collection[str]) -> None:
            told.append((who, sorted(names)))

        return listen

    a.node.cluster.on_change(LIGHTS, listener("a"))
    b.node.cluster.on_change(LIGHTS, listener("b"))
    put(a, "door", "green")
    put(a, "gate", "green")
    assert told == [("a", ["door"]), ("a", ["gate"])]
    fleet.link("a", "b")
    fleet.sync()
    assert told[2:] == [("b", ["door", "gate"])]
    a.node.cluster.remove(LIGHTS, "door")
    fleet.sync()
    assert told[3:] == [("a", ["door"]), ("b", ["door"])]
    assert [name for name, _ in b.node.cluster.all(LIGHTS)] == ["gate"]


def test_a_listener_may_write_another_record_in_the_same_commit(fleet):
    a = fleet["a"]

    def follow(names: Collection[str]) -> None:
        for name in names:
            if not name.endswith("'"):
                a.node.cluster.put(LIGHTS, name + "'", Light("green"))

    a.node.cluster.on_change(LIGHTS, follow)
    a.node.cluster.put(LIGHTS, "door", Light("red"))
    commits = a.store.commits
    a.turn()
    assert a.store.commits == commits + 1
    assert a.node.cluster.names(LIGHTS) == ["door", "door'"]


def test_what_was_not_committed_is_gone_and_everybody_is_told_all_anew(fleet):
    a = fleet["a"]
    put(a, "door", "green")
    told: list[list[str]] = []
    a.node.cluster.on_change(LIGHTS, lambda names: told.append(sorted(names)))
    a.node.cluster.put(LIGHTS, "gate", Light("red"))
    a.refuse(NoSpace("full"))
    assert told == [["gate"], ["door"]]
    assert get(a, "gate") is None


def test_without_room_nothing_is_written(fleet):
    a = fleet["a"]
    a.step(DiskSpace("the disk is full"))
    with pytest.raises(NoSpace):
        a.node.cluster.put(LIGHTS, "door", Light("red"))
    assert get(a, "door") is None


def test_fields_of_newer_versions_stay_and_unreadable_records_count_as_absent(fleet):
    a = fleet["a"]
    newer = RecordType(
        "light",
        read=dict,
        write=dict,
        merge=lambda one, other: {**one, **other},
    )
    a.node.cluster.put(newer, "door", {"colour": "green", "seen_by": [], "shape": "round"})
    a.node.cluster.put(newer, "gate", {"shape": "square"})
    put(a, "door", "red")
    assert a.node.cluster.get(newer, "door") == {"colour": "red", "seen_by": ["a"], "shape": "round"}
    assert get(a, "gate") is None
    assert [name for name, _ in a.node.cluster.all(LIGHTS)] == ["door"]


def test_a_snapshot_brings_records_too(fleet, monkeypatch):
    from crdtsync.core.sync import snapshot_server

    monkeypatch.setattr(snapshot_server, "MISSING_CHANGES_MIN", 2)
    for name in ("door", "gate", "gap"):
        put(fleet["a"], name, "green")
    told: list[list[str]] = []
    fleet["b"].node.cluster.on_change(LIGHTS, lambda names: told.append(sorted(names)))
    fleet.link("a", "b")
    fleet.sync()
    assert told == [["door", "gap", "gate"]]


@pytest.mark.parametrize("operation, args", [("get", {"key": "light/door"}), ("scan", {}), ("watch", {}), ("set", {})])
def test_agents_cannot_reach_it(fleet, operation, args):
    ann = fleet["a"].agent("ann")
    args = {"n": 1, "key": "light/door", "value": b"\x01", **args}
    with pytest.raises(Refusal, match="there is no space '_cluster' on this node"):
        ann.ask(operation, space=CLUSTER_SPACE, **args)


def test_the_status_shows_it_only_if_asked(fleet):
    fleet.link("a", "b")
    fleet.sync()
    ann = fleet["a"].agent("ann")
    status = ann.ask("status")
    assert [space["name"] for space in status["spaces"]] == ["default"]
    assert list(status["peers"][0]["behind"]) == ["default"]
    status = ann.ask("status", reserved=True)
    assert [space["name"] for space in status["spaces"]] == ["_cluster", "default"]
