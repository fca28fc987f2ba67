"""What a network, a disk, a clock or an administrator may do to a fleet, beside what :mod:`player` does already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tests.simulator import images
from tests.simulator.agents import Agent
from tests.simulator.cases import Sub
from tests.simulator.kinds import REGISTERS
from tests.simulator.mirrors import MirrorWatcher
from tests.simulator.watchers import Watcher

if TYPE_CHECKING:
    from tests.simulator.hosts import Host, Link
    from tests.simulator.world import World

T = TypeVar("T")
HOSTS_MAX = 6
HOUR_MS = 3_600_000
SKEWS_JUMPED_MS = (0, 1, -1, 4_000, -4_000, HOUR_MS, -HOUR_MS, 10 * HOUR_MS, -10 * HOUR_MS)
"""Within the 24 hours up to which one host's clock is believed by the others."""


class Nemesis:
    """Trouble; each choice is a number from 0 to 1 from ``draw``."""

    def __init__(self, world: World, draw: Callable[[], float]) -> None:
        self.world = world
        self.draw = draw

    def pick(self, items: Sequence[T]) -> T:
        """One of what there is; there must be something."""
        return items[int(self.draw() * len(items))]

    def find(self, items: Sequence[T]) -> T | None:
        """One of what there is, if there is anything."""
        return self.pick(items) if items else None

    def chance(self, probability: float) -> bool:
        return self.draw() < probability

    # -- the network: beyond what TCP lets happen ------------------------------------------------------------------

    def lose_message(self) -> None:
        self._tamper("lost", lambda queue, at: queue.pop(at))

    def repeat_message(self) -> None:
        self._tamper("repeated", lambda queue, at: queue.insert(at, queue[at]))

    def swap_messages(self) -> None:
        """A message comes later than one that was sent after it."""
        self._tamper("swapped", lambda queue, at: queue.append(queue.pop(at)))

    def _tamper(self, what: str, do: Callable[[list[bytes], int], object]) -> None:
        found = self.find([(link, side) for link in self.world.links for side in (0, 1) if link.queues[side]])
        if found is None:
            return
        link, side = found
        queue = [*link.queues[side]]
        do(queue, int(self.draw() * len(queue)))
        link.queues[side].clear()
        link.queues[side].extend(queue)
        link.is_tampered_with = True
        self.world.counts[f"message {what}"] += 1
        self.world.note("a message to", self.world.hosts[link.ends[side]].name, "is", what)

    # -- slowness --------------------------------------------------------------------------------------------------

    def freeze(self) -> None:
        host = self.find(self.world.up())
        if host is not None and not host.is_busy:
            self.world.turn(host)
            host.is_frozen = True
            self.world.counts["frozen"] += 1
            self.world.note(host.name, "is frozen")

    def slow_commit(self) -> None:
        host = self.find(self.world.up())
        if host is not None:
            self.world.turn(host, "slow")
            self.world.note(host.name, "waits for its disk:", host.committing is not None)

    def wake(self) -> None:
        host = self.find([host for host in self.world.up() if host.is_busy])
        if host is not None:
            self.world.note(host.name, "goes on")
            self.world.wake(host)

    # -- clocks ----------------------------------------------------------------------------------------------------

    def jump_clock(self) -> None:
        host = self.pick(self.world.staying())
        if host.node is not None and not host.is_busy:
            self.world.turn(host)
        if not host.is_busy:
            host.skew_ms = self.pick(SKEWS_JUMPED_MS)
            self.world.counts["clock jumped"] += 1
            self.world.note("the clock of", host.name, "jumps to", host.skew_ms, "ms")

    # -- disks -----------------------------------------------------------------------------------------------------

    def watch_disk(self) -> None:
        host = self.find(self.world.up())
        if host is not None:
            images.watch_disk(self.world, host)

    def cut_power(self) -> None:
        watched = [host for host in self.world.up() if host.synced is not None]
        host = self.find(watched) if watched and self.chance(0.8) else self.find(self.world.up())
        if host is not None:
            if host.synced is None and self.chance(0.6):
                images.watch_disk(self.world, host)
            agents = [agent for agent in self.world.agents if agent.home is host and agent.conn is not None]
            if agents and not host.is_busy:
                self.pick(agents).write([Sub("append", "log/1")])  # so that there is something to commit
            self.world.note(
                "the power of", host.name, "goes, its disk flushed up to a known point:", host.synced is not None
            )
            images.cut_power(self.world, host)

    def keep_image(self) -> None:
        host = self.find(self.world.up())
        if host is not None:
            images.keep_image(self.world, host)
            self.world.note("somebody copies the disk of", host.name)

    def roll_back(self) -> None:
        host = self.find([host for host in self.world.staying() if host.kept is not None])
        if host is not None:
            self.world.note("the disk of", host.name, "goes back to an older copy")
            images.roll_back(self.world, host, self.chance(0.5))

    def come_back_older(self) -> None:
        """A host says that it has a write, and comes back without it; somebody asks whether it has that write."""
        sound = [link for link in self.world.links if not link.is_cut]
        pairs = [(link, end) for link in sound for end in link.ends]
        ends = [
            (agent, self.world.hosts[end], link)
            for link, end in pairs
            for agent in self.world.agents
            if agent.conn is not None and agent.home.index in link.ends
        ]
        found = self.find([each for each in ends if each[0].home is not each[1] and not each[1].is_busy])
        if found is None or found[0].home.is_busy:
            return
        agent, host, link = found
        images.keep_image(self.world, host)
        agent.write([Sub("set", self.pick(REGISTERS))])
        for _ in range(3):
            self._exchange(link, 100)
            self.world.pass_time(0.06)
        if host.kept is None or agent.last not in host.applied or agent.last in host.kept.applied:
            return
        self.world.counts["came back older"] += 1
        self.world.note(host.name, "comes back with an older disk, and", agent.name, "asks for its last write there")
        images.roll_back(self.world, host, self.chance(0.5))
        for stale in [stale for stale in self.world.links if host.index in stale.ends]:
            for side in (0, 1):
                self.world.notice(stale, side)
        self.world.start(host)
        again = self.world.connect(agent.home, host)
        if again is not None:
            self._exchange(again, 1)
            holders = {h.original for h in self.world.hosts if agent.last in h.applied[: h.durable]}
            agent.wait_for_others(len(holders) + 1)
            self.world.turn(agent.home)

    def _exchange(self, link: Link, count: int) -> None:
        for end in link.ends:
            if self.world.hosts[end].node is not None:
                self.world.turn(self.world.hosts[end])
        for side in (0, 1):
            self.world.deliver(link, side, count)

    def ask_others(self) -> None:
        agent = self.find([agent for agent in self.world.agents if agent.conn is not None])
        if agent is not None:
            agent.wait_for_others(2)

    def copy(self) -> None:
        """Another machine runs on a copy of a disk."""
        host = self.find([host for host in self.world.staying() if host.kept is not None and host.twin_of is None])
        if host is not None and len(self.world.hosts) < HOSTS_MAX:
            self.world.note("a copy of the disk of", host.name, "is started as", f"host-{len(self.world.hosts)}")
            twin = images.copy(self.world, host)
            if twin is not None:
                self.populate(twin)

    # -- members ---------------------------------------------------------------------------------------------------

    def join(self) -> None:
        if len(self.world.hosts) < HOSTS_MAX:
            host = self.world.make_host(self.pick(SKEWS_JUMPED_MS))
            self.world.counts["joined"] += 1
            self.world.note(host.name, "joins")
            self.world.start(host)
            self.populate(host)

    def leave(self) -> None:
        staying = self.world.staying()
        if len(staying) > 2:
            host = self.pick(staying)
            self.world.note(host.name, "is gone for good")
            images.leave(self.world, host)

    def populate(self, host: Host) -> None:
        """The agents and watchers of a host."""
        for n in range(2):
            Agent(self.world, f"agent-{host.index}-{n}", host)
        Watcher(self.world, host)
        MirrorWatcher(self.world, host)


TROUBLE = {
    "lose_message": 1.5,
    "repeat_message": 1.5,
    "swap_messages": 1.5,
    "freeze": 2,
    "slow_commit": 4,
    "wake": 8,
    "jump_clock": 1.5,
    "watch_disk": 2,
    "cut_power": 2,
    "keep_image": 3,
    "roll_back": 0.7,
    "come_back_older": 1,
    "ask_others": 1,
    "copy": 0.3,
    "join": 0.7,
    "leave": 0.5,
}
"""How often each of these happens, beside :data:`tests.simulator.player.WEIGHTS`."""
