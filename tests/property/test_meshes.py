"""Thirty nodes in one process that each keep a few connections: changes reach all, about once, and so do answers.

Delays are random and time is simulated; what is counted are the changes that come to a node over its connections.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random

import pytest

from crdtsync.core.cluster.admission import MEMBERS
from crdtsync.core.cluster.membership import Member
from crdtsync.core.interface import Now, Tick
from crdtsync.core.peers.dial_choice import chosen
from tests.fleet.clock import START_MS
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host
from tests.fleet.wire import Wire

COUNT = 30
DIALS_ONLY = {"n5", "n6"}
"""Nobody can dial these, as behind NAT."""
DELAY_S = 0.005
DELIVERIES_MAX = 1.5
"""Of a change to a node, on average."""


class SlowWire(Wire):
    """Frames take a while, and stay in order."""

    def put(self, sender: Host, data: bytes) -> None:
        if self.reason is None:
            at = 1 - self.ends.index(sender)
            self.waiting[at].append(data)
            assert isinstance(self.fleet, Mesh)
            self.fleet.underway(self, at)


class Mesh(Fleet):
    """A fleet whose nodes are connected as they would dial each other."""

    def __init__(self, count: int, seed: int) -> None:
        super().__init__(*(f"n{i}" for i in range(count)))
        self.rng = Random(seed)
        self.queue: list[tuple[float, int, SlowWire, int]] = []
        self.latest: dict[tuple[SlowWire, int], float] = {}
        self.number = 0
        self.ids = {machine.node.identity.node: machine for machine in self.machines.values()}
        self.reachable = [node for node, machine in self.ids.items() if machine.name not in DIALS_ONLY]
        for me, machine in self.ids.items():
            for other in chosen(me, self.reachable, lambda _node: True):
                if not self.wire_of(machine, self.ids[other]):
                    SlowWire(self, machine, self.ids[other])
        for machine in self.machines.values():
            machine.turn()
        self.let(2.0)

    def wire_of(self, one: Host, other: Host) -> Wire | None:
        return next((wire for wire in self.wires if {*wire.ends} == {one, other}), None)

    def underway(self, wire: SlowWire, at: int) -> None:
        arrives_s = self.now.mono_s + self.rng.uniform(0.2, 1.8) * DELAY_S
        arrives_s = self.latest[wire, at] = max(arrives_s, self.latest.get((wire, at), 0.0))
        self.number += 1
        heappush(self.queue, (arrives_s, self.number, wire, at))

    def _set(self, mono_s: float) -> None:
        self.now = Now(START_MS + int((mono_s - 1000.0) * 1000), mono_s)

    def let(self, seconds: float) -> None:
        """Let so much time pass: frames arrive, and what is due is done."""
        until_s = self.now.mono_s + seconds
        due = {m: m.node.deadline_s() for m in self.machines.values()}
        while True:
            tick_s = min((d for d in due.values() if d is not None), default=until_s)
            frame_s = self.queue[0][0] if self.queue else until_s
            moment_s = max(self.now.mono_s, min(tick_s, frame_s))
            if moment_s >= until_s:
                self._set(until_s)
                return
            self._set(moment_s)
            awake: dict[Host, None] = {}
            while self.queue and self.queue[0][0] <= moment_s:
                _, _, wire, at = heappop(self.queue)
                if wire.reason is None and wire.waiting[at]:
                    wire.deliver(wire.ends[at], 1)
                    awake[wire.ends[at]] = None
            for machine, due_s in due.items():
                if due_s is not None and due_s <= moment_s and machine not in awake:
                    machine.step(Tick())
                    awake[machine] = None
            for machine in awake:
                machine.turn()
                next_s = machine.node.deadline_s()
                due[machine] = None if next_s is None else max(next_s, moment_s + 0.001)

    def deliveries(self) -> int:
        return sum(machine.node.sync.intake.count for machine in self.machines.values())

    def per_node_and_change(self, changes: int, before: int) -> float:
        return (self.deliveries() - before) / changes / (len(self.machines) - 1)

    def check_equal(self) -> None:
        first, *others = self.machines.values()
        for other in others:
            assert other.replica.vector == first.replica.vector
            assert other.replica.entries.digest == first.replica.entries.digest

    def found_cluster(self) -> None:
        """All are members, as a first node has written."""
        first = next(iter(self.machines.values()))
        for node, machine in self.ids.items():
            first.node.cluster.put(MEMBERS, node, Member(node, machine.name, (("0" * 64, b"x"),)))
        first.turn()
        self.let(1.0)


@pytest.fixture(scope="module")
def mesh() -> Iterator[Mesh]:
    found = Mesh(COUNT, seed=1)
    try:
        found.found_cluster()
        yield found
    finally:
        found.close()


def write(mesh: Mesh, count: int, gap_s: float = 0.01) -> None:
    machines = [*mesh.machines.values()]
    for number in range(count):
        machines[number * 7 % len(machines)].agent(f"a{number}").set(f"k{number}", number)
        mesh.let(mesh.rng.uniform(0, 2) * gap_s)
    mesh.let(2.0)


def test_every_node_has_few_connections_and_knows_all_others(mesh):
    assert max(len(machine.node.sync.links) for machine in mesh.machines.values()) <= 8
    for machine in mesh.machines.values():
        assert len(machine.node.sync.live_nodes()) == COUNT - 1


def test_changes_reach_all_about_once(mesh):
    """From the first one on: nobody has to find out first who relays whose changes."""
    before = mesh.deliveries()
    write(mesh, 20)
    mesh.check_equal()
    assert 1.0 <= mesh.per_node_and_change(20, before) <= DELIVERIES_MAX


def test_a_write_concern_is_met_by_nodes_that_are_met_only_through_others(mesh):
    agent = next(iter(mesh.machines.values())).agent("ann")
    request = agent.write("set", key="wide", value=b"\x01", w="all", timeout=5000)
    mesh.let(1.0)
    assert agent.result(request)["nodes"] == COUNT
    again = agent.write("set", key="wide", value=b"\x02", w="all", timeout=5000)
    mesh.let(1.0)
    assert agent.result(again)["nodes"] == COUNT
    mesh.let(25.0)
    assert not any(machine.node.sync.mesh.inquiries.questions for machine in mesh.machines.values())


def test_a_space_for_some_nodes_comes_to_those_and_about_once(mesh):
    """They are connected among themselves, for its changes go over no other node."""
    group = [node for node, machine in mesh.ids.items() if machine.name in ("n1", "n8", "n15", "n22", "n29")]
    for me in group:
        for other in chosen(me, group, lambda _node: True):
            if not mesh.wire_of(mesh.ids[me], mesh.ids[other]):
                SlowWire(mesh, mesh.ids[me], mesh.ids[other])
    mesh.ids[group[0]].agent("maker").ask("space_create", name="team", nodes=group)
    mesh.let(1.0)
    before = mesh.deliveries()
    for number, node in enumerate(group * 2):
        mesh.ids[node].agent(f"t{number}").set(f"k{number}", number, space="team")
        mesh.let(0.05)
    mesh.let(1.0)
    for node, machine in mesh.ids.items():
        held = machine.node.replicas.get("team")
        assert (None if held is None else sum(held.vector.values())) == (10 if node in group else None)
    assert (mesh.deliveries() - before) / 10 / (len(group) - 1) <= DELIVERIES_MAX


def test_when_nodes_go_changes_still_reach_all_that_are_left(mesh):
    """Three nodes stop at once, between a write and the next; those that dialled them dial the next ones."""
    gone = [mesh.machines.pop(name) for name in ("n3", "n11", "n20")]
    for wire in [wire for wire in mesh.wires if {*wire.ends} & {*gone}]:
        wire.close("gone")
    up = {node: machine for node, machine in mesh.ids.items() if machine not in gone}
    before = mesh.deliveries()
    write(mesh, 5)
    for me, machine in up.items():
        for other in chosen(me, mesh.reachable, up.__contains__) & up.keys():
            if not mesh.wire_of(machine, up[other]):
                SlowWire(mesh, machine, up[other])
    write(mesh, 10)
    mesh.check_equal()
    assert mesh.per_node_and_change(15, before) <= DELIVERIES_MAX
    for machine in mesh.machines.values():
        assert machine.node.sync.live_nodes() == up.keys() - {machine.node.identity.node}
    for machine in gone:
        machine.store.close()


def test_a_relay_that_hangs_is_worked_around(mesh):
    """Nothing comes over one connection any more, and nobody notices: others bring it after a while."""
    first = next(iter(mesh.machines.values()))
    dead = next(wire for wire in mesh.wires if first in wire.ends)
    mesh.wires.remove(dead)
    dead.put = lambda _sender, _data: None
    write(mesh, 5)
    mesh.let(5.0)
    mesh.check_equal()
