"""Resolvers of several nodes: each conflict is asked once per connected side, by the lowest node."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest

from crdtsync.core.resolvers import backoff, conflict_queue
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.peer.gossip import RESOLVERS, Resolvers
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.fleet.resolver import TAKEOVER_S, Resolving, conflict, in_order, values_of
from tests.fleet.stranger import Stranger


@pytest.fixture
def three() -> Iterator[tuple[Fleet, list[Host]]]:
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


# -- sides that meet ---------------------------------------------------------------------------------------------------


def cut_off(machine: Host) -> None:
    for wire in list(machine.wires.values()):
        wire.close()


def parted(fleet: Fleet) -> list[Resolving]:
    """The lowest node is cut off, and each side has settled what was written there; the resolvers, the lowest first."""
    machines = in_order(fleet)
    many = [Resolving(machine) for machine in machines]
    fleet.run(0.3)
    cut_off(machines[0])
    fleet.run(2)
    for number in (0, 1):
        conflict(machines[number], "k", f"{number} a", f"{number} b")
        fleet.sync()
        (event,) = many[number].asked()
        many[number].answer(event, f"{number}")
    fleet.sync()
    assert asked_of(many) == [[] for _ in many]
    return many


def test_nodes_that_dial_each_other_know_of_resolvers_from_the_connection_that_told(pair):
    """The hello over a second connection comes before the answers over the first one."""
    low, high = parted(pair)
    wires = [pair.link(high.machine.name, low.machine.name), pair.link(low.machine.name, high.machine.name)]
    for machine in (low.machine, high.machine):
        machine.turn()
    wires[0].deliver(low.machine)
    wires[0].deliver(high.machine)
    low.machine.turn()
    wires[0].deliver(high.machine)
    wires[1].deliver(high.machine, 1)
    assert high.keys() == []
    pair.run(1)
    assert asked_of([low, high]) == [["k"], []]


def test_a_node_that_comes_into_reach_is_told_of_before_its_changes(three):
    """However little time has passed since the node between them told of something else."""
    fleet, machines = three
    many = parted(fleet)
    low, _, between = machines
    Resolving(between, "plan/**", "planner")
    fleet.sync()
    fleet.link(low.name, between.name)
    fleet.sync()
    assert asked_of(many) == [["k"], [], []]


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 30), marks=pytest.mark.slow)])
@pytest.mark.parametrize("names", ["ab", "abc"])
def test_sides_that_meet_ask_once_in_whatever_order_frames_come(names, seeds):
    for seed in seeds:
        random = Random(seed)
        with fleet_of(*names, linked=True) as fleet:
            many = parted(fleet)
            low, *others = [machine.name for machine in in_order(fleet)]
            pairs = [ends for other in others for ends in ((low, other), (other, low))]
            for ends in random.sample(pairs, len(pairs)):
                fleet.link(*ends)
            scramble(fleet, random)
            fleet.run(2)
            assert asked_of(many) == [["k"], *[[] for _ in others]], seed


def scramble(fleet: Fleet, random: Random) -> None:
    """Deliver some frames of some connection, and let some machine have its turn, until nothing is under way."""
    machines = list(fleet.machines.values())
    for machine in machines:
        machine.turn()
    while wires := [wire for wire in fleet.wires if any(wire.waiting)]:
        wire = random.choice(wires)
        wire.deliver(random.choice(wire.ends), random.randrange(1, 4))
        random.choice(machines).turn()


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
    fleet.run(conflict_queue.START_GRACE_S + 1)
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
    from crdtsync.core.peers import resolver_gossip

    monkeypatch.setattr(resolver_gossip, "TOLD_MAX", 1)
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
    assert rounds <= len(machines) * backoff.ROUNDS_ALARM
    assert any("'plan/goal'" in alarm.message for alarm in machines[0].node.alarms.raised())
    fleet.sync()
    machines[0].agent("person").do("resolve", key="plan/goal", value=pack("enough"))
    fleet.sync()
    fleet.pass_time(backoff.SETTLED_S - 1)
    fleet.sync()
    assert "resolvers_disagree" in machines[0].alarms
    fleet.pass_time(2)
    monkeypatch.setattr(conflict_queue, "LOOK_KEYS_MAX", 0)
    for machine in machines:  # the time is over when much is to be looked at, and this key too
        machine.node.resolvers._queues["default"]._todo["plan/goal"] = None
        machine.turn()
    monkeypatch.undo()
    fleet.sync()
    assert [machine.alarms for machine in machines] == [set() for _ in machines]


def test_after_a_contradiction_each_node_waits_for_another_time(pair):
    """So that one of two nodes that do not know of each other's resolvers sooner or later answers alone."""
    queues = []
    for machine in in_order(pair):
        Resolving(machine)
        queues.append(machine.node.resolvers._queues["default"])
    waits = [[queue._backoff.wait_s("k", rounds) for queue in queues] for rounds in range(17)]
    assert waits[:3] == [[0, 0]] * 3
    for number, (one, other) in enumerate(waits[3:], 3):
        assert 0 <= one != other
        assert max(one, other) <= min(3600, 2**number)


def test_answers_of_sides_that_met_are_no_contradictions(pair):
    """Links that flap: each side settles what its own agents wrote, and one of them what comes of both."""
    machines = in_order(pair)
    many = [Resolving(machine) for machine in machines]
    pair.run(0.3)
    for number in range(2 * backoff.ROUNDS_ALARM):
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
