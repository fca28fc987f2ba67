"""A few hosts, the connections between them, and their time, which stands still unless told."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import mkdtemp

from crdtsync.core.background.retention_caps import DEFAULT_CAPS, Caps
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.core.interface import Now, Tick
from crdtsync.wire.change import Codec
from tests.fleet.clock import START_MS
from tests.fleet.host import Host
from tests.fleet.wire import Wire

CODEC = Codec(LOOPBACK_CLUSTER, "default", 0)


class Fleet:
    """Machines by name: ``fleet = Fleet("a", "b"); fleet["a"]``."""

    def __init__(self, *names: str, caps: Caps = DEFAULT_CAPS, seed: int = 1) -> None:
        self.caps = caps
        self.voters: list[str] = []  # of nodes that are opened from now on
        shared = Path("/dev/shm")
        self.directory = Path(mkdtemp(prefix="crdtsync-unit-", dir=shared if shared.is_dir() else None))
        self.random = Random(seed)
        self.now = Now(START_MS, 1000.0)
        self.conn_last = 0
        self.wires: list[Wire] = []
        self.hearing: list[Callable[[Host, Host, bytes], None]] = []  # told what a host says to another
        self.machines: dict[str, Host] = {}
        for name in names:
            self.add(name)

    def __getitem__(self, name: str) -> Host:
        return self.machines[name]

    def add(self, name: str) -> Host:
        self.machines[name] = Host(self, name, self.directory / name)
        return self.machines[name]

    def new_conn(self) -> int:
        self.conn_last += 1
        return self.conn_last

    def link(self, first: str, second: str) -> Wire:
        """``first`` dials ``second``."""
        return Wire(self, self[first], self[second])

    def sync(self) -> None:
        """Deliver everything over the wires that there are, until nothing moves and nothing is due."""
        for _ in range(1000):
            moved = sum(wire.deliver(end) for wire in list(self.wires) for end in wire.ends)
            for machine in self.machines.values():
                machine.turn()
            due = [d for m in self.machines.values() if (d := m.node.deadline_s()) is not None and d <= self.now.mono_s]
            if not moved and not due and not any(any(wire.waiting) for wire in self.wires):
                return
        raise AssertionError("the fleet does not come to rest")

    def pass_time(self, seconds: float) -> None:
        self.now = Now(self.now.wall_ms + int(seconds * 1000), self.now.mono_s + seconds)
        for machine in self.machines.values():
            machine.step(Tick())

    def run(self, seconds: float, step_s: float = 0.1) -> None:
        """Let time pass and deliver meanwhile."""
        for _ in range(round(seconds / step_s)):
            self.pass_time(step_s)
            self.sync()

    def close(self) -> None:
        for machine in self.machines.values():
            machine.store.close()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextmanager
def fleet_of(*names: str, linked: bool = False, caps: Caps = DEFAULT_CAPS) -> Iterator[Fleet]:
    """A fleet for one test; ``linked``: each to each."""
    fleet = Fleet(*names, caps=caps)
    try:
        if linked:
            for i, first in enumerate(names):
                for second in names[i + 1 :]:
                    fleet.link(first, second)
            fleet.sync()
        yield fleet
    finally:
        fleet.close()
