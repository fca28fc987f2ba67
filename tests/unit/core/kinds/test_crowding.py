"""Siblings of a key stay within their bound, and nobody who reads and writes is ever stuck."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.errors import TooManySiblings
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.limits import KEY_SIBLINGS_MAX
from tests.fleet.agent import Refusal
from tests.fleet.replicas import Site, sites


def filled(site: Site, values: Any = range(KEY_SIBLINGS_MAX)) -> Site:
    """A key with as many values as it may have."""
    for value in values:
        site.now_ms += 1
        site.do("set", value=value, seen="?")
    return site


def fates(agent: Any, key: str = "k") -> dict[Any, str]:
    """What became of each value of a key."""
    return {unpack(item["value"]): item["fate"] for item in agent.ask("history", key=key)["items"]}


def test_clients_of_one_host_that_read_and_write_in_turns_are_never_refused(node):
    """Each reads before any of them writes: so each write leaves those of the others beside it."""
    clients = [node.agent(f"client-{n}") for n in range(4)]
    for turn in range(40):
        seen = [{} if turn == 0 else {"seen": client.version("k")} for client in clients]
        for n, client in enumerate(clients):
            client.set("k", f"{turn}-{n}", **seen[n])
            assert len(client.values("k")) <= KEY_SIBLINGS_MAX
    assert clients[0].get("k") == "39-3"


def test_hosts_that_meet_after_each_round_are_never_refused(pair):
    agents = [pair[name].agent(name) for name in "ab"]
    agents[0].set("k", "first")
    pair.run(1)
    for turn in range(KEY_SIBLINGS_MAX + 4):
        for agent in agents:
            agent.set("k", f"{turn}-{agent.name}", seen=agent.version("k"))
        pair.run(1)
        assert len(agents[0].values("k")) <= 2 * KEY_SIBLINGS_MAX


def test_the_oldest_goes_into_history_as_lost_and_the_reply_names_it(pair):
    ann, bob = pair["a"].agent("ann"), pair["b"].agent("bob")
    for n in range(KEY_SIBLINGS_MAX):
        ann.set("k", n, seen="?")
    reply = ann.set("k", "more", seen="?")
    assert [(unpack(one["value"]), one["agent"]) for one in reply["lost"]] == [(0, "ann")]
    assert reply["siblings"] == KEY_SIBLINGS_MAX - 1
    pair.run(2)
    for agent in (ann, bob):
        assert agent.values("k") == ["more", *range(KEY_SIBLINGS_MAX - 1, 0, -1)]
        assert fates(agent)[0] == "lost"
        newest = agent.ask("history", key="k")["items"][0]
        assert (newest["seen"], len(newest["blind"])) == ([], 1)


@pytest.mark.parametrize("operation", ["set", "merge"])
def test_what_is_overwritten_unread_is_lost_too_in_a_key_that_is_overfull(pair, operation):
    """Two hosts have filled it each on their own. So a write takes others along, and the winner goes unread."""

    def write(agent: Any, value: Any, **args: Any) -> Any:
        what = {"value": pack(value)} if operation == "set" else {"fields": {"f": pack(value)}}
        return agent.do(operation, key="k", **what, **args)

    ann, bob = pair["a"].agent("ann"), pair["b"].agent("bob")
    for agent in (ann, bob):
        for n in range(KEY_SIBLINGS_MAX):
            write(agent, f"{agent.name}-{n}", seen="?")
    pair.run(2)
    carl = pair["a"].agent("carl")
    winner = carl.get("k") if operation == "set" else carl.get("k")["f"]
    reply = write(carl, "last")
    taken = {unpack(one["value"]) for one in reply["lost"]}
    assert winner not in taken
    assert len(taken) == KEY_SIBLINGS_MAX
    pair.run(2)
    for agent in (carl, bob):
        lost = {
            unpack(item["value"])
            for item in agent.ask("history", key="k", limit=100)["items"]
            if item["fate"] == "lost"
        }
        assert lost == {winner, *taken}


def test_somebody_is_told(node):
    ann = node.agent("ann")
    for n in range(KEY_SIBLINGS_MAX + 2):
        ann.set("k", n, seen="?")
    status = ann.ask("status")
    assert status["counters"]["values_crowded_out"] == 2
    (alarm,) = [alarm for alarm in status["alarms"] if alarm["code"] == "values_crowded_out"]
    assert "'k'" in alarm["message"]
    assert [fields["values"] for name, fields in node.log if name == "values_crowded_out"] == [1, 1]


@pytest.mark.parametrize("policy, gone", [("lww", [0, 1]), ("max", [0, 1]), ("min", [16, 15]), ("first", [16, 15])])
def test_what_ranks_lowest_goes(policy, gone):
    (a,) = sites("a")
    a.do("schema_set", key="_schema/k", pattern="k", policy=policy)
    filled(a)
    lost = a.do("set", value=KEY_SIBLINGS_MAX, seen="?")["lost"]
    lost += a.do("set", value=KEY_SIBLINGS_MAX + 1, seen="?")["lost"]
    expected = {"min": [15, 16], "first": [15, 16]}.get(policy, gone)
    assert sorted(unpack(one["value"]) for one in lost) == sorted(expected)


def test_the_least_confident_goes():
    (a,) = sites("a")
    a.do("schema_set", key="_schema/k", pattern="k", policy="confidence")
    for n in range(KEY_SIBLINGS_MAX):
        a.do("set", value=n, seen="?", confidence=0.1 if n == 7 else 0.5)
    (lost,) = a.do("set", value="sure", seen="?", confidence=0.9)["lost"]
    assert unpack(lost["value"]) == 7


@pytest.mark.parametrize("policy", ["all", "manual"])
def test_where_no_value_ranks_lowest_the_write_is_refused_and_told_what_helps(policy):
    (a,) = sites("a")
    a.do("schema_set", key="_schema/k", pattern="k", policy=policy)
    filled(a)
    with pytest.raises(TooManySiblings, match="resolve with a value, or read all of them with entry"):
        a.do("set", value="more", seen="?")
    a.do("set", value="instead", seen=a.version())
    assert a.values() == ["instead"]
    filled(a, range(KEY_SIBLINGS_MAX - 1))
    assert a.do("resolve", value="settled", seen=a.version())["resolved"] == KEY_SIBLINGS_MAX
    assert a.values() == ["settled"]


@pytest.mark.parametrize("policy", ["all", "manual"])
def test_a_write_that_makes_no_more_of_them_is_never_refused(policy):
    """Two hosts have filled the key each; who has read one value may replace it."""
    a, b = sites("a", "b")
    a.do("schema_set", key="_schema/k", pattern="k", policy=policy)
    filled(a)
    version = a.do("set", value="mine", seen=None)["version"]
    filled(b, range(100, 100 + KEY_SIBLINGS_MAX))
    a.sync(b)
    a.do("set", value="mine, too", seen=version)
    assert len(a.values()) == 2 * KEY_SIBLINGS_MAX


def test_a_write_after_a_meeting_brings_the_key_back_within_its_bound():
    a, b = sites("a", "b")
    filled(a)
    b.now_ms += 1000
    filled(b, range(100, 100 + KEY_SIBLINGS_MAX))
    a.sync(b)
    reply = a.do("set", value="more", seen=a.ask("get")["version"])
    assert len(reply["lost"]) == KEY_SIBLINGS_MAX
    assert {unpack(one["value"]) for one in reply["lost"]} == {*range(KEY_SIBLINGS_MAX)}
    assert len(a.values()) == KEY_SIBLINGS_MAX
    b.take(a.changes)
    assert b.values() == a.values()


def test_elements_of_another_kind_do_not_count():
    """Two hosts began the key with two kinds: a long log is one value, and no write takes part of it along."""
    a, b = sites("a", "b")
    for n in range(3 * KEY_SIBLINGS_MAX):
        a.do("append", value=n)
    b.now_ms += 10_000
    b.do("set", value="x")
    a.sync(b)
    b.do("set", value="y", seen=b.ask("get")["version"])
    assert b.values() == ["y", [*range(3 * KEY_SIBLINGS_MAX)]]


def test_a_field_of_a_map_is_bounded_alike():
    (a,) = sites("a")
    for n in range(KEY_SIBLINGS_MAX):
        a.do("merge", fields={"x": n}, seen="?")
    reply = a.do("merge", fields={"y": 1, "x": -1}, seen="?")
    assert [(one["field"], unpack(one["value"])) for one in reply["lost"]] == [("x", 0)]
    assert a.get() == {"x": -1, "y": 1}
    assert len(a.values()) == KEY_SIBLINGS_MAX
    a.do("merge", fields={"x": 5}, seen=a.version())
    assert a.values() == [{"x": 5, "y": 1}]


def test_a_refused_batch_has_done_nothing(node):
    ann = node.agent("ann")
    ann.do("schema_set", pattern="k", policy="all")
    for n in range(KEY_SIBLINGS_MAX):
        ann.set("k", n, seen="?")
    ops = [["set", {"key": "other", "value": b"\x01"}], ["set", {"key": "k", "value": b"\x01", "seen": "?"}]]
    with pytest.raises(Refusal) as refusal:
        ann.do("batch", ops=ops)
    assert (refusal.value.code, refusal.value.fields["index"]) == ("too_many_siblings", 1)
    assert ann.get("other") is None
