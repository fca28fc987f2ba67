"""A copy that is fed by a state watch is, at each moment that it shows, exactly what the node held."""

# mypy: disable-error-code="arg-type,func-returns-value,method-assign,redundant-expr,union-attr,assignment"
# mypy: disable-error-code="no-untyped-call,type-arg,override,attr-defined"

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from crdtsync.causality import Writer
from crdtsync.client.mirror.state import MirrorState
from crdtsync.client.protocol.seen_point import Horizon
from crdtsync.client.session.read_memory import ReadMemory
from crdtsync.client.values.encoding import plain
from crdtsync.core.background.retention_caps import Caps
from crdtsync.core.interface import AgentFrame
from crdtsync.core.kinds.values import describe_key
from crdtsync.core.reads.operations import READS, Reader
from crdtsync.core.watch import events, partial_updates, state_watch
from crdtsync.core.watch.prefix_index import is_told
from crdtsync.errors import NoSpace, TooLarge, Unresolved
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.framing import FrameReader
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX
from crdtsync.wire.tokens import decode_token
from tests.fleet.agent import Agent, Refusal
from tests.fleet.fleet import fleet_of
from tests.fleet.host import Host

MANY = 1 << 40


class Copy(Agent):
    """A connection that mirrors a prefix."""

    def __init__(self, machine: Host, prefix: str = "", state: MirrorState | None = None) -> None:
        self.state = MirrorState("default", ReadMemory(), prefix, {}, MANY, MANY) if state is None else state
        self.seen: list[dict] = []
        super().__init__(machine, "mirror")
        self.begin()
        settle(machine)

    def begin(self) -> None:
        self.machine.step(AgentFrame(self.conn, self.state.request()[4:]))

    def received(self, data: bytes) -> None:
        for payload in FrameReader(AGENT_FRAME_BYTES_MAX).feed(data):
            number, status, content = unpack(payload)
            if number == 1:
                super().received(data)
                continue
            if status == 2:
                self.seen += content
            self.state.take((number, status, content))
            if self.state.wants_confirmation:
                self.confirm()

    def confirm(self) -> None:
        self.machine.step(AgentFrame(self.conn, self.state.confirmation()[4:]))

    def told(self) -> list[tuple[str, str | None]]:
        """The events since the last call, briefly."""
        seen, self.seen = self.seen, []
        return [(event["event"], event["key"]) for event in seen]

    def check(self) -> None:
        """It shows what its node holds, of every kind, in order."""
        replica, now_ms = self.machine.replica, self.machine.now.wall_ms
        keys = [key for key in replica.entries.keys(self.state.prefix) if is_told(key, self.state.prefix)]
        assert [*self.state] == sorted(keys)
        for key in keys:
            wanted = describe_key(replica, key, replica.entries.live(key, now_ms), replica.node_of)
            shown = self.state.entry(key)
            assert wanted is not None
            assert shown is not None
            assert repr(shown.value) == repr(plain(wanted["value"])), key
            got: Any = READS["get"](Reader(replica, self.machine.node.storage, now_ms, str), {"key": key})
            assert repr(self.state[key]) == repr(plain(got["value"])), key
            assert (shown.kind, shown.dot, shown.agent) == (wanted["kind"], wanted["dot"], wanted["agent"]), key
            assert [one.value for one in shown.siblings] == [plain(one["value"]) for one in wanted["siblings"]], key
        if not self.state.prefix:
            assert decode_token(self.state.token)["default"][1] == replica.vector


def settle(machine: Host) -> None:
    for _ in range(1000):
        machine.turn()
        if not machine.node.dispatcher.watches.has_more():
            return
    raise AssertionError("the watches never come to rest")


# -- what it begins with ---------------------------------------------------------------------------------------------


def test_it_begins_with_all_keys_of_its_prefix_at_one_moment(node):
    ann = node.agent("ann")
    ann.set("a/1", 1)
    ann.set("b/1", 2)
    ann.append("a/log", "x")
    copy = Copy(node, "a/")
    assert {**copy.state} == {"a/1": 1, "a/log": ["x"]}
    assert copy.told() == [("state", "a/1"), ("state", "a/log"), ("current", None)]
    copy.check()


def test_of_nothing_it_is_current_at_once(node):
    copy = Copy(node)
    assert copy.told() == [("current", None)]
    assert len(copy.state) == 0
    assert copy.state.token


def test_nothing_is_shown_before_all_is_there(node, monkeypatch):
    monkeypatch.setattr(state_watch, "SLICE_KEYS_MAX", 2)
    ann = node.agent("ann")
    for number in range(5):
        ann.set(f"k{number}", number)
    lengths: list[int] = []
    state = MirrorState("default", ReadMemory(), "", {}, MANY, MANY)
    watcher = Agent(node, "mirror")
    watcher.received = lambda data: [state.take(tuple(unpack(data[4:]))), lengths.append(len(state))]
    node.step(AgentFrame(watcher.conn, state.request()[4:]))
    node.turn()
    ann.set("k0", "told again")
    settle(node)
    assert len(lengths) > 3
    assert {*lengths} == {0, 5}
    assert state["k0"] == "told again"


# -- what commits bring ----------------------------------------------------------------------------------------------


def test_a_commit_is_told_as_what_came_out_of_it(node):
    ann = node.agent("ann")
    copy = Copy(node, "a/")
    copy.told()
    for value in (1, 2, 3):
        ann.write("set", key="a/k", value=pack(value))
    ann.write("set", key="b/k", value=pack(1))
    ann.write("set", key="a/gone", value=pack(1))
    ann.write("delete", key="a/gone")
    node.turn()
    assert copy.told() == [("state", "a/k"), ("delete", "a/gone"), ("current", None)]
    copy.check()


def test_who_watches_other_keys_is_told_nothing(node):
    ann = node.agent("ann")
    copy = Copy(node, "a/")
    copy.told()
    ann.set("b/k", 1)
    assert copy.told() == []


def test_a_batch_is_shown_at_once_however_many_frames_it_takes(node, monkeypatch):
    monkeypatch.setattr(events, "FRAME_BYTES_MAX", 300)
    ann = node.agent("ann")
    copy = Copy(node)
    shown = []
    publish = copy.state._publish
    copy.state._publish = lambda token: (publish(token), shown.append({**copy.state}))[0]
    ann.do("batch", ops=[["set", {"key": f"k{n}", "value": pack(1)}] for n in range(20)])
    ops = [["set", {"key": f"k{n}", "value": pack(2)}] for n in range(10)]
    ann.do("batch", ops=[*ops, *(["delete", {"key": f"k{n}"}] for n in range(10, 20))])
    assert shown == [{f"k{n}": 1 for n in range(20)}, {f"k{n}": 2 for n in range(10)}]


def test_it_is_encoded_once_for_all_watchers(node, monkeypatch):
    made, framed = [], []
    whole, frames = state_watch.whole_event, state_watch.event_frames
    monkeypatch.setattr(state_watch, "whole_event", lambda *args: (made.append(args), whole(*args))[1])
    monkeypatch.setattr(state_watch, "event_frames", lambda *args: (framed.append(args), frames(*args))[1])
    ann = node.agent("ann")
    ann.set("a/k", 0)
    copies = [Copy(node, "a/") for _ in range(20)]
    others = [Copy(node, "b/") for _ in range(20)]
    made.clear()
    framed.clear()
    ann.set("a/k", 1)
    assert (len(made), len(framed)) == (1, 1)
    assert all(copy.state["a/k"] == 1 for copy in copies)
    assert not any(len(copy.state) for copy in others)


OPERATIONS = ("append", "append", "append", "trim", "add", "add", "discard", "merge", "merge", "drop", "incr", "reset",
              "set", "set", "sibling", "delete", "resolve", "expiring")  # fmt: skip


def random_write(rng: Random, agent: Agent) -> None:
    """One write of any kind; what is refused is refused."""
    number = rng.randrange(10_000)
    operation = rng.choice(OPERATIONS)
    args = {
        "append": lambda: ("append", "log", {"value": pack(number)}),
        "trim": lambda: ("trim", "log", {"keep": rng.choice((0, 5, 20, 40))}),
        "add": lambda: ("add", "set", {"value": pack(rng.choice((number % 60, float(number % 60), "x" * 300)))}),
        "discard": lambda: ("discard", "set", {"value": pack(number % 60)}),
        "merge": lambda: ("merge", "map", {"fields": {f"f{number % 40}": pack(number), "g": pack(number)}}),
        "drop": lambda: ("drop", "map", {"field": f"f{number % 40}"}),
        "incr": lambda: ("incr", "counter", {"by": number}),
        "reset": lambda: ("reset", "counter", {}),
        "set": lambda: ("set", f"k{number % 5}", {"value": pack(number)}),
        "sibling": lambda: ("set", f"k{number % 5}", {"value": pack(number), "seen": "?"}),
        "delete": lambda: ("delete", rng.choice(("k0", "k1", "k2", "map", "log", "set")), {}),
        "resolve": lambda: ("resolve", f"k{number % 5}", {"value": pack(number)}),
        "expiring": lambda: ("set", f"k{number % 5}", {"value": pack(number), "ttl": 1 + number}),
    }[operation]()
    if operation != "delete" or rng.random() < 0.03:
        agent.write(args[0], key=args[1], **args[2])


@pytest.mark.parametrize("seed", range(4))
def test_it_shows_what_its_node_holds_whatever_is_done_there_and_elsewhere(seed, monkeypatch):
    rng = Random(seed)
    told = {"part": 0, "places": 0, "state": 0}
    monkeypatch.setattr(partial_updates, "WHOLE_ENTRIES_MAX", rng.choice((0, 4, 8)))
    with fleet_of("a", "b", linked=True) as fleet:
        authors = [fleet[name].agent(name) for name in "ab"]
        copies = [Copy(fleet[name], prefix) for name in "ab" for prefix in ("", "k", "log")]
        for _ in range(60):
            for _ in range(rng.randrange(1, 12)):  # at once on both sides: what comes is out of order
                random_write(rng, rng.choice(authors))
            if rng.random() < 0.5:
                for machine in fleet.machines.values():
                    machine.turn()
            if rng.random() < 0.2:
                rng.choice(copies).flow(rng.random() < 0.5)
            if rng.random() < 0.1:
                copy = rng.choice(copies)
                copies.remove(copy)
                copy.close()
                copies.append(Copy(copy.machine, state=copy.state))
            if rng.random() < 0.1:
                fleet.pass_time(rng.choice((0.01, 5.0)))
            fleet.sync()
            for copy in copies:
                if not copy.machine.node.dispatcher.watches.find(copy.conn, 2).blocked:
                    settle(copy.machine)
                    copy.check()
        for copy in copies:
            for event in copy.seen:
                told[event["event"]] = told.get(event["event"], 0) + 1
                told["places"] += event.get("places") is not None
    assert min(told["part"], told["state"]) > 20, told
    assert told["places"] > 0


def test_of_a_long_log_only_the_new_element_is_told(node):
    ann = node.agent("ann")
    for number in range(20):
        ann.append("log", number)
    copy = Copy(node)
    before = copy.state["log"]
    copy.told()
    ann.append("log", 20)
    ann.do("trim", key="log", keep=15)
    assert copy.told() == [("part", "log"), ("current", None), ("part", "log"), ("current", None)]
    assert copy.state["log"] == [*range(6, 21)]
    assert before == [*range(20)], "what was handed out stays as it was"


def test_an_element_that_the_author_of_a_trim_had_not_seen_stays(monkeypatch):
    monkeypatch.setattr("crdtsync.core.sync.change_feed.FRAME_CHANGES_MAX", 1)
    with fleet_of("a", "b", linked=True) as fleet:
        ann, bob = fleet["a"].agent("ann"), fleet["b"].agent("bob")
        for number in range(20):
            ann.append("log", number)
        fleet.sync()
        copy = Copy(fleet["b"])
        fleet.wires[0].close()
        bob.append("log", "of bob")
        fleet.pass_time(1.0)
        for number in range(20, 40):
            ann.append("log", number)
        ann.do("trim", key="log", keep=12)
        wire = fleet.link("a", "b")
        for _ in range(50):  # one change a turn, so that the trim comes alone
            for machine in fleet.machines.values():
                wire.deliver(machine, 1)
                machine.turn()
        copy.check()
        assert copy.state["log"] == ["of bob", *range(28, 40)]


# -- slow ones, and those that were away -----------------------------------------------------------------------------


def test_a_slow_watcher_is_told_the_newest_state_once(node):
    ann = node.agent("ann")
    copy, quick = Copy(node), Copy(node)
    copy.told()
    copy.flow(True)
    for value in range(50):
        ann.set("k", value)
        ann.set(f"k{value % 3}", value)
        assert quick.state["k"] == value
    assert copy.told() == []
    copy.flow(False)
    settle(node)
    assert copy.told() == [("state", "k"), ("state", "k0"), ("state", "k1"), ("state", "k2"), ("current", None)]
    copy.check()


def test_one_that_missed_too_much_starts_over(node, monkeypatch):
    monkeypatch.setattr(state_watch, "DIRTY_KEYS_MAX", 3)
    ann = node.agent("ann")
    ann.set("old", 1)
    copy = Copy(node)
    copy.told()
    copy.flow(True)
    ann.delete("old")
    for number in range(5):
        ann.set(f"k{number}", number)
    copy.flow(False)
    settle(node)
    assert copy.told()[0] == ("reset", None)
    copy.check()


def test_one_that_comes_back_is_told_what_changed_since(node):
    ann = node.agent("ann")
    for number in range(10):
        ann.set(f"k{number}", number)
    copy = Copy(node)
    copy.close()
    ann.set("k3", "new")
    ann.delete("k4")
    ann.set("k3", "newer")
    again = Copy(node, state=copy.state)
    assert again.told() == [("state", "k3"), ("delete", "k4"), ("current", None)]
    again.check()


def test_so_is_one_that_was_in_the_middle_of_a_commit(node, monkeypatch):
    monkeypatch.setattr(events, "FRAME_BYTES_MAX", 200)
    ann = node.agent("ann")
    copy = Copy(node)
    take, seen = copy.state.take, []
    copy.state.take = lambda message: seen.append(message) or (take(message) if len(seen) == 1 else None)
    ann.do("batch", ops=[["set", {"key": f"k{n}", "value": pack(1)}] for n in range(5)])
    assert len(seen) > 2
    assert len(copy.state) == 0, "half of a batch is not shown"
    copy.state.take = take
    copy.close()
    Copy(node, state=copy.state).check()


def test_where_the_log_no_longer_reaches_back_it_starts_over():
    with fleet_of("a", caps=Caps(600, 3_600_000, 600, 3_600_000)) as fleet:
        node = fleet["a"]
        ann = node.agent("ann")
        ann.set("old", 1)
        copy = Copy(node)
        copy.close()
        ann.delete("old")
        for number in range(50):
            ann.set(f"k{number % 4}", number)
        for _ in range(20):
            fleet.pass_time(2.0)
            node.turn()
        again = Copy(node, state=copy.state)
        assert again.told()[0] == ("reset", None)
        again.check()


def test_a_state_that_the_node_does_not_have_is_kept_until_its_client_forgets():
    """The database was restored, say."""
    with fleet_of("a", "b") as fleet:
        fleet["a"].agent("ann").set("k", "of a")
        horizon = Horizon()
        state = MirrorState("default", ReadMemory(), "", {}, MANY, MANY, horizon)
        Copy(fleet["a"], state=state)
        fleet["b"].agent("bob").set("j", "of b")
        assert Copy(fleet["b"], state=state).told() == []
        assert {**state} == {"k": "of a"}
        assert not state.may_confirm
        horizon.forget()
        again = Copy(fleet["b"], state=state)
        assert again.told() == [("reset", None), ("state", "j"), ("current", None)]
        assert {**again.state} == {"j": "of b"}


def test_what_expired_while_it_was_away_is_gone(node):
    ann = node.agent("ann")
    ann.set("k", 1, ttl=1000)
    ann.set("j", "stays")
    ann.set("j", "goes", ttl=1000, seen="?")
    copy = Copy(node)
    assert copy.state["j"] == "goes"
    copy.close()
    node.fleet.pass_time(2.0)
    node.turn()
    again = Copy(node, state=copy.state)
    assert {**again.state} == {"j": "stays"}


def test_a_snapshot_of_a_peer_is_shown_too():
    with fleet_of("a", "b", caps=Caps(600, 3_600_000, 600, 3_600_000)) as fleet:
        ann = fleet["a"].agent("ann")
        fleet["b"].agent("bob").set("b", 1)
        copy = Copy(fleet["b"])
        for number in range(100):
            ann.set(f"k{number % 4}", number)
        fleet.run(5.0)
        fleet.link("a", "b")
        fleet.run(5.0)
        settle(fleet["b"])
        assert copy.state["k3"] == 99
        copy.check()


def test_after_a_failed_commit_it_starts_over(node):
    ann = node.agent("ann")
    ann.set("k", 1)
    copy = Copy(node)
    ann.write("set", key="k", value=pack(2))
    node.refuse(NoSpace("the disk is full"))
    settle(node)
    assert copy.state["k"] == 1
    ann.set("k", 3)
    copy.check()


class Late(Copy):
    """One that attaches, and begins when it is told to."""

    def begin(self) -> None:
        if self.machine.wires:
            super().begin()


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_a_node_that_loses_what_a_watcher_began_with_tells_it_nothing_until_that_is_back(is_trimmed):
    """What the watcher was shown elsewhere has just come, and the commit of it fails."""
    with fleet_of("a", "b") as fleet:
        state = MirrorState("default", ReadMemory(), "", {}, MANY, MANY)
        fleet["a"].agent("ann").set("k", 1)
        Copy(fleet["a"], state=state)
        copy = Late(fleet["b"], state=state)
        wire = fleet.link("a", "b")
        while not fleet["b"].replica.vector:  # it comes, and is not on disk yet
            for machine in wire.ends:
                machine.turn()
            for machine in wire.ends:
                wire.deliver(machine)
        if is_trimmed:
            fleet["b"].replica.floor.update({Writer(7): 1})
        copy.begin()
        fleet["b"].refuse(NoSpace("the disk is full"))
        settle(fleet["b"])
        assert not fleet["b"].replica.vector
        assert copy.told() == []
        assert {**state} == {"k": 1}
        fleet.link("a", "b")
        fleet.sync()
        assert copy.told()[-1] == ("current", None)
        copy.check()


# -- how fresh it is -------------------------------------------------------------------------------------------------


def test_the_node_confirms_that_all_has_been_told(node):
    ann = node.agent("ann")
    copy = Copy(node, "a/")
    assert copy.state.staleness_s == float("inf")
    ann.set("b/elsewhere", 1)
    assert copy.state.token != token(node)
    copy.confirm()
    node.turn()
    assert copy.state.staleness_s < 60
    assert copy.state.token == token(node)
    assert (copy.state.daemon_lag, copy.state.peers_away) == (0, 0)


def test_it_does_not_while_something_is_left_to_tell(node):
    ann = node.agent("ann")
    copy = Copy(node)
    copy.flow(True)
    ann.set("k", 1)
    copy.confirm()
    node.turn()
    assert copy.state.staleness_s == float("inf")
    assert "k" not in copy.state


def test_a_confirmation_says_nothing_of_what_is_not_on_disk(node):
    ann = node.agent("ann")
    copy = Copy(node)
    ann.write("set", key="k", value=pack(1))
    copy.confirm()  # comes before what this turn commits
    node.turn()
    assert copy.state["k"] == 1
    copy.check()


def test_it_says_how_far_the_node_is_behind_others():
    with fleet_of("a", "b", linked=True) as fleet:
        copy = Copy(fleet["b"])
        for wire in fleet.wires:
            wire.close()
        fleet["a"].agent("ann").set("k", 1)
        fleet.pass_time(1.0)
        copy.confirm()
        fleet["b"].turn()
        assert copy.state.peers_away == 1


def test_a_watch_that_is_none_is_not_confirmed(node):
    with pytest.raises(Refusal, match="watch must be"):
        node.agent("ann").ask("confirm", watch=7)
    copy = Copy(node)
    copy.machine.step(AgentFrame(copy.conn, pack([9, "confirm", {"watch": 2, "retell": "k"}])))
    with pytest.raises(Exception, match="retell must be a list"):
        node.turn()


def token(machine: Host) -> str:
    return machine.agent("reader").ask("scan", prefix="", limit=1)["token"]


# -- what is too large -----------------------------------------------------------------------------------------------


def test_a_value_that_is_too_large_says_so_and_the_rest_goes_on(node, monkeypatch):
    monkeypatch.setattr("crdtsync.core.kinds.base.CHANGE_BYTES_MAX", 100)
    ann = node.agent("ann")
    for number in range(30):
        ann.append("log", f"{number:010}")
    copy = Copy(node)
    assert "log" in copy.state
    with pytest.raises(TooLarge, match="read it from the daemon, with log"):
        _ = copy.state["log"]
    ann.set("k", 1)
    assert copy.state["k"] == 1
    monkeypatch.setattr("crdtsync.client.mirror.state.LOOK_AGAIN_S", -1)
    ann.do("trim", key="log", keep=2)
    settle(node)
    assert copy.state["log"] == ["0000000028", "0000000029"]


def test_many_large_siblings_are_told_without_their_values(node):
    ann = node.agent("ann")
    copy = Copy(node)
    for number in range(9):
        ann.set("k", f"{number}" * 1_000_000, seen="?")
    assert copy.state["k"] == "8" * 1_000_000
    entry = copy.state.entry("k")
    assert len(entry.siblings) == 8
    assert max(sum(len(pack(event)) for event in [seen]) for seen in copy.seen) < AGENT_FRAME_BYTES_MAX


def test_more_than_a_mirror_may_hold_ends_it(node):
    ann = node.agent("ann")
    state = MirrorState("default", ReadMemory(), "", {}, 3, MANY)
    for number in range(3):
        ann.set(f"k{number}", number)
    Copy(node, state=state)
    assert len(state) == 3
    with pytest.raises(TooLarge, match="over 3 keys: choose a longer prefix"):
        ann.set("k3", 3)


def test_nor_may_it_take_more_bytes(node):
    ann = node.agent("ann")
    state = MirrorState("default", ReadMemory(), "k", {}, MANY, 3000)
    Copy(node, state=state)
    with pytest.raises(TooLarge, match="the mirror of 'k' takes over 3,000 bytes"):
        ann.set("k0", "x" * 3000)
    assert len(state) == 0


# -- read policies ---------------------------------------------------------------------------------------------------


def test_a_look_up_goes_by_the_read_policy(node):
    ann, copy = node.agent("ann"), Copy(node)
    for value in (3, 7, 5):
        ann.set("k", value, seen="?")
        ann.do("merge", key="map", fields={f"f{n}": pack(value) for n in range(9)}, seen="?")
    assert copy.state["k"] == 5
    for policy, shown in (("max", 7), ("min", 3), ("all", [5, 7, 3]), ("lww", 5)):
        ann.do("schema_set", pattern="*", policy=policy)
        settle(node)
        assert copy.state["k"] == shown, policy
        copy.check()
    ann.do("schema_set", pattern="*", policy="manual")
    settle(node)
    with pytest.raises(Unresolved, match="has 3 values") as refusal:
        _ = copy.state["k"]
    assert {refusal.value.current.value, *(other.value for other in refusal.value.current.siblings)} == {3, 5, 7}
    assert copy.state._memory.seen("k") == refusal.value.current.version, "the refusal hands over everything"
    ann.do("resolve", key="k", value=pack(1))
    assert copy.state["k"] == 1


@pytest.mark.parametrize("pattern", ["k", "**"])
def test_one_that_comes_back_is_told_of_keys_that_are_read_in_another_way_now(node, pattern):
    """A single value becomes a list of one under ``all``, and a single value again; no change of the log names it."""
    node.agent("ann").set("k", 6)
    admin, copy = node.agent("admin"), Copy(node)
    for schema, shown in (({"policy": "all"}, [6]), ({"remove": True}, 6)):
        copy.close()
        admin.do("schema_set", pattern=pattern, **schema)
        copy = Copy(node, state=copy.state)
        assert copy.state["k"] == shown
        copy.check()


def test_under_the_policy_all_the_fields_of_a_map_are_lists(node):
    ann, copy = node.agent("ann"), Copy(node)
    ann.do("schema_set", pattern="map", policy="all")
    ann.do("merge", key="map", fields={f"f{n}": pack(n) for n in range(12)})
    for value in (1, 2):
        ann.do("merge", key="map", fields={"f3": pack(value)}, seen="?")
        copy.check()
    assert len(copy.state["map"]["f3"]) == 3
