"""Requests that wait: for a change to come, or until so many nodes have it on disk."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from crdtsync.causality import VersionVector, Writer
from crdtsync.core.agents import dispatcher
from crdtsync.core.interface import DialState
from crdtsync.core.sync import change_feed
from crdtsync.core.waiting.wait_queue import Wait, Waits
from crdtsync.errors import NoSpace, Timeout
from crdtsync.wire.codec import pack
from tests.fleet.agent import Refusal


def part_ways(fleet):
    for wire in list(fleet.wires):
        wire.close()
    fleet.sync()


def waits(session, request):
    session.machine.turn()
    return request not in session.replies


def test_a_read_after_a_token_waits_until_it_is_here(apart):
    token = apart["a"].agent().set("k", 1)["token"]
    bob = apart["b"].agent()
    request = bob.send("get", key="k", after=token, timeout=60_000)
    assert waits(bob, request)
    apart.link("a", "b")
    apart.sync()
    assert bob.result(request)["value"] == pack(1)


def test_a_read_after_a_token_that_is_here_does_not_wait(node):
    ann = node.agent()
    assert ann.get("k", after=ann.set("k", 1)["token"]) == 1


def test_a_token_handed_on_carries_all_that_its_author_had_seen(apart):
    """a wrote, b saw it and wrote, b's token is awaited at c: then a's write is there too."""
    apart.link("a", "b")
    apart["a"].agent().set("first", 1)
    apart.run(2)
    token = apart["b"].agent().set("second", 2)["token"]
    part_ways(apart)
    cat = apart["c"].agent()
    request = cat.send("wait", token=token, timeout=60_000)
    assert waits(cat, request)
    apart.link("b", "c")
    apart.sync()
    assert cat.result(request) == {"nodes": 2}
    assert cat.get("first") == 1


def test_a_read_that_waits_in_vain(apart):
    token = apart["a"].agent().set("k", 1)["token"]
    bob = apart["b"].agent()
    request = bob.send("get", key="k", after=token, timeout=1000)
    assert waits(bob, request)
    apart.pass_time(0.9)
    assert waits(bob, request)
    apart.pass_time(0.2)
    assert not waits(bob, request)
    with pytest.raises(Refusal) as refusal:
        bob.result(request)
    assert refusal.value.code == "timeout"


def test_the_node_asks_to_be_woken_when_a_wait_ends(apart):
    token = apart["a"].agent().set("k", 1)["token"]
    bob = apart["b"].agent()
    bob.send("get", key="k", after=token, timeout=1000)
    apart["b"].turn()
    assert apart["b"].node.deadline_s() == pytest.approx(apart.now.mono_s + 1.0)


@pytest.mark.parametrize("w, nodes", [(1, None), (2, 2), (3, 3), ("majority", 2), ("all", 3), (None, None)])
def test_a_write_concern_counts_nodes_that_have_it_on_disk(trio, w, nodes):
    ann = trio["a"].agent()
    request = ann.write("set", key="k", value=pack(1), w=w, timeout=60_000)
    assert waits(ann, request) is (nodes is not None)
    trio.run(1)
    result = ann.result(request)
    assert result.get("nodes", 0) >= (nodes or 0)
    assert result["token"]


def test_a_write_concern_is_not_met_by_what_was_only_sent(pair):
    ann = pair["a"].agent()
    request = ann.write("set", key="k", value=pack(1), w=2, timeout=60_000)
    pair["a"].turn()
    (wire,) = pair.wires
    wire.deliver(pair["b"])  # taken in, and not committed
    wire.deliver(pair["a"])
    assert waits(ann, request)
    pair["b"].turn()
    pair.run(0.5)
    assert ann.result(request)["nodes"] == 2


def test_a_write_concern_that_is_not_met_says_who_holds_it_and_the_write_stands(trio):
    lone = next(wire for wire in trio.wires if {end.name for end in wire.ends} == {"b", "c"})
    for wire in [wire for wire in trio.wires if {"a", "c"} == {end.name for end in wire.ends}] + [lone]:
        wire.close()
    trio.sync()
    ann = trio["a"].agent()
    request = ann.write("set", key="k", value=pack(1), w="all", timeout=2000)
    trio.run(3)
    with pytest.raises(Refusal) as refusal:
        ann.result(request)
    assert refusal.value.code == "timeout"
    assert refusal.value.fields["held_by"] == ["a", "b"]
    assert refusal.value.fields["token"]
    assert ann.get("k") == 1


def test_more_nodes_than_are_known_are_refused_before_the_write(pair):
    ann = pair["a"].agent()
    for operation, args in (("set", {"key": "k", "value": pack(1)}), ("wait", {"token": ann.set("j", 1)["token"]})):
        with pytest.raises(Refusal, match=r"w=5 cannot be met: this node knows of 2 nodes \(a, b\)") as refusal:
            ann.do(operation, w=5, timeout=1000, **args)
        assert refusal.value.code == "invalid_request"
        assert refusal.value.fields["members"] == ["a", "b"]
    assert ann.get("k") is None


def test_a_refusal_does_not_count_addresses_as_nodes(pair):
    """Whoever dials a node may be the one that it has not reached yet: it would be counted twice."""
    pair["a"].step(DialState("ws://elsewhere", "connecting", ""))
    ann = pair["a"].agent()
    known = r"this node knows of 2 nodes \(a, b\) and 1 address where nobody has answered yet; nothing was done"
    with pytest.raises(Refusal, match=f"w=5 cannot be met: {known}"):
        ann.do("set", key="k", value=pack(1), w=5, timeout=1000)
    assert waits(ann, ann.write("set", key="k", value=pack(1), w=3, timeout=1000)), "it may be a third one"


@pytest.mark.parametrize("w", [2, "all", "majority"])
def test_addresses_of_the_settings_count_before_anybody_has_answered_there(node, w):
    """A fresh node is not alone because it has met nobody yet."""
    for n in (1, 2):
        node.step(DialState(f"ws://peer-{n}", "connecting", ""))
    ann = node.agent()
    request = ann.write("set", key="k", value=pack(1), w=w, timeout=1000)
    node.fleet.run(2)
    with pytest.raises(Refusal, match=f"1 of the {3 if w == 'all' else 2} nodes wanted") as refusal:
        ann.result(request)
    assert refusal.value.code == "timeout"
    node.step(DialState("ws://peer-1", "forgotten", ""))
    node.step(DialState("ws://peer-2", "forgotten", ""))
    assert ann.set("k", 2, w="all", timeout=1000)["nodes"] == 1


def test_an_address_of_a_node_that_was_met_before_does_not_count_twice(pair):
    pair["a"].step(DialState("ws://b", "connecting", ""))
    request = pair["a"].agent().write("set", key="k", value=pack(1), w="all", timeout=1000)
    pair.run(1)
    assert pair["a"].sessions
    assert [agent.result(request)["nodes"] for agent in pair["a"].sessions.values()] == [2]


def test_a_node_that_is_expected_may_be_waited_for(pair):
    pair["a"].expect_peer()
    ann = pair["a"].agent()
    request = ann.write("set", key="k", value=pack(1), w=3, timeout=1000)
    pair.run(2)
    with pytest.raises(Refusal, match="2 of the 3 nodes wanted hold it so far: a, b") as refusal:
        ann.result(request)
    assert refusal.value.fields["held_by"] == ["a", "b"]


def test_a_member_that_is_removed_meanwhile_is_waited_for_no_longer(trio):
    for wire in [wire for wire in trio.wires if trio["c"] in wire.ends]:
        wire.close()
    trio.sync()
    ann = trio["a"].agent()
    request = ann.write("set", key="k", value=pack(1), w="all", timeout=60_000)
    trio.run(1)
    assert waits(ann, request)
    peers = trio["a"].node.sync.peers
    del peers[next(node for node, peer in peers.items() if peer.name == "c")]
    trio["b"].agent().set("news", 1)  # whereupon b speaks
    trio.run(1)
    assert ann.result(request)["nodes"] == 2


def test_a_timeout_names_who_is_without_it(trio):
    for wire in [wire for wire in trio.wires if trio["c"] in wire.ends]:
        wire.close()
    trio.sync()
    request = trio["a"].agent().write("set", key="k", value=pack(1), w="all", timeout=1000)
    trio.run(2)
    with pytest.raises(Refusal, match=r"2 of the 3 nodes wanted.*: a, b; not known of: c \(not connected\)"):
        next(iter(trio["a"].sessions.values())).result(request)


def test_wait_says_what_is_missing_here(apart):
    """And not that somebody is without it of whom nobody here can know."""
    token = apart["a"].agent().set("k", 1)["token"]
    apart.link("a", "b")
    apart.sync()
    apart.wires[-1].close()
    apart.link("b", "c")
    apart.sync()
    token = apart["a"].agent().set("k", 2)["token"]
    bob = apart["b"].agent()
    alone, majority = (bob.send("wait", token=token, timeout=1000, **w) for w in ({}, {"w": "majority"}))
    apart.run(2)
    with pytest.raises(Refusal, match=r"b lacks 1 change of a, and is connected to c$") as refusal:
        bob.result(alone)
    assert refusal.value.fields["missing"] == {"a": 1}
    assert refusal.value.fields["token"] == token
    said = r"none known; b lacks 1 change of a, .* c; without it: c; not known of: a \(not connected\)$"
    with pytest.raises(Refusal, match=said):
        bob.result(majority)


def test_wait_counts_too(trio):
    token = trio["a"].agent().set("k", 1)["token"]
    bob = trio["b"].agent()
    request = bob.send("wait", token=token, w="all", timeout=60_000)
    trio.run(1)
    assert bob.result(request) == {"nodes": 3}


def test_a_restarted_peer_is_believed_what_it_says_then(pair):
    """What a peer had on disk before it came back is not held against it; only its new word counts."""
    ann = pair["a"].agent()
    ann.set("k", 1)
    pair.run(1)
    pair["b"].restart()
    request = ann.write("set", key="k", value=pack(2), w=2, timeout=60_000)
    pair.sync()
    assert waits(ann, request)
    pair.link("a", "b")
    pair.run(1)
    assert ann.result(request)["nodes"] == 2


@pytest.mark.parametrize("w", [0, -1, 1.5, "most", [], True, b"all"])
def test_a_write_concern_that_means_nothing_is_refused_before_the_write(node, w):
    ann = node.agent()
    if w is True:
        return
    with pytest.raises(Refusal, match="majority"):
        ann.set("k", 1, w=w)
    assert ann.get("k") is None


@pytest.mark.parametrize("timeout", [-1, 1.5, "1 s", None, 10**12])
def test_a_timeout_that_means_nothing_is_refused_before_the_write(node, timeout):
    node.expect_peer()
    ann = node.agent()
    with pytest.raises(Refusal, match="timeout"):
        ann.set("k", 1, w=2, timeout=timeout)
    assert ann.get("k") is None


def test_waiting_requests_are_bounded_per_connection(node, monkeypatch):
    node.expect_peer()
    monkeypatch.setattr(Waits, "PER_AGENT_MAX", 3)
    ann, bob = node.agent(), node.agent()
    for n in range(3):
        ann.write("set", key=f"k{n}", value=pack(n), w=2, timeout=60_000)
    with pytest.raises(Refusal) as refusal:
        ann.set("k", 1, w=2)
    assert refusal.value.code == "quota_exceeded"
    assert ann.get("k") is None
    request = bob.write("set", key="k", value=pack(1), w=2, timeout=60_000)
    assert waits(bob, request)


def test_a_connection_that_is_gone_waits_for_nothing(node):
    node.expect_peer()
    ann = node.agent()
    ann.write("set", key="k", value=pack(1), w=2, timeout=60_000)
    node.turn()
    assert len(node.node.dispatcher.waits) == 1
    ann.close()
    assert len(node.node.dispatcher.waits) == 0


def test_an_edit_of_a_document_that_never_was_is_refused_at_once_or_times_out(node):
    """Its dot lies in the past of this node, so waiting for it is in vain: no spinning, and an error that says so."""
    ann = node.agent()
    ann.set("k", 1)
    request = ann.write("text_apply", key="t", document=f"{node.replica.writer}.1.5", update=b"\0\0", timeout=1000)
    node.turn()
    if request not in ann.replies:
        assert len(node.node.dispatcher.waits) == 1
        node.fleet.pass_time(1.1)
        node.turn()
    with pytest.raises(Refusal) as refusal:
        ann.result(request)
    assert refusal.value.code not in ("quota_exceeded", "internal")


def test_answers_to_waiting_requests_are_spread_over_turns(apart, monkeypatch):
    """A thousand readers of a large value that has come at last must not stop everything else."""
    monkeypatch.setattr(dispatcher, "SETTLE_BYTES_MAX", 250)
    token = apart["a"].agent().set("k", "x" * 80)["token"]
    bob = apart["b"].agent()
    requests = [bob.send("get", key="k", after=token, timeout=60_000) for _ in range(10)]
    apart["b"].turn()
    wire = apart.link("a", "b")
    for _ in range(10):
        wire.deliver(apart["a"])
        apart["a"].turn()
        wire.deliver(apart["b"])
        if apart["b"].replica.vector:
            break
        apart["b"].turn()
    steps = [len(bob.replies)]
    while not all(request in bob.replies for request in requests):
        assert (apart["b"].node.deadline_s() or 0.0) <= apart.now.mono_s
        apart["b"].turn()
        steps.append(len(bob.replies))
    assert {later - earlier for earlier, later in pairwise(steps)} <= {1, 2, 3}
    assert len(steps) >= 4


def wait_for(counts: Counter[int], number: int, needed: VersionVector, done: bool = True) -> Wait:
    def check() -> object | None:
        counts[number] += 1
        return "done" if done else None

    return Wait(number % 3, number, 100.0 + number, {"default": needed}, check, lambda: Timeout("late", held_by=[]))


def test_a_turn_looks_only_at_what_may_be_done():
    vector: VersionVector = {}
    counts: Counter[int] = Counter()
    waits = Waits(lambda _space, writer: vector.get(writer, 0))
    ann, bob = Writer(1), Writer(2)
    for number in range(100):
        assert waits.add(wait_for(counts, number, {ann: number + 1, bob: 1}))
    assert list(waits.settle(0.0)) == []
    vector[ann] = 10
    assert list(waits.settle(0.0)) == []
    assert not counts
    vector[bob] = 1
    assert [wait.request for wait, _ in waits.settle(0.0)] == [*range(10)]
    vector[ann] = 12
    assert [wait.request for wait, _ in waits.settle(0.0)] == [10, 11]
    assert counts == Counter(range(12))
    assert len(waits) == 88
    assert waits.deadline_s() == 112.0
    assert [wait.request for wait, _ in waits.settle(113.5)] == [12, 13]
    waits.drop(0)
    assert {wait.conn for wait in waits.take_unsettled()} == {1, 2}
    assert (len(waits), waits.deadline_s(), waits._by_topic, waits._by_conn) == (0, None, {}, {})


def test_who_waits_for_other_nodes_is_looked_at_when_they_have_spoken():
    counts: Counter[int] = Counter()
    waits = Waits(lambda _space, _writer: 5)
    waits.add(wait_for(counts, 1, {Writer(1): 5}, done=False))
    for _ in range(3):
        assert list(waits.settle(0.0)) == []
    assert counts[1] == 1
    assert waits.deadline_s() == 101.0
    waits.recheck()
    assert list(waits.settle(0.0)) == []
    assert counts[1] == 2
    (late,) = waits.settle(101.0)
    assert isinstance(late[1], Timeout)


def test_a_request_that_finds_something_else_to_wait_for_is_not_tried_twice_in_a_turn():
    counts: Counter[int] = Counter()
    waits = Waits(lambda _space, _writer: 5)

    def again() -> object:
        counts[1] += 1
        waits.add(Wait(1, 1, 100.0, {}, again, lambda: Timeout("late", held_by=[])))
        return "later"

    waits.add(Wait(1, 1, 100.0, {}, again, lambda: Timeout("late", held_by=[])))
    assert len(list(waits.settle(0.0))) == 1
    assert (counts[1], len(waits)) == (1, 1)


def test_who_asks_for_all_that_are_reached_waits_for_no_other(trio):
    wires = {frozenset(end.name for end in wire.ends): wire for wire in trio.wires}
    wires[frozenset("bc")].close()
    ann = trio["a"].agent()
    request = ann.write("set", key="k", value=pack(1), w="reached", timeout=60_000)
    wires[frozenset("ab")].deliver(trio["b"])
    trio["a"].turn()
    trio["b"].turn()
    assert waits(ann, request)
    wires[frozenset("ac")].close()
    trio.run(1)
    assert ann.result(request)["nodes"] == 2
    wires[frozenset("ab")].close()
    assert ann.set("k", 2, w="reached", timeout=1000)["nodes"] == 1


@pytest.mark.parametrize("is_at_once", [False, True])
def test_a_write_that_all_have_stands_also_while_it_waits_for_what_they_had_written(pair, monkeypatch, is_at_once):
    """It is on both disks: if the commit of another write fails then, or in the turn in which the waiting begins,
    nobody may say that it is not done.
    """
    a, b = pair["a"], pair["b"]
    ann, bob = a.agent(), b.agent()
    request = held_there_before_theirs(pair, ann, bob, monkeypatch)
    if not is_at_once:
        assert waits(ann, request)
    ann.write("set", key="other", value=pack(2))
    a.refuse(NoSpace("the disk is full"))
    assert request not in ann.replies
    pair.pass_time(60.1)
    a.turn()
    with pytest.raises(Refusal, match="timeout"):
        ann.result(request)
    assert ann.get("k") == 1


def held_there_before_theirs(pair, ann, bob, monkeypatch):
    """A write of ``ann`` that b has said to hold, while a change that it made before has not come to a."""
    bob.set("warm", 1)
    pair.sync()
    with monkeypatch.context() as without_credit:
        without_credit.setattr(change_feed, "CREDIT_BYTES_MAX", 0)
        bob.set("j", "mine")
        pair["b"].turn()
    request = ann.write("set", key="k", value=pack(1), w="reached", timeout=60_000)
    (wire,) = pair.wires
    pair["a"].turn()
    wire.deliver(pair["b"])
    with monkeypatch.context() as without_credit:
        without_credit.setattr(change_feed, "CREDIT_BYTES_MAX", 0)
        pair["b"].turn()
    wire.deliver(pair["a"])
    return request


def test_who_was_told_that_all_have_it_knows_what_they_had_written_before(pair, monkeypatch):
    """An acknowledgement can overtake a change that waits for credit."""
    ann, bob = pair["a"].agent(), pair["b"].agent()
    request = held_there_before_theirs(pair, ann, bob, monkeypatch)
    assert waits(ann, request)
    assert ann.get("j") is None
    pair.run(1)
    assert ann.result(request)["nodes"] == 2
    assert ann.get("j") == "mine"
