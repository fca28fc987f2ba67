"""Random histories with forks: a host is copied, the copies and those who follow them write, and meet in some order.

Nothing is overwritten unread and nothing is deleted, so what everybody has to hold in the end is known: each element,
word and number that was written, once, whichever branch it was written on.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from random import Random
from typing import Any

from tests.fleet.clones import clone, meet, part
from tests.fleet.editor import Editor
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host
from tests.simulator.model import require

STEPS = 24


class PowerCut(Exception):
    """The host's power goes just after a commit."""


class Forks:
    """The player. ``expected``: by kind, what was written."""

    def __init__(self, fleet: Fleet, random: Random) -> None:
        self.fleet = fleet
        self.random = random
        self.appended: list[str] = []
        self.words: list[str] = []
        self.counted: Counter[str] = Counter()
        self.last: dict[str, str] = {}

    def write(self, host: Host) -> None:
        """Something on a host; what it has read before is the newest there."""
        value, agent = f"{host.name}{len(self.appended) + len(self.words)}", host.agent(host.name)
        match self.random.randrange(5):
            case 0 | 1:
                agent.append("log", value)
                self.appended.append(value)
            case 2:
                key = self.random.choice(("n", f"n/{host.name}", "m"))
                by = self.random.randint(-5, 9)
                agent.do("incr", key=key, by=by)
                self.counted[key] += by
            case 3:
                key = f"last/{host.name}"
                agent.get(key)
                agent.set(key, value)
                self.last[key] = value
            case 4:
                editor = Editor(host, "t")
                editor.read()
                editor.append(f"{value} ")
                self.words.append(value)
                self.appended.append(value)
                agent.append("log", value)

    def step(self) -> None:
        """One thing that happens."""
        hosts = [*self.fleet.machines.values()]
        match self.random.randrange(8):
            case 0 | 1:
                self.meet(*self.random.sample(hosts, 2))
            case 2:
                self.random.choice(hosts).restart()
            case _:
                self.write(self.random.choice(hosts))

    def meet(self, one: Host, other: Host) -> None:
        """Two hosts connect for a while. One's power may go when it has taken its branch back."""
        if self.random.random() < 0.5:
            for host in (one, other):
                cut_once(host)
        try:
            meet(self.fleet, (one.name, other.name), rounds=2)
        except PowerCut:
            for host in (one, other):
                host.restart()
        part(self.fleet)

    def check(self) -> None:
        """All hold all of it, each once."""
        hosts = [*self.fleet.machines.values()]
        states = {str((sorted(host.replica.vector.items()), host.replica.entries.digest)) for host in hosts}
        require(len(states) == 1, "the hosts", "do not come to rest after a fork", states)
        for host in hosts:
            told = {"fork", "divergence"} & host.alarms
            require(not told, host.name, "raises the alarms", told)
            agent = host.agent("judge")
            log = Counter(agent.get("log") or [])
            require(log == Counter(self.appended), host.name, "holds after a fork", log, "of", self.appended)
            counted = {key: agent.get(key) or 0 for key in self.counted}
            require(counted == self.counted, host.name, "counts after a fork", counted, "of", self.counted)
            for key, value in self.last.items():
                require(agent.values(key) == [value], host.name, "shows after a fork", agent.values(key), "of", value)
            shown = Counter(word for text in texts(agent) for word in text.split())
            require(shown == Counter(self.words), host.name, "shows after a fork", shown, "of", self.words)


def texts(agent: Any) -> list[str]:
    """All values of the text."""
    return [value for value in agent.values("t") if value]


def cut_once(host: Host) -> None:
    """Let the host's power go after the commit that takes a branch back."""
    store = host.store
    commit = store.commit

    def cut(batch: Any, *rest: Any) -> None:
        commit(batch, *rest)
        if batch.rewinds:
            raise PowerCut

    setattr(store, "commit", cut)  # noqa: B010  # mypy lets nobody assign to a method


def run_forks(seed: int) -> None:
    """Play the history of ``seed`` to its end and check everything.

    :raises Broken: something is missing, stands twice, or differs.
    """
    random = Random(f"forks {seed}")
    fleet = Fleet("a", "c")
    try:
        player = Forks(fleet, random)
        Editor(fleet["a"], "t").append("")
        for _ in range(random.randint(1, 8)):
            player.write(fleet["a"])
        if random.random() < 0.5:
            player.meet(fleet["a"], fleet["c"])
        for name in ("b", "d")[: random.randint(1, 2)]:
            clone(fleet, "a", name)
        for _ in range(STEPS):
            player.step()
        for host in fleet.machines.values():
            host.restart()
        pairs = list(combinations(fleet.machines, 2))
        random.shuffle(pairs)
        meet(fleet, *pairs, rounds=6)
        player.check()
    finally:
        fleet.close()
