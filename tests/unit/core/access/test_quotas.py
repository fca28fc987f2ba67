"""What one agent may ask, of requests, bytes, watches and connections."""

from __future__ import annotations

import re

import pytest

from tests.fleet.agent import Refusal
from tests.fleet.rights import (
    ROOT,
    begin,
    keyed,
    limit,
    machine,
    pair,
    root,
)

__all__ = ["machine", "pair", "root"]  # the fixtures


def test_more_requests_a_second_than_the_quota_are_refused_until_time_has_passed(machine, root):
    limit(machine, requests_per_s=5)
    agent, same = machine.agent("one"), machine.agent("two")  # of one user: one quota
    for session in (agent, same) * 5:
        session.get("k")
    with pytest.raises(Refusal, match="uid:1000 has used up its quota of 5 requests a second") as caught:
        agent.get("k")
    assert caught.value.code == "quota_exceeded"
    assert (caught.value.fields["quota"], caught.value.fields["limit"]) == ("requests_per_s", 5)
    assert re.search(r"crdtsync access quota uid:1000 --requests-per-s N", caught.value.fields["message"])
    machine.fleet.pass_time(0.41)
    agent.get("k")
    same.get("k")
    with pytest.raises(Refusal, match="quota_exceeded"):
        agent.get("k")
    assert root.get("k") is None  # the host's own


def test_more_bytes_than_the_quota_are_refused(machine):
    limit(machine, bytes_per_s=1)
    agent = machine.agent("one")
    value = "x" * 900_000
    for _ in range(10):
        agent.set("k", value)
    with pytest.raises(Refusal, match="bytes written a second"):
        agent.set("k", value)
    assert agent.get("k") == value


def test_watches_and_connections_have_quotas(machine, root):
    limit(machine, watches=2, connections=2)
    one, two = machine.agent("one"), machine.agent("two")
    begin(one, "watch")
    begin(two, "resolver", pattern="**")
    for operation in ("watch", "resolver"):
        with pytest.raises(Refusal, match="quota of 2 watches on this daemon: end some"):
            one.ask(operation, pattern="**")
    with pytest.raises(Refusal, match="quota of 2 connections"):
        machine.agent("three")
    two.close()
    begin(machine.agent("three"), "watch")


def test_a_quota_of_ones_own_holds_at_once_and_on_every_node(pair, machine, root):
    agent = keyed(root, read="**")
    root.ask("access_quota", who="agent:critic", requests_per_s=1)
    agent.get("k"), agent.get("k")
    with pytest.raises(Refusal, match="quota of 1 requests"):
        agent.get("k")
    pair.sync()
    listed = pair["b"].agent("root", user=ROOT).ask("access_list")
    assert [(quota["who"], quota["requests_per_s"]) for quota in listed["quotas"]] == [("agent:critic", 1)]
    root.ask("access_quota", who="agent:critic", requests_per_s=None)
    agent.get("k")
    assert root.ask("access_list")["quotas"] == []
    for bad in ({"who": "socket"}, {"who": "uid:1", "watches": 0}, {"who": "uid:1", "watches": "many"}):
        with pytest.raises(Refusal, match="invalid_request"):
            root.ask("access_quota", **bad)


def test_how_far_quotas_are_used_up_shows_and_falls_with_time(machine, root):
    limit(machine, requests_per_s=5, watches=2, connections=4)
    agent, _ = machine.agent("one"), machine.agent("two")
    for _ in range(8):
        agent.get("k")
    begin(agent, "watch")

    def shown() -> dict[str, tuple[int, int, str]]:
        found = {usage["name"]: usage for usage in root.ask("status")["usage"] if usage["name"].startswith("quota_")}
        return {name: (usage["used"], usage["bound"], usage["scope"]) for name, usage in found.items()}

    assert shown() == {
        "quota_requests": (9, 10, "uid:1000"),
        "quota_bytes": (0, 0, ""),
        "quota_watches": (1, 2, "uid:1000"),
        "quota_connections": (2, 4, "uid:1000"),
    }
    machine.fleet.pass_time(1)
    assert shown()["quota_requests"] == (4, 10, "uid:1000")
    machine.fleet.pass_time(3600)
    assert shown()["quota_requests"] == (0, 0, "")
