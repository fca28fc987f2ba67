"""A few real nodes on real databases in one process, for tests that read like a transcript.

``Machine.turn`` does what the daemon's driver does: commit, advance, then deliver. Time stands still unless told.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

from crdtsyncd.storage.database import Store

from crdtsync.core.agents.connection import User
from crdtsync.core.background.retention_caps import DEFAULT_CAPS, Caps
from crdtsync.core.identity import LOOPBACK_CLUSTER, Identity
from crdtsync.core.interface import (
    AgentClosed,
    AgentFlow,
    AgentFrame,
    AgentOpened,
    DialState,
    Event,
    Now,
    PeerClosed,
    PeerFrame,
    PeerOpened,
    Ready,
    Tick,
)
from crdtsync.core.node import Node
from crdtsync.core.replica.replica import Replica
from crdtsync.wire.change import Change, Codec
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.framing import FrameReader
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX
from crdtsync.wire.peer.base import Message
from crdtsync.wire.peer.changes import Changes
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.messages import decode_message

SOMEBODY = User(1000)
START_MS = 1_800_000_000_000
CODEC = Codec(LOOPBACK_CLUSTER, "default", 0)


class Refusal(Exception):
    """The daemon's error reply."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(f"{fields['code']}: {fields['message']}")
        self.code = fields["code"]
        self.fields = fields


class Session:
    """One agent's connection. Requests are answered by the machine's next turn, which :meth:`ask` makes at once."""

    def __init__(
        self, machine: Machine, name: str, client: bytes | None = None, user: User = SOMEBODY, **hello: Any
    ) -> None:
        self.machine = machine
        self.name = name
        self.conn = machine.fleet.new_conn()
        self.client = client or machine.fleet.random.randbytes(16)
        self.replies: dict[int, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.frames: list[list[dict[str, Any]]] = []
        self.closed = False
        self.request_last = 0
        self.number = 0
        machine.sessions[self.conn] = self
        machine.step(AgentOpened(self.conn, user.uid, 4242, user.gids, user.is_local))
        self.points: list[tuple[int, str, str]] = []
        self.ask("hello", protocol=1, client=self.client, agent=name, **hello)

    def send(self, operation: str, **args: Any) -> int:
        """Make a request without waiting; its id."""
        self.request_last += 1
        self.machine.step(AgentFrame(self.conn, pack([self.request_last, operation, args])))
        return self.request_last

    def write(self, operation: str, **args: Any) -> int:
        self.number += 1
        return self.send(operation, n=self.number, **args)

    def result(self, request: int) -> Any:
        """The reply to a request; raises :class:`Refusal` for an error, KeyError if there is none yet."""
        status, content = self.replies[request]
        if status == 1:
            raise Refusal(content)
        return content

    def ask(self, operation: str, **args: Any) -> Any:
        request = self.send(operation, **args)
        self.machine.turn()
        return self.result(request)

    def do(self, operation: str, **args: Any) -> Any:
        request = self.write(operation, **args)
        self.machine.turn()
        return self.result(request)

    # -- the usual ones; values are packed and unpacked ------------------------------------------------------------

    def set(self, key: str, value: object, **args: Any) -> Any:
        return self.do("set", key=key, value=pack(value), **args)

    def delete(self, key: str, **args: Any) -> Any:
        return self.do("delete", key=key, **args)

    def append(self, key: str, value: object, **args: Any) -> Any:
        return self.do("append", key=key, value=pack(value), **args)

    def get(self, key: str, **args: Any) -> Any:
        """The value, or None."""
        got = self.ask("get", key=key, **args)
        return None if got is None else unpack(got["value"])

    def version(self, key: str) -> str:
        return self.ask("get", key=key)["version"]

    def values(self, key: str) -> list[Any]:
        """All values of a key, the winner first."""
        entry = self.ask("entry", key=key)
        return [] if entry is None else [unpack(part["value"]) for part in (entry, *entry["siblings"])]

    def told(self) -> list[dict[str, Any]]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events

    def flow(self, blocked: bool) -> None:
        self.machine.step(AgentFlow(self.conn, blocked))

    def close(self) -> None:
        self.machine.step(AgentClosed(self.conn))
        self.machine.sessions.pop(self.conn, None)

    def received(self, data: bytes) -> None:
        for payload in FrameReader(AGENT_FRAME_BYTES_MAX).feed(data):
            request, status, content = unpack(payload)
            if status == 2:
                self.events += content
                self.frames.append(content)
            elif status == 3:
                self.points.append((request, *content))
            else:
                assert request not in self.replies, "a second reply to one request"
                self.replies[request] = (status, content)


class Machine:
    """A host with its daemon."""

    def __init__(self, fleet: Fleet, name: str, directory: Path) -> None:
        self.fleet = fleet
        self.name = name
        self.directory = directory
        self.sessions: dict[int, Session] = {}
        self.wires: dict[int, Wire | Stranger] = {}
        self.log: list[tuple[str, dict[str, object]]] = []
        self.ahead_ms = 0  # how far the host's clock is ahead
        for part in ("data", "run"):
            (directory / part).mkdir(parents=True, exist_ok=True)
        self.open()

    def open(self) -> None:
        self.store = Store(
            self.directory / "data",
            self.directory / "run",
            node=lambda: f"{self.fleet.random.getrandbits(128):032x}",  # the same in every run: meshes depend on it
            entropy=self.fleet.random.randbytes,
        )
        identity = Identity(self.store.node, self.name, LOOPBACK_CLUSTER, self.store.database, "0")
        random = Random(self.fleet.random.getrandbits(64))
        self.node = Node(identity, self.store, random, self._log, self.now, self.fleet.caps)
        self.turn()

    def _log(self, event: str, level: str = "info", **fields: object) -> None:
        self.log.append((event, fields))

    @property
    def replica(self) -> Replica:
        return self.node.replicas["default"]

    @property
    def alarms(self) -> set[str]:
        return {alarm.code for alarm in self.node.alarms.raised()}

    @property
    def now(self) -> Now:
        return Now(self.fleet.now.wall_ms + self.ahead_ms, self.fleet.now.mono_s)

    def step(self, event: Event) -> None:
        self.node.step(event, self.now)

    def turn(self) -> Ready:
        """Commit what was stepped, and let it out."""
        ready = self.node.ready()
        self.store.commit(ready.persist)
        self.node.advance()
        self.deliver(ready)
        return ready

    def refuse(self, refusal: Any) -> Ready:
        """A turn whose commit fails."""
        ready = self.node.persist_failed(self.node.ready(), refusal)
        self.deliver(ready)
        return ready

    def deliver(self, ready: Ready) -> None:
        for conn, data in ready.sends:
            if conn in self.wires:
                self.wires[conn].put(self, data)
        for reply in ready.replies:
            if reply.conn in self.sessions:
                self.sessions[reply.conn].received(reply.data)
        for conn, reason in ready.peer_closes:
            if conn in self.wires:
                self.wires[conn].close(reason)
        for conn, _ in ready.agent_closes:
            if conn in self.sessions:
                self.sessions.pop(conn).closed = True
                self.step(AgentClosed(conn))

    def restart(self) -> None:
        """kill -9, and start again on the same files."""
        for wire in list(self.wires.values()):
            wire.close("killed")
        self.sessions.clear()
        self.store.close()
        self.open()

    def agent(self, name: str = "agent", **hello: Any) -> Session:
        return Session(self, name, **hello)

    def expect_peer(self, *names: str) -> None:
        """Nodes at these addresses are expected, and have not answered yet."""
        for name in names or ("elsewhere",):
            self.step(DialState(f"ws://{name}", "connecting", ""))


class Wire:
    """A connection between two machines; frames wait until they are delivered."""

    def __init__(self, fleet: Fleet, first: Machine, second: Machine) -> None:
        self.fleet = fleet
        self.ends = (first, second)
        self.conns = (fleet.new_conn(), fleet.new_conn())
        self.waiting: tuple[deque[bytes], deque[bytes]] = (deque(), deque())
        self.reason: str | None = None
        fleet.wires.append(self)
        for at in (0, 1):
            self.ends[at].wires[self.conns[at]] = self
            self.ends[at].step(PeerOpened(self.conns[at], f"ws://{self.ends[1 - at].name}", at == 0))

    def put(self, sender: Machine, data: bytes) -> None:
        if self.reason is None:
            self.waiting[1 - self.ends.index(sender)].append(data)

    def deliver(self, to: Machine, count: int = 1_000_000) -> int:
        at = self.ends.index(to)
        done = 0
        while self.waiting[at] and done < count:
            to.step(PeerFrame(self.conns[at], self.waiting[at].popleft()))
            done += 1
        return done

    def close(self, reason: str = "cut") -> None:
        if self.reason is not None:
            return
        self.reason = reason
        if self in self.fleet.wires:
            self.fleet.wires.remove(self)
        for at in (0, 1):
            self.waiting[at].clear()
            if self.ends[at].wires.pop(self.conns[at], None) is not None:
                self.ends[at].step(PeerClosed(self.conns[at], reason))


class Stranger:
    """A peer that the test plays itself, connected to one machine."""

    def __init__(self, machine: Machine, node: str = "stranger", hello: bool = True, **fields: Any) -> None:
        self.machine = machine
        self.conn = machine.fleet.new_conn()
        self.waiting: list[bytes] = []
        self.reason: str | None = None
        machine.wires[self.conn] = self
        machine.step(PeerOpened(self.conn, "ws://stranger", False))
        if hello:
            usual: dict[str, Any] = {"spaces": {"default": (0, {})}, "time_ms": START_MS}
            self.say(Hello(node, "stranger", LOOPBACK_CLUSTER, b"d" * 16, **(usual | fields)))
            machine.turn()

    def put(self, sender: Machine, data: bytes) -> None:
        self.waiting.append(data)

    def close(self, reason: str = "cut") -> None:
        if self.reason is None:
            self.reason = reason
            del self.machine.wires[self.conn]
            self.machine.step(PeerClosed(self.conn, reason))

    def say(self, message: Message | bytes) -> None:
        data = message if isinstance(message, bytes) else message.encode()
        self.machine.step(PeerFrame(self.conn, data))

    def send(self, *changes: Change) -> None:
        """Send changes, and have them committed."""
        self.say(Changes("default", 0, [change.body for change in changes]))
        self.machine.turn()

    def heard(self, kind: type = object) -> list[Any]:
        """What the machine has said since the last call."""
        self.machine.turn()
        messages = [decode_message(data) for data in self.waiting]
        self.waiting.clear()
        return [message for message in messages if isinstance(message, kind)]


class Fleet:
    """Machines by name: ``fleet = Fleet("a", "b"); fleet["a"]``."""

    def __init__(self, *names: str, caps: Caps = DEFAULT_CAPS) -> None:
        self.caps = caps
        shared = Path("/dev/shm")
        self.directory = Path(mkdtemp(prefix="crdtsync-unit-", dir=shared if shared.is_dir() else None))
        self.random = Random(1)
        self.now = Now(START_MS, 1000.0)
        self.conn_last = 0
        self.wires: list[Wire] = []
        self.machines: dict[str, Machine] = {}
        for name in names:
            self.add(name)

    def __getitem__(self, name: str) -> Machine:
        return self.machines[name]

    def add(self, name: str) -> Machine:
        self.machines[name] = Machine(self, name, self.directory / name)
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
