"""What can happen in a world: agents that write and read, connections that come and go, hosts that fail."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from crdtsync.core.background.retention_caps import Caps
from tests.simulator.agents import Agent
from tests.simulator.cases import Sub
from tests.simulator.kinds import ALL, COUNTERS, KEYS, LOGS, MAPS, MIXED, REGISTERS, TEXTS
from tests.simulator.mirrors import MirrorWatcher
from tests.simulator.nemesis import Nemesis
from tests.simulator.policies import PATTERNS, POLICIES, PREFIX, REFUSING
from tests.simulator.watchers import Watcher
from tests.simulator.world import World

DAY_MS = 24 * 3600 * 1000
SKEWS_MS = (0, 4_000, -3_600_000, 60_000)
TINY_CAPS = (Caps(2_000, 7 * DAY_MS, 2_000, 7 * DAY_MS), Caps(600, 3_600_000, 600, 3_600_000))
KINDS = ("register", "register", "log", "counter", "set", "map", "text")
BATCHED = tuple(key for key in KEYS if key not in TEXTS)


class Player(Nemesis):
    """Does one thing after the other in a world; each choice is a number from 0 to 1 from ``draw``."""

    def __init__(self, world: World, draw: Callable[[], float], keys: tuple[str, ...] = KEYS) -> None:
        super().__init__(world, draw)
        self.keys = keys
        self.is_ranked = not {*keys}.isdisjoint((*REGISTERS, *MAPS, MIXED))  # a read policy would mean something
        self.reset_chance = 0.45 if {*keys} <= {*COUNTERS} else 0.2
        for host in world.hosts:
            self.populate(host)

    def play(self, name: str, seed: int) -> None:
        """Do one of the :data:`WEIGHTS`; all that is left to chance in it comes from ``seed``."""
        self.draw = Random(seed).random
        self.world.random.seed(seed)
        self.world.note(f"-- {name}")
        getattr(self, name)()

    # -- what can happen -----------------------------------------------------------------------------------------

    def write(self) -> None:
        if self.chance(0.2):
            self.write_batch()
        else:
            self.write_key(self.pick(self.keys))

    def write_key(self, key: str) -> None:
        agent = self._agent()
        if agent is None:
            return
        kind = self._kind(key)
        if kind == "text" and self.chance(0.85):
            agent.edit(key, int(self.draw() * 100), self.chance(0.3))
            return
        sub = ALL[kind].draw(self, key) if kind == "text" else self._sub(key, kind)
        options: dict[str, Any] = {"strict": True} if self.chance(0.1) else {}
        agent.write([sub], **options, **({"w": 2} if self.chance(0.06) else {}))
        if key in (*REGISTERS, *MAPS) and self.chance(0.1):
            agent.write([self._sub(key, kind)])  # before the reply to the first one is there

    def write_batch(self) -> None:
        """Several writes as one; those of one key see each other."""
        agent = self._agent()
        if agent is not None:
            keys = [self.pick(self._among(BATCHED)) for _ in range(2 + int(self.draw() * 4))]
            subs = [self._sub(key, self.pick(KINDS[:-1]) if key == MIXED else self._kind(key)) for key in keys]
            agent.write([self._schema(), *subs] if self.is_ranked and self.chance(0.05) else subs)

    def declare(self) -> None:
        """Declare by which policy some keys are read, or nothing any more."""
        agent = self._agent()
        if agent is not None and self.is_ranked:
            agent.write([self._schema()])

    def _schema(self) -> Sub:
        policy = self.pick((*POLICIES, None))
        declared = {"policy": policy, "refuse_lower": policy in REFUSING and self.chance(0.5)}
        return Sub("schema_set", PREFIX + self.pick(PATTERNS), content=None if policy is None else declared)

    def resolve(self) -> None:
        """Make one value of a key's siblings: one of them, or a new one."""
        agent = self._agent()
        if agent is None:
            return
        key = self.pick(self._among((*REGISTERS, *MAPS, *TEXTS, MIXED, MIXED, MIXED)))
        values = [*agent.home.model.held(key).values()]
        if self.chance(0.5) and values:
            agent.write([Sub("resolve", key, take=self.pick(values).dot)])
        else:
            agent.write([Sub("resolve", key, content=None if key in TEXTS and self.chance(0.8) else 0)])

    def _among(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(key for key in keys if key in self.keys) or keys

    def _agent(self) -> Agent | None:
        return self.find([agent for agent in self.world.agents if agent.conn is not None])

    def _kind(self, key: str) -> str:
        return self.pick(KINDS) if key == MIXED else next(kind for kind in ALL.values() if key in kind.keys).name

    def _sub(self, key: str, kind: str) -> Sub:
        if self.chance(0.15):
            return Sub("delete", key)
        return ALL[kind].draw(self, key)

    def read(self) -> None:
        agent = self._agent()
        if agent is not None:
            agent.read(self.pick(self.keys), whole=self.chance(0.3), after=self.chance(0.2))

    def forget(self) -> None:
        self.pick(self.world.agents).forget(self.pick(KEYS))

    def turn(self) -> None:
        host = self.find(self.world.up())
        if host is not None:
            self.world.turn(host)

    def deliver(self) -> None:
        waiting = [(link, side) for link in self.world.links for side in (0, 1) if link.queues[side]]
        chosen = self.find(waiting)
        if chosen is not None:
            link, side = chosen
            host = self.world.hosts[link.ends[side]]
            self.world.deliver(link, side, 1 + int(self.draw() * 4))
            if host.node is not None and self.chance(0.5):
                self.world.turn(host)

    def connect(self) -> None:
        first, second = self.pick(self.world.staying()), self.pick(self.world.staying())
        if not self.world.linked(first, second) or self.chance(0.05):
            self.world.connect(first, second)

    def connect_all(self) -> None:
        """The fleet as it should be."""
        for number, second in enumerate(self.world.up()):
            for first in self.world.up()[:number]:
                if not self.world.linked(first, second):
                    link = self.world.connect(first, second)
                    assert link is not None
                    for side in (0, 1):
                        self.world.turn(self.world.hosts[link.ends[1 - side]])
                        self.world.deliver(link, side, 1)

    def cut(self) -> None:
        link = self.find(self.world.links)
        if link is not None:
            self.world.cut(link, self.pick(((0, 1), (0, 1), (0,), (1,), ())))

    def notice(self) -> None:
        link = self.find([link for link in self.world.links if link.is_cut])
        if link is not None:
            self.world.notice(link, self.pick((0, 1)))

    def crash(self) -> None:
        host = self.find(self.world.up())
        if host is not None:
            self.world.turn(host, self.pick(("before", "after")))

    def disk_full(self) -> None:
        host = self.find(self.world.up())
        if host is not None:
            self.world.turn(host, "full")

    def start(self) -> None:
        host = self.find([host for host in self.world.staying() if host.node is None])
        if host is not None:
            self.world.start(host)

    def move(self) -> None:
        """A session goes on elsewhere, often with what it has just read and the new host does not have yet."""
        agent = self.pick(self.world.agents)
        agent.move(self.pick(self.world.staying()))
        known = [key for key in REGISTERS if key in agent.memory]
        if known and self.chance(0.7):
            agent.write([Sub("set", self.pick(known))], **({"strict": True} if self.chance(0.2) else {}))

    def reconnect(self) -> None:
        self.pick(self.world.agents).reconnect()

    def watch(self) -> None:
        """A watcher is slow, or no longer, or its connection breaks."""
        watcher = self.pick(self.world.watchers)
        self.pick((lambda: watcher.flow(True), lambda: watcher.flow(False), lambda: self._break_off(watcher)))()

    def _break_off(self, watcher: Watcher | MirrorWatcher) -> None:
        """Once, or again before all is told that there was to tell."""
        watcher.reconnect()
        for _ in range(self.pick((0, 0, 1, 3))):
            if watcher.home.node is not None:
                self.world.turn(watcher.home)
                self.world.turn(watcher.home)
                watcher.reconnect()

    def isolate(self) -> None:
        """A host is cut off from all others."""
        host = self.pick(self.world.staying())
        for link in [link for link in self.world.links if host.index in link.ends]:
            self.world.cut(link)

    def burst(self) -> None:
        """So much is written at one host that others may fall behind what its log holds."""
        agent = self._agent()
        for _ in range(4 + int(self.draw() * 12)):
            key = self.pick(self._among((*REGISTERS, *COUNTERS, *MAPS, *LOGS)))
            if agent is not None and agent.conn is not None:
                agent.write([self._sub(key, self._kind(key))])
                self.world.turn(agent.home)

    def keep_snapshot(self) -> None:
        host = self.find(self.world.up())
        if host is not None:
            self.world.keep_snapshot(host)

    def merge_kept(self) -> None:
        host, kept = self.find(self.world.up()), self.find(self.world.kept)
        if host is not None and kept is not None:
            self.world.merge_kept(host, kept)

    def pass_time(self) -> None:
        self.world.pass_time(self.pick((0.001, 0.06, 0.3, 1.1, 1.1, 4.0, 4.0, 20.0)))

    def pass_hours(self) -> None:
        """Long enough for who has been away to be given up, in what does not touch anybody's data."""
        self.world.pass_time(4000.0)


WEIGHTS = {
    "write": 34,
    "declare": 4,
    "resolve": 3,
    "read": 20,
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
    "isolate": 1.5,
    "burst": 2,
    "keep_snapshot": 0.7,
    "merge_kept": 1,
    "pass_time": 6,
    "pass_hours": 0.3,
}
