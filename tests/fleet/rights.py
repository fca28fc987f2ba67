"""Two machines, who runs them, and agents with rights on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crdtsync.core.access.agent import User
from crdtsync.core.access.quotas import Limits
from crdtsync.core.cluster.admission import Reach
from tests.fleet.agent import Agent, Refusal
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host

ROOT = User(0, (0,), is_local=False)
STRANGER = User(2000, (2000,), is_local=False)
"""Whom the socket's mode alone let in."""


@pytest.fixture
def pair() -> Iterator[Fleet]:
    with fleet_of("a", "b", linked=True) as fleet:
        for machine in fleet.machines.values():
            machine.step(Reach(operators=(0,)))
        yield fleet


@pytest.fixture
def machine(pair: Fleet) -> Host:
    return pair["a"]


@pytest.fixture
def root(machine: Host) -> Agent:
    return machine.agent("root", user=ROOT)


def keyed(root: Agent, name: str = "critic", **rules: str) -> Agent:
    """A new agent with rules in the space default, by right."""
    key = root.ask("agent_create", name=name)["key"]
    for right, pattern in rules.items():
        grant(root, f"agent:{name}", right, pattern)
    return root.machine.agent(name, key=key)


def grant(root: Agent, who: str, right: str, pattern: str = "**", **args: Any) -> Any:
    return root.ask("access_grant", who=who, right=right, pattern=pattern, **args)


def revoke(root: Agent, who: str, pattern: str = "**", **args: Any) -> Any:
    return root.ask("access_revoke", who=who, pattern=pattern, **args)


def refused(call: Any, *args: Any, **named: Any) -> dict[str, Any]:
    with pytest.raises(Refusal, match="not_allowed") as caught:
        call(*args, **named)
    return caught.value.fields


def ended(session: Agent, request: int) -> dict[str, Any]:
    """The error that a watch or resolver ended with; its first reply was taken before."""
    status, fields = session.replies.pop(request)
    assert status == 1
    return fields


def long(session: Agent, operation: str, **args: Any) -> Any:
    """A read that takes several turns."""
    request = session.send(operation, **args)
    while request not in session.replies:
        session.machine.turn()
    return session.result(request)


def begin(session: Agent, operation: str, **args: Any) -> int:
    request = session.send(operation, **args)
    session.machine.turn()
    assert session.replies.pop(request)[0] == 0
    return request


def limit(machine: Host, **limits: int) -> None:
    machine.node.authorizer.default_limits = Limits(**limits)
