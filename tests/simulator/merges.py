"""Histories in which a fork is merged again and again: the client's own code on whole nodes, in simulated time.

Three hosts hold a space and its fork, and agents write in both. Links are cut and daemons are killed, also in the
middle of a merge, and merges are given up halfway. The fork is merged on one host, and on another once that has all of
the last merge. In the end every element, number and name stands once, and of each key there is what nobody has
overwritten who had read it.

In histories *apart* any host merges at any time, also while it is cut off from another one that has merged the same.
Then a value of the fork may stand there several times, and an older one beside it; all else stands once, as before.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any
from unittest.mock import patch

from crdtsync import AsyncClient
from crdtsync.client.operations import forks
from crdtsync.errors import CrdtSyncError
from tests.simulator.claims.histories import end, simulated
from tests.simulator.claims.machines import Machines
from tests.simulator.model import Broken, require

STEPS = 40
HOSTS = ("host-0", "host-1", "host-2")
FORK = "trial"
KEYS = ("r/0", "r/1", "r/2")
PATIENCE_S = 60.0
HEAL_S = 30.0
AT_FORK = 5
"""What the counter says at the fork."""
OPERATIONS_MAX = 3
"""Of one change of a merge: so it is cut off between changes."""


class Merges:
    """The player, and what it has written. Each key has one writer in the space and one in the fork, who reads it
    before.
    """

    def __init__(self, seed: int, *, is_apart: bool = False) -> None:
        self.random = Random(f"merges {seed}")
        self.is_apart = is_apart
        self.world = Machines(seed, [*HOSTS])
        self.clients: list[AsyncClient] = []
        self.numbers = 0
        self.count = 0
        """In the space, but for what merges have brought."""
        self.elements: set[str] = set()
        self.gone: set[str] = set()
        self.standing: dict[str, set[Any]] = {key: {0} for key in KEYS}
        """What was written to a key of the space, and not overwritten there by one who had read it."""
        self.read: dict[str, set[Any]] = {key: set() for key in KEYS}
        self.in_fork: dict[str, Any] = dict.fromkeys(KEYS, 0)
        self.were_in_fork: dict[str, set[Any]] = {key: set() for key in KEYS}
        self.words = {"begun"}
        """Of the text: each is typed once, on either side."""
        self.merger = HOSTS[0]
        self.counts: Counter[str] = Counter()

    def client(self, name: str, agent: str) -> AsyncClient:
        """An agent on a host."""
        client = self.world.client(self.world[name], agent, PATIENCE_S)
        self.clients.append(client)
        return client

    async def play(self) -> None:
        """All of it.

        :raises Broken: something is missing, stands twice, or was overwritten unseen.
        """
        dialling = asyncio.create_task(self.world.keep_dialling())
        for machine in self.world:
            machine.feed()
        await asyncio.sleep(5)
        self.agents = {name: self.client(name, f"agent-{name}") for name in HOSTS}
        await self._fork()
        self.forked = {name: agent.session(space=FORK) for name, agent in self.agents.items()}
        for _ in range(STEPS):
            await asyncio.sleep(self.random.expovariate(2.0))
            if self.is_apart:
                self.merger = self.random.choice(HOSTS)
            await self.random.choice(_STEPS_APART if self.is_apart else _STEPS)(self)
        for pair in self.world.pairs:
            self.world.heal(pair)
        for machine in self.world:
            if not machine.is_up:
                machine.start()
        await asyncio.sleep(HEAL_S)
        for name in (self.merger, *HOSTS):  # and once more everywhere
            await self._move(name)
            await self.agents[name].merge_space(FORK)
        await asyncio.sleep(HEAL_S)
        for name in HOSTS:
            await self._check(name, self.agents[name])
        dialling.cancel()

    async def _fork(self) -> None:
        first = self.agents[self.random.choice(HOSTS)]
        for key in KEYS:
            await first.set(key, 0)
        for element in ("log 0", "log 1", "set 0", "set 1", "map 0"):
            self.elements.add(element)
            await self._add(first, element)
        await self._count(first, AT_FORK)
        await first.text("text").set("begun\n")
        token = await first.fork(FORK)
        for agent in self.agents.values():
            for _ in range(int(PATIENCE_S)):
                if any(each.here and each.name == FORK for each in await agent.spaces()):
                    break
                await asyncio.sleep(1)
            await agent.wait(token)

    async def _add(self, session: Any, element: str) -> None:
        match element.split(maxsplit=1)[0]:
            case "log":
                await session.append("log", element)
            case "set":
                await session.add("set", element)
            case _:
                await session.merge("map", {element: 1})

    async def _count(self, session: Any, by: int) -> None:
        if session.space != FORK:
            self.count += by
        elif self.is_apart and self.random.random() < 0.3:
            await session.reset("count")
        await session.incr("count", by)

    # -- what happens --------------------------------------------------------------------------------------------

    async def write(self) -> None:
        """Something in the space or in the fork, on some host."""
        name = self.random.choice(HOSTS)
        if not self.world[name].is_up:
            return
        is_in_fork = self.random.random() < 0.6
        session = (self.forked if is_in_fork else self.agents)[name]
        self.numbers += 1
        match self.random.randrange(7):
            case 0:
                await self._count(session, self.random.randint(-5, 9))
            case 1 | 2:
                element = f"{self.random.choice(('log', 'set', 'map'))} {self.numbers + 1}"
                self.elements.add(element)
                await self._add(session, element)
            case 3 if is_in_fork:
                await self._take_out(session)
            case 4 | 5:
                await self._type(session)
            case _:
                await self._set(self.random.choice(KEYS), is_in_fork=is_in_fork)

    async def _type(self, session: Any) -> None:
        """A word somewhere in the text; now and then another goes, or the text of the space is compacted."""
        text = session.text("text")
        lines = (await text.read()).splitlines(keepends=True)
        place = sum(map(len, lines[: self.random.randint(0, len(lines))]))
        word = f"word-{self.numbers}"
        self.words.add(word)
        await text.insert(place, f"{word}\n")
        if lines and self.random.random() < 0.3:
            gone = self.random.choice(lines)
            self.words.discard(gone.strip())
            await text.delete((await text.read()).index(gone), len(gone))
        if session.space != FORK and self.random.random() < 0.3:
            await text.compact()

    async def _take_out(self, fork: Any) -> None:
        """An element that was there before the fork."""
        if self.random.random() < 0.5:
            self.gone.add("set 0")
            await fork.discard("set", "set 0")
        else:
            self.gone.add("log 0")
            for item in await fork.log_items("log"):
                if item.value == "log 0":
                    await fork.remove("log", item.dot)

    async def _set(self, key: str, *, is_in_fork: bool) -> None:
        name = HOSTS[KEYS.index(key)]
        session = (self.forked if is_in_fork else self.agents)[name]
        entry = await session.entry(key)
        assert entry is not None
        await session.set(key, self.numbers)
        if is_in_fork:
            self.in_fork[key] = self.numbers
            self.were_in_fork[key].add(self.numbers)
        else:
            shown = {entry.value, *(one.value for one in entry.siblings)}
            self.read[key] |= shown
            self.standing[key] = self.standing[key] - shown | {self.numbers}

    async def merge(self) -> None:
        """All of it, if nothing comes between."""
        with suppress(CrdtSyncError):
            await self.agents[self.merger].merge_space(FORK)
            self.counts["merged"] += 1

    async def cut_off(self) -> None:
        """An agent that is killed in the middle."""
        client = self.client(self.merger, f"agent-{len(self.clients)}")
        try:
            async with asyncio.timeout(self.random.choice((0.003, 0.01, 0.03))):
                await client.merge_space(FORK)
        except (TimeoutError, CrdtSyncError):
            self.counts["cut off"] += 1
        await client.close()
        await asyncio.sleep(0.01)

    async def kill(self) -> None:
        """The daemon of a host is killed, most often the one that merges, in the middle."""
        machine = self.world[self.random.choice((self.merger, self.merger, *HOSTS))]
        task = asyncio.create_task(self.merge())
        await asyncio.sleep(self.random.choice((0.002, 0.005, 0.02)))
        machine.kill()
        await asyncio.sleep(1)
        machine.start()
        await task

    async def move(self) -> None:
        """From now on another host merges, if it gets all that was merged."""
        with suppress(CrdtSyncError):
            await self._move(self.random.choice(HOSTS), 2.0)

    async def _move(self, name: str, timeout_s: float = PATIENCE_S) -> None:
        await self.agents[name].wait(await self.agents[self.merger].now(), timeout=timeout_s)
        self.merger = name

    async def cut(self) -> None:
        """Two hosts do not see each other for a while; apart: one does not see any other one."""
        pair = self.random.choice(self.world.pairs)
        alone = self.random.choice(HOSTS) if self.is_apart else None
        for one in [each for each in self.world.pairs if alone in each] or [pair]:
            if one not in self.world.cut_off:
                self.world.cut(one, is_noticed=self.random.random() < 0.7)
                self.world.loop.call_later(self.random.choice((1, 5, 15)), self.world.heal, one)

    # -- the end -------------------------------------------------------------------------------------------------

    async def _check(self, name: str, state: AsyncClient) -> None:
        log = [*await state.log("log")]
        if self.is_apart:
            log = [*dict.fromkeys(log)]
        found = [*log, *await state.members("set"), *(await state.get("map") or {})]
        wanted = Counter(self.elements - self.gone)
        require(Counter(found) == wanted, name, "holds after a merge", Counter(found) - wanted, "too much, and lacks",
                wanted - Counter(found))  # fmt: skip
        count, in_fork = await state.get("count"), await self.forked[name].get("count")
        right = self.count + in_fork - AT_FORK
        require(count == right, name, "counts after a merge", count, "of", right)
        words = Counter((await state.text("text").read()).split())
        require(words == Counter(self.words), name, "shows after a merge the text", words, "of", self.words)
        for key in KEYS:
            entry = await state.entry(key)
            require(entry is not None, name, "shows after a merge no", key)
            assert entry is not None
            values = sorted([entry.value, *(one.value for one in entry.siblings)])
            stands = self.standing[key]
            if self.in_fork[key]:
                stands = stands - {0} | ({self.in_fork[key]} - self.read[key])
            is_right = values == sorted(stands)
            if self.is_apart:
                is_right = stands <= {*values} <= stands | self.were_in_fork[key]
            require(is_right, name, "shows after a merge", key, values, "of", sorted(stands))


_STEPS = (
    *[Merges.write] * 8, *[Merges.merge] * 2, *[Merges.cut_off] * 2, *[Merges.cut] * 2, Merges.kill, Merges.move,
)  # fmt: skip
_STEPS_APART = (*[Merges.write] * 8, *[Merges.merge] * 4, *[Merges.cut] * 3, Merges.cut_off, Merges.kill)


def run_merges(seed: int, *, is_apart: bool = False) -> Counter[str]:
    """Play the history of ``seed`` to its end and check everything; how often what happened.

    :raises Broken: something is missing, stands twice, or was overwritten unseen.
    """
    merges = Merges(seed, is_apart=is_apart)
    with simulated(merges.world, seed), patch.object(forks, "OPERATIONS_MAX", OPERATIONS_MAX):
        try:
            merges.world.loop.run_until_complete(merges.play())
        except CrdtSyncError as error:
            raise Broken(f"a client after a merge: {error}") from error
        finally:
            end(merges.world, merges.clients)
    return merges.counts
