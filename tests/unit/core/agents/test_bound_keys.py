"""Keys that go with the connection of the agent that bound them."""

from __future__ import annotations

import pytest

from crdtsync.core.agents import bound_keys
from crdtsync.core.interface import AgentClosed
from crdtsync.wire.codec import pack
from crdtsync.wire.tokens import decode_version
from tests.fleet.agent import Refusal
from tests.fleet.fleet import fleet_of


def test_what_was_bound_goes_with_the_connection_on_every_host(pair):
    ann = pair["a"].agent("ann")
    ann.ask("bind", key="k", version=ann.set("k", 1)["version"])
    ann.set("other", 1)
    pair.sync()
    ann.close()
    pair.sync()
    bob = pair["b"].agent("bob")
    assert (bob.get("k"), bob.get("other")) == (None, 1)


def test_what_others_wrote_to_the_key_stays(node):
    ann = node.agent("ann")
    ann.ask("bind", key="k", version=ann.set("k", 1)["version"])
    node.agent("bob").set("k", 2)
    ann.close()
    node.turn()
    assert node.agent("bob").get("k") == 2


def test_what_is_bound_last_counts_and_without_a_version_nothing_is(node):
    ann = node.agent("ann")
    first = ann.set("k", 1)["version"]
    ann.ask("bind", key="k", version=first)
    ann.ask("bind", key="k", version=ann.set("k", 2, seen=first)["version"])
    ann.ask("bind", key="m", version=ann.set("m", 1)["version"])
    clock = ann.ask("bind", key="m")["clock"]
    assert decode_version(ann.set("other", 1)["version"]).hlc > clock > decode_version(first).hlc
    ann.close()
    node.turn()
    bob = node.agent("bob")
    assert (bob.get("k"), bob.get("m")) == (None, 1)


def test_what_the_agent_writes_itself_later_goes_too(node):
    ann, bob = node.agent("ann"), node.agent("bob")
    first = ann.set("k", 1)["version"]
    ann.ask("bind", key="k", version=first)
    bob.set("k", 2)
    assert ann.version("k") != first
    ann.set("k", 3)
    ann.set("other", 1)
    ann.ask("bind", key="m", version=ann.set("m", 1)["version"])
    ann.delete("m")
    ann.set("m", 2)
    ann.close()
    node.turn()
    assert (bob.get("k"), bob.get("other"), bob.get("m")) == (None, 1, 2)


def test_a_set_binds_its_key_and_tells_a_time_behind_all_that_was_there(node):
    ann = node.agent("ann")
    told = ann.set("k", 1, bind=True, if_absent=True)
    later = decode_version(ann.set("other", 1)["version"]).hlc
    assert decode_version(told["version"]).hlc < told["clock"] < later
    ann.set("m", 1)
    ann.close()
    node.turn()
    bob = node.agent("bob")
    assert (bob.get("k"), bob.get("m")) == (None, 1)


def test_a_set_that_waits_for_others_tells_a_time_behind_what_they_had(pair):
    ann, bob = pair["a"].agent("ann"), pair["b"].agent("bob")
    theirs = bob.set("other", 1)["version"]
    request = ann.write("set", key="k", value=pack(1), bind=True, w="reached", timeout=1000)
    pair.sync()
    told = ann.result(request)
    assert told["nodes"] == 2
    assert told["clock"] > decode_version(theirs).hlc
    ann.close()
    pair.sync()
    assert bob.get("k") is None


def test_a_set_that_binds_tells_its_own_time_if_nothing_else_lives_under_the_key_when_it_is_answered(pair):
    ann, bob, cat, dan = (
        pair[host].agent(name) for host, name in zip("abab", ("ann", "bob", "cat", "dan"), strict=True)
    )

    def asked(agent, key):
        return agent.write("set", key=key, value=pack(1), bind=True, w="reached", timeout=1000)

    told = ann.set("m", 1, bind=True)
    assert told["alone"] == decode_version(told["version"]).hlc
    requests = {agent: asked(agent, key) for agent, key in ((ann, "k"), (bob, "k"), (cat, "gone"), (dan, "lone"))}
    pair["a"].agent("eve").set("gone", 2)
    pair.sync()
    assert [agent.result(request)["alone"] > 0 for agent, request in requests.items()] == [False, False, False, True]


def test_it_tells_no_time_that_is_before_what_has_come_meanwhile_from_another_node(pair):
    """There somebody may have held the key, and given it back, of whom this node had not heard."""
    ann, bob = pair["a"].agent("ann"), pair["b"].agent("bob")
    request = ann.write("set", key="k", value=pack(1), bind=True, w="reached", timeout=1000)
    bob.set("k", 1, bind=True)
    later = bob.set("other", 1)["version"]
    bob.delete("k")
    pair.sync()
    told = ann.result(request)
    assert told["alone"] == 0
    assert told["clock"] > decode_version(later).hlc


def test_writes_that_bind_have_other_times_on_each_node():
    """Two nodes that have seen the same, at the same moment."""
    with fleet_of("a", "b") as fleet:
        times = [host.agent("ann").set("k", 1, bind=True)["alone"] for host in (fleet["a"], fleet["b"])]
    assert times[0] != times[1]


def test_what_a_batch_writes_to_a_bound_key_goes_too(node):
    ann = node.agent("ann")
    first = ann.set("k", 1)["version"]
    ann.ask("bind", key="k", version=first)
    ann.ask("bind", key="m", version=ann.set("m", 1)["version"])
    ann.do("batch", ops=[["set", {"key": "k", "value": pack(2), "seen": first}], ["delete", {"key": "m"}]])
    ann.set("m", 2)
    ann.close()
    node.turn()
    bob = node.agent("bob")
    assert (bob.get("k"), bob.get("m")) == (None, 2)


def test_a_deletion_of_what_was_there_before_leaves_the_key_bound(node):
    ann = node.agent("ann")
    first = ann.set("k", 1)["version"]
    ann.ask("bind", key="k", version=ann.set("k", 2, seen=first)["version"])
    assert not ann.delete("k", seen=first)["existed"]
    assert ann.get("k") == 2
    ann.close()
    node.turn()
    assert node.agent("bob").get("k") is None


def test_it_stays_when_the_node_stops_and_when_the_same_client_attaches_again(node):
    ann = node.agent("ann")
    ann.ask("bind", key="k", version=ann.set("k", 1)["version"])
    again = node.agent("ann", client=ann.client)
    node.turn()
    assert node.agent("bob").get("k") == 1
    node.step(AgentClosed(again.conn, is_stopping=True))
    node.turn()
    assert node.agent("bob").get("k") == 1


def test_as_many_as_one_change_can_delete(node, monkeypatch):
    monkeypatch.setattr(bound_keys, "BOUND_KEYS_MAX", 2)
    ann = node.agent("ann")
    version = ann.set("k", 1)["version"]
    for key in ("k", "l", "l"):
        ann.ask("bind", key=key, version=version)
    with pytest.raises(Refusal, match="has 2 keys bound to it already"):
        ann.ask("bind", key="m", version=version)
    for wrong in ({"key": "_x", "version": version}, {"key": "k", "version": "no version"}):
        with pytest.raises(Refusal):
            ann.ask("bind", **wrong)


def test_two_nodes_that_have_seen_the_same_are_told_different_times():
    with fleet_of("a", "b", linked=True) as fleet:
        ann, bob = fleet["a"].agent("ann"), fleet["b"].agent("bob")
        ann.set("k", 1)
        fleet.sync()
        assert fleet["a"].replica.clock.last == fleet["b"].replica.clock.last
        first = ann.ask("bind", key="k")["clock"]
        assert first != bob.ask("bind", key="k")["clock"]
        ann.set("k", 2)
        fleet.sync()
        assert bob.ask("bind", key="k")["clock"] > first


@pytest.mark.parametrize("name, args", [("set", {"bind": True}), ("batch", {}), ("set", {})])
def test_a_repeat_that_says_something_else_than_at_first_is_answered_as_at_first(node, name, args):
    """Who repeats a number with another request has its earlier answer; no bug comes of it."""
    ann = node.agent("ann")
    ann.ask("bind", key="k", version=ann.set("k", 1)["version"])
    request = ann.write("append", key="log", value=pack(1))
    node.turn()
    first = ann.result(request)
    more = {"key": "k", "value": pack(2), "ops": [["set", {"key": "k", "value": pack(2)}]], **args}
    assert ann.ask(name, n=ann.number, again=True, **more) == first


def test_a_set_that_is_repeated_binds_its_key_again(node):
    ann = node.agent("ann")
    told = ann.set("k", 1, bind=True)
    ann.ask("bind", key="k")  # as after a restart of the node: nothing is bound
    again = ann.ask("set", n=ann.number, again=True, key="k", value=pack(1), bind=True)
    assert again["version"] == told["version"]
    assert again["clock"] > told["clock"]
    ann.close()
    node.turn()
    assert node.agent("bob").get("k") is None
