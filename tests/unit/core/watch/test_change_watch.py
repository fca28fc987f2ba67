"""Watchers are told every change once and in causal order, slow ones the newest state, and nobody costs memory."""

# Writers are plain numbers here.
# mypy: disable-error-code="arg-type,dict-item,operator,var-annotated"

from __future__ import annotations

import pytest
from pycrdt import Doc, Text

from crdtsync.core.watch import change_watch, scheduler
from crdtsync.errors import NoSpace
from crdtsync.wire.change import Change, Op, value_hash
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from tests.fleet.agent import Agent, Refusal
from tests.fleet.fleet import CODEC
from tests.fleet.host import Host
from tests.fleet.stranger import Stranger

HOUR_MS = 3_600_000


def watch(machine: Host, prefix: str = "", **args: object) -> Agent:
    session = machine.agent("watcher")
    session.ask("watch", prefix=prefix, **args)
    settle(machine)
    return session


def settle(machine: Host) -> None:
    """Turns until the watches have nothing more to say."""
    for _ in range(1000):
        machine.turn()
        if not machine.node.dispatcher.watches.has_more():
            return
    raise AssertionError("the watches never come to rest")


def brief(events):
    """``(event, key, value)`` of each, values unpacked, batches as lists."""
    return [
        ("batch", brief(event["events"]))
        if event["event"] == "batch"
        else (event["event"], event["key"], value_of(event))
        for event in events
    ]


def value_of(event):
    value = event.get("value")
    return None if value is None else unpack(value)


# -- live ------------------------------------------------------------------------------------------------------------


def test_a_watch_begins_with_a_snapshot(node):
    ann = node.agent("ann")
    ann.set("a/1", 1)
    ann.set("b/1", 2)
    ann.set("a/2", 3)
    told = watch(node, "a/").told()
    assert brief(told) == [("snapshot", "a/1", 1), ("snapshot", "a/2", 3), ("snapshot", None, None)]
    assert told[-1]["token"]
    assert not told[0]["token"]


def test_then_every_change_under_the_prefix_is_told(node):
    ann = node.agent("ann")
    watcher = watch(node, "a/")
    watcher.told()
    ann.set("a/1", 1)
    ann.set("b/1", 2)
    ann.set("a/1", 3)
    ann.delete("a/1")
    ann.append("a/log", "x")
    assert brief(watcher.told()) == [
        ("set", "a/1", 1),
        ("set", "a/1", 3),
        ("delete", "a/1", None),
        ("set", "a/log", "x"),
    ]


def test_an_event_says_who_did_what_where_and_when(pair):
    ann = pair["a"].agent("ann")
    watcher = watch(pair["b"])
    watcher.told()
    written = ann.set("k", 1)
    pair.sync()
    (event,) = watcher.told()
    assert {name: event[name] for name in ("event", "key", "kind", "op", "agent", "node")} == {
        "event": "set",
        "key": "k",
        "kind": "register",
        "op": "set",
        "agent": "ann",
        "node": "a",
    }
    assert event["time"] == pair.now.wall_ms
    assert event["version"] == written["version"]


def test_a_conflict_lists_the_siblings_and_its_version_covers_them(node):
    ann, bob = node.agent("ann"), node.agent("bob")
    watcher = watch(node)
    ann.set("k", 1)
    watcher.told()
    bob.set("k", 2, seen="?")
    (event,) = watcher.told()
    assert event["event"] == "conflict"
    assert value_of(event) == 2
    assert [unpack(sibling["value"]) for sibling in event["siblings"]] == [1]
    ann.set("k", 3, seen=event["version"])
    assert ann.values("k") == [3]
    assert brief(watcher.told()) == [("set", "k", 3)]


def test_a_batch_comes_whole(node):
    ann = node.agent("ann")
    watcher = watch(node, "a/")
    watcher.told()
    ops = [["set", {"key": key, "value": pack(1)}] for key in ("a/1", "b/1", "a/2")]
    ann.do("batch", ops=ops)
    assert brief(watcher.told()) == [("batch", [("set", "a/1", 1), ("set", "a/2", 1)])]


def test_a_batch_of_which_one_write_matches_is_still_a_batch(node):
    ann = node.agent("ann")
    watcher = watch(node, "a/")
    watcher.told()
    ann.do("batch", ops=[["set", {"key": key, "value": pack(1)}] for key in ("a/1", "b/1")])
    assert brief(watcher.told()) == [("batch", [("set", "a/1", 1)])]


def test_changes_of_one_commit_are_told_one_by_one(node):
    ann = node.agent("ann")
    watcher = watch(node)
    watcher.told()
    for value in (1, 2, 3):
        ann.write("set", key="k", value=pack(value))
    node.turn()
    assert [value_of(event) for event in watcher.told()] == [1, 2, 3]


def test_a_deletion_and_a_write_in_one_commit_never_look_like_a_value_of_nothing(node):
    """A ``set`` event hands over a value; what is told of a deletion must not be taken for one."""
    ann = node.agent("ann")
    ann.set("k", 1)
    watcher = watch(node)
    watcher.told()
    ann.write("delete", key="k")
    ann.write("set", key="k", value=pack(2))
    node.turn()
    events = watcher.told()
    assert all(event["value"] is not None for event in events if event["event"] == "set"), events
    assert value_of(events[-1]) == 2


def test_when_one_of_two_siblings_is_deleted_the_other_is_told(node):
    ann, bob = node.agent("ann"), node.agent("bob")
    ann.set("k", 1)
    seen = ann.version("k")
    bob.set("k", 2, seen="?")
    watcher = watch(node)
    watcher.told()
    ann.delete("k", seen=seen)
    (event,) = watcher.told()
    assert (event["event"], value_of(event), event["op"]) == ("set", 2, "delete")


def test_text_edits_are_told_as_updates(node):
    doc: Doc[Text] = Doc()
    doc.get("text", type=Text).insert(0, "hello")
    watcher = watch(node)
    watcher.told()
    node.agent().do("text_apply", key="t", update=doc.get_update())
    (event,) = watcher.told()
    assert (event["event"], event["op"], event["kind"]) == ("set", "text", "text")
    copy: Doc[Text] = Doc()
    copy.apply_update(value_of(event))
    assert str(copy.get("text", type=Text)) == "hello"


def test_nothing_is_told_after_unwatch(node):
    watcher = node.agent()
    request = watcher.send("watch", prefix="")
    settle(node)
    watcher.told()
    watcher.ask("unwatch", watch=request)
    node.agent().set("k", 1)
    assert watcher.told() == []


def test_nothing_is_told_before_it_is_on_disk(node):
    watcher = watch(node)
    watcher.told()
    node.agent().write("set", key="k", value=pack(1))
    node.refuse(NoSpace("full"))
    settle(node)
    assert [event for event in brief(watcher.told()) if event[1] == "k"] == []


# -- resuming --------------------------------------------------------------------------------------------------------


def test_a_watch_goes_on_after_a_token(node):
    ann = node.agent("ann")
    token = ann.set("k", 1)["token"]
    ann.set("k", 2)
    ann.do("batch", ops=[["set", {"key": "j", "value": pack(1)}], ["delete", {"key": "k"}]])
    told = watch(node, after=token).told()
    assert brief(told) == [("set", "k", 2), ("batch", [("set", "j", 1), ("delete", "k", None)])]


def test_each_events_token_is_where_to_go_on(node):
    ann = node.agent("ann")
    watcher = watch(node)
    for value in range(5):
        ann.set("k", value)
    events = [event for event in watcher.told() if event["token"]]
    for n, event in enumerate(events):
        assert brief(watch(node, after=event["token"]).told()) == brief(events[n + 1 :])


def test_a_token_of_another_host_works(pair):
    ann = pair["a"].agent("ann")
    ann.set("k", 1)
    token = ann.set("k", 2)["token"]
    ann.set("k", 3)
    pair.run(2)
    values = [value_of(event) for event in watch(pair["b"], after=token).told() if event["key"] == "k"]
    assert values[-1] == 3  # the token of one write names only that write: what came before may be told again


def test_a_change_in_the_turn_in_which_a_watch_catches_up_is_told(node):
    """The log brings what was committed; what the turn itself commits must not fall between log and live."""
    ann = node.agent("ann")
    watcher = node.agent("watcher")
    token = ann.set("k", 1)["token"]
    ann.set("k", 2)
    watcher.send("watch", prefix="", after=token)
    ann.write("set", key="k", value=pack(3))
    node.turn()
    settle(node)
    assert [value_of(event) for event in watcher.told()] == [2, 3]


def test_changes_while_catching_up_over_many_turns_are_all_told(node, monkeypatch):
    monkeypatch.setattr(change_watch, "SLICE_CHANGES_MAX", 2)
    ann = node.agent("ann")
    token = ann.set("k", 0)["token"]
    for value in range(1, 8):
        ann.set("k", value)
    watcher = node.agent("watcher")
    watcher.send("watch", prefix="", after=token)
    for value in range(8, 14):
        ann.write("set", key="k", value=pack(value))
        node.turn()
    settle(node)
    assert [value_of(event) for event in watcher.told()] == [*range(1, 14)]


def test_a_resumed_watch_does_not_lose_a_value_that_survived_a_delete(pair):
    """In the log the delete comes last; it did not take the concurrent value with it, and must not look as if."""
    a, b = pair["a"].agent("ann"), pair["b"].agent("bob")
    start = a.set("k", 1)["token"]
    pair.run(2)
    pair.wires[0].close()
    pair.sync()
    seen = a.version("k")
    b.set("k", 2, seen="?")
    a.delete("k", seen=seen)
    pair.link("a", "b")
    pair.run(3)
    for machine in pair.machines.values():
        events = watch(machine, after=start).told()
        assert events[-1]["event"] != "delete", (machine.name, brief(events))


def test_a_resumed_watch_is_not_told_of_a_key_what_came_before_its_state(pair):
    """The state is that in memory, with the commit under way; what the log tells later of that commit is old news."""
    a, b = pair["a"].agent("ann"), pair["b"].agent("bob")
    after = a.set("start", 0)["token"]
    pair.run(2)
    pair.wires[0].close()
    seen = a.set("k", 1)["version"]
    b.set("k", 2, seen="?")
    b.append("log", 1)
    pair.link("a", "b")
    pair.run(3)
    watcher = pair["a"].agent("watcher")
    watcher.send("watch", prefix="", after=after)
    first = a.write("set", key="k", value=pack(3), seen="?")
    second = a.write("set", key="k", value=pack(4), seen=seen)
    a.write("append", key="log", value=pack(2))
    settle(pair["a"])
    assert a.result(first)["siblings"]  # k is a conflict: its state is told
    assert a.result(second)["siblings"]
    told = [value_of(event) for event in watcher.told() if event["key"] == "k"]
    assert told[-1] == 4
    assert 3 not in told[told.index(4) :]


# -- slow watchers ---------------------------------------------------------------------------------------------------


def test_what_comes_while_keys_are_told_anew_is_told_whole(node, monkeypatch):
    """Else an append would hide in the newest state of its log."""
    monkeypatch.setattr(change_watch, "SLICE_KEYS_MAX", 1)
    ann, bob = node.agent("ann"), node.agent("bob")
    after = ann.set("start", 0)["token"]
    for key in ("k1", "k2", "k3"):
        ann.set(key, 1)
        bob.set(key, 2, seen="?")
    watcher = node.agent("watcher")
    watcher.send("watch", prefix="", after=after)
    node.turn()
    for number in range(4):
        ann.write("append", key="log", value=pack(number))
        node.turn()
    settle(node)
    told = watcher.told()
    assert [value_of(event) for event in told if event["key"] == "log"] == [0, 1, 2, 3]
    assert {event["key"] for event in told if event["op"] == "state"} == {"k1", "k2", "k3"}
    again = watch(node, after=told[-1]["token"])
    assert again.told() == []


def test_a_slow_watcher_gets_the_newest_state_of_each_key_and_is_told_that_it_lagged(node):
    ann = node.agent("ann")
    ann.set("gone", 0)
    watcher = watch(node)
    watcher.told()
    watcher.flow(blocked=True)
    for value in range(10):
        ann.set("k", value)
    ann.set("j", 1)
    ann.delete("gone")
    assert watcher.told() == []
    watcher.flow(blocked=False)
    settle(node)
    told = watcher.told()
    assert brief(told) == [("lagged", None, None), ("set", "k", 9), ("set", "j", 1), ("delete", "gone", None)]
    assert told[-1]["token"]
    ann.set("k", "live")
    assert brief(watcher.told()) == [("set", "k", "live")]


def moments(events):
    """What a watcher holds of each key at every token."""
    held = {}
    for event in events:
        for part in event.get("events") or [event]:
            if part["event"] in ("set", "snapshot") and part["key"] is not None:
                held[part["key"]] = value_of(part)
        if event["token"] is not None:
            yield dict(held)


def fill(session, number, keys="abcde"):
    session.write("batch", ops=[["set", {"key": key, "value": pack(number)}] for key in keys])


def test_at_each_token_batches_are_whole_also_for_a_slow_watcher(node, monkeypatch):
    monkeypatch.setattr(change_watch, "SLICE_KEYS_MAX", 2)
    ann, slow = node.agent("ann"), watch(node)
    slow.told()
    slow.flow(True)
    for number in range(3):
        fill(ann, number)
        node.turn()
    slow.flow(False)
    for number in range(3, 9):
        node.turn()
        if number % 2:
            fill(ann, number)
    settle(node)
    told = slow.told()
    assert [event["token"] is None for event in told[:3]] == [True] * 3, "half of what it had missed"
    seen = [{*moment.values()} for moment in moments(told) if moment]
    assert seen
    assert all(len(values) == 1 for values in seen)
    assert seen[-1] == {7}


def test_nor_is_a_key_told_with_a_token_that_is_ahead_of_the_log(node):
    """The counter's value, which the log does not tell, is that after the batch under way, whose rest comes next."""
    ann = node.agent("ann")
    token = ann.ask("scan")["token"]
    ann.do("incr", key="c")
    watcher = node.agent("watcher")
    watcher.send("watch", prefix="", after=token)
    ann.write("batch", ops=[["incr", {"key": "c"}], ["set", {"key": "d", "value": pack(2)}]])
    settle(node)
    told = watcher.told()
    assert [*moments(told)] == [{"c": 2, "d": 2}]


def test_what_waits_for_a_slow_watcher_is_bounded(node, monkeypatch):
    """Beyond the bound it starts over: with a reset, or it would keep what has been deleted meanwhile."""
    monkeypatch.setattr(change_watch, "DIRTY_KEYS_MAX", 3)
    ann = node.agent("ann")
    ann.set("gone", 0)
    watcher = watch(node)
    watcher.told()
    watcher.flow(blocked=True)
    ann.delete("gone")
    for n in range(10):
        ann.set(f"k{n}", n)
    assert len(next(iter(node.node.dispatcher.watches.changes.behind)).dirty) <= 4
    watcher.flow(blocked=False)
    settle(node)
    told = brief(watcher.told())
    assert told[0][0] == "reset", told
    assert told[1:] == [*[("snapshot", f"k{n}", n) for n in range(10)], ("snapshot", None, None)]


def test_what_waits_for_many_slow_watchers_is_bounded_in_all(node, monkeypatch):
    monkeypatch.setattr(scheduler, "DIRTY_KEYS_TOTAL_MAX", 12)
    ann = node.agent("ann")
    slow = [watch(node) for _ in range(4)]
    for watcher in slow:
        watcher.told()
        watcher.flow(blocked=True)
    ann.set("k0", 0)
    ann.set("k1", 1)
    behind = node.node.dispatcher.watches.changes.behind
    assert sum(len(watcher.dirty) for watcher in behind) == 8, "a few are remembered"
    for n in range(2, 20):
        ann.set(f"k{n}", n)
        assert sum(len(watcher.dirty) for watcher in behind) <= 12
    for watcher in slow:
        watcher.flow(blocked=False)
    settle(node)
    for watcher in slow:
        told = brief(watcher.told())
        assert told[0][0] == "reset"
        assert {key: value for _, key, value in told[1:-1]} == {f"k{n}": n for n in range(20)}


def test_other_watchers_of_the_same_connection_share_its_fate_and_other_connections_do_not(node):
    ann = node.agent("ann")
    slow, fast = watch(node), watch(node)
    slow.told()
    fast.told()
    slow.flow(blocked=True)
    ann.set("k", 1)
    assert slow.told() == []
    assert brief(fast.told()) == [("set", "k", 1)]


def test_changes_during_a_long_snapshot_are_not_lost(node, monkeypatch):
    monkeypatch.setattr(change_watch, "SLICE_KEYS_MAX", 2)
    ann = node.agent("ann")
    for n in range(6):
        ann.set(f"k{n}", "old")
    watcher = node.agent("watcher")
    watcher.send("watch", prefix="")
    node.turn()
    ann.write("set", key="k0", value=pack("new"))  # behind the snapshot's place
    ann.write("set", key="k5", value=pack("new"))  # before it
    ann.write("delete", key="k1")
    settle(node)
    mirror = {}
    for event, key, value in brief(watcher.told()):
        if event == "delete":
            del mirror[key]
        elif key is not None:
            mirror[key] = value
    assert mirror == {"k0": "new", "k2": "old", "k3": "old", "k4": "old", "k5": "new"}


def test_a_snapshot_costs_many_small_turns(node, monkeypatch):
    monkeypatch.setattr(change_watch, "SLICE_KEYS_MAX", 3)
    ann = node.agent("ann")
    for n in range(10):
        ann.set(f"k{n}", n)
    watcher = node.agent("watcher")
    watcher.send("watch", prefix="")
    sizes = []
    while True:
        node.turn()
        sizes.append(len(watcher.told()))
        if not node.node.dispatcher.watches.has_more():
            break
    assert max(sizes) <= 4
    assert sum(sizes) == 11


def test_a_failed_commit_starts_every_watch_over(node):
    ann = node.agent("ann")
    ann.set("k", 1)
    watcher = watch(node)
    watcher.told()
    ann.write("set", key="k", value=pack(2))
    node.refuse(NoSpace("full"))
    settle(node)
    assert brief(watcher.told()) == [("reset", None, None), ("snapshot", "k", 1), ("snapshot", None, None)]
    ann.set("k", 3)
    assert brief(watcher.told()) == [("set", "k", 3)]


# -- hostile and odd -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [pack(5), b"\xc1", pack([None, "no bytes"]), pack([[1, 2], b""]), pack([None, b"\xff"])]
)
def test_a_strange_text_from_a_peer_does_not_stop_the_watchers(apart, value):
    """It is a valid change, whatever its value holds, and this node's agents must not suffer from it."""
    a = apart["a"]
    watcher = watch(a)
    ann = a.agent()
    change = CODEC.encode(
        Change(
            77,
            1,
            (),
            bytes(16),
            apart.now.wall_ms << 16,
            "x",
            None,
            (Op("t", None, Kind.TEXT, value, value_hash(value), (), None),),
            ("n", "n"),
        )
    )
    Stranger(a).send(change)
    assert a.replica.vector[77] == 1
    settle(a)
    with pytest.raises(Refusal, match="does not hold the text 't'"):
        ann.ask("entry", key="t")
    ann.ask("scan", prefix="")
    ann.set("k", 1)
    assert ("set", "k", 1) in brief(watcher.told())
    watch(a)
    watch(a, after=ann.set("j", 1)["token"])
    a.restart()
    again = a.agent()
    assert again.get("k") == 1
    again.delete("t")


def test_a_log_and_a_register_in_conflict_with_a_huge_log(pair, monkeypatch):
    """What is too large for an event must not break the turn that tells it."""
    from crdtsync.core.kinds import base as rules

    monkeypatch.setattr(rules, "CHANGE_BYTES_MAX", 100)
    wire = pair.wires[0]
    wire.close()
    pair.sync()
    watcher = watch(pair["b"])
    ann, bob = pair["a"].agent(), pair["b"].agent()
    for _ in range(20):
        ann.append("k", "x" * 20)
    bob.set("k", 1)
    pair.link("a", "b")
    pair.run(3)
    assert {event["event"] for event in watcher.told()} & {"conflict", "set"}
    assert pair["b"].replica.vector == pair["a"].replica.vector


def test_what_one_turn_does_to_a_key_is_never_told_backwards(node):
    """The outcome of a resolution is told as it is at the end of the turn, and then no value of before that."""
    ann = node.agent("ann")
    ann.set("k", 1)
    ann.set("k", 2, seen="?")
    watcher = watch(node)
    watcher.told()
    ann.write("resolve", key="k", value=pack(3))
    ann.write("set", key="k", value=pack(4))
    ann.write("set", key="k", value=pack(5))
    node.turn()
    values = [value_of(event) for event in watcher.told()]
    assert values == sorted(values), "told backwards"
    assert values[-1] == 5


def test_nor_is_a_part_told_again_after_the_whole(node):
    ann = node.agent("ann")
    for number in range(3):
        ann.do("add", key="s", value=pack(number))
    watcher = watch(node)
    watcher.told()
    ann.write("discard", key="s", value=pack(1))
    ann.write("add", key="s", value=pack(1))
    ann.write("add", key="s", value=pack(7))
    node.turn()
    told = watcher.told()
    assert [event["op"] for event in told] == ["state", "state", "state"]
    assert all(value_of(event) == [0, 2, 1, 7] for event in told)


@pytest.mark.parametrize("states", [False, True])
def test_a_watch_that_goes_on_from_a_space_that_was_dropped_says_that_it_starts_over(node, states):
    ann = node.agent()
    ann.ask("space_create", name="team")
    token = ann.set("k", 1, space="team")["token"]
    ann.ask("space_drop", name="team")
    ann.ask("space_create", name="team")
    ann.set("k", 2, space="team")
    ann.send("watch", prefix="", space="team", after=token, states=states)
    node.turn()
    assert [event["event"] for event in ann.told()][:1] == ["reset"]
