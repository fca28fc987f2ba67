"""Rules and agents that say nothing any more go once every member has heard of them; no right comes back by that."""

from __future__ import annotations

import pytest

from crdtsync.core.access import record_cleanup
from crdtsync.core.access.records import ACCESS, AGENTS
from crdtsync.core.cluster.archives import ARCHIVE_AGE_MS_MAX
from tests.fleet.agent import Agent, Refusal
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host
from tests.fleet.rights import ROOT, grant, machine, pair, refused, revoke, root
from tests.unit.core.access.test_space_rules import cut

__all__ = ["machine", "pair", "root"]  # the fixtures

DAY_S = 24 * 3600 + 1.0


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_cleanup, "RULES_MAX", 4)
    monkeypatch.setattr(record_cleanup, "AGENTS_MAX", 4)


def rules(machine: Host) -> list[str]:
    return machine.node.cluster.names(ACCESS)


def churn(root: Agent, count: int = 4) -> None:
    for n in range(count):
        grant(root, f"uid:{n + 1}", "read", "k")
        revoke(root, f"uid:{n + 1}", "k")


def settle(pair: Fleet) -> None:
    pair.sync()
    pair.run(3)


def test_revoked_rules_make_room_a_day_after_every_member_has_heard_of_them(pair, machine, root):
    churn(root)
    settle(pair)
    with pytest.raises(Refusal, match="quota_exceeded: the cluster has 4 rules already"):
        grant(root, "uid:9", "read", "k")
    pair.pass_time(DAY_S)
    grant(root, "uid:9", "read", "k")
    assert rules(machine) == ["default/uid:9/k"]
    settle(pair)
    assert rules(pair["b"]) == ["default/uid:9/k"]
    assert root.ask("access_grant", who="uid:1", right="read", pattern="k")["right"] == "read"
    assert revoke(root, "uid:1", "k")["right"] is None


def test_they_stay_while_a_member_is_away(pair, machine, root):
    settle(pair)
    there = pair["b"].agent("root", user=ROOT)
    grant(there, "uid:1", "read", "k")
    settle(pair)
    cut(machine)
    churn(root)
    pair.pass_time(DAY_S)
    with pytest.raises(Refusal, match="of which some member has not heard"):
        grant(root, "uid:9", "read", "k")
    grant(there, "uid:1", "write", "k")  # it does not know that the right was taken away
    pair.link("a", "b")
    settle(pair)
    for one in pair.machines.values():
        assert one.agent("root", user=ROOT).ask("access_list")["rules"][-1]["who"] == "socket"


def test_that_a_space_is_closed_is_never_forgotten(pair, machine, root):
    revoke(root, "socket")
    churn(root, 3)
    settle(pair)
    pair.pass_time(DAY_S)
    grant(root, "uid:9", "read", "k")
    refused(machine.agent("local").get, "k")
    assert "default/socket/**" in rules(machine)


def test_rules_of_an_earlier_making_go_when_its_archive_has(pair, machine, root):
    root.ask("space_create", name="team")
    for n in range(3):
        grant(root, f"uid:{n + 1}", "read", space="team")
    root.ask("space_drop", name="team")
    root.ask("space_create", name="team")
    grant(root, "uid:5", "read", space="team")
    settle(pair)
    pair.pass_time(DAY_S)
    with pytest.raises(Refusal, match="quota_exceeded"):
        grant(root, "uid:9", "read", "k")
    pair.pass_time(ARCHIVE_AGE_MS_MAX / 1000)
    grant(root, "uid:9", "read", "k")
    assert rules(machine) == ["default/uid:9/k", "team/uid:5/**"]


def test_revoked_agents_make_room_likewise_and_their_keys_stay_worthless(pair, machine, root):
    keys = [root.ask("agent_create", name=f"agent-{n}")["key"] for n in range(4)]
    for n in range(3):
        root.ask("agent_revoke", name=f"agent-{n}")
    settle(pair)
    with pytest.raises(Refusal, match="quota_exceeded: the cluster has 4 agents with keys already"):
        root.ask("agent_create", name="one-more")
    pair.pass_time(DAY_S)
    root.ask("agent_create", name="one-more")
    assert machine.node.cluster.names(AGENTS) == ["agent-3", "one-more"]
    for n, key in enumerate(keys[:3]):
        refused(machine.agent, f"agent-{n}", key=key)
    assert machine.agent("agent-3", key=keys[3]).name == "agent-3"
    assert machine.agent("agent-0").name == "agent-0"  # the name is free again
