"""Random histories of clusters: joining and removing, rights, and spaces for some (``./dev simulate --members``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import permutations

import pytest

from tests.simulator.__main__ import main
from tests.simulator.clusters.player import JOIN_FAULTS, Player, plan_cluster
from tests.simulator.clusters.world import ClusterWorld, Host

SEEDS = range(4)


def test_histories() -> None:
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        happened += plan_cluster(seed, 80).play().counts
    assert all(happened[what] for what in ("allowed", "refused", "remove", "make_space", "join"))
    assert sum(bool(happened[f"not let in: {fault}"]) for fault in JOIN_FAULTS) >= 3


@pytest.fixture
def world() -> Iterator[ClusterWorld]:
    made = ClusterWorld(0)
    yield made
    made.close()


def members(host: Host) -> set[str]:
    return {member.name for member in host.membership.members.values()}


def cluster(world: ClusterWorld, count: int) -> list[Host]:
    player = Player(world)  # makes three
    while len(world.hosts) < count:
        player.join(world.hosts[0])
    player.meet_all()
    player.meet_all()  # those who know each other only by now
    assert [members(host) for host in world.hosts] == [{host.name for host in world.hosts}] * count
    return world.hosts


def remove(host: Host, other: Host) -> None:
    host.operator().ask("cluster_remove", node=other.id)


def cut(world: ClusterWorld, one: Host, other: Host) -> None:
    for wire in [wire for wire in world.wires if {*wire.ends} == {one, other}]:
        wire.close("cut")


@pytest.mark.parametrize("order", [*permutations([(0, 3), (1, 2), (2, 3)])])
def test_of_two_that_remove_each_other_neither_stays_whoever_meets_first(
    world: ClusterWorld, order: tuple[tuple[int, int], ...]
) -> None:
    hosts = cluster(world, 4)
    for one, other in [*order, (0, 1)]:
        cut(world, hosts[one], hosts[other])
    remove(hosts[0], hosts[1])
    remove(hosts[1], hosts[0])
    world.settle()
    assert members(hosts[2]) == {"host-0", "host-2", "host-3"}, "it has heard of one removal"
    assert members(hosts[3]) == {"host-1", "host-2", "host-3"}, "and this one of the other"
    for one, other in order:
        world.link(hosts[one], hosts[other])
        world.settle()
    assert [members(host) for host in hosts[2:]] == [{"host-2", "host-3"}] * 2


@pytest.mark.parametrize("first, second", [(0, 1), (1, 0)])
def test_a_removal_of_which_nobody_heard_before_its_author_was_removed_does_not_count(
    world: ClusterWorld, first: int, second: int
) -> None:
    hosts = cluster(world, 3)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        cut(world, hosts[one], hosts[other])
    remove(hosts[0], hosts[1])
    remove(hosts[1], hosts[0])
    assert world.link(hosts[2], hosts[first])
    world.settle()
    assert not world.link(hosts[2], hosts[second]), "who was removed has nothing to say any more"
    assert members(hosts[2]) == members(hosts[first]) == {"host-2", hosts[first].name}


def test_the_command_plays_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--members", "--seeds", "2", "--steps", "20", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.startswith("2 seeds, 40 operations, ")
    assert main(["--members", "--seed", "1", "--steps", "20", "--only", "3,4"]) == 0
    assert "joins by" in capsys.readouterr().out
