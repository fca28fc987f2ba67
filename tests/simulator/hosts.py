"""The machines of a simulated fleet, and the connections between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from tests.simulator.model import ChangeId, Model

if TYPE_CHECKING:
    from crdtsyncd.storage.database import Store

    from crdtsync.core.interface import Event, Ready
    from crdtsync.core.node import Node
    from tests.simulator.agents import Agent
    from tests.simulator.images import Image, Torn
    from tests.simulator.mirrors import MirrorWatcher
    from tests.simulator.watchers import Watcher

SPACE = "default"


def memory_dir() -> Path:
    """A new directory, in memory where there is such a file system."""
    shared = Path("/dev/shm")  # a test's own directory in it
    return Path(mkdtemp(prefix="crdtsync-world-", dir=shared if shared.is_dir() else None))


class Link:
    """One connection between two hosts: a queue each way, and who still believes in it."""

    def __init__(self, ends: tuple[int, int], conns: tuple[int, int]) -> None:
        self.ends = ends
        self.conns = conns
        self.queues: tuple[deque[bytes], deque[bytes]] = (deque(), deque())  # to ends[0], to ends[1]
        self.is_cut = False
        self.is_tampered_with = False  # somebody has lost, repeated or swapped messages: only a new one is sound
        self.believed = [True, True]

    def side(self, host: int) -> int:
        return self.ends.index(host)


class Host:
    """One machine: a data directory, at times a running node, and what the oracle expects of it."""

    def __init__(self, index: int, directory: Path, skew_ms: int, entropy: Callable[[int], bytes]) -> None:
        self.index = index
        self.entropy = entropy
        self.name = f"host-{index}"
        self.skew_ms = skew_ms
        self.latest_ms = 0  # the highest that its clock has ever shown
        self.directory = directory
        for part in ("data", "run"):
            (directory / part).mkdir(parents=True)
        self.store: Store | None = None
        self.node: Node | None = None
        self.model = Model()
        self.applied: list[ChangeId] = []
        self.durable = 0
        self.digest = 0
        self.created: list[ChangeId] = []
        self.observed = 0
        self.observed_heads = 0
        self.committing: Ready | None = None  # a slow disk is at work on this
        self.turns_behind = 0  # since which a slice of rows waits for its tables
        self.behind_s: float | None = None  # since when rows wait, where they come late
        self.is_frozen = False
        self.twin_of: Host | None = None  # of a host that runs on a copy of the disk of another
        self.went_back = False  # its disk, so that it may lack what it had said to have
        self.conn_before = 0  # the last connection of before that
        self.is_gone = False  # for good
        self.inbox: deque[Event] = deque()  # what has arrived while it was busy
        self.synced: dict[str, bytes] | None = None  # of a host whose disk is watched: see flushing.py
        self.flushed: dict[str, bytes] | None = None  # while the power goes: what is certainly there
        self.torn: Torn | None = None  # it is open whether the last commit is on the disk
        self.kept: Image | None = None  # a copy of its disk
        self.has_jumped = False  # whether a snapshot has ever taken it on
        self.agents: dict[int, Agent | Watcher | MirrorWatcher] = {}

    @property
    def original(self) -> Host:
        """Which host's node this is: its own, or that of which it is a copy."""
        return self.twin_of or self

    @property
    def is_busy(self) -> bool:
        """Whether the process takes nothing in just now."""
        return self.is_frozen or self.committing is not None

    @property
    def running(self) -> Node:
        assert self.node is not None
        return self.node

    @property
    def replica(self) -> Any:
        return self.running.replicas[SPACE]
