"""Watchers of keys whose winner changes with a schema are told, however it comes: late, in a snapshot, in the log."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.core.watch import change_watch
from crdtsync.errors import NoSpace
from crdtsync.wire.codec import pack, unpack
from tests.fleet.agent import Agent, Refusal
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host
from tests.fleet.snapshots import events, trim
from tests.unit.core.watch.test_state_watch import Copy


def watch(machine: Host, prefix: str = "", after: str | None = None) -> Agent:
    session = machine.agent("watcher")
    session.ask("watch", prefix=prefix, after=after)
    settle(machine)
    return session


def settle(machine: Host) -> None:
    """Turns until the watches have nothing more to say."""
    for _ in range(100):
        machine.turn()
        if not machine.node.dispatcher.watches.has_more():
            return
    raise AssertionError("the watches never come to rest")


def brief(told_events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """``(event, key, the values, the first one first)`` of each."""
    told = []
    for event in told_events:
        parts = [part for part in (event, *event.get("siblings", ())) if part.get("value") is not None]
        told.append((event["event"], event["key"], [unpack(part["value"]) for part in parts]))
    return told


def make_conflict(machine: Host, *keys: str) -> None:
    """5, then 9, then 7, none of which had seen another."""
    ann = machine.agent("ann")
    for key in keys:
        for value in (5, 9, 7):
            ann.set(key, value, seen="?")


def declare(machine: Host, pattern: str, policy: str | None) -> str:
    """Set a schema, or remove it; the token."""
    what: dict[str, Any] = {"remove": True} if policy is None else {"policy": policy}
    token = machine.agent("admin").do("schema_set", pattern=pattern, **what)["token"]
    assert isinstance(token, str)
    return token


@pytest.fixture
def ready(node: Host) -> Host:
    """A node with two conflicts, and a key and a log without."""
    make_conflict(node, "k/1", "other")
    ann = node.agent("ann")
    ann.set("k/plain", 1)
    for n in range(3):
        ann.append("k/log", n)
    return node


def test_a_conflict_is_told_in_the_order_of_the_policy(ready: Host) -> None:
    """And by which policy that is."""
    declare(ready, "**", "max")
    watcher = watch(ready, "k/1")
    (state, _) = watcher.told()
    assert brief([state]) == [("snapshot", "k/1", [9, 7, 5])]
    assert state["policy"] == "max"
    ready.agent("bob").set("k/1", 6, seen="?")
    (event,) = watcher.told()
    assert brief([event]) == [("conflict", "k/1", [9, 7, 6, 5])]
    assert event["policy"] == "max"
    assert event["dot"] == ready.agent().ask("entry", key="k/1")["dot"]


@pytest.mark.parametrize("pattern", ["k/1", "k/*", "**"])
def test_a_schema_that_comes_after_the_data_tells_the_watchers_of_what_it_concerns(ready: Host, pattern: str) -> None:
    """Those keys alone that have something to rank, and nobody lags for it."""
    watcher = watch(ready, "k/")
    watcher.told()
    declare(ready, pattern, "max")
    settle(ready)
    told = watcher.told()
    assert brief(told) == [("conflict", "k/1", [9, 7, 5])]
    assert (told[0]["op"], told[0]["policy"]) == ("state", "max")
    declare(ready, pattern, None)
    settle(ready)
    assert brief(watcher.told()) == [("conflict", "k/1", [7, 9, 5])]


def test_a_schema_of_other_keys_tells_nothing(ready: Host) -> None:
    """Nor does one that is set again."""
    watcher = watch(ready, "k/")
    watcher.told()
    declare(ready, "other", "max")
    declare(ready, "nothing/here", "max")
    settle(ready)
    assert watcher.told() == []


@pytest.mark.parametrize(
    "before, now, is_told",
    [
        (None, "lww", False),
        ("lww", "all", True),  # a list from now on
        ("all", "manual", True),  # a refusal
        ("max", "first", True),  # another winner
        ("min", "first", False),  # the same one, of other siblings the order alone
        ("max", "max", False),
        ("min", None, True),
    ],
)
def test_nobody_is_woken_for_a_schema_that_changes_nothing_for_readers(
    ready: Host, before: str | None, now: str | None, is_told: bool
) -> None:
    """A copy shows whole entries, and is told of another order, too. 5, 9, 7 were written in this order."""
    if before is not None:
        declare(ready, "k/*", before)
    watcher, copy = watch(ready, "k/"), Copy(ready, "k/")
    watcher.told(), copy.told()
    declare(ready, "k/*", now)
    settle(ready)
    assert [event["key"] for event in watcher.told()] == (["k/1"] if is_told else [])
    assert ("state", "k/1") in copy.told() or before == now or (before, now) == (None, "lww")
    if now != "manual":
        copy.check()


def test_of_many_schemas_those_alone_count_that_apply(ready: Host) -> None:
    """A key that has one of its own does not look at the others."""
    declare(ready, "k/1", "min")
    watcher = watch(ready)
    watcher.told()
    declare(ready, "**", "max")
    settle(ready)
    assert brief(watcher.told()) == [("conflict", "other", [9, 7, 5])]


def test_reserved_keys_are_told_to_those_who_ask_for_them(ready: Host) -> None:
    """Live, in the snapshot, and from the log."""
    before = ready.agent("ann").set("x", 1)["token"]
    everything, reserved = watch(ready), watch(ready, "_schema/")
    everything.told(), reserved.told()
    declare(ready, "nothing/here", "max")
    settle(ready)
    assert everything.told() == []
    assert brief(reserved.told()) == [("set", "_schema/nothing/here", [{"policy": "max", "refuse_lower": False}])]
    for after in (None, before):
        assert all(not str(event["key"]).startswith("_") for event in watch(ready, "", after).told())
        keys = [event["key"] for event in watch(ready, "_", after).told()]
        assert keys[:1] == ["_schema/nothing/here"]


def test_a_schema_from_a_peer_tells_too(pair: Fleet) -> None:
    """The watcher's node had the data long before."""
    make_conflict(pair["a"], "k")
    pair.sync()
    watcher = watch(pair["b"])
    assert brief(watcher.told()[:1]) == [("snapshot", "k", [7, 9, 5])]
    declare(pair["a"], "k", "min")
    pair.sync()
    settle(pair["b"])
    assert brief(watcher.told()) == [("conflict", "k", [5, 7, 9])]


def test_a_schema_in_a_snapshot_tells_too(apart: Fleet) -> None:
    """The peer's log no longer holds it as a change."""
    make_conflict(apart["a"], "k")
    wire = apart.link("a", "b")
    apart.sync()
    wire.close()
    apart.run(2)
    watcher = watch(apart["b"])
    watcher.told()
    declare(apart["a"], "k", "max")
    trim(apart["a"])
    apart.link("b", "a")
    apart.run(1)
    settle(apart["b"])
    assert len(events(apart["b"], "snapshot_taken")) == 1
    assert brief(watcher.told()) == [("conflict", "k", [9, 7, 5])]


def test_who_comes_back_is_told_what_a_schema_has_changed_meanwhile(ready: Host) -> None:
    """No change of the log says so of the key."""
    first = watch(ready, "k/")
    token = first.told()[-1]["token"]
    first.close()
    declare(ready, "k/*", "max")
    again = watch(ready, "k/", token)
    assert brief(again.told()) == [("conflict", "k/1", [9, 7, 5])]
    after = ready.agent("ann").set("k/plain", 2)["token"]
    assert brief(watch(ready, "k/", after).told()) == []


def test_a_slow_watcher_is_told_when_it_can_be(ready: Host) -> None:
    """As of whatever else it missed."""
    watcher = watch(ready, "k/")
    watcher.told()
    watcher.flow(blocked=True)
    declare(ready, "k/1", "max")
    settle(ready)
    assert watcher.told() == []
    watcher.flow(blocked=False)
    settle(ready)
    assert ("conflict", "k/1", [9, 7, 5]) in brief(watcher.told())


def test_too_many_keys_at_once_start_the_watcher_over(ready: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for it stays bounded."""
    monkeypatch.setattr(change_watch, "RETOLD_KEYS_MAX", 1)
    make_conflict(ready, "k/2")
    watcher = watch(ready, "k/")
    watcher.told()
    declare(ready, "**", "max")
    settle(ready)
    told = brief(watcher.told())
    assert told[0] == ("reset", None, [])
    assert ("snapshot", "k/1", [9, 7, 5]) in told


def test_schemas_are_there_after_a_restart_and_after_a_failed_commit(ready: Host) -> None:
    """And one that never got to the disk is not."""
    declare(ready, "k/1", "max")
    ready.restart()
    assert ready.agent().values("k/1") == [9, 7, 5]
    bob = ready.agent("bob")
    bob.write("schema_set", pattern="k/1", policy="min")
    ready.refuse(NoSpace("full"))
    assert ready.agent().values("k/1") == [9, 7, 5]
    watcher = watch(ready, "k/")
    watcher.told()
    ready.agent("ann").set("k/plain", 3)
    settle(ready)
    assert [event["key"] for event in watcher.told()] == ["k/plain"]


def test_a_refused_write_tells_what_is_there(node: Host) -> None:
    """Over the wire: the code, the current value, and the schema that says so."""
    node.agent("admin").do("schema_set", pattern="best/*", policy="max", refuse_lower=True)
    ann = node.agent("ann")
    ann.set("best/price", 5)
    with pytest.raises(Refusal) as refusal:
        ann.set("best/price", 4)
    fields = refusal.value.fields
    assert (fields["code"], fields["policy"], fields["pattern"]) == ("ranks_lower", "max", "best/*")
    assert fields["current"]["value"] == pack(5)


def test_an_unresolved_read_has_no_values_if_those_do_not_fit(node: Host) -> None:
    """A reply has a limit; conflicts lists them page by page."""
    node.agent("admin").do("schema_set", pattern="k", policy="manual")
    ann = node.agent("ann")
    for n in range(9):
        ann.set("k", f"{n}" * 1_000_000, seen="?")
    with pytest.raises(Refusal) as refusal:
        ann.get("k")
    assert refusal.value.fields["current"] is None


def test_the_state_of_three_nodes_cut_off_from_each_other(apart: Fleet) -> None:
    """Each with a schema of its own for one pattern: the newest one applies on all."""
    for late, (name, policy, value) in enumerate((("a", "min", 5), ("b", "first", 9), ("c", "max", 7))):
        apart.pass_time(0.01 * late)
        apart[name].agent().set("k", value)
        declare(apart[name], "k", policy)
    for pair in ("ab", "bc"):
        apart.link(*pair)
    apart.run(3)
    assert [machine.agent().values("k") for machine in apart.machines.values()] == [[9, 7, 5]] * 3
