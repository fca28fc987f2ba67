"""The lag of nodes that are reached over others: asked for when somebody looks, not shown when it is not known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crdtsync.core.crdt import entries
from crdtsync.core.diagnostics.remote_lag import FAR_WAIT_S
from crdtsync.core.interface import DiskSpace
from crdtsync.core.reads import checkpoint_check
from tests.fleet.agent import Agent
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host


@pytest.fixture
def line() -> Iterator[Fleet]:
    """Three nodes, of which the outer ones know each other over the middle one alone."""
    with fleet_of("a", "b", "c") as fleet:
        fleet.link("a", "b")
        fleet.link("b", "c")
        for name in ("a", "c"):
            fleet[name].agent().set(f"from-{name}", 1)
        fleet.run(2)
        yield fleet


def answer(session: Agent, operation: str, **args: Any) -> Any:
    """What a request is answered once others have spoken."""
    request = session.send(operation, **args)
    waited_s = 0.0
    while request not in session.replies and waited_s <= FAR_WAIT_S + 1:
        session.machine.fleet.run(0.1)
        waited_s += 0.1
    return session.result(request)


def far_peer(machine: Host, **args: Any) -> dict[str, Any]:
    peers = answer(machine.agent("asker"), "status", **args)["peers"]
    (found,) = [peer for peer in peers if peer["name"] == "c"]
    return dict(found)


def test_the_lag_of_a_far_node_is_asked_for_when_somebody_looks(line):
    a = line["a"]
    assert far_peer(a, far=True)["behind"] == far_peer(a, far=True)["ahead"] == {"default": 0}
    assert far_peer(a)["state"] == "indirect"


def test_what_a_far_node_lacks_is_counted_and_named(line):
    line["c"].step(DiskSpace("too little room"))  # it takes no changes, and still answers
    for value in range(3):
        line["a"].agent().set("more", value)
    line.run(1)
    assert far_peer(line["a"], far=True)["behind"] == {"default": 3}
    found = answer(line["a"].agent("asker"), "explain", key="more")
    assert (found["values"][0]["held_by"], found["values"][0]["not_held_by"]) == (["b"], ["c"])


def test_it_is_not_shown_any_more_when_nobody_asks_any_more(line):
    assert far_peer(line["a"], far=True)["behind"] == {"default": 0}
    line.run(12)
    line["a"].agent().set("more", 1)
    assert (far_peer(line["a"])["state"], far_peer(line["a"])["behind"]) == ("indirect", {})


def test_a_far_node_that_does_not_answer_is_waited_for_a_moment_and_left_out(line, monkeypatch):
    assert far_peer(line["a"], far=True)["behind"] == {"default": 0}
    line.run(12)
    for heard in ("asked", "answered"):
        monkeypatch.setattr(line["b"].node.sync.mesh.inquiries, heard, lambda *_: None)
    session = line["a"].agent("asker")
    request = session.send("status", far=True)
    line.run(FAR_WAIT_S / 2)
    assert request not in session.replies
    line.run(FAR_WAIT_S)
    (peer,) = [peer for peer in session.result(request)["peers"] if peer["name"] == "c"]
    assert (peer["state"], peer["behind"], peer["ahead"]) == ("indirect", {}, {})


def test_an_explanation_says_which_far_nodes_have_the_value(line):
    line["a"].agent().set("k", 1)
    line.run(1)
    found = answer(line["a"].agent("asker"), "explain", key="k")
    assert (found["values"][0]["held_by"], found["values"][0]["not_held_by"]) == (["b", "c"], [])


def test_whose_right_is_taken_away_while_it_waits_is_told_nothing(line, monkeypatch):
    a = line["a"]
    for heard in ("asked", "answered"):
        monkeypatch.setattr(line["b"].node.sync.mesh.inquiries, heard, lambda *_: None)
    session = a.agent("asker")
    request = session.send("explain", key="from-a")
    a.turn()
    a.agent("other").ask("access_revoke", who="socket")
    line.run(2 * FAR_WAIT_S)
    assert session.replies[request][1]["code"] == "not_allowed"


def test_a_status_right_after_the_start_waits_for_the_digest_a_slice_a_turn(node, monkeypatch):
    """Of 100,000 entries it takes a third of a second to work out."""
    monkeypatch.setattr(entries, "SUMMED_AT_ONCE_MAX", 10)
    monkeypatch.setattr(checkpoint_check, "SLICE_ENTRIES", 10)
    ann = node.agent("ann")
    ann.do("batch", ops=[["set", {"key": f"k{n}", "value": b"\x01"}] for n in range(50)])
    digest = ann.ask("status")["spaces"][0]["digest"]
    node.restart()
    bob = node.agent("bob")
    assert bob.ask("get", key="k1")["value"] == b"\x01"  # awake
    request = bob.send("status")
    for left in (40, 30, 20, 10):
        node.turn()
        assert request not in bob.replies
        assert len(node.replica.entries._unsummed) == left
    node.turn()
    assert bob.result(request)["spaces"][0]["digest"] == digest


def test_figures_right_after_the_start_wait_for_no_digest(node, monkeypatch):
    """They tell none: a scrape of metrics worked it out in one turn."""
    monkeypatch.setattr(entries, "SUMMED_AT_ONCE_MAX", 10)
    ann = node.agent("ann")
    ann.do("batch", ops=[["set", {"key": f"k{n}", "value": b"\x01"}] for n in range(50)])
    node.restart()
    node.agent("bob").ask("get", key="k1")  # awake
    (space,) = node.node.status()["spaces"]
    assert (space["keys"], space["digest"]) == (50, None)
    assert not node.replica.entries.is_summed
