"""Random histories of spaces: made, dropped and written while hosts part, meet and restart; and faults planted.

Whatever happened, in the end every node has what the records say that it should have and nothing else, in the same
state; every acknowledged write is where it was made or in the archive there; and what was written in a space for some
nodes has reached no other, neither over a wire nor on a disk.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import combinations
from random import Random
from typing import Any

import pytest

from crdtsync.core.cluster.archives import Archives
from crdtsync.core.cluster.space_records import SpaceRecord
from crdtsync.core.cluster.spaces import Spaces
from crdtsync.core.interface import PeerFrame
from crdtsync.core.sync.protocol import Sync
from crdtsync.wire.codec import pack
from tests.fleet.agent import Refusal
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host

HOSTS = ("a", "b", "c", "d")
NAMES = ("default", "one", "two")
STEPS = 60
SEEDS = range(15)
FAULT_SEEDS = range(100)


class Written:
    """An acknowledged write: a key and value that occur nowhere else, and the nodes that may come to know of it."""

    def __init__(self, word: str, host: str, name: str, record: SpaceRecord) -> None:
        self.word = word
        self.host = host
        self.name = name
        self.epoch = record.epoch
        self.nodes = record.nodes


class History:
    """One history, by its seed."""

    def __init__(self, seed: int, fleet: Fleet, patch: pytest.MonkeyPatch) -> None:
        self.random = Random(seed)
        self.fleet = fleet
        self.written: list[Written] = []
        self.heard: defaultdict[str, list[bytes]] = defaultdict(list)
        step = Host.step

        def listen(machine: Host, event: Any) -> None:
            if isinstance(event, PeerFrame):
                self.heard[machine.name].append(event.data)
            step(machine, event)

        patch.setattr(Host, "step", listen)

    def play(self) -> None:
        often = [self.write] * 3
        actions = [self.make, self.drop, *often, self.part, self.meet, self.restart, self.wait]
        if self.random.random() < 0.5:
            for host in HOSTS:
                self.part(self.fleet[host], "")
        for _ in range(STEPS):
            try:
                self.random.choice(actions)(self.fleet[self.random.choice(HOSTS)], self.random.choice(NAMES))
            except Refusal as refusal:
                if refusal.code not in ("unknown_space", "invalid_request"):
                    raise
        self.heal()
        self.check()

    # -- what happens ----------------------------------------------------------------------------------------------

    def make(self, machine: Host, name: str) -> None:
        ids = [host.node.identity.node for host in self.fleet.machines.values()]
        nodes = self.random.sample(ids, self.random.randint(1, 3)) if self.random.random() < 0.6 else None
        known = {machine.node.identity.node, *machine.node.sync.peers}
        machine.agent().ask("space_create", name=name, nodes=nodes and [node for node in nodes if node in known])

    def drop(self, machine: Host, name: str) -> None:
        if self.random.random() < 0.5:
            machine.agent().ask("space_drop", name=name)

    def write(self, machine: Host, name: str) -> None:
        word = self.random.randbytes(8).hex()
        record = machine.node.spaces.record(name)
        machine.agent().do("set", key=word, value=pack(word), space=name)
        assert record is not None
        self.written.append(Written(word, machine.name, name, record))

    def part(self, machine: Host, name: str) -> None:
        for wire in [wire for wire in self.fleet.wires if machine in wire.ends and self.random.random() < 0.7]:
            wire.close()

    def meet(self, machine: Host, name: str) -> None:
        other = self.fleet[self.random.choice(HOSTS)]
        if other is not machine and not self.linked(machine, other):
            self.fleet.link(machine.name, other.name)
        self.deliver()

    def restart(self, machine: Host, name: str) -> None:
        if self.random.random() < 0.3:
            machine.restart()

    def wait(self, machine: Host, name: str) -> None:
        self.fleet.pass_time(self.random.random() * 2)
        self.deliver()

    def deliver(self) -> None:
        """Some of what is on its way, or all."""
        if self.random.random() < 0.3:
            self.fleet.sync()
        for wire in list(self.fleet.wires):
            for end in wire.ends:
                wire.deliver(end, self.random.randint(0, 5))
                end.turn()

    def linked(self, one: Host, other: Host) -> bool:
        return any({one, other} == {*wire.ends} for wire in self.fleet.wires)

    def heal(self) -> None:
        for _ in range(4):
            for one, other in combinations(HOSTS, 2):
                if not self.linked(self.fleet[one], self.fleet[other]):
                    self.fleet.link(one, other)
            self.fleet.run(1.5, 0.5)

    # -- what must hold --------------------------------------------------------------------------------------------

    def check(self) -> None:
        for name in NAMES:
            self.check_space(name)
        for each in self.written:
            assert self.is_kept(each), f"{each.word} of {each.host} in {each.name}@{each.epoch} is gone without a trace"
        self.check_leaks()

    def check_space(self, name: str) -> None:
        records = {host.name: host.node.spaces.record(name) for host in self.fleet.machines.values()}
        assert all(record == records["a"] for record in records.values()), f"{name}: {records}"
        states = {}
        for host in self.fleet.machines.values():
            replica, record = host.node.replicas.get(name), records[host.name]
            wanted = record is not None and record.exists and record.admits(host.node.identity.node)
            assert (replica is not None) == wanted, f"{host.name} has {name}: {replica is not None}, and {record}"
            if replica is not None and record is not None:
                assert replica.epoch == record.epoch, f"{host.name} is at epoch {replica.epoch} of {name}: {record}"
                states[host.name] = (sorted(replica.vector.items()), replica.entries.digest)
        assert all(state == next(iter(states.values())) for state in states.values()), f"{name} differs: {states}"

    def is_kept(self, each: Written) -> bool:
        node = self.fleet[each.host].node
        replica = node.replicas.get(each.name)
        if replica is None or replica.epoch != each.epoch:
            replica = node.spaces.archives.open(f"{each.name}@{each.epoch}")
        return replica is not None and bool(replica.entries.held(each.word))

    def check_leaks(self) -> None:
        for host in self.fleet.machines.values():
            files = [path.read_bytes() for path in host.directory.rglob("*") if path.is_file()]
            everything = b"".join([*self.heard[host.name], *files])
            for each in self.written:
                if each.nodes is not None and host.node.identity.node not in each.nodes:
                    assert each.word.encode() not in everything, f"{each.name}@{each.epoch} leaks to {host.name}"


def run_history(seed: int, patch: pytest.MonkeyPatch) -> History:
    with fleet_of(*HOSTS, linked=True) as fleet:
        history = History(seed, fleet, patch)
        history.play()
        return history


@pytest.mark.parametrize("seed", SEEDS)
def test_history(seed, monkeypatch):
    run_history(seed, monkeypatch)


# -- faults ----------------------------------------------------------------------------------------------------------


def everybody_may_hold_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SpaceRecord, "admits", lambda self, node: True)


def older_epochs_are_kept(patch: pytest.MonkeyPatch) -> None:
    follow = Spaces._follow

    def stubborn(self: Spaces, name: str, record: SpaceRecord) -> None:
        if name not in self._node.replicas:
            follow(self, name, record)

    patch.setattr(Spaces, "_follow", stubborn)


def peers_are_not_told_of_new_spaces(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sync, "space_opened", lambda self, replica: None)
    patch.setattr(Sync, "audience_changed", lambda self, replica: None)
    patch.setattr(Host, "restart", lambda self: None)


def dropped_without_an_archive(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Archives, "open", lambda self, name: None)


@pytest.mark.parametrize(
    "plant, what",
    [
        (everybody_may_hold_everything, "leaks to"),
        (older_epochs_are_kept, "has |is at epoch"),
        (peers_are_not_told_of_new_spaces, "differs"),
        (dropped_without_an_archive, "gone without a trace"),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_planted_fault_is_caught(plant, what, monkeypatch):
    plant(monkeypatch)
    for seed in FAULT_SEEDS:
        with monkeypatch.context() as patch:
            try:
                run_history(seed, patch)
            except AssertionError as caught:
                if re.search(what, str(caught)) is None:
                    raise
                return
    pytest.fail(f"not caught in {len(FAULT_SEEDS)} histories")
