"""What watchers are told of each kind: live, from the log, and as a state."""

from __future__ import annotations

from typing import Any

import pytest
from pycrdt import Doc, Text

from crdtsync.causality import Hlc, Writer
from crdtsync.core.watch import change_watch
from crdtsync.wire.change import Change, Op, value_hash
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from tests.fleet.agent import Agent
from tests.fleet.clock import START_MS
from tests.fleet.fleet import CODEC, Fleet
from tests.fleet.stranger import Stranger
from tests.unit.core.watch.test_change_watch import settle, watch

Told = tuple[Any, ...]


def story(events: list[dict[str, Any]]) -> list[Told]:
    """``(event, op, key, value)`` of each; a batch as ``("batch", [...])``; siblings' values at the end."""
    told: list[Told] = []
    for event in events:
        if event["event"] == "batch":
            told.append(("batch", story(event["events"])))
            continue
        value = None if event["value"] is None else unpack(event["value"])
        others = [(part.get("field"), unpack(part["value"])) for part in event.get("siblings", ())]
        told.append((event["event"], event["op"], event["key"], value, *([others] if others else [])))
    return told


def part(fleet: Fleet) -> None:
    for wire in list(fleet.wires):
        wire.close()
    fleet.sync()


def join(fleet: Fleet) -> None:
    fleet.link("a", "b")
    fleet.run(3)


def merge(session: Agent, key: str, **fields: object) -> Any:
    seen = session.ask("get", key=key)
    args = {} if seen is None else {"seen": seen["version"]}
    return session.do("merge", key=key, fields={name: pack(value) for name, value in fields.items()}, **args)


ACTS: dict[str, tuple[list[tuple[str, dict[str, Any]]], list[Told], list[Told]]] = {
    "counter": (
        [("incr", {"by": 3}), ("incr", {"by": -1}), ("reset", {}), ("incr", {})],
        [("set", "incr", "k", 3), ("set", "incr", "k", 2), ("set", "reset", "k", 0), ("set", "incr", "k", 1)],
        [("set", "state", "k", 1)],
    ),
    "set": (
        [("add", {"value": pack("x")}), ("add", {"value": pack([1, "y"])}), ("discard", {"value": pack("x")})],
        [("set", "add", "k", "x"), ("set", "add", "k", [1, "y"]), ("set", "discard", "k", "x")],
        [("set", "add", "k", "x"), ("set", "add", "k", [1, "y"]), ("set", "discard", "k", "x")],
    ),
    "set, to the last element": (
        [("add", {"value": pack("x")}), ("discard", {"value": pack("x")})],
        [("set", "add", "k", "x"), ("delete", "discard", "k", "x")],
        [("set", "add", "k", "x"), ("set", "discard", "k", "x"), ("delete", "delete", "k", None)],
    ),
    "set with a long element": (
        [("add", {"value": pack("x" * 300)}), ("add", {"value": pack("y")}), ("discard", {"value": pack("x" * 300)})],
        [("set", "add", "k", "x" * 300), ("set", "add", "k", "y"), ("set", "discard", "k", "x" * 300)],
        [("set", "add", "k", "x" * 300), ("set", "add", "k", "y"), ("set", "discard", "k", None)],
    ),
    "map": (
        [
            ("merge", {"fields": {"f": pack(1), "g": pack(2)}}),
            ("merge", {"fields": {"f": pack(3)}}),
            ("drop", {"field": "g"}),
        ],
        [("set", "merge", "k", {"f": 1, "g": 2}), ("set", "merge", "k", {"f": 3}), ("set", "drop", "k", "g")],
        [("set", "merge", "k", {"f": 1, "g": 2}), ("set", "merge", "k", {"f": 3}), ("set", "drop", "k", "g")],
    ),
    "map, to the last field": (
        [("merge", {"fields": {"f": pack(1)}}), ("drop", {"field": "f"})],
        [("set", "merge", "k", {"f": 1}), ("delete", "drop", "k", "f")],
        [("set", "merge", "k", {"f": 1}), ("set", "drop", "k", "f"), ("delete", "delete", "k", None)],
    ),
    "log": (
        [("append", {"value": pack(1)}), ("append", {"value": pack(2)}), ("trim", {"keep": 1})],
        [("set", "append", "k", 1), ("set", "append", "k", 2), ("set", "trim", "k", None)],
        [("set", "append", "k", 1), ("set", "append", "k", 2), ("set", "trim", "k", None)],
    ),
}


@pytest.mark.parametrize("acts, live, past", ACTS.values(), ids=ACTS)
def test_every_operation_is_told(node, acts, live, past):
    ann = node.agent("ann")
    token = ann.set("start", 0)["token"]
    watcher = watch(node, "k")
    watcher.told()
    for name, args in acts:
        ann.do(name, key="k", **args)
    assert story(watcher.told()) == live
    resumed = watch(node, "k", after=token).told()
    assert story(resumed) == past
    again = watch(node, "k", after=resumed[-1]["token"])
    assert again.told() == []


def test_fields_of_one_merge_are_one_event_and_its_version_covers_them(node):
    ann = node.agent("ann")
    watcher = watch(node)
    watcher.told()
    merge(ann, "k", f=1, g=2)
    (event,) = watcher.told()
    merge_again = ann.do("merge", key="k", fields={"f": pack(3), "g": pack(4)}, seen=event["version"])
    assert merge_again["siblings"] == 0
    assert unpack(ann.ask("get", key="k")["value"]) == {"f": 3, "g": 4}


def test_a_batch_of_kinds_comes_whole(node):
    ann = node.agent("ann")
    token = ann.do("incr", key="c", by=1)["token"]
    watcher = watch(node)
    watcher.told()
    fields = {"f": pack(1), "g": pack(2)}
    ops = [
        ["merge", {"key": "m", "fields": fields}],
        ["incr", {"key": "c", "by": 2}],
        ["add", {"key": "s", "value": pack(5)}],
    ]
    ann.do("batch", ops=ops)
    told = [("set", "merge", "m", {"f": 1, "g": 2}), ("set", "incr", "c", 3), ("set", "add", "s", 5)]
    assert story(watcher.told()) == [("batch", told)]
    del told[1]
    assert story(watch(node, after=token).told()) == [("batch", told), ("set", "state", "c", 3)]


def test_a_snapshot_holds_every_kind(node):
    ann = node.agent("ann")
    ann.do("incr", key="c", by=2)
    ann.do("add", key="s", value=pack("x"))
    merge(ann, "m", f=1)
    assert story(watch(node).told()) == [
        ("snapshot", "state", "c", 2),
        ("snapshot", "state", "m", {"f": 1}),
        ("snapshot", "state", "s", ["x"]),
        ("snapshot", None, None, None),
    ]


def test_a_conflict_of_a_field_names_it(pair):
    a, b = pair["a"].agent("ann"), pair["b"].agent("bob")
    merge(a, "k", f=0, g=0)
    pair.run(2)
    start = a.ask("scan")["token"]
    part(pair)
    merge(a, "k", f=1)
    merge(b, "k", f=2)
    watcher = watch(pair["a"])
    watcher.told()
    join(pair)
    (event,) = watcher.told()
    mine = unpack(event["value"])["f"]
    assert story([event]) == [("conflict", "merge", "k", {"f": mine, "g": 0}, [("f", 3 - mine)])]
    resumed = story(watch(pair["a"], after=start).told())
    assert resumed[-1] == ("conflict", "state", "k", {"f": mine, "g": 0}, [("f", 3 - mine)])
    a.do("merge", key="k", fields={"f": pack(9)}, seen=event["version"])
    assert story(watcher.told()) == [("set", "merge", "k", {"f": 9})]


@pytest.mark.parametrize("operation", ["discard", "drop", "delete"])
def test_what_survives_a_removal_is_told_live_and_after_a_resume(pair, operation):
    """a removes what it saw, and b writes the same part anew at once."""
    a, b = pair["a"].agent("ann"), pair["b"].agent("bob")
    kind = "m" if operation == "drop" else "s"
    writes: dict[str, tuple[str, dict[str, Any]]] = {
        "s": ("add", {"value": pack("x")}),
        "m": ("merge", {"fields": {"x": pack(1)}}),
    }
    name, args = writes[kind]
    a.do(name, key="k", **args)
    pair.run(2)
    start = a.ask("scan")["token"]
    watchers = [watch(machine) for machine in pair.machines.values()]
    for watcher in watchers:
        watcher.told()
    part(pair)
    removals: dict[str, dict[str, Any]] = {"discard": {"value": pack("x")}, "drop": {"field": "x"}, "delete": {}}
    b.do(name, key="k", seen=b.version("k"), **args)
    a.do(operation, key="k", **removals[operation])
    join(pair)
    whole = unpack(a.ask("get", key="k")["value"])
    assert whole in (["x"], {"x": 1})
    for machine, watcher in zip(pair.machines.values(), watchers, strict=True):
        for told in (story(watcher.told()), story(watch(machine, after=start).told())):
            event, op, key, value = told[-1]
            assert (event, key) == ("set", "k")
            assert value == whole if op in ("state", "delete") else op == name, told


def test_counters_of_two_hosts(pair):
    a, b = pair["a"].agent("ann"), pair["b"].agent("bob")
    watchers = [watch(machine) for machine in pair.machines.values()]
    for watcher in watchers:
        watcher.told()
    part(pair)
    a.do("incr", key="c", by=5)
    b.do("incr", key="c", by=7)
    join(pair)
    for watcher in watchers:
        told = watcher.told()
        assert {event["event"] for event in told} == {"set"}
        assert unpack(told[-1]["value"]) == 12


@pytest.mark.parametrize("writes", [("set", "set"), ("append", "append"), ("incr", "append"), ("add", "merge")])
def test_a_resolution_is_told_as_the_whole_value(pair, writes):
    """Elements that are written anew must not look like new ones."""
    args: dict[str, dict[str, Any]] = {
        "set": {"value": pack(1)}, "append": {"value": pack(1)}, "incr": {}, "add": {"value": pack(1)},
        "merge": {"fields": {"f": pack(1)}},
    }  # fmt: skip
    a, b = pair["a"].agent("ann"), pair["b"].agent("bob")
    part(pair)
    for session, name in zip((a, b), writes, strict=True):
        session.do(name, key="k", **args[name])
    if writes == ("append", "append"):
        b.delete("k")
        b.set("k", 7)  # a register against a log
    join(pair)
    entry = a.ask("entry", key="k")
    assert len(entry["siblings"]) == 1
    start = a.ask("scan")["token"]
    watcher = watch(pair["b"])
    watcher.told()
    a.do("resolve", key="k", take=entry["siblings"][0]["dot"], seen=entry["version"])
    pair.run(2)
    value = unpack(entry["siblings"][0]["value"])
    assert unpack(b.ask("get", key="k")["value"]) == value
    assert story(watcher.told()) == [("set", "resolve", "k", value)]
    assert story(watch(pair["b"], after=start).told()) == [("set", "state", "k", value)]


def test_a_resolution_with_a_new_value(node):
    ann, bob = node.agent("ann"), node.agent("bob")
    ann.set("k", 1)
    bob.set("k", 2, seen="?")
    watcher = watch(node)
    watcher.told()
    ann.do("resolve", key="k", value=pack(3), seen=ann.ask("entry", key="k")["version"])
    assert story(watcher.told()) == [("set", "resolve", "k", 3)]


def test_an_append_after_a_removal_that_left_something_does_not_hide_it(pair):
    """What the deletion did not see lives on; that another element came later says nothing of it."""
    a, b = pair["a"].agent("ann"), pair["b"].agent("bob")
    a.append("k", "old")
    pair.run(2)
    start = a.ask("scan")["token"]
    part(pair)
    b.append("k", "beside")
    a.delete("k", seen=a.version("k"))
    join(pair)
    a.append("k", "after")
    pair.run(2)
    for machine in pair.machines.values():
        held: list[Any] = ["old"]
        for event, op, _, value in story(watch(machine, after=start).told()):
            held = [] if event == "delete" else [*value] if op == "state" else [*held, value]
        assert held == ["beside", "after"], machine.name


def test_a_compacted_text_is_told_as_a_whole(node):
    """Its document is another one: its updates mean nothing to who holds the old one."""
    doc: Doc[Text] = Doc()
    text = doc.get("text", type=Text)
    ann = node.agent("ann")
    for n in range(200):
        before = doc.get_state()
        text.insert(n // 2, "xyz")
        del text[n // 2 : n // 2 + 2]
        ann.do("text_apply", key="t", update=doc.get_update(before))
    start = ann.ask("scan")["token"]
    watcher = watch(node)
    watcher.told()
    done = ann.do("text_compact", key="t")
    assert done["bytes_after"] < done["bytes_before"]
    assert story(watcher.told()) == [("set", "compact", "t", "z" * 200)]
    assert story(watch(node, after=start).told()) == [("set", "state", "t", "z" * 200)]


def test_too_much_to_tell_anew_starts_over(node, monkeypatch):
    monkeypatch.setattr(change_watch, "DIRTY_KEYS_MAX", 3)
    ann = node.agent("ann")
    token = ann.set("start", 0)["token"]
    for n in range(5):
        ann.do("incr", key=f"c{n}")
    told = story(watch(node, after=token).told())
    assert told[0][0] == "reset"
    assert told[-1] == ("snapshot", None, None, None)
    assert len(told) == 8


def test_keys_are_told_anew_on_demand(node):
    """After a snapshot of a peer has changed them without any change in the log."""
    ann = node.agent("ann")
    for key in ("a/1", "a/2", "b/1"):
        ann.set(key, 1)
    watchers = [watch(node, prefix) for prefix in ("", "a/", "c/")]
    for watcher in watchers:
        watcher.told()
    node.node.dispatcher.watches.retell("default", ["a/1", "b/1", "gone"])
    settle(node)
    assert [story(watcher.told()) for watcher in watchers] == [
        [
            ("lagged", None, None, None),
            ("set", "state", "a/1", 1),
            ("set", "state", "b/1", 1),
            ("delete", "delete", "gone", None),
        ],
        [("lagged", None, None, None), ("set", "state", "a/1", 1)],
        [],
    ]


def test_a_watch_that_the_log_reaches_no_longer_starts_over(node):
    ann = node.agent("ann")
    token = ann.set("k", 1)["token"]
    ann.set("k", 2)
    node.replica.floor[node.replica.writer] = 2
    told = story(watch(node, after=token).told())
    assert [event[0] for event in told] == ["reset", "snapshot", "snapshot"]
    assert story(watch(node, after=ann.ask("scan")["token"]).told()) == []


def test_watches_find_each_their_keys(node):
    """Also prefixes of which one begins with another, of several lengths, and some that are alike."""
    ann = node.agent("ann")
    prefixes = ["", "a", "a/", "a/b", "a/b", "ab", "c/", "a/bc/d"]
    sessions = [watch(node, prefix) for prefix in prefixes]
    for session in sessions:
        session.told()
    keys = ["a", "a/", "a/b", "a/bc/d", "ab", "abc", "b", "c/1"]
    for key in keys:
        ann.set(key, 1)
    for prefix, session in zip(prefixes, sessions, strict=True):
        assert [event["key"] for event in session.told()] == [key for key in keys if key.startswith(prefix)], prefix
    for session in sessions[1:]:
        session.close()
    node.turn()
    assert len(node.node.dispatcher.watches) == 1
    ann.set("a/b", 2)
    assert [event["key"] for event in sessions[0].told()] == ["a/b"]


@pytest.mark.parametrize("kind", [Kind.COUNTER, Kind.SET, Kind.MAP, Kind.DOC, 99])
@pytest.mark.parametrize("sub", [None, "reset", "=", "=AAA", "=wQ", "#ff", "\ud7ff", "x" * 5000, "1.1.0"])
def test_strange_operations_of_a_peer_do_not_stop_the_watchers(apart, kind, sub):
    a = apart["a"]
    ann = a.agent("ann")
    watcher = watch(a)
    start = ann.set("start", 0)["token"]
    ops = tuple(
        Op(key, sub, kind, value, None if value is None else value_hash(value), (), None)
        for key, value in (("k", b"\xc1"), ("k", pack([1, 2])), ("l", pack(None)), ("l", None))
    )
    removal = Op("k", sub, kind, None, None, ((Writer(77), 1, 0),), None)  # type: ignore[arg-type]
    first = CODEC.encode(Change(Writer(77), 1, (), bytes(16), Hlc(START_MS << 16), "x", None, ops, ("n", "n")))
    second = CODEC.encode(Change(Writer(77), 2, (), first.hash, Hlc((START_MS << 16) + 1), "x", None, (removal,)))
    Stranger(a, node="n").send(first, second)
    assert a.replica.vector[Writer(77)] == 2
    settle(a)
    ann.set("other", 1)
    told = story([event for event in watcher.told() if event["key"] == "other"])
    assert told == [("set", "set", "other", 1)]
    watch(a)
    watch(a, after=start)
    a.restart()
    assert a.agent().get("other") == 1
