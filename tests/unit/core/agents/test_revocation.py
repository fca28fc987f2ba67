"""What is under way when rights change: watches, resolvers and waiting requests end, or begin anew."""

from __future__ import annotations

import pytest

from crdtsync.wire.codec import pack
from tests.fleet.agent import Refusal
from tests.fleet.rights import (
    ROOT,
    STRANGER,
    begin,
    ended,
    grant,
    keyed,
    limit,
    long,
    machine,
    pair,
    refused,
    revoke,
    root,
)

__all__ = ["machine", "pair", "root"]  # the fixtures


@pytest.mark.parametrize("states", [False, True], ids=["watch", "mirror"])
def test_a_watch_ends_when_less_may_be_read_and_begins_anew_when_more_may(pair, machine, root, states):
    agent = keyed(root, read="open/**")
    root.set("other", 1)
    watch = begin(agent, "watch", states=states)
    machine.turn()
    assert "other" not in str(agent.told())
    grant(root, "agent:critic", "read", "other")
    machine.turn()
    machine.turn()
    events = agent.told()
    assert events[0]["event"] == "reset"
    assert "other" in str(events)
    revoke(root, "agent:critic", "open/**")
    assert "agent:critic may no longer read all that this watch" in ended(agent, watch)["message"]
    root.set("other", 2)
    assert agent.told() == []
    again = begin(agent, "watch", states=states)
    pair.sync()
    grant_there = pair["b"].agent("root", user=ROOT)
    revoke(grant_there, "agent:critic", "other")
    pair.sync()  # a rule that was taken away on another node
    assert ended(agent, again)["code"] == "not_allowed"


def test_a_long_read_ends_with_its_right(machine, root):
    agent = keyed(root, read="**")
    root.set("k", "secret")
    request = agent.send("history", prefix="")
    revoke(root, "agent:critic")
    with pytest.raises(Refusal, match="may no longer read all of this"):
        agent.result(request)


def test_of_many_keys_only_those_are_looked_at_that_may_be_read(machine, root):
    agent = keyed(root, read="b/**")
    for pattern in ("b/x", "d", "c/*/e", "c/1/**"):
        grant(root, "agent:critic", "read", pattern)
    for key in ("a", "b", "b/1", "b/x", "b0", "c/1/2", "c/2/e", "c/2/f", "d", "d/1"):
        root.set(key, key)
    assert [row[0] for row in agent.ask("scan")["items"]] == ["b", "b/1", "b/x", "c/1/2", "c/2/e", "d"]
    assert [row[0] for row in agent.ask("scan", prefix="c/")["items"]] == ["c/1/2", "c/2/e"]
    assert [row[0] for row in agent.ask("scan", start="b/1", limit=2)["items"]] == ["b/x", "c/1/2"]
    assert [row["key"] for row in long(agent, "history", prefix="", limit=1)["items"]] == ["d"]
    rights = machine.node.authorizer.limit_of(machine.node.dispatcher.agents[agent.conn], "default")
    assert rights is not None
    assert rights.readable_prefixes("") == ["b", "c/", "d"]
    assert rights.readable_prefixes("b/1") == ["b/1"]


def test_a_hello_that_was_refused_is_not_counted(machine, root):
    limit(machine, connections=1)
    key = root.ask("agent_create", name="critic")["key"]
    root.ask("agent_create", name="other")
    for _ in range(3):
        refused(machine.agent, "other", key=key)
        machine.turn()
    assert machine.agent("critic", key=key).ask("space_list")["spaces"] == []


def test_a_resolver_ends_with_its_right(machine, root):
    agent = keyed(root, write="a/**")
    refused(agent.ask, "resolver", pattern="**")
    resolver = begin(agent, "resolver", pattern="a/*")
    revoke(root, "agent:critic", "a/**", right="write")
    assert "the resolver has ended" in ended(agent, resolver)["message"]
    assert len(machine.node.resolvers) == 0


def test_what_waited_is_checked_again_when_it_goes_on(pair, machine, root):
    agent = keyed(root, read="**")
    pair.sync()
    token = pair["b"].agent("writer").set("k", 1)["token"]
    waiting = [agent.send("get", key="k", after=token), agent.send("get", key="k", need=token)]
    machine.turn()
    revoke(root, "agent:critic")
    pair.sync()
    for request in waiting:
        with pytest.raises(Refusal, match="not_allowed"):
            agent.result(request)


def test_a_retried_write_is_answered_only_while_it_may_be_done(machine, root):
    agent = keyed(root, write="**")
    root.set("k", "before")
    agent.set("k", 1)
    revoke(root, "agent:critic")
    refused(agent.ask, "set", key="k", value=pack(1), n=agent.number, again=True)


def test_refusals_are_logged_once_a_minute_for_each_request(machine, root):
    agent = machine.agent("stranger", user=STRANGER)
    for _ in range(3):
        refused(agent.get, "k")
    refused(agent.set, "k", 1)
    logged = [fields for event, fields in machine.log if event == "request_refused"]
    assert [(fields["who"], fields["request"]) for fields in logged] == [("uid:2000", "'get'"), ("uid:2000", "'set'")]
    machine.fleet.pass_time(61)
    refused(agent.get, "k")
    assert len([event for event, _ in machine.log if event == "request_refused"]) == 3
