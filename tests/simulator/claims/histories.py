"""What happens in a history of claims, from its seed; then all faults end, and one owner must be left everywhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import Context, copy_context
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from crdtsync import AsyncClient
from crdtsync.client.aio import connection, stream, watch
from crdtsync.client.aio.methods import base
from crdtsync.coordination import AsyncLease
from crdtsync.coordination.claim_record import HELD
from crdtsync.errors import CrdtSyncError
from tests.simulator.claims.judge import Broken, Holding, Judge, QuorumJudge
from tests.simulator.claims.machines import KEYS, Machine, Machines
from tests.simulator.claims.virtual_loop import PROCESS, Process
from tests.simulator.claims.votes import VoteMachines

SECONDS = 40.0
SKEW_MS = 600_000
HEAL_S = 30.0
RIVAL_S = 0.5
"""Who asks so soon after somebody on another host may be frozen before it holds the key, and so may that one."""
LIMIT_S = 120.0
"""By then the last claim must be got, in simulated time: nothing waits for ever."""


class Agent:
    """A process that claims and gives back again and again."""

    def __init__(self, history: History, name: str, machine: Machine) -> None:
        self.name, self.machine, self.process = name, machine, Process(machine.clock_s, machine.wall_s)
        self._history, self._random = history, Random(f"{history.seed} {name}")
        self.client = history.world.client(machine, name, 5)
        self.is_ended = False

    async def run(self) -> None:
        """Until it is told to end."""
        PROCESS.set(self.process)
        while not self.is_ended:
            with suppress(CrdtSyncError):
                await self._claim(self._random.choice(KEYS))
            await asyncio.sleep(self._random.expovariate(1.0))
        await self.client.close()

    async def _claim(self, key: str) -> None:
        wait = self._random.choice((False, 2.0, 20.0))
        ttl = self._random.choice((2.0, 5.0, 10.0 if self._history.by_quorum else 20.0))
        lease = self.client.claim(key, ttl=ttl, wait=wait, quorum=self._history.by_quorum)
        await self._history.acquire(self, lease)
        await asyncio.sleep(self._random.choice((0.1, 1.0, 8.0, 20.0)))
        await lease.release()

    def kill(self) -> None:
        """Its process is killed: the kernel closes its sockets."""
        self.is_ended = True
        self.process.kill()
        for socket in list(self.machine.sockets.values()):
            if socket.process is self.process:
                socket.hang_up()


class History:
    """See the module's description."""

    def __init__(self, seed: int, *, by_quorum: bool = False, is_whole: bool = True) -> None:
        self.seed = seed
        self.by_quorum = by_quorum
        self.random = Random(f"history {seed}")
        self.pauses = Random(f"pauses {seed}")
        self.asked: dict[str, dict[str, float]] = {}
        """When somebody last asked for a key, by host."""
        count = self.random.choice((3, 3, 5) if by_quorum else (2, 3, 3))
        names = [f"host-{n}" for n in range(count)]
        made = Machines(seed, names, by_quorum=by_quorum) if is_whole else VoteMachines(seed, names)
        self.world: Any = cast("Any", made)
        self.judge = (QuorumJudge if by_quorum else Judge)(self.world)
        self.counts: Counter[str] = Counter()
        self._names = 0
        self.agents: list[Agent] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def acquire(self, agent: Agent, lease: AsyncLease) -> None:
        """Get a claim, and tell the judge."""
        begun_s = self.world.loop.time()
        asked: list[float] = []
        take = lease._take

        async def taking() -> AsyncLease:
            asked.append(self.world.loop.time())
            self.asked.setdefault(lease.key, {})[agent.machine.name] = asked[-1]
            return await take()

        ask, write = lease._ask, lease._write

        async def asking() -> None:
            await ask()
            if lease._alone:
                await self._pause(agent, lease.key, asked[-1])

        async def writing(what: str, **over: Any) -> Any:
            if what == HELD and not lease.is_held:
                await self._pause(agent, lease.key, asked[-1])
            return await write(what, **over)

        lease._take, lease._ask, lease._write = taking, asking, writing  # type: ignore[method-assign]
        await lease.acquire()
        context = copy_context()
        got = Holding(
            agent.name, agent.machine, agent.process, lease, asked[-1], self.world.loop.time(), lease.fence,
            lease.is_confirmed, lambda: not agent.process.is_dead and context.run(lambda: lease.is_held),
        )  # fmt: skip
        self.counts["claimed"] += 1
        self.counts["confirmed"] += got.is_confirmed
        self.counts["waited"] += asked[-1] > begun_s
        self.judge.got(got)
        if lease._alone and self.pauses.random() < 0.1:  # before it writes that it holds the key
            self.counts["pause_holder"] += 1
            await self._freeze(agent, self.pauses.choice((1, 6, 25)))

    async def _pause(self, agent: Agent, key: str, asked_s: float) -> None:
        """Freeze some of those who asked at the same moment, before they hold what they asked for."""
        rivals = self.asked.get(key, {}).items()
        has_rival = any(abs(at_s - asked_s) < RIVAL_S for machine, at_s in rivals if machine != agent.machine.name)
        if has_rival and self.pauses.random() < 0.5:
            self.counts["pause_asker"] += 1
            await self._freeze(agent, self.pauses.choice((0.3, 1, 6)))

    async def _freeze(self, agent: Agent, seconds: float) -> None:
        if not agent.is_ended and not agent.process.is_frozen:
            agent.process.freeze()
            self.world.loop.call_later(seconds, self._thaw, agent, context=Context())
            await asyncio.sleep(0)

    async def play(self) -> None:
        """All of it.

        :raises Broken: a promise is.
        """
        dialling = asyncio.create_task(self.world.keep_dialling())
        for machine in self.world:
            machine.ahead_ms = self._skew_ms()
            machine.feed()
        await asyncio.sleep(5)
        for machine in self.world:
            for _ in range(self.random.choice((1, 2))):
                self._begin(machine)
        until_s = self.world.loop.time() + SECONDS
        while self.world.loop.time() < until_s:
            await asyncio.sleep(self.random.expovariate(1.0))
            self._happen()
            self.judge.look()
            self.failed()
        await self._heal()
        dialling.cancel()

    def _begin(self, machine: Machine) -> None:
        self._names += 1
        agent = Agent(self, f"agent-{self._names}", machine)
        self.agents.append(agent)
        self._tasks.add(asyncio.create_task(agent.run()))

    def _happen(self) -> None:
        what = self.random.choice(_QUORUM_HAPPENINGS if self.by_quorum else _HAPPENINGS)
        self.counts[what.__name__] += 1
        what(self)

    def failed(self) -> None:
        """Raise what an agent has raised."""
        for task in self._tasks:
            if task.done() and task.exception() is not None:
                raise task.exception()  # type: ignore[misc]

    def _skew_ms(self) -> int:
        """How wrong a clock is: in half of the histories by minutes, in the others by as much as a claim may last."""
        return self.random.randint(-SKEW_MS, SKEW_MS) // (100 if self.seed % 2 else 1)

    # -- what happens ----------------------------------------------------------------------------------------------

    def nothing(self) -> None:
        """A calm second."""

    def cut(self) -> None:
        """Two hosts do not see each other for a while."""
        pair = self.random.choice(self.world.pairs)
        if pair not in self.world.cut_off:
            self.world.cut(pair, is_noticed=self.random.random() < 0.7)
            self.world.loop.call_later(self.random.choice((1, 5, 15, 40)), self.world.heal, pair)

    def slow_down(self) -> None:
        """A connection takes longer than an answer may."""
        pair = self.random.choice(self.world.pairs)
        cable = self.world.cable(pair)
        if cable is not None:
            self.world.slow[pair] = cable.delay_s = self.random.uniform(0.5, 4)
            cable.steady_s = float("inf")
            self.world.loop.call_later(self.random.choice((2, 10)), self.world.heal, pair)

    def kill_daemon(self) -> None:
        """And start it again."""
        machine = self.random.choice(list(self.world))
        if machine.is_up:
            machine.kill()
            self.world.loop.call_later(self.random.choice((0.5, 4, 12)), machine.start)

    def copy_disk(self) -> None:
        """Somebody keeps a copy of the disk of the first host."""
        machine = self.world["host-0"]
        if machine.is_up and machine.copied is None:
            machine.copy()

    def restore_disk(self) -> None:
        """And brings it back: only there, since a majority that has forgotten what it promised is none."""
        machine = self.world["host-0"]
        if machine.is_up and machine.copied is not None:
            machine.kill()
            machine.go_back()
            self.world.loop.call_later(self.random.choice((0.5, 4)), machine.start)

    def kill_agent(self) -> None:
        """Another one begins in its place."""
        agent = self.random.choice(self.agents)
        if not agent.is_ended:
            agent.kill()
            self._begin(agent.machine)

    def freeze_agent(self) -> None:
        """An agent is stopped for a while, and goes on where it was."""
        agent = self.random.choice(self.agents)
        if not agent.is_ended and not agent.process.is_frozen:
            agent.process.freeze()
            self.world.loop.call_later(self.random.choice((1, 6, 25)), self._thaw, agent)

    def _thaw(self, agent: Agent) -> None:
        if not agent.is_ended:
            agent.process.thaw(self.world.loop)

    def set_clock(self) -> None:
        """Somebody sets the clock of a host."""
        self.random.choice(list(self.world)).ahead_ms = self._skew_ms()

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _heal(self) -> None:
        for pair in self.world.pairs:
            self.world.heal(pair)
        await asyncio.sleep(HEAL_S)
        self.judge.look()
        for key in KEYS if not self.by_quorum else ():
            self._check_owner(key, [await self._owner(machine, key) for machine in self.world])
        for agent in self.agents:
            agent.is_ended = True
        for key in KEYS:
            for machine in self.world:
                await self._last(machine, key)
        self.failed()

    async def _owner(self, machine: Machine, key: str) -> int | None:
        async with self.world.client(machine, "looker", 30) as client:
            return next((claim.fence for claim in await client.claims(key)), None)

    def _check_owner(self, key: str, told: list[int | None]) -> None:
        """Agents go on claiming: one that is got or given back just now may not be everywhere yet."""
        held = [one for one in self.judge.held.get(key, []) if one.is_held()]
        if len(held) > 1:
            raise Broken(f"{len(held)} hold {key} after all hosts have met")
        settled = held and held[0].held_s < self.world.loop.time() - 5 and not held[0].process.is_frozen
        if settled and set(told) != {held[0].fence}:
            raise Broken(f"the hosts tell of {told} as owners of {key}, and {held[0].fence} holds it")

    async def _last(self, machine: Machine, key: str) -> None:
        """Whatever was left behind, everybody gets the key in the end, with a fence above all others."""
        async with self.world.client(machine, "last", 30) as client:
            lease = client.claim(key, ttl=10, wait=LIMIT_S, quorum=self.by_quorum)
            try:
                await lease.acquire()
            except CrdtSyncError as error:
                self.failed()
                raise Broken(f"{key} is stuck on {machine.name}: {error}") from error
            highest = max((one.fence for one in self.judge.held.get(key, [])), default=0)
            if lease.fence <= highest:
                raise Broken(f"the last claim on {key} has fence {lease.fence}, and {highest} was given before")
            await lease.release()


_HAPPENINGS = (
    *[History.nothing] * 4, *[History.cut] * 3, History.slow_down, History.kill_daemon, History.kill_agent,
    *[History.freeze_agent] * 2, History.set_clock,
)  # fmt: skip
_QUORUM_HAPPENINGS = (
    *_HAPPENINGS, History.copy_disk, History.restore_disk, History.kill_daemon, *[History.set_clock] * 4,
)  # fmt: skip


def run_history(seed: int, *, by_quorum: bool = False, is_whole: bool = True) -> History:
    """Play one history; of claims by quorum also with hosts that are not ``whole``: they do nothing but vote.

    :raises Broken: a promise is.
    """
    history = History(seed, by_quorum=by_quorum, is_whole=is_whole)
    world = history.world
    with simulated(world, seed):
        try:
            world.loop.run_until_complete(history.play())
        finally:
            _close(history)
    return history


def _close(history: History) -> None:
    for agent in history.agents:
        agent.process.thaw(history.world.loop)
    end(history.world, [agent.client for agent in history.agents])


def end(world: Machines | VoteMachines, clients: Iterable[AsyncClient]) -> None:
    """Whatever still runs is cancelled, and all is closed."""
    tasks = asyncio.all_tasks(world.loop)
    world.loop.set_exception_handler(lambda *_: None)
    for task in tasks:
        task.cancel()
    if tasks:
        world.loop.run_until_complete(asyncio.wait(tasks, timeout=LIMIT_S))
    for client in clients:
        world.loop.run_until_complete(client.close())
    world.loop.run_until_complete(asyncio.sleep(1))
    for machine in world:
        if machine.is_up:
            machine.kill()
    world.loop.close()
    world.close()


@contextmanager
def simulated(world: Machines | VoteMachines, seed: int) -> Iterator[None]:
    """Clocks and randomness of the clients come from the world."""

    def clock_s(_id: object = None) -> float:
        process = PROCESS.get()
        return world.loop.time() if process is None else process.clock_s()

    def wall_s() -> float:
        process = PROCESS.get()
        return world.loop.time() if process is None else process.wall_s()

    clock = SimpleNamespace(monotonic=clock_s, clock_gettime=clock_s, time=wall_s)
    with ExitStack() as patches:
        patches.enter_context(patch("crdtsync.coordination.aio.quorum.time", clock))
        patches.enter_context(patch("crdtsync.coordination.aio.claims.time", clock))
        patches.enter_context(patch("os.urandom", Random(f"clients {seed}").randbytes))
        for module in (connection, stream, watch, base):
            patches.enter_context(patch.object(module, "monotonic", clock_s))
        yield
