"""Resolvers: each conflict is asked once per connected side, by the lowest node, and others take over."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from crdtsync.core import resolver_cases, resolver_rounds, resolvers
from crdtsync.errors import NoSpace
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.messages import RESOLVERS, Resolvers
from tests.unit.core.fleet import Fleet, Machine, Refusal, Stranger, fleet_of

TAKEOVER_S = resolvers.RESOLVER_TAKEOVER_MS / 1000


class Resolving:
    """A resolver that answers when it is told to."""

    def __init__(self, machine: Machine, pattern: str = "**", name: str = "resolver", **args: object) -> None:
        self.machine = machine
        self.session = machine.agent(name)
        self.id = self.session.send("resolver", pattern=pattern, **args)
        settle(machine)
        self.session.result(self.id)

    def asked(self) -> list[dict[str, Any]]:
        """The conflicts asked since the last call."""
        settle(self.machine)
        return self.session.told()

    def keys(self) -> list[str]:
        return [event["key"] for event in self.asked()]

    def done(self, key: str, **args: object) -> Any:
        reply = self.session.ask("resolver_done", resolver=self.id, key=key, **args)
        settle(self.machine)
        return reply

    def answer(self, event: dict[str, Any], value: object) -> Any:
        """Settle what it was asked."""
        self.session.do("resolve", key=event["key"], value=pack(value), seen=event["version"])
        return self.done(event["key"])


def settle(machine: Machine) -> None:
    """Turns until nothing is left to be looked at."""
    for _ in range(1000):
        machine.turn()
        due = machine.node.deadline_s()
        if due is None or due > machine.now.mono_s:
            return
    raise AssertionError("the node never comes to rest")


def in_order(fleet: Fleet) -> list[Machine]:
    """The machines, that of the lowest node id first."""
    return sorted(fleet.machines.values(), key=lambda machine: machine.node.identity.node)


def conflict(machine: Machine, key: str, *values: object) -> None:
    """Siblings of a key, made on one machine: no author has seen another's value."""
    for number, value in enumerate(values):
        machine.agent(f"author-{number}").set(key, value, seen="?")


def values_of(event: dict[str, Any]) -> set[Any]:
    return {unpack(part["value"]) for part in (event, *event["siblings"])}


# -- one node --------------------------------------------------------------------------------------------------------


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
    node.fleet.pass_time(resolver_cases.RETRY_S_MIN + 1)
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
    assert waits[0] == pytest.approx(resolver_cases.RETRY_S_MIN, abs=1)
    assert waits[1] == pytest.approx(2 * resolver_cases.RETRY_S_MIN, abs=1)
    assert waits[-1] == pytest.approx(resolver_cases.RETRY_S_MAX, abs=1)


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
    node.fleet.pass_time(resolver_cases.RETRY_S_MIN + 1)
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
    node.fleet.pass_time(resolver_cases.UNRESOLVED_S + 1)
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
    monkeypatch.setattr(resolvers, "RESOLVERS_PER_AGENT_MAX", 3)
    monkeypatch.setattr(resolvers, "RESOLVERS_PATTERNS_MAX", 4)
    one, other = node.agent("one"), node.agent("other")
    for session, patterns in ((one, "abc"), (other, "cd")):
        for pattern in patterns:
            session.ask("resolver", pattern=pattern)
    with pytest.raises(Refusal, match="quota_exceeded"):
        other.ask("resolver", pattern="e")
    with pytest.raises(Refusal, match="quota_exceeded"):
        one.ask("resolver", pattern="a")


def test_more_conflicts_than_are_kept_in_mind_come_later(node, monkeypatch):
    monkeypatch.setattr(resolver_cases, "CASES_MAX", 4)
    for number in range(12):
        conflict(node, f"k/{number}", "a", "b")
    mine = Resolving(node)
    found = set()
    while events := mine.asked():
        found.add(events[0]["key"])
        assert sum(map(len, node.node.resolvers._dockets["default"]._waiting.values())) <= 4
        mine.answer(events[0], "x")
    assert found == {f"k/{number}" for number in range(12)}


def test_values_that_are_too_much_for_one_event_are_left_out(node, monkeypatch):
    monkeypatch.setattr(resolver_cases, "EVENT_BYTES_MAX", 100)
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


# -- several nodes ---------------------------------------------------------------------------------------------------


@pytest.fixture
def three() -> Iterator[tuple[Fleet, list[Machine]]]:
    """Three connected machines by node id, and their fleet."""
    with fleet_of("a", "b", "c", linked=True) as fleet:
        yield fleet, in_order(fleet)


def asked_of(many: list[Resolving]) -> list[list[str]]:
    return [one.keys() for one in many]


def test_the_lowest_node_asks_and_nobody_else(three):
    fleet, machines = three
    many = [Resolving(machine) for machine in machines]
    fleet.run(0.3)
    for number, machine in enumerate(machines):
        conflict(machine, f"k/{number}", "a", "b")
    fleet.sync()
    found = []
    for _ in range(3):
        first, *others = [one.asked() for one in many]
        assert others == [[], []]
        found.append(first[0]["key"])
        many[0].answer(first[0], "x")
        fleet.sync()
    assert sorted(found) == ["k/0", "k/1", "k/2"]
    assert asked_of(many) == [[], [], []]


def test_only_nodes_whose_pattern_matches_count(three):
    fleet, machines = three
    many = [Resolving(machine, pattern) for machine, pattern in zip(machines, ("a/*", "b/*", "**"), strict=True)]
    fleet.sync()
    for key in ("a/1", "b/1", "c/1"):
        conflict(machines[1], key, 1, 2)
    fleet.sync()
    assert asked_of(many) == [["a/1"], ["b/1"], ["c/1"]]


@pytest.mark.parametrize("way", ["agent dies", "daemon dies", "fails", "hangs", "is frozen"])
def test_the_next_node_takes_over(three, way):
    fleet, machines = three
    many = [Resolving(machine) for machine in machines]
    fleet.run(0.3)
    conflict(machines[2], "k", "a", "b")
    fleet.sync()
    assert asked_of(many) == [["k"], [], []]
    left = many[1:]
    match way:
        case "agent dies":
            many[0].session.close()
        case "daemon dies":
            for wire in list(machines[0].wires.values()):
                wire.close()
            del fleet.machines[machines[0].name]
        case "fails":
            many[0].done("k", error="no idea")
        case "hangs":
            fleet.sync()
            fleet.pass_time(TAKEOVER_S + 1)
        case "is frozen":  # it says nothing more, and the connection is still thought to stand
            del fleet.machines[machines[0].name]
            fleet.pass_time(TAKEOVER_S - 2)
            assert asked_of(left) == [[], []]
            fleet.pass_time(5)
    fleet.sync()
    fleet.run(1.2)
    assert asked_of(left) == [["k"], []]


def test_a_host_that_goes_through_its_resolvers_is_not_disturbed(three):
    """Each of them has its time, and then the next node has its turn."""
    fleet, machines = three
    first, second = Resolving(machines[0], name="first"), Resolving(machines[0], name="second")
    other = Resolving(machines[1])
    fleet.run(0.3)
    conflict(machines[2], "k", "a", "b")
    fleet.sync()
    assert sorted(asked_of([first, second])) == [[], ["k"]]
    fleet.run(TAKEOVER_S + 1)
    assert [len(keys) for keys in asked_of([first, second])] in ([0, 1], [1, 0])
    fleet.run(TAKEOVER_S - 2)
    assert other.keys() == []
    fleet.run(2)
    assert other.keys() == ["k"]


def test_two_sides_ask_one_each_and_their_answers_are_a_conflict_that_is_asked_once(three):
    fleet, machines = three
    many = [Resolving(machine) for machine in machines]
    fleet.run(0.3)
    conflict(machines[0], "k", "a", "b")
    fleet.sync()
    assert asked_of(many) == [["k"], [], []]
    many[0].session.close()
    many[0] = Resolving(machines[0])
    fleet.sync()
    for machine in machines[:1]:
        for wire in list(machine.wires.values()):
            wire.close()
    fleet.sync()
    fleet.pass_time(1)
    fleet.sync()
    first, second, third = (one.asked() for one in many)
    assert ([event["key"] for event in second], third) == (["k"], [])
    for one, events, value in ((many[0], first, "x"), (many[1], second, "y")):
        one.answer(events[-1], value)
    assert asked_of(many) == [[], [], []]
    for machine in machines[1:]:
        fleet.link(machines[0].name, machine.name)
    fleet.sync()
    fleet.pass_time(1)
    fleet.sync()
    (event,), second, third = (one.asked() for one in many)
    assert (second, third) == ([], [])
    assert values_of(event) == {"x", "y"}
    many[0].answer(event, "z")
    fleet.sync()
    assert [machine.agent().values("k") for machine in machines] == [["z"]] * 3


def test_a_node_two_links_away_counts_too():
    with fleet_of("a", "b", "c") as fleet:
        low, middle, high = in_order(fleet)
        fleet.link(low.name, middle.name)
        fleet.link(middle.name, high.name)
        fleet.sync()
        many = [Resolving(low), Resolving(high)]
        for _ in range(3):
            fleet.pass_time(0.2)
            fleet.sync()
        conflict(high, "k", "a", "b")
        for _ in range(3):
            fleet.pass_time(1.1)
            fleet.sync()
        assert asked_of(many) == [["k"], []]


def test_a_node_many_links_away_counts_too_until_the_way_to_it_is_cut():
    with fleet_of("a", "b", "c", "d", "e") as fleet:
        line = in_order(fleet)
        for one, other in pairwise(line):
            fleet.link(one.name, other.name)
        fleet.run(2)
        low, high = Resolving(line[0]), Resolving(line[-1])
        fleet.run(2)
        conflict(line[-1], "k", "a", "b")
        fleet.run(2)
        assert asked_of([low, high]) == [["k"], []]
        for wire in list(line[2].wires.values()):
            wire.close()
        fleet.run(5)
        assert line[0].node.identity.node not in line[-1].node.sync.resolver_news.nodes
        assert high.keys() == ["k"]  # nobody whom it hears of has settled it


def test_news_of_a_node_that_has_gone_goes_no_circles():
    with fleet_of("a", "b", "c", "d") as fleet:
        low, *ring = in_order(fleet)
        for one, other in ((low, ring[0]), *pairwise([*ring, ring[0]])):
            fleet.link(one.name, other.name)
        fleet.run(2)
        Resolving(low)
        fleet.run(2)
        assert all(low.node.identity.node in one.node.sync.resolver_news.nodes for one in ring)
        for wire in list(low.wires.values()):
            wire.close()
        fleet.run(10)
        assert not any(low.node.identity.node in one.node.sync.resolver_news.nodes for one in ring)


def test_a_node_that_comes_later_leaves_alone_what_another_is_at_work_on(three):
    fleet, machines = three
    high = Resolving(machines[2])
    conflict(machines[2], "k", "a", "b")
    (event,) = high.asked()
    fleet.sync()
    fleet.pass_time(1)
    fleet.sync()
    low = Resolving(machines[0])
    fleet.sync()
    assert low.keys() == []
    high.answer(event, "x")
    fleet.sync()
    assert low.keys() == []
    conflict(machines[2], "l", "a", "b")
    fleet.sync()
    assert asked_of([low, high]) == [["l"], []]


def test_a_connection_that_is_gone_for_a_moment_changes_nothing(three):
    """Two nodes may replace their connection by another, and networks hiccup."""
    fleet, machines = three
    many = [Resolving(machine) for machine in machines]
    fleet.run(0.3)
    conflict(machines[2], "k", "a", "b")
    fleet.sync()
    for wire in list(machines[0].wires.values()):
        wire.close()
    fleet.sync()
    conflict(machines[2], "l", "a", "b")
    fleet.run(0.8)
    for machine in machines[1:]:
        fleet.link(machines[0].name, machine.name)
    fleet.run(2)
    assert asked_of(many) == [["k"], [], []]
    many[0].done("k", error="no idea")
    fleet.run(0.3)
    assert asked_of(many) == [["l"], ["k"], []]


def test_a_node_that_starts_again_first_hears_what_others_are_at_work_on(three):
    fleet, machines = three
    high = Resolving(machines[2])
    conflict(machines[2], "k", "a", "b")
    fleet.run(1)
    assert high.keys() == ["k"]
    machines[0].restart()
    low = Resolving(machines[0])
    assert low.keys() == []
    for machine in machines[1:]:
        fleet.link(machines[0].name, machine.name)
    fleet.run(resolver_cases.START_GRACE_S + 1)
    assert asked_of([low, high]) == [[], []]


def test_the_next_node_waits_while_the_lowest_gets_on(three):
    """A resolver that is slow and has much to do is not disturbed; only silence calls for the next one."""
    fleet, machines = three
    many = [Resolving(machine) for machine in machines[:2]]
    fleet.run(0.3)
    for number in range(4):
        conflict(machines[0], f"k/{number}", "a", "b")
    fleet.sync()
    for _ in range(4):
        (event,) = many[0].asked()
        fleet.pass_time(TAKEOVER_S - 5)
        fleet.sync()
        assert many[1].keys() == []
        many[0].answer(event, "x")
        fleet.sync()
    assert asked_of(many) == [[], []]


def test_an_old_version_is_told_nothing_and_counts_as_without_resolvers(node):
    old = Stranger(node, "0" * 32)
    new = Stranger(node, "1" * 32, features=(RESOLVERS,))
    mine = Resolving(node, "plan/**")
    assert old.heard(Resolvers) == []
    (told,) = new.heard(Resolvers)
    assert [(one.space, one.pattern) for one in told.patterns] == [("default", "plan/**")]
    conflict(node, "plan/goal", "a", "b")
    assert mine.keys() == ["plan/goal"]


def test_patterns_of_a_space_that_a_peer_has_not_are_not_told_to_it(node):
    other = Stranger(node, "1" * 32, features=(RESOLVERS,), spaces={"elsewhere": (0, {})})
    Resolving(node)
    assert other.heard(Resolvers) == []


def test_a_peer_that_tells_too_much_is_not_believed(node, monkeypatch):
    from crdtsync.core import resolver_news

    monkeypatch.setattr(resolver_news, "TOLD_PATTERNS_MAX", 1)
    peer = Stranger(node, "0" * 32, features=(RESOLVERS,))
    pattern = ("default", "**", 1000)
    peer.say(Resolvers("0" * 32, (pattern, pattern)))  # type: ignore[arg-type]
    mine = Resolving(node)
    conflict(node, "k", "a", "b")
    assert mine.keys() == ["k"]


def test_a_pattern_of_a_newer_version_is_passed_over(node):
    peer = Stranger(node, "0" * 32, features=(RESOLVERS,))
    peer.say(Resolvers("0" * 32, (("default", "k-*", 1000),)))  # type: ignore[arg-type]
    mine = Resolving(node)
    conflict(node, "k-1", "a", "b")
    assert mine.keys() == ["k-1"]


# -- resolvers that never agree --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pair", "trio"])
def test_resolvers_that_never_agree_are_slowed_down_and_named(name, request, monkeypatch):
    """Nodes that do not know of each other's resolvers, and answer each in another way, for ever."""
    fleet = request.getfixturevalue(name)
    machines = in_order(fleet)
    many = [Resolving(machine) for machine in machines]
    for machine in machines:
        machine.node.sync.resolver_news.heard = lambda *_: None  # type: ignore[method-assign]
        machine.node.sync.resolver_news.nodes = {}
    fleet.sync()
    conflict(machines[0], "plan/goal", "a", "b")
    rounds = 0
    began_s = fleet.now.mono_s
    while fleet.now.mono_s < began_s + 24 * 3600 and "resolvers_disagree" not in machines[0].alarms:
        fleet.sync()
        asked = [one.asked() for one in many]
        for one, events in zip(many, asked, strict=True):
            for event in events:  # all before one hears of another
                one.session.write("resolve", key=event["key"], value=pack(one.machine.name), seen=event["version"])
                one.session.send("resolver_done", resolver=one.id, key=event["key"])
                rounds += 1
        fleet.sync()
        if not any(asked):
            fleet.pass_time(3600)  # all are asked again at one time: the worst that there is
    assert rounds <= len(machines) * resolver_rounds.ROUNDS_ALARM
    assert any("'plan/goal'" in alarm.message for alarm in machines[0].node.alarms.raised())
    fleet.sync()
    machines[0].agent("person").do("resolve", key="plan/goal", value=pack("enough"))
    fleet.sync()
    fleet.pass_time(resolver_rounds.SETTLED_S - 1)
    fleet.sync()
    assert "resolvers_disagree" in machines[0].alarms
    fleet.pass_time(2)
    monkeypatch.setattr(resolver_cases, "LOOK_KEYS_MAX", 0)
    for machine in machines:  # the time is over when much is to be looked at, and this key too
        machine.node.resolvers._dockets["default"]._todo["plan/goal"] = None
        machine.turn()
    monkeypatch.undo()
    fleet.sync()
    assert [machine.alarms for machine in machines] == [set() for _ in machines]


def test_after_a_contradiction_each_node_waits_for_another_time(pair):
    """So that one of two nodes that do not know of each other's resolvers sooner or later answers alone."""
    dockets = []
    for machine in in_order(pair):
        Resolving(machine)
        dockets.append(machine.node.resolvers._dockets["default"])
    waits = [[docket._rounds.wait_s("k", rounds) for docket in dockets] for rounds in range(1, 17)]
    assert waits[0] == [0, 0]
    for number, (one, other) in enumerate(waits[1:], 1):
        assert 0 <= one != other
        assert max(one, other) <= min(3600, 2**number)


def test_answers_of_sides_that_met_are_no_contradictions(pair):
    """Links that flap: each side settles what its own agents wrote, and one of them what comes of both."""
    machines = in_order(pair)
    many = [Resolving(machine) for machine in machines]
    pair.run(0.3)
    for number in range(2 * resolver_rounds.ROUNDS_ALARM):
        for wire in list(machines[0].wires.values()):
            wire.close()
        pair.run(2)
        for machine in machines:
            conflict(machine, "tags", [f"{number} {machine.name} a"], [f"{number} {machine.name} b"])
        while sum(unite(one) for one in many):
            pair.run(0.3)
        pair.link(machines[0].name, machines[1].name)
        pair.run(0.3)
        met = 0
        while sum(unite(one) for one in many):
            pair.run(0.3)
            met += 1
        assert met
        assert [machine.alarms for machine in machines] == [set(), set()]
        assert [len(machine.agent("reader").values("tags")) for machine in machines] == [1, 1]


def unite(one: Resolving) -> bool:
    """Answer with the union of all that was asked; whether anything was."""
    events = one.asked()
    for event in events:
        parts = (event, *event["siblings"])
        one.answer(event, sorted({tag for part in parts for tag in unpack(part["value"])}))
    return bool(events)
