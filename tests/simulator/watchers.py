"""Watchers: agents that are told of every change, slowly at times, and keep what they were told of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.causality import Dot, covers
from crdtsync.client.streams.held_events import HeldEvents
from crdtsync.core.interface import AgentClosed, AgentFlow, AgentFrame, AgentOpened
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.tokens import decode_dot, decode_token
from tests.simulator.kinds import ALL, shown
from tests.simulator.kinds.base import UNKNOWN
from tests.simulator.model import groups, identity, require

if TYPE_CHECKING:
    from tests.simulator.agents import Request
    from tests.simulator.hosts import Host
    from tests.simulator.world import World


class Watcher:
    """Watches everything at one host, goes on after each broken connection, and keeps what it is told of each key."""

    def __init__(self, world: World, home: Host) -> None:
        self.world = world
        self.home = home
        self.conn: int | None = None
        self.pending: dict[int, Request] = {}
        self.token: str | None = None
        self.in_snapshot = True
        self.vector: dict[Any, int] = {}
        self.mirror: dict[str, tuple[str, Any]] = {}  # by key: its kind and its value, as they were told
        self.registers: dict[str, dict[str, Any]] = {}  # by key: what was told last in this message
        self.newest: dict[str, Dot] = {}  # by key, of registers: whose value was told last
        self.held = HeldEvents(None)
        world.watchers.append(self)
        self.attach()

    def attach(self) -> None:
        """Connect, and go on after the last token; a snapshot that was cut off begins anew."""
        if self.in_snapshot or self.token is None:
            self._start_over()
            self.in_snapshot = True
        self.registers.clear()
        self.held.broken()
        self.conn = self.world.new_conn()
        self.home.agents[self.conn] = self
        client = self.world.random.randbytes(16)
        hello = {"protocol": 1, "client": client, "agent": "watcher"}
        watch = {"prefix": ""} if self.token is None else {"prefix": "", "after": self.token}
        self.world.step(self.home, AgentOpened(self.conn, 1000, 1))
        for number, (name, args) in enumerate((("hello", hello), ("watch", watch)), 1):
            self.world.step(self.home, AgentFrame(self.conn, pack([number, name, args])))

    def lost(self) -> None:
        self.conn = None

    def start_over(self) -> None:
        """Forget all that it was told, and begin anew."""
        self.token = None
        self.reconnect()

    def flow(self, blocked: bool) -> None:
        if self.conn is not None and self.home.node is not None:
            self.world.step(self.home, AgentFlow(self.conn, blocked))

    def reconnect(self) -> None:
        if self.conn is not None and self.home.node is not None:
            self.home.agents.pop(self.conn, None)
            self.world.step(self.home, AgentClosed(self.conn))
            self.attach()

    def received(self, message: list[Any]) -> None:
        _, status, content = message
        require(status != 1, "a watch failed:", content)
        for event in content if status == 2 else ():
            self.world.counts[f"told {event['event']}"] += 1
            self.in_snapshot |= event["event"] == "reset"
            self.held.add(event, is_snapshot=self.in_snapshot)
            self.in_snapshot &= event["event"] != "snapshot" or event["key"] is not None
        while self.held.ready:
            self._note(self.held.ready.popleft())
        for event in self.registers.values():
            self._check_order(event)
        self.registers.clear()

    def _note(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "batch":
                for part in event["events"]:
                    self._note(part)
            case "reset":
                self._start_over()
            case "lagged":
                self.newest.clear()
                self.registers.clear()
            case "delete" | "expired":
                self.mirror.pop(event["key"], None)
            case "set" | "conflict" | "snapshot" if event["key"] is not None:
                self.mirror[event["key"]] = _after(self.mirror.get(event["key"]), event)
                if event["kind"] == "register" and event["dot"] is not None:
                    self.registers[event["key"]] = event
        if event.get("token") is not None:
            self._check_token(event["token"])

    def _start_over(self) -> None:
        self.token = None
        self.vector = {}
        self.mirror.clear()
        self.newest.clear()
        self.registers.clear()

    def _check_token(self, token: str) -> None:
        """A token names all that was told so far, so the next names no less."""
        vector = decode_token(token)["default"][1]
        require(covers(vector, self.vector), f"a watcher at {self.home.name} was told", vector, "after", self.vector)
        self.token, self.vector = token, vector

    def _check_order(self, event: dict[str, Any]) -> None:
        """What is told of a register was not superseded in the past of what was told before."""
        key, dot = event["key"], decode_dot(event["dot"])
        before = self.newest.get(key)
        is_gone = before is not None and self.world.oracle.is_gone(dot, before)
        require(not is_gone, f"a watcher at {self.home.name} was told of {key}", dot, "after", before)
        self.newest[key] = dot

    def check(self) -> None:
        """Who puts together what was told of each key has what is there. Keys that may have expired are left out."""
        model = self.home.model
        changes = self.world.oracle.changes.values()
        expiring = {effect.key for known in changes for effect in known.effects if effect.added and effect.added.ttl_ms}
        listed = {key for key in model.keys if key[0] != "_"}
        told, held = {*self.mirror} - expiring, listed - expiring
        require(told == held, f"a watcher at {self.home.name} was told of", told, "and there is", held)
        for key in held:
            winner, *_ = groups(model.held(key).values(), model.schema(key).policy)
            kind, content = self.mirror[key]
            what = f"of {key} a watcher at {self.home.name} was told"
            require(kind == Kind(winner[-1].kind).word, what, kind, "and there is", winner)
            if content is not UNKNOWN:
                wanted = _plain(shown(winner))
                require(_plain(content) == wanted, what, content, "and there is", wanted)


def _after(before: tuple[str, Any] | None, event: dict[str, Any]) -> tuple[str, Any]:
    """What a key holds after an event: its kind and its value."""
    kind, packed = event["kind"], event["value"]
    value = UNKNOWN if packed is None else unpack(packed)
    operation = ALL[kind].operations.get(event["op"])
    change = operation.told if operation is not None and event["event"] == "set" else None
    if change is None:
        return kind, UNKNOWN if kind == "text" else value
    content = before[1] if before is not None and before[0] == kind else ALL[kind].empty
    if content is UNKNOWN or (value is UNKNOWN and event["op"] == "discard"):
        return kind, UNKNOWN
    return kind, change(content, value)


def _plain(content: Any) -> Any:
    """A value to compare by: the order of elements and items is not told."""
    return sorted({identity(item) for item in content}) if isinstance(content, list) else identity(content)
