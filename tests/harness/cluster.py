"""A full mesh of daemons over links that a test can cut, delay and heal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations, permutations
from time import monotonic, sleep
from typing import Any, Self, TypeVar

from crdtsync import Client
from crdtsync.errors import Timeout
from tests.harness.daemon import HOST, Daemon
from tests.harness.proxy import Network, Proxy

T = TypeVar("T")
POLL_S = 0.02
Which = int | Daemon


class Cluster:
    """``count`` daemons, each of which dials every other one through a proxy of its own.

    ``cluster[0]`` is the first daemon, ``cluster.link(0, 1)`` the proxy through which it dials the second.
    """

    def __init__(self, count: int, *, start: bool = True, **settings: Any) -> None:
        self.network = Network()
        self.daemons: list[Daemon] = []
        self._links: dict[tuple[int, int], Proxy] = {}
        self._extra: list[Daemon] = []
        try:
            self.daemons = [Daemon(f"host-{chr(97 + i)}", start=False, **settings) for i in range(count)]
            for a, b in permutations(range(count), 2):
                self._links[a, b] = self.network.proxy((HOST, self.daemons[b].port))
            for a, daemon in enumerate(self.daemons):
                daemon.settings["peers"] = [f"ws://127.0.0.1:{self._links[a, b].port}" for b in range(count) if b != a]
            if start:
                self.start()
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Start every daemon that does not run; returns when all are ready and connected."""
        waiting = [daemon for daemon in self.daemons if not daemon.is_running]
        marks = [len(daemon.log_lines()) for daemon in waiting]
        for daemon in waiting:
            daemon.start(wait=False)
        for daemon, mark in zip(waiting, marks, strict=True):
            daemon.wait_ready(after=mark)
        self.wait_connected()

    def link(self, a: Which, b: Which) -> Proxy:
        """The proxy through which ``a`` dials ``b``."""
        return self._links[self._index(a), self._index(b)]

    def cut(self, a: Which, b: Which, **how: Any) -> None:
        """Cut the connections between two daemons, whoever dialled."""
        self.link(a, b).cut(**how)
        self.link(b, a).cut(**how)

    def heal(self, a: Which | None = None, b: Which | None = None) -> None:
        """Heal the links between two daemons, those of one, or all."""
        for i, j in self._links:
            if all(which is None or self._index(which) in (i, j) for which in (a, b)):
                self._links[i, j].heal()

    def isolate(self, daemon: Which, **how: Any) -> None:
        """Cut all links of one daemon."""
        for other in range(len(self.daemons)):
            if other != self._index(daemon):
                self.cut(daemon, other, **how)

    def delay(self, delay_ms: float) -> None:
        """Delay every byte on every link, each way."""
        for proxy in self._links.values():
            proxy.delay_ms = delay_ms

    def wait_connected(self, *which: Which, timeout_s: float = 60.0) -> None:
        """Until every pair of ``which`` (default: all that run) is connected."""
        daemons = [self[each] for each in which] or [daemon for daemon in self.daemons if daemon.is_running]
        for a, b in combinations(daemons, 2):
            both = partial(_are_connected, a, b)
            wait_until(both, timeout_s, f"{a.name} and {b.name} connect")

    def wait_parted(self, a: Which, b: Which, timeout_s: float = 60.0) -> None:
        """Until both know that they are not connected."""
        first, second = self[a], self[b]
        wait_until(
            lambda: not _is_connected(first, second) and not _is_connected(second, first),
            timeout_s,
            f"{first.name} and {second.name} notice the cut",
        )

    def close(self) -> None:
        """End everything and remove all files. Idempotent."""
        for daemon in self.daemons:
            daemon.close()
        self.network.close()

    def __getitem__(self, which: Which) -> Daemon:
        return which if isinstance(which, Daemon) else self.daemons[which]

    def __iter__(self) -> Iterator[Daemon]:
        return iter(self.daemons)

    def __len__(self) -> int:
        return len(self.daemons)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _index(self, which: Which) -> int:
        return self.daemons.index(which) if isinstance(which, Daemon) else which


def wait_until(check: Callable[[], T], timeout_s: float = 60.0, what: str = "it is so") -> T:
    """Poll until ``check`` returns something true, and return that."""
    deadline = monotonic() + timeout_s
    while True:
        found = check()
        if found:
            return found
        if monotonic() >= deadline:
            raise AssertionError(f"waited {timeout_s} s in vain until {what}; last: {found!r}")
        sleep(POLL_S)


def differences(daemons: Sequence[Daemon]) -> str:
    """How the states of these daemons differ; empty if they are equal.

    Fails at once if two hold the same changes and another state.
    """
    spaces = {daemon.name: {space["name"]: space for space in daemon.status()["spaces"]} for daemon in daemons}
    first, *others = spaces
    for other in others:
        if spaces[first].keys() != spaces[other].keys():
            return f"{first} has the spaces {sorted(spaces[first])}, {other} {sorted(spaces[other])}"
        for name, here in spaces[first].items():
            there = spaces[other][name]
            if here["version_vector"] != there["version_vector"]:
                return f"space {name}: {first} has {here['version_vector']}, {other} {there['version_vector']}"
            assert here["digest"] == there["digest"], (
                f"space {name}: {first} and {other} hold the same changes, and another state"
            )
            for field in ("keys", "entries", "siblings"):  # what has just expired may count at one of them still
                if here[field] != there[field]:
                    return f"space {name}: {field} is {here[field]} at {first} and {there[field]} at {other}"
            if here["pending_changes"] or there["pending_changes"]:
                return f"space {name}: changes wait at {first} or {other}"
    return ""


def wait_until_equal(daemons: Cluster | Sequence[Daemon], timeout_s: float = 60.0) -> None:
    """Until all running daemons hold the same changes; then they must hold the same state."""
    running = [daemon for daemon in daemons if daemon.is_running]
    deadline = monotonic() + timeout_s
    while difference := differences(running):
        if monotonic() >= deadline:
            raise AssertionError(f"not equal after {timeout_s} s: {difference}")
        sleep(POLL_S)


def wait_until_forks_heal(*daemons: Daemon) -> None:
    """Until that is all that they tell of a fork; before, they may hold different changes under the same numbers."""
    about = {"fork", "fork_healed", "divergence"}

    def told() -> set[str]:
        try:
            return about & {code for daemon in daemons for code in daemon.alarms()}
        except (ConnectionError, EOFError):
            return set()  # who has healed a fork closes its connections: "attach again"

    wait_until(lambda: told() == {"fork_healed"}, what="the fork is healed")
    wait_until_equal(daemons)


def let_a_millisecond_pass() -> None:
    """So that what one host writes next is newer than what another has written: else the writers' ids decide."""
    sleep(0.002)


def healed(pair: Cluster) -> list[Client]:
    """Clients of both once they hold the same."""
    pair.heal()
    wait_until_equal(pair)
    return [daemon.client("reader") for daemon in pair]


def wait_until_held(client: Client, token: str, *names: str) -> None:
    """Until the daemon of ``client`` knows that these nodes, and no others, have on disk what the token names.

    Not all may have it: that a write concern was not met says in time who had it by then.
    """
    held_by: list[str] = []

    def are_known() -> bool:
        try:
            client.wait(token, w="all", timeout=0.2)
        except Timeout as late:
            held_by[:] = sorted(late.held_by)
            return held_by == sorted(names)
        raise AssertionError("all nodes have it")

    wait_until(are_known, what=f"{names} are known to have it, and no others")


def _are_connected(a: Daemon, b: Daemon) -> bool:
    return _is_connected(a, b) and _is_connected(b, a)


def _is_connected(a: Daemon, b: Daemon) -> bool:
    peer = a.peer(b.name)
    return peer is not None and peer["state"] == "connected"
