"""Hosts that run by themselves in simulated time: nodes that turn when something comes, links with a delay, sockets."""

from __future__ import annotations

import asyncio
import shutil
from abc import ABC, abstractmethod
from collections import deque
from contextvars import Context, copy_context
from pathlib import Path
from random import Random
from typing import Any, cast

from crdtsync import AsyncClient
from crdtsync.core.interface import AgentClosed, AgentFrame, AgentOpened, Event, Now, PeerFrame, Tick
from crdtsync.core.peers.ballots import ANSWER_S
from crdtsync.wire.framing import FrameReader
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX
from tests.fleet.agent import SOMEBODY
from tests.fleet.clock import START_MS
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host
from tests.fleet.wire import Wire
from tests.simulator.claims.virtual_loop import PROCESS, STARTED_S, VirtualLoop

KEYS = ("one", "two")
"""That agents claim."""
MEETING_DELAYS = 6
"""So many times the delay of a connection it takes until both ends have told each other what they hold."""
SOCKET_S = 0.0002
REST_TURNS_MAX = 100
"""So many turns one after another a node may have at most because of the time alone, each at once after the other."""
REDIAL_S = 1.0
DRIFT = 500e-6
"""So far a clock is off at most that somebody keeps right (NTP)."""
QUORUM_DRIFT = 0.08
"""The same where claims are by quorum: that must bear clocks that nobody keeps right."""
DELAY_S_MAX = ANSWER_S / 2 / (1 + QUORUM_DRIFT)
"""With a longer one, an answer comes too late by a clock that runs fast: then nobody is promised a claim."""
NOTICE_S = (5.0, 30.0)
"""When a host notices that a link is dead over which nothing comes any more."""


class Machine(Host):
    """A host whose node turns whenever something comes or is due. ``rate`` and ``booted_s``: of its monotonic clock."""

    def __init__(self, world: Machines, name: str, directory: Path) -> None:
        self.world = world
        self.is_up = True
        self.copied: Path | None = None
        self.rate = world.random.uniform(1 - world.drift, 1 + world.drift)
        self.booted_s = world.random.uniform(0, 1e6)
        self._timer: asyncio.TimerHandle | None = None
        self._turns_in_vain = 0
        super().__init__(world, name, directory)

    @property
    def sockets(self) -> dict[int, Socket]:
        """Of the agents that are attached."""
        return cast("dict[int, Socket]", self.sessions)

    def clock_s(self) -> float:
        """What its monotonic clock shows."""
        return self.booted_s + self.rate * (self.world.loop.time() - STARTED_S)

    def wall_s(self) -> float:
        """What its wall clock shows, since 1970."""
        self.world.tick()
        return super().now.wall_ms / 1000

    def feed(self, *events: Event) -> None:
        """Something has come: take it in, commit, let out what follows."""
        if not self.is_up:
            return
        self.world.tick()
        for event in events:
            self.step(event)
        self.turn()
        due_s = self.node.deadline_s()
        soon_s = self.world.loop.time() + 0.001
        if self._timer is not None:
            self._timer.cancel()
        if due_s is not None:
            self._turns_in_vain = self._turns_in_vain + 1 if due_s <= soon_s and events == (Tick(),) else 0
            assert self._turns_in_vain < REST_TURNS_MAX, f"{self.name} never rests"
            self._timer = self.world.loop.call_at(max(due_s, soon_s), self.feed, Tick(), context=Context())

    def kill(self) -> None:
        """Kill -9 of the daemon: connections are gone, and what is on disk stays."""
        self.is_up = False
        for wire in list(self.wires.values()):
            wire.close("killed")
        for socket in list(self.sockets.values()):
            socket.lost()
        self.sessions.clear()
        self.store.close()

    def copy(self) -> None:
        """Copy what is on its disk."""
        self.copied = self.directory / "copy"
        shutil.rmtree(self.copied, ignore_errors=True)
        shutil.copytree(self.store.data_dir, self.copied)

    def go_back(self) -> None:
        """What was copied takes the place of what is on its disk, while it is down."""
        assert self.copied is not None
        shutil.rmtree(self.store.data_dir)
        shutil.copytree(self.copied, self.store.data_dir)

    def start(self) -> None:
        """The daemon is started again."""
        self.is_up = True
        self.world.tick()
        self.open()
        self.feed()


class Socket(asyncio.Transport):
    """An agent's end of a unix socket."""

    def __init__(self, machine: Machine, protocol: Any) -> None:
        super().__init__()
        self._machine, self._protocol = machine, protocol
        self._loop = machine.world.loop
        self._context = copy_context()
        self.process = PROCESS.get()
        self._frames = FrameReader(AGENT_FRAME_BYTES_MAX)
        self._to_daemon: deque[bytes] = deque()
        self._is_closing = self._is_closed = False
        self.conn = machine.world.new_conn()
        machine.sockets[self.conn] = self
        machine.feed(AgentOpened(self.conn, SOMEBODY.uid, 4242, SOMEBODY.gids, SOMEBODY.is_local))
        protocol.connection_made(self)

    def write(self, data: Any) -> None:
        if not self._is_closed:
            self._to_daemon.append(bytes(data))
            self._loop.call_later(SOCKET_S, self._arrive, context=Context())

    def _arrive(self) -> None:
        data = self._to_daemon.popleft()
        if self._machine.sockets.get(self.conn) is self:
            self._machine.feed(*(AgentFrame(self.conn, payload) for payload in self._frames.feed(data)))

    def received(self, data: bytes) -> None:
        """The daemon has said something."""
        self._loop.call_soon(self._hand_over, bytes(data), context=self._context)

    def _hand_over(self, data: bytes) -> None:
        while data and not self._is_closed:
            buffer = self._protocol.get_buffer(len(data))
            count = min(len(data), len(buffer))
            buffer[:count], data = data[:count], data[count:]
            self._protocol.buffer_updated(count)

    @property
    def closed(self) -> bool:
        return self._is_closed

    @closed.setter
    def closed(self, _is_closed: bool) -> None:
        self.lost()

    def lost(self) -> None:
        """The daemon's end is closed."""
        self._loop.call_soon(self._end, context=self._context)

    def _end(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._protocol.connection_lost(None)

    def hang_up(self) -> None:
        """This end is closed, by the agent or by the end of its process."""
        if self._machine.sockets.get(self.conn) is self:
            del self._machine.sockets[self.conn]
            self._machine.feed(AgentClosed(self.conn))

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        self._loop.call_later(2 * SOCKET_S, self.hang_up, context=Context())
        self.lost()

    abort = close

    def is_closing(self) -> bool:
        return self._is_closing or self._is_closed

    def get_write_buffer_size(self) -> int:
        return 0


class Cable(Wire):
    """A connection that delivers by itself, in order, after ``delay_s``; while it ``is_silent`` nothing arrives."""

    def __init__(self, world: Machines, first: Machine, second: Machine, delay_s: float) -> None:
        self.world = world
        self.delay_s = delay_s
        self.is_silent = False
        self.met_s = self.steady_s = world.loop.time() + MEETING_DELAYS * delay_s
        super().__init__(world, first, second)
        for machine in (first, second):
            machine.feed()

    def put(self, sender: Host, data: bytes) -> None:
        if self.reason is None and not self.is_silent:
            super().put(sender, data)
            to = cast("Machine", self.ends[1 - self.ends.index(sender)])
            self.world.loop.call_later(self.delay_s, self._arrive, to)

    def _arrive(self, to: Machine) -> None:
        waiting = self.waiting[self.ends.index(to)]
        if self.reason is None and waiting:
            to.feed(PeerFrame(self.conns[self.ends.index(to)], waiting.popleft()))

    def close(self, reason: str = "cut") -> None:
        if self.reason is None:
            super().close(reason)
            for machine in self.ends:
                self.world.loop.call_soon(machine.feed, context=Context())  # type: ignore[attr-defined]


class Network(ABC):
    """The ways between hosts: each host dials each while the way is open."""

    loop: VirtualLoop
    chance: Random
    pairs: list[frozenset[str]]
    cut_off: set[frozenset[str]]
    slow: dict[frozenset[str], float]

    @abstractmethod
    def cable(self, pair: frozenset[str]) -> Any:
        """The connection between two hosts that stands; None: none does."""

    @abstractmethod
    def connect(self, pair: frozenset[str], delay_s: float) -> None:
        """Connect two hosts, if both are up."""

    async def keep_dialling(self) -> None:
        """Connect whoever is not, until cancelled."""
        while True:
            for pair in self.pairs:
                if self.cable(pair) is None and pair not in self.cut_off:
                    self.connect(pair, self.slow.get(pair, self.chance.uniform(0.001, 0.2)))
            await asyncio.sleep(self.chance.uniform(0, REDIAL_S))

    def cut(self, pair: frozenset[str], *, is_noticed: bool) -> None:
        """The way between two hosts is closed; ``is_noticed``: they learn it at once."""
        self.cut_off.add(pair)
        cable = self.cable(pair)
        if cable is not None and is_noticed:
            cable.close()
        elif cable is not None:
            cable.is_silent = True
            self.loop.call_later(self.chance.uniform(*NOTICE_S), cable.close)

    def heal(self, pair: frozenset[str]) -> None:
        """The way is open again, and quick enough for answers to be in time."""
        self.cut_off.discard(pair)
        self.slow.pop(pair, None)
        cable = self.cable(pair)
        if cable is not None and (cable.is_silent or cable.delay_s > DELAY_S_MAX):
            cable.close()


class Machines(Network, Fleet):
    """The hosts, and the network between them."""

    def __init__(self, seed: int, names: list[str], *, by_quorum: bool = False) -> None:
        self.drift = QUORUM_DRIFT if by_quorum else DRIFT
        self.loop = VirtualLoop(self._socket)
        super().__init__(seed=seed)
        self.chance = Random(f"network {seed}")
        self.cut_off: set[frozenset[str]] = set()
        self.slow: dict[frozenset[str], float] = {}
        self.tick()
        for name in names:
            self.machines[name] = Machine(self, name, self.directory / name)
        if by_quorum:
            self.voters = [machine.node.identity.node for machine in self]
            for machine in self:
                machine.store.close()
                machine.open()
        self.pairs = [frozenset((a, b)) for i, a in enumerate(names) for b in names[i + 1 :]]

    def __getitem__(self, name: str) -> Machine:
        return self.machines[name]  # type: ignore[return-value]

    def __iter__(self) -> Any:
        return iter(self.machines.values())

    def tick(self) -> None:
        """Let the nodes know what time it is."""
        passed_s = self.loop.time() - STARTED_S
        self.now = Now(START_MS + int(passed_s * 1000), self.loop.time())

    def _socket(self, protocol: Any, path: str) -> Socket:
        machine = self[path]
        if not machine.is_up:
            raise ConnectionRefusedError(path)
        return Socket(machine, protocol)

    def cable(self, pair: frozenset[str]) -> Cable | None:
        """The connection between two hosts that stands; None: none does."""
        return next((wire for wire in self.wires if {end.name for end in wire.ends} == pair), None)  # type: ignore[return-value]

    def connect(self, pair: frozenset[str], delay_s: float) -> None:
        """Connect two hosts, if both are up."""
        first, second = (self[name] for name in sorted(pair))
        if first.is_up and second.is_up:
            Cable(self, first, second, delay_s)

    def client(self, machine: Machine, agent: str, timeout_s: float) -> AsyncClient:
        """An agent of a host."""
        return AsyncClient(machine.name, agent=agent, timeout=timeout_s)

    def sees_since_s(self, first: Machine, second: Machine, *, is_quick: bool = False) -> float:
        """Since when two hosts have known what the other holds, without a break; infinite: they do not.

        ``is_quick``: nor was there a time when answers took longer than they may.
        """
        if first is second:
            return 0.0
        cable = self.cable(frozenset((first.name, second.name)))
        if cable is None or cable.is_silent:
            return float("inf")
        return cable.steady_s if is_quick else cable.met_s
