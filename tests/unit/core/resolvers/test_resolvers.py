"""Resolvers of one node: each conflict is asked one at a time, and others take over."""

from __future__ import annotations

import pytest

from crdtsync.core.resolvers import conflict_queue, registry
from crdtsync.errors import NoSpace
from crdtsync.wire.codec import pack
from tests.fleet.agent import Refusal
from tests.fleet.resolver import TAKEOVER_S, Resolving, conflict, settle, values_of


def test_a_conflict_is_asked_with_all_that_is_known_of_it(node):
    mine = Resolving(node, "plan/*")
    conflict(node, "plan/goal", "a", "b")
    conflict(node, "other/goal", "a", "b")
    (event,) = mine.asked()
    assert (event["event"], event["key"], event["kind"]) == ("conflict", "plan/goal", "register")
    assert values_of(event) == {"a", "b"}
    assert event["agent"] == "author-1"
    assert [sibling["agent"] for sibling in event["siblings"]] == ["author-0"]
    assert mine.answer(event, "both") == {"settled": True}
    assert node.agent().values("plan/goal") == ["both"]
    assert mine.keys() == []


def test_conflicts_that_were_there_before_are_asked_too(node):
    for number in range(5):
        conflict(node, f"plan/{number}", "a", "b")
    node.restart()
    mine = Resolving(node, "plan/*")
    found = []
    while events := mine.asked():
        found += [event["key"] for event in events]
        mine.answer(events[0], "x")
    assert sorted(found) == [f"plan/{number}" for number in range(5)]


def test_a_resolver_is_asked_one_thing_at_a_time(node):
    mine = Resolving(node)
    for number in range(3):
        conflict(node, f"k/{number}", "a", "b")
    (first,) = mine.asked()
    assert mine.asked() == []
    mine.answer(first, "x")
    assert len(mine.asked()) == 1


def test_several_resolvers_of_a_node_share_the_work(node):
    both = [Resolving(node, name=name) for name in ("one", "other")]
    for number in range(4):
        conflict(node, f"k/{number}", "a", "b")
    asked = [one.asked() for one in both]
    assert [len(events) for events in asked] == [1, 1]
    assert len({event["key"] for events in asked for event in events}) == 2


def test_the_most_specific_pattern_comes_first(node):
    wide, narrow = Resolving(node, "**", name="wide"), Resolving(node, "plan/*", name="narrow")
    conflict(node, "plan/goal", "a", "b")
    assert (wide.keys(), narrow.keys()) == ([], ["plan/goal"])
    narrow.done("plan/goal", error="no idea")
    assert wide.keys() == ["plan/goal"]


def test_a_value_that_comes_meanwhile_is_asked_about_with_the_answer(node):
    mine = Resolving(node)
    conflict(node, "k", "a", "b")
    (event,) = mine.asked()
    node.agent("late").set("k", "c", seen="?")
    assert mine.asked() == [], "it is at work on that key"
    mine.answer(event, "ab")
    (again,) = mine.asked()
    assert values_of(again) == {"ab", "c"}


def test_what_somebody_else_settles_is_not_asked_again(node):
    mine = Resolving(node)
    conflict(node, "k", "a", "b")
    conflict(node, "l", "a", "b")
    (event,) = mine.asked()
    other = "l" if event["key"] == "k" else "k"
    node.agent("person").do("resolve", key=other, value=pack("by hand"))
    node.agent("person").do("resolve", key=event["key"], value=pack("by hand"))
    assert mine.done(event["key"]) == {"settled": True}
    assert mine.keys() == []


def test_a_resolver_that_goes_is_replaced_at_once(node):
    one, other = Resolving(node, name="one"), Resolving(node, name="other")
    conflict(node, "k", "a", "b")
    asked, idle = (one, other) if one.keys() else (other, one)
    asked.session.close()
    assert idle.keys() == ["k"]


def test_a_resolver_can_end(node):
    mine = Resolving(node)
    mine.session.ask("unwatch", watch=mine.id)
    conflict(node, "k", "a", "b")
    assert mine.keys() == []
    assert not len(node.node.resolvers)


def test_a_resolver_that_fails_is_replaced_at_once_and_asked_again_later(node):
    one, other = Resolving(node, name="one"), Resolving(node, name="other")
    conflict(node, "k", "a", "b")
    first, second = (one, other) if one.keys() else (other, one)
    first.done("k", error="the model is down")
    assert node.alarms == {"resolver_failed"}
    (alarm,) = node.node.alarms.raised()
    assert "'k'" in alarm.message
    assert "the model is down" in alarm.message
    assert second.keys() == ["k"]
    second.done("k", error="here too")
    assert first.keys() == second.keys() == []
    node.fleet.pass_time(conflict_queue.RETRY_S_MIN + 1)
    assert len(first.keys() + second.keys()) == 1


def test_between_two_attempts_it_waits_longer_each_time(node):
    mine = Resolving(node)
    conflict(node, "k", "a", "b")
    waits = []
    for _ in range(10):
        mine.keys()
        mine.done("k", error="never")
        before = node.now.mono_s
        while not mine.session.events:
            due = node.node.deadline_s()
            assert due is not None
            node.fleet.pass_time(max(0.01, due - node.now.mono_s))
            settle(node)
        waits.append(node.now.mono_s - before)
    assert waits[0] == pytest.approx(conflict_queue.RETRY_S_MIN, abs=1)
    assert waits[1] == pytest.approx(2 * conflict_queue.RETRY_S_MIN, abs=1)
    assert waits[-1] == pytest.approx(conflict_queue.RETRY_S_MAX, abs=1)


def test_another_value_is_another_conflict(node):
    """Whoever failed on the values that there were may know what to do with what there is now."""
    mine = Resolving(node)
    conflict(node, "k", "a", "b")
    mine.keys()
    mine.done("k", error="no idea")
    node.agent("late").set("k", "c", seen="?")
    assert mine.keys() == ["k"]


def test_an_answer_that_leaves_the_conflict_as_it_was_is_a_failure(node):
    mine = Resolving(node)
    conflict(node, "k", "a", "b")
    mine.keys()
    assert mine.done("k") == {"settled": False}
    assert node.alarms == {"resolver_failed"}
    node.fleet.pass_time(conflict_queue.RETRY_S_MIN + 1)
    (event,) = mine.asked()
    mine.answer(event, "x")
    assert node.alarms == set()


def test_a_resolver_that_hangs_is_passed_over_until_it_says_something(node):
    one, other = Resolving(node, name="one"), Resolving(node, name="other")
    conflict(node, "k", "a", "b")
    first, second = (one, other) if one.keys() else (other, one)
    node.fleet.pass_time(TAKEOVER_S + 1)
    (event,) = second.asked()
    assert node.alarms == {"resolver_failed"}
    assert {one["state"] for one in node.node.resolvers.status()} == {"stuck", "busy"}
    second.answer(event, "x")
    conflict(node, "l", "a", "b")
    conflict(node, "m", "a", "b")
    assert len(second.keys()) == 1
    assert first.keys() == []
    first.done("k")
    assert len(first.keys()) == 1


def test_how_long_an_answer_may_take_is_for_the_resolver_to_say(node):
    slow, other = Resolving(node, "k", name="slow", takeover=120_000), Resolving(node, name="other")
    conflict(node, "k", "a", "b")
    assert slow.keys() == ["k"]
    node.fleet.pass_time(TAKEOVER_S + 1)
    assert other.keys() == []
    node.fleet.pass_time(120.0 - TAKEOVER_S)
    assert other.keys() == ["k"]


def test_a_conflict_that_gets_old_is_an_alarm_that_names_it(node):
    mine = Resolving(node)
    conflict(node, "plan/goal", "a", "b")
    mine.keys()
    node.fleet.pass_time(conflict_queue.UNRESOLVED_S + 1)
    settle(node)
    assert "conflict_unresolved" in node.alarms
    assert any("plan/goal" in alarm.message for alarm in node.node.alarms.raised())
    node.agent().do("resolve", key="plan/goal", value=pack("x"))
    settle(node)
    assert "conflict_unresolved" not in node.alarms


def test_a_slow_consumer_costs_no_queue(node):
    mine = Resolving(node)
    mine.session.flow(blocked=True)
    for number in range(50):
        conflict(node, f"k/{number}", "a", "b")
    assert mine.asked() == []
    for number in range(50):
        node.agent().do("resolve", key=f"k/{number}", value=pack("x")) if number else None
    mine.session.flow(blocked=False)
    assert mine.keys() == ["k/0"]


def test_what_a_failed_commit_would_have_shown_is_asked_when_it_is_there(node):
    mine = Resolving(node)
    conflict(node, "k", "a")
    author = node.agent("author")
    author.write("set", key="k", value=pack("b"), seen="?")
    node.refuse(NoSpace("the disk is full"))
    assert mine.asked() == []
    author.set("k", "c", seen="?")
    (event,) = mine.asked()
    assert values_of(event) == {"a", "c"}
    assert mine.answer(event, "x") == {"settled": True}


def test_what_was_asked_in_a_commit_that_failed_is_asked_again(node):
    mine = Resolving(node)
    conflict(node, "k", "a")
    conflict(node, "l", "a", "b")
    mine.done(*mine.keys(), error="later")
    conflict(node, "m", "a")
    author = node.agent("author")
    author.write("set", key="m", value=pack("b"), seen="?")
    node.refuse(NoSpace("the disk is full"))
    author.set("m", "b", seen="?")
    assert mine.keys() == ["m"]


@pytest.mark.parametrize("takeover", [0, -1, 3_600_001, "1s", 1.5, None, True])
def test_a_resolver_with_another_time_is_refused(node, takeover):
    with pytest.raises(Refusal, match="takeover"):
        node.agent().ask("resolver", pattern="**", takeover=takeover)


@pytest.mark.parametrize("args", [{}, {"pattern": "a-*"}, {"pattern": ""}, {"pattern": "_schema/a"}, {"pattern": 1}])
def test_what_is_no_pattern_is_refused(node, args):
    with pytest.raises(Refusal, match="pattern"):
        node.agent().ask("resolver", **args)


def test_to_be_done_with_what_was_not_asked_is_refused(node):
    mine = Resolving(node)
    for args in ({"resolver": 99, "key": "k"}, {"resolver": mine.id, "key": "k"}, {"resolver": mine.id}, {}):
        with pytest.raises(Refusal, match="invalid_request"):
            mine.session.ask("resolver_done", **args)
    conflict(node, "k", "a", "b")
    mine.keys()
    with pytest.raises(Refusal, match="sentence"):
        mine.done("k", error=7)


def test_an_agent_may_not_have_any_number_of_resolvers(node, monkeypatch):
    monkeypatch.setattr(registry, "RESOLVERS_PER_AGENT_MAX", 3)
    monkeypatch.setattr(registry, "RESOLVERS_PATTERNS_MAX", 4)
    one, other = node.agent("one"), node.agent("other")
    for session, patterns in ((one, "abc"), (other, "cd")):
        for pattern in patterns:
            session.ask("resolver", pattern=pattern)
    with pytest.raises(Refusal, match="quota_exceeded"):
        other.ask("resolver", pattern="e")
    with pytest.raises(Refusal, match="quota_exceeded"):
        one.ask("resolver", pattern="a")


def test_more_conflicts_than_are_kept_in_mind_come_later(node, monkeypatch):
    monkeypatch.setattr(conflict_queue, "PENDING_MAX", 4)
    for number in range(12):
        conflict(node, f"k/{number}", "a", "b")
    mine = Resolving(node)
    found = set()
    while events := mine.asked():
        found.add(events[0]["key"])
        assert sum(map(len, node.node.resolvers._queues["default"]._waiting.values())) <= 4
        mine.answer(events[0], "x")
    assert found == {f"k/{number}" for number in range(12)}


def test_values_that_are_too_much_for_one_event_are_left_out(node, monkeypatch):
    monkeypatch.setattr(conflict_queue, "EVENT_BYTES_MAX", 100)
    conflict(node, "k", "a" * 60, "b" * 60, "c")
    (event,) = Resolving(node).asked()
    shown = [part["value"] is not None for part in (event, *event["siblings"])]
    assert sorted(shown) == [False, True, True]


def test_a_resolver_ends_with_its_space(node):
    node.agent().ask("space_create", name="team")
    mine = Resolving(node, space="team")
    for number, value in enumerate("ab"):
        node.agent(f"author-{number}").set("k", value, seen="?", space="team")
    assert mine.keys() == ["k"]
    mine.session.replies.pop(mine.id)
    node.agent().ask("space_drop", name="team")
    settle(node)
    with pytest.raises(Refusal, match="the resolver has ended"):
        mine.session.result(mine.id)
    assert not len(node.node.resolvers)
    assert node.node.resolvers.status() == []
