"""Random histories: a seed says everything that happens. ``run_history(seed)`` replays one that failed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.property.agents import KEYS, LOGS, MIXED, REGISTERS, TEXTS, Agent, Watcher
from tests.property.oracle import Broken, Sub
from tests.property.world import World

SKEWS_MS = (0, 4_000, -3_600_000, 60_000)


class Player:
    """Does one thing after the other in a world; each choice is a number from 0 to 1 from ``draw``."""

    def __init__(self, world: World, draw: Callable[[], float]) -> None:
        self.world = world
        self.draw = draw
        for host in world.hosts:
            for n in range(2):
                Agent(world, f"agent-{host.index}-{n}", host)
            Watcher(world, host)

    def pick(self, items):
        return items[int(self.draw() * len(items))] if items else None

    def chance(self, probability: float) -> bool:
        return self.draw() < probability

    # -- what can happen -----------------------------------------------------------------------------------------

    def write(self) -> None:
        if self.chance(0.2):
            self.write_batch()
        else:
            self.write_key(self.pick(KEYS))

    def write_key(self, key: str) -> None:
        agent = self._agent()
        if agent is None:
            return
        if key in TEXTS and self.chance(0.9):
            agent.edit(key, int(self.draw() * 100), self.chance(0.3))
            return
        sub = Sub("delete", key) if key in TEXTS else self._sub(key)
        agent.write([sub], **({"strict": True} if self.chance(0.1) else {}))

    def write_batch(self) -> None:
        """Several writes as one; those of one key see each other."""
        agent = self._agent()
        if agent is not None:
            agent.write([self._sub(self.pick((*REGISTERS, *LOGS, MIXED))) for _ in range(2 + int(self.draw() * 4))])

    def _agent(self) -> Agent | None:
        return self.pick([agent for agent in self.world.agents if agent.conn is not None])

    def _sub(self, key: str) -> Sub:
        logs = key in LOGS or (key == MIXED and self.chance(0.5))
        if self.chance(0.15):
            return Sub("delete", key)
        if logs:
            return Sub("trim", key, keep=int(self.draw() * 4)) if self.chance(0.25) else Sub("append", key)
        mode = self.pick(("blind", "blind", "blind", "blind", "if_version", "if_absent"))
        return Sub("set", key, mode, ttl_ms=1 + int(self.draw() * 5000) if self.chance(0.1) else None)

    def read(self) -> None:
        agent = self._agent()
        if agent is not None:
            agent.read(self.pick(KEYS), whole=self.chance(0.3), after=self.chance(0.2))

    def forget(self) -> None:
        self.pick(self.world.agents).forget(self.pick(KEYS))

    def turn(self) -> None:
        host = self.pick(self.world.up())
        if host is not None:
            self.world.turn(host)

    def deliver(self) -> None:
        waiting = [(link, side) for link in self.world.links for side in (0, 1) if link.queues[side]]
        chosen = self.pick(waiting)
        if chosen is not None:
            link, side = chosen
            host = self.world.hosts[link.ends[side]]
            self.world.deliver(link, side, 1 + int(self.draw() * 4))
            if host.node is not None and self.chance(0.5):
                self.world.turn(host)

    def connect(self) -> None:
        first, second = self.pick(self.world.hosts), self.pick(self.world.hosts)
        if not self.world.linked(first, second) or self.chance(0.05):
            self.world.connect(first, second)

    def connect_all(self) -> None:
        """The fleet as it should be."""
        for second in self.world.up():
            for first in self.world.up()[: second.index]:
                if not self.world.linked(first, second):
                    link = self.world.connect(first, second)
                    assert link is not None
                    for side in (0, 1):
                        self.world.turn(self.world.hosts[link.ends[1 - side]])
                        self.world.deliver(link, side, 1)

    def cut(self) -> None:
        link = self.pick(self.world.links)
        if link is not None:
            self.world.cut(link, self.pick(((0, 1), (0, 1), (0,), (1,), ())))

    def notice(self) -> None:
        link = self.pick([link for link in self.world.links if link.is_cut])
        if link is not None:
            self.world.notice(link, self.pick((0, 1)))

    def crash(self) -> None:
        host = self.pick(self.world.up())
        if host is not None:
            self.world.turn(host, self.pick(("before", "after")))

    def disk_full(self) -> None:
        host = self.pick(self.world.up())
        if host is not None:
            self.world.turn(host, "full")

    def start(self) -> None:
        host = self.pick([host for host in self.world.hosts if host.node is None])
        if host is not None:
            self.world.start(host)

    def move(self) -> None:
        """A session goes on elsewhere, often with what it has just read and the new host does not have yet."""
        agent = self.pick(self.world.agents)
        agent.move(self.pick(self.world.hosts))
        known = [key for key in REGISTERS if key in agent.memory]
        if known and self.chance(0.7):
            agent.write([Sub("set", self.pick(known))], **({"strict": True} if self.chance(0.2) else {}))

    def reconnect(self) -> None:
        self.pick(self.world.agents).reconnect()

    def watch(self) -> None:
        """A watcher is slow, or no longer, or its connection breaks."""
        watcher = self.pick(self.world.watchers)
        self.pick((lambda: watcher.flow(True), lambda: watcher.flow(False), watcher.reconnect))()

    def pass_time(self) -> None:
        self.world.pass_time(self.pick((0.001, 0.06, 0.3, 1.1, 4.0)))


WEIGHTS = {
    "write": 30,
    "read": 18,
    "turn": 16,
    "deliver": 26,
    "connect": 7,
    "cut": 3,
    "notice": 2,
    "crash": 3,
    "start": 4,
    "disk_full": 1,
    "move": 4,
    "reconnect": 2,
    "forget": 1,
    "watch": 5,
    "pass_time": 6,
}


def run_history(seed: int, steps: int = 120, make_world: Callable[..., World] = World) -> World:
    """Play one history to its end and check everything. The seed says it all, also how many hosts there are."""
    rng = Random(seed)
    world = make_world(seed, hosts=rng.choice((2, 3, 3, 4)), skews_ms=rng.choice(((0,), SKEWS_MS)))
    try:
        player = Player(world, rng.random)
        if rng.random() < 0.7:
            player.connect_all()
        names, weights = [*WEIGHTS], [*WEIGHTS.values()]
        for name in rng.choices(names, weights, k=steps):
            getattr(player, name)()
        finish(world, rng)
    except Exception as error:
        error.add_note(f"replay it: run_history({seed}, steps={steps})")
        raise
    finally:
        world.close()
    return world


def finish(world: World, rng: Random) -> None:
    """Heal, along a ring or with every pair connected, and check."""
    count = len(world.hosts)
    edges = [(i, i + 1) for i in range(count - 1)] if rng.random() < 0.5 else None
    world.heal(edges)
    world.check_converged()
    world.check_disks()


__all__ = ["Broken", "Player", "finish", "run_history"]
