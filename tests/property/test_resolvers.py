"""Seeded fleets with resolvers: one is asked on each side, others take over, and in the end nothing is in conflict."""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pytest

from tests.simulator.agents import Agent, Read
from tests.simulator.cases import Sub
from tests.simulator.histories import finish
from tests.simulator.hosts import Host
from tests.simulator.kinds import MAPS, MIXED, REGISTERS, TEXTS
from tests.simulator.player import SKEWS_MS, WEIGHTS, Player
from tests.simulator.resolving import Resolving
from tests.simulator.world import World

HISTORIES = int(os.environ.get("CRDTSYNC_HISTORIES", "1000")) // 200
FIRST_SEED = int(os.environ.get("CRDTSYNC_SEED", "0"))
CHUNK = 5
LONG_AGO = Read(None)


class Sides:
    """Hosts on the sides of a partition, each a full mesh; conflicts are made, asked about and settled."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.world = World(seed, self.rng.choice((3, 4, 5)))
        hosts = self.world.hosts
        for host in hosts:
            for number in range(2):
                Agent(self.world, f"agent-{host.index}-{number}", host)
        self.resolvers = [
            Resolving(self.world, f"resolver-{number}", self.rng.choice(hosts))
            for number in range(self.rng.randint(1, 6))
        ]
        self.sides: list[list[Host]] = []
        self.failures: Counter[tuple[str, frozenset[object]]] = Counter()
        self.hung = 0  # who hung and comes back with an answer does so while others are asked

    def part(self) -> None:
        """Every host goes to one of up to three sides; the hosts of a side are all connected."""
        world, hosts = self.world, self.world.hosts
        count = self.rng.choice((1, 1, 2, 2, 3))
        chosen = [self.rng.randrange(count) for _ in hosts]
        self.sides = [side for n in range(count) if (side := [host for host in hosts if chosen[host.index] == n])]
        for link in list(world.links):
            if chosen[link.ends[0]] != chosen[link.ends[1]]:
                world.cut(link)
        self.notice()
        pairs = [(one, other) for side in self.sides for one in side for other in side if one.index < other.index]
        for first, second in pairs:
            if not world.linked(first, second):
                world.connect(first, second)
        self.rest()

    def notice(self) -> None:
        """Both ends know of every connection that is gone."""
        for link in list(self.world.links):
            for side in (0, 1):
                self.world.notice(link, side)

    def rest(self) -> None:
        """Deliver everything, and let some time pass."""
        for _ in range(4):
            self.world.settle(lambda: True)
            self.world.pass_time(0.3)
        self.world.settle(lambda: True)

    def conflict(self) -> None:
        """Two agents of one host write a key without having read it lately."""
        host = self.rng.choice(self.world.up())
        key = self.rng.choice(REGISTERS)
        for agent in [one for one in self.world.agents if one.home is host and not isinstance(one, Resolving)]:
            agent.memory[key] = LONG_AGO
            agent.write([Sub("set", key)])
            self.world.turn(host)

    def work(self, *, trouble: bool) -> None:
        """Answer until nothing is in conflict where there is a resolver, with some failures on the way."""
        for _ in range(200):
            self.rest()
            busy = [one for one in self.resolvers if one.current is not None]
            if not busy and not self.open_keys():
                return
            for one in busy:
                if one.current is None:
                    continue  # it went with another's daemon
                if trouble and self.rng.random() < 0.2:
                    self.fail(one)
                else:
                    one.answer(self.rng.random())
                    self.world.turn(one.home)
            if not busy:
                self.world.pass_time(self.world.time_to_next())
        raise AssertionError(f"still in conflict: {self.open_keys()}")

    def open_keys(self) -> list[str]:
        """What is in conflict at a host with a resolver on its side."""
        found = []
        for side in self.sides:
            if any(one.home in side and one.conn is not None for one in self.resolvers):
                found += [key for host in side if host.node for key in REGISTERS if len(host.model.held(key)) > 1]
        return found

    def fail(self, one: Resolving) -> None:
        assert one.current is not None
        key, dots = one.asked[-1]
        match self.rng.choice(("fails", "dies", "its daemon dies", "hangs")):
            case "fails":
                one.fail()
            case "dies":
                one.reconnect()
            case "its daemon dies":
                self.failures.update(what for other in self.resolvers if other.home is one.home for what in other.asked)
                self.failures[key, dots] -= 1  # what it had answered may have been lost with it
                self.world.crash(one.home)
                self.notice()
                self.rest()
                self.world.start(one.home)
                side = next(side for side in self.sides if one.home in side)
                for host in side:
                    if host is not one.home:
                        self.world.connect(host, one.home)
            case "hangs":
                self.hung += 1
                self.world.pass_time(31.0)
                for other in [other for other in self.resolvers if other is not one and other.current]:
                    self.failures[other.asked[-1]] += 1
        self.failures[key, dots] += 1


def play_sides(seed: int, *, trouble: bool) -> Counter[str]:
    """Several partitions after each other, in each of which conflicts are made and settled."""
    sides = Sides(seed)
    try:
        for _ in range(4):
            sides.part()
            sides.work(trouble=trouble)
            for one in sides.resolvers:
                one.asked.clear()
            sides.failures.clear()
            sides.hung = 0
            for _ in range(sides.rng.randint(1, 4)):
                sides.conflict()
            sides.work(trouble=trouble)
            for side in sides.sides:
                asked = Counter(what for one in sides.resolvers if one.home in side for what in one.asked)
                for what, count in asked.items():
                    assert count <= 1 + sides.failures[what] + sides.hung, (what, asked, sides.failures)
        sides.world.heal()
        sides.sides = [sides.world.hosts]
        sides.work(trouble=False)
        sides.world.heal()
        sides.world.check_converged()
    except BaseException as error:
        error.add_note(f"replay it: play_sides({seed}, trouble={trouble})")
        raise
    finally:
        sides.world.close()
    return sides.world.counts


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + HISTORIES, CHUNK))
def test_each_conflict_is_asked_about_once_on_each_side(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        counts += play_sides(seed, trouble=False)
    assert counts["asked"] > 5 * CHUNK


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + HISTORIES, CHUNK))
def test_others_take_over_and_nobody_else_is_asked(first: int) -> None:
    """As often as somebody fails, dies or hangs another is asked, and not more often."""
    counts: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        counts += play_sides(seed, trouble=True)
    assert counts["asked"] > 5 * CHUNK


def play_chaos(seed: int, steps: int = 100) -> Counter[str]:
    """Any trouble at all, with resolvers in it; the oracle judges every change, and in the end all is settled."""
    rng = Random(seed)
    hosts, skews_ms = rng.choice((2, 3, 4)), rng.choice(((0,), SKEWS_MS))
    world = World(seed, hosts, skews_ms, rng.random() < 0.5)
    try:
        player = Player(world, rng.random, (*REGISTERS, *MAPS, *TEXTS, MIXED))
        player.is_ranked = False  # two schemas at once are siblings that no resolver is asked about
        resolvers = [Resolving(world, f"resolver-{n}", rng.choice(world.hosts)) for n in range(rng.randint(1, 3))]
        if rng.random() < 0.3:
            rng.choice(world.hosts).running.sync.resolver_news._links = {}  # as a version that knows no resolvers
        player.connect_all()
        weighted = WEIGHTS | {"declare": 0, "answer": 12, "fail": 2}
        names, weights = [*weighted], [*weighted.values()]
        for name in rng.choices(names, weights, k=steps):
            one = rng.choice(resolvers)
            if name == "answer":
                one.answer(rng.random())
            elif name == "fail":
                one.fail()
            else:
                getattr(player, name)()
        world.heal()
        for _ in range(1000):
            world.settle(lambda: world.is_quiet)
            busy = [one for one in resolvers if one.current is not None]
            for one in busy:
                one.answer(rng.random())
            if busy:
                continue
            # By the clock of another host a value may be alive that has expired by theirs.
            if all(one.home.running.status()["spaces"][0]["siblings"] == 0 for one in resolvers):
                break
            world.pass_time(world.time_to_next())
        else:
            raise AssertionError("not settled")
        finish(world, rng.random() < 0.5)
    except BaseException as error:
        error.add_note(f"replay it: play_chaos({seed}, {steps})")
        raise
    finally:
        world.close()
    return world.counts


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + HISTORIES, CHUNK))
def test_under_every_kind_of_trouble_all_is_settled_in_the_end(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        counts += play_chaos(seed)
    assert counts["asked"] > 3 * CHUNK
