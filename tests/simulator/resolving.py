"""Fake resolvers: agents that are asked about conflicts and answer, fail, or stay silent, when a history says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.wire.tokens import decode_dot, decode_version
from tests.simulator.agents import Agent, Read, Request
from tests.simulator.cases import Sub
from tests.simulator.kinds import TEXTS
from tests.simulator.model import require

if TYPE_CHECKING:
    from tests.simulator.hosts import Host
    from tests.simulator.world import World

RESOLVER_ALARMS = frozenset({"resolver_failed", "conflict_unresolved", "resolvers_disagree"})


class Resolving(Agent):
    """A resolver of one pattern. ``current`` is what it has been asked and has not yet answered."""

    def __init__(self, world: World, name: str, home: Host, pattern: str = "**") -> None:
        self.pattern = pattern
        self.resolver = 0
        self.current: dict[str, Any] | None = None
        self.asked: list[tuple[str, frozenset[Any]]] = []
        world.expected_alarms |= RESOLVER_ALARMS
        super().__init__(world, name, home)

    def attach(self) -> None:
        """Connect and register."""
        self.current = None
        super().attach()
        self.resolver = self._send("resolver", {"pattern": self.pattern})

    def lost(self) -> None:
        super().lost()
        self.current = None

    def _detach(self) -> None:
        super()._detach()
        self.current = None

    def received(self, message: list[Any]) -> None:
        request, status, content = message
        if status == 2:
            require(request == self.resolver and self.current is None, "asked while at work:", content)
            (self.current,) = content
            key, version = self.current["key"], decode_version(self.current["version"])
            self.asked.append((key, frozenset(version.dots)))
            self.world.counts["asked"] += 1
            known, others = self.world.dots(key, version)
            self.memory[key] = Read(self.current["version"], known, others)
            return
        require(request != self.resolver or status == 0, "a resolver was refused:", content)
        super().received(message)

    def answer(self, choice: float) -> None:
        """Settle what it was asked about: one of the values, or a new one; texts are joined."""
        event = self.current
        if event is None or self.is_busy(event["key"]):
            return
        key, parts = event["key"], (event, *event["siblings"])
        if any(part["kind"] == "text" for part in parts) or choice < 0.5:
            chosen = parts[int(choice * 2 * len(parts)) % len(parts)]
            is_merge = all(part["kind"] == "text" for part in parts) and key in TEXTS
            sub = Sub("resolve", key) if is_merge else Sub("resolve", key, take=decode_dot(chosen["dot"]))
        else:
            sub = Sub("resolve", key, content=0)
        self.write([sub])

    def fail(self) -> None:
        """Say that it cannot."""
        if self.current is not None:
            self._done(self.current["key"], error="no idea")

    def _done(self, key: str, **more: Any) -> None:
        if self.current is not None and self.current["key"] == key and self.conn is not None:
            self.current = None
            self._send("resolver_done", {"resolver": self.resolver, "key": key, **more})

    def _written(self, request: Request, result: dict[str, Any]) -> None:
        super()._written(request, result)
        if request.name == "resolve":
            self._done(request.args["key"])

    def _refused(self, request: Request, error: dict[str, Any]) -> None:
        super()._refused(request, error)
        if request.name == "resolve":
            self._done(request.args["key"], error=error["message"])
