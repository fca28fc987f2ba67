"""The short way of plain reads answers what the long one does, to the byte, and reads that are plain do take it."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from crdtsync.core.access.agent import User
from crdtsync.core.cluster.admission import Reach
from crdtsync.core.interface import AgentFrame
from crdtsync.wire.codec import pack
from tests.fleet.agent import Agent
from tests.fleet.fleet import fleet_of
from tests.fleet.host import Host

PLAIN: tuple[dict[str, Any], ...] = (
    {"key": "plain"}, {"key": "plain/ü"}, {"key": "plain", "space": "default"}, {"key": "plain", "agent": "bob"},
)  # fmt: skip
OTHERS: tuple[dict[str, Any], ...] = (
    {}, {"key": 7}, {"key": ["plain"]}, {"key": ""}, {"key": "absent"}, {"key": "gone"}, {"key": "two"},
    {"key": "some"}, {"key": "brief"}, {"key": "count"}, {"key": "sure"}, {"key": "plain", "space": "nowhere"},
    {"key": "plain", "after": "c1.broken"}, {"key": "plain", "need": "c1.broken"}, {"key": "plain", "agent": ""},
    {"key": "plain", "agent": 7}, {"key": "plain", "space": None}, {"key": "plain", "space": "_cluster"},
)  # fmt: skip


def filled(machine: Host) -> Agent:
    """An agent of a node that holds one key of each sort."""
    agent = Agent(machine, "ann", points=True)
    for key in ("plain", "plain/ü", "gone", "two", "some"):
        agent.set(key, "value")
    agent.set("two", "another", seen="?")
    agent.set("brief", "value", ttl=1000)
    agent.set("sure", "value", confidence=0.5)
    agent.delete("gone")
    agent.do("incr", key="count", by=1)
    agent.do("schema_set", pattern="some", policy="all")
    return agent


def both_ways(agent: Agent, args: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The frames that one who has read nothing yet is answered with: by the long way, and by the short one."""
    node, found = agent.machine.node, []
    for is_short in (False, True):
        node.dispatcher.is_short = is_short
        node.dispatcher.agents[agent.conn].told = {}
        agent.machine.step(AgentFrame(agent.conn, pack([99, "get", args])))
        found.append(node.take_replies())
    return found[0], found[1]


@pytest.mark.parametrize("args", [*PLAIN, *OTHERS], ids=str)
def test_both_ways_answer_the_same(args: dict[str, Any]) -> None:
    with fleet_of("a") as fleet:
        long, short = both_ways(filled(fleet["a"]), args)
        assert short == long
        assert long


def test_it_passes_with_time() -> None:
    with fleet_of("a") as fleet:
        agent = filled(fleet["a"])
        fleet.pass_time(2)
        long, short = both_ways(agent, {"key": "brief"})
        assert short == long
        assert agent.get("brief") is None


def test_plain_reads_do_take_the_short_way_and_others_do_not() -> None:
    with fleet_of("a") as fleet:
        agent = filled(fleet["a"])
        dispatcher = fleet["a"].node.dispatcher
        with mock.patch.object(dispatcher, "handle", wraps=dispatcher.handle) as handle:
            for args in PLAIN:
                both_ways(agent, args)
            assert handle.call_count == len(PLAIN)
            for args in OTHERS:
                handle.reset_mock()
                both_ways(agent, args)
                assert handle.call_count == 2, args


@pytest.mark.parametrize("pattern", ["", "plain", "other", "**"])
def test_rights_bound_both_ways(pattern: str) -> None:
    with fleet_of("a") as fleet:
        filled(fleet["a"])
        fleet["a"].step(Reach(operators=(0,)))
        if pattern:
            root = Agent(fleet["a"], "root", user=User(0))
            root.ask("access_grant", who="uid:4711", right="read", pattern=pattern)
        stranger = Agent(fleet["a"], "eve", user=User(4711, (), False), points=True)
        for args in PLAIN:
            long, short = both_ways(stranger, args)
            assert short == long
            assert (b"not_allowed" in short[-1].data) == (pattern != "**" and pattern != args["key"])
