"""Hosts that do nothing but vote, in simulated time: many more histories in the same time as with whole nodes.

Real are the client's lease, the counting of votes and the voter. Made up are the socket, the connections, and the disk:
a dictionary that is written at once, which somebody may copy and bring back. That a voter notices this, by another
incarnation, is here a fact; with whole nodes it is what the database has to find out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextvars import Context
from random import Random
from types import SimpleNamespace
from typing import Any, Self, cast

from crdtsync.coordination.aio.quorum import AsyncQuorumLease
from crdtsync.core.identity import LOOPBACK_CLUSTER, Identity
from crdtsync.core.peers.ballots import Ballots
from crdtsync.core.peers.voter import Voter
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.errors import DaemonUnavailable, Timeout
from crdtsync.wire.peer.votes import Vote, Voted
from tests.fleet.clock import START_MS
from tests.simulator.claims.machines import QUORUM_DRIFT, SOCKET_S, Network
from tests.simulator.claims.virtual_loop import STARTED_S, VirtualLoop


class Line:
    """One end of a connection to a peer: what :class:`Ballots` knows of it."""

    def __init__(self, cable: VoteCable, to: VoteMachine) -> None:
        self.cable, self.to, self.peer_node = cable, to, to.node

    def takes(self, _message: type[Vote]) -> bool:
        """Whether the peer knows such messages."""
        return True


class VoteCable:
    """A connection that delivers in order, after ``delay_s``; while it ``is_silent`` nothing arrives."""

    def __init__(self, world: VoteMachines, pair: tuple[VoteMachine, VoteMachine], delay_s: float) -> None:
        self.world, self.pair, self.delay_s = world, pair, delay_s
        self.is_silent = self.is_closed = False
        self.steady_s = 0.0
        self._last_s = 0.0
        for here, there in (pair, pair[::-1]):
            here.lines[there.node] = Line(self, there)
        for machine in pair:
            machine.ballots.introduced(machine.clock_s())
            machine.run()

    def send(self, to: VoteMachine, message: Vote | Voted, sender: VoteMachine) -> None:
        """On its way."""
        if not (self.is_silent or self.is_closed):
            self._last_s = max(self._last_s, self.world.loop.time() + self.delay_s)
            self.world.loop.call_at(self._last_s, self._arrive, to, message, sender, context=Context())

    def _arrive(self, to: VoteMachine, message: Vote | Voted, sender: VoteMachine) -> None:
        if not self.is_closed:
            line = cast("Any", to.lines[sender.node])
            if isinstance(message, Vote):
                to.ballots.asked(line, message, to.clock_s())
            else:
                to.ballots.answered(line, message, to.clock_s())
            to.run()

    def close(self) -> None:
        """It is gone, and both ends know."""
        if not self.is_closed:
            self.is_closed = True
            for here, there in (self.pair, self.pair[::-1]):
                del here.lines[there.node]
                self.world.loop.call_soon(here.run, context=Context())
            self.world.cables.pop(frozenset(machine.name for machine in self.pair))


class VoteMachine:
    """A host: its voter, its clocks, its disk. ``rate`` and ``booted_s``: of its steady clock."""

    def __init__(self, world: VoteMachines, name: str) -> None:
        self.world, self.name, self.node = world, name, name
        self.is_up = True
        self.ahead_ms = 0
        self.rate = world.random.uniform(1 - QUORUM_DRIFT, 1 + QUORUM_DRIFT)
        self.booted_s = world.random.uniform(0, 1e6)
        self.sockets: dict[int, Any] = {}
        self.asking: set[asyncio.Future[dict[str, Any]]] = set()
        self.lines: dict[str, Line] = {}
        self.disk: dict[str, bytes] = {}
        self.copied: dict[str, bytes] | None = None
        self.incarnation = world.random.randbytes(16)
        self._due_s = float("inf")

    def clock_s(self) -> float:
        """What its steady clock shows."""
        return self.booted_s + self.rate * (self.world.loop.time() - STARTED_S)

    def wall_s(self) -> float:
        """What its wall clock shows."""
        return (START_MS + self.ahead_ms) / 1000 + self.world.loop.time() - STARTED_S

    # -- as a disk: what a voter asks of storage ------------------------------------------------------------------

    def meta(self, name: str) -> bytes | None:
        """One of what is on disk."""
        return self.disk.get(name)

    def metas(self, prefix: str) -> Iterator[bytes]:
        """Those whose names begin so."""
        return (value for name, value in sorted(self.disk.items()) if name.startswith(prefix))

    def send(self, line: Line, message: Vote | Voted) -> None:
        """As an outbox: all of a turn leaves when it is on disk."""
        self._outgoing.append((line, message))

    # -- its life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The daemon is started."""
        self.is_up = True
        self._batch = WriteBatch()
        self._outgoing: list[tuple[Line, Vote | Voted]] = []
        self._due_s = float("inf")
        identity = Identity(self.node, self.name, LOOPBACK_CLUSTER, self.incarnation, "0")
        self.voter = Voter(
            identity, self.world.voters, cast("Any", self), lambda: self._batch, self.clock_s(),
            lambda: int(self.wall_s() * 1000),
        )  # fmt: skip
        peers = cast("Any", _Peers(self.lines))
        self.ballots = Ballots(self.voter, cast("Any", self), {}, peers)
        self.run()

    def run(self) -> None:
        """A turn: what is due, the commit, and what leaves after it."""
        if not self.is_up:
            return
        self.ballots.tick(self.clock_s())
        if self._batch.metas:
            for name, value in self._batch.metas:
                if value is None:
                    self.disk.pop(name, None)
                else:
                    self.disk[name] = value
            self._batch = WriteBatch()
        outgoing, self._outgoing = self._outgoing, []
        for line, message in outgoing:
            line.cable.send(line.to, message, self)
        due_s = self.ballots.deadline_s()
        if due_s is not None and due_s < self._due_s:
            self._due_s = due_s
            after_s = max((due_s - self.clock_s()) / self.rate, 0.001)
            self.world.loop.call_later(after_s, self._wake, due_s, context=Context())

    def _wake(self, due_s: float) -> None:
        if due_s == self._due_s:
            self._due_s = float("inf")
            self.run()

    feed = run

    def kill(self) -> None:
        """Kill -9: connections are gone, and what is on disk stays."""
        self.is_up = False
        for line in list(self.lines.values()):
            line.cable.close()
        for asked in self.asking:
            if not asked.done():
                asked.set_exception(DaemonUnavailable("it was killed"))
        self.asking.clear()

    def copy(self) -> None:
        """Copy what is on its disk."""
        self.copied = dict(self.disk)

    def go_back(self) -> None:
        """What was copied takes the place of what is on its disk, while it is down."""
        assert self.copied is not None
        self.disk, self.incarnation = dict(self.copied), self.world.random.randbytes(16)

    async def vote(self, args: dict[str, Any], agent: str) -> dict[str, Any]:
        """The request of an agent.

        :raises DaemonUnavailable: it is down, or killed meanwhile.
        """
        await asyncio.sleep(SOCKET_S)
        if not self.is_up:
            raise DaemonUnavailable("it is down")
        answer: asyncio.Future[dict[str, Any]] = self.world.loop.create_future()
        self.asking.add(answer)

        def done(result: dict[str, Any]) -> None:
            if not answer.done():
                answer.set_result(result)

        self.ballots.begin(args, agent, self.clock_s(), done)
        self.run()
        try:
            return await answer
        finally:
            self.asking.discard(answer)


class _Peers:
    """Peers by node, as far as they are connected."""

    def __init__(self, lines: dict[str, Line]) -> None:
        self._lines = lines

    def get(self, node: str) -> Any:
        """A peer with its link; None: there is none."""
        line = self._lines.get(node)
        return None if line is None else SimpleNamespace(link=line)


class VoteClient:
    """An agent, attached to a host: as much of a client as a claim by quorum needs."""

    def __init__(self, machine: VoteMachine, agent: str) -> None:
        self.agent, self.node = agent, machine.name
        self._machine = machine

    def session(self) -> Self:
        """It remembers nothing."""
        return self

    def claim(self, key: str, *, ttl: float, wait: bool | float = False, quorum: bool = True) -> AsyncQuorumLease:
        """A claim by quorum."""
        assert quorum
        return AsyncQuorumLease(cast("Any", self), key, ttl, wait, None)

    async def vote(
        self,
        key: str,
        owner: bytes,
        ttl: float,
        *,
        fence: int = 0,
        give: bool = False,
        timeout: float,  # noqa: ASYNC109
    ) -> dict[str, Any]:
        """See :meth:`crdtsync.AsyncClient.vote`."""
        args = {"key": key, "owner": owner, "ttl": round(ttl * 1000), "fence": fence, "give": give}
        try:
            return await asyncio.wait_for(self._machine.vote(args, self.agent), timeout)
        except TimeoutError:
            raise Timeout("it takes too long") from None

    async def close(self) -> None:
        """Nothing is open."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class VoteMachines(Network):
    """The hosts, and the network between them: as :class:`~tests.simulator.claims.machines.Machines`."""

    def __init__(self, seed: int, names: list[str]) -> None:
        self.loop = VirtualLoop(_no_socket)
        self.random = Random(f"votes {seed}")
        self.chance = Random(f"network {seed}")
        self.cut_off, self.slow = set(), {}
        self.cables: dict[frozenset[str], VoteCable] = {}
        self.voters = list(names)
        self.machines = {name: VoteMachine(self, name) for name in names}
        self.pairs = [frozenset((a, b)) for i, a in enumerate(names) for b in names[i + 1 :]]
        for machine in self:
            machine.start()

    def __getitem__(self, name: str) -> VoteMachine:
        return self.machines[name]

    def __iter__(self) -> Iterator[VoteMachine]:
        return iter(self.machines.values())

    def client(self, machine: VoteMachine, agent: str, _timeout: float) -> VoteClient:
        """An agent of a host."""
        return VoteClient(machine, agent)

    def cable(self, pair: frozenset[str]) -> VoteCable | None:
        """The connection between two hosts that stands; None: none does."""
        return self.cables.get(pair)

    def connect(self, pair: frozenset[str], delay_s: float) -> None:
        """Connect two hosts, if both are up."""
        first, second = (self[name] for name in sorted(pair))
        if first.is_up and second.is_up:
            self.cables[pair] = VoteCable(self, (first, second), delay_s)

    def close(self) -> None:
        """Nothing is left."""


def _no_socket(_protocol: Callable[[], object], path: str) -> Any:
    raise ConnectionRefusedError(path)
