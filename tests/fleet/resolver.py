"""Resolvers that answer when a test tells them to, and conflicts for them."""

from __future__ import annotations

from typing import Any

from crdtsync.core.resolvers import registry
from crdtsync.wire.codec import pack, unpack
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host

TAKEOVER_S = registry.RESOLVER_TAKEOVER_MS / 1000


class Resolving:
    """A resolver that answers when it is told to."""

    def __init__(self, machine: Host, pattern: str = "**", name: str = "resolver", **args: object) -> None:
        self.machine = machine
        self.session = machine.agent(name)
        self.id = self.session.send("resolver", pattern=pattern, **args)
        settle(machine)
        self.session.result(self.id)

    def asked(self) -> list[dict[str, Any]]:
        """The conflicts asked since the last call."""
        settle(self.machine)
        return self.session.told()

    def keys(self) -> list[str]:
        return [event["key"] for event in self.asked()]

    def done(self, key: str, **args: object) -> Any:
        reply = self.session.ask("resolver_done", resolver=self.id, key=key, **args)
        settle(self.machine)
        return reply

    def answer(self, event: dict[str, Any], value: object) -> Any:
        """Settle what it was asked."""
        self.session.do("resolve", key=event["key"], value=pack(value), seen=event["version"])
        return self.done(event["key"])


def settle(machine: Host) -> None:
    """Turns until nothing is left to be looked at."""
    for _ in range(1000):
        machine.turn()
        due = machine.node.deadline_s()
        if due is None or due > machine.now.mono_s:
            return
    raise AssertionError("the node never comes to rest")


def in_order(fleet: Fleet) -> list[Host]:
    """The machines, that of the lowest node id first."""
    return sorted(fleet.machines.values(), key=lambda machine: machine.node.identity.node)


def conflict(machine: Host, key: str, *values: object) -> None:
    """Siblings of a key, made on one machine: no author has seen another's value."""
    for number, value in enumerate(values):
        machine.agent(f"author-{number}").set(key, value, seen="?")


def values_of(event: dict[str, Any]) -> set[Any]:
    return {unpack(part["value"]) for part in (event, *event["siblings"])}
