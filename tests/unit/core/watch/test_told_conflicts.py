"""Watchers are told of conflicts as such, however slow they are, in events that fit into a frame."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.core.watch import event_size
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX
from tests.fleet.agent import Agent
from tests.fleet.host import Host
from tests.unit.core.watch.test_change_watch import brief, settle, value_of, watch


def conflict(node: Host, key: str, *values: object) -> Agent:
    ann = node.agent("ann")
    for value in values:
        ann.set(key, value, seen="?")
    return ann


def values_told(event: dict[str, Any]) -> list[Any]:
    return [None if one["value"] is None else unpack(one["value"]) for one in (event, *event["siblings"])]


@pytest.mark.parametrize("slow", ["lagged", "resumed"])
def test_a_conflict_that_arose_while_nobody_looked_is_told_as_one(node: Host, slow: str) -> None:
    """All that a live one has, so that one piece of code handles both."""
    ann = conflict(node, "k", 1)
    watcher, live = watch(node), watch(node)
    token = watcher.told()[-1]["token"]
    watcher.flow(blocked=True)
    conflict(node, "k", 2)
    (wanted,) = [event for event in live.told() if event["event"] == "conflict"]
    if slow == "lagged":
        watcher.flow(blocked=False)
        settle(node)
    else:
        watcher = watch(node, after=token)
    event = watcher.told()[-1]
    assert (event["event"], event["op"]) == ("conflict", "state")
    without = ("op", "token")
    assert {**event, **dict.fromkeys(without)} == {**wanted, **dict.fromkeys(without)}
    ann.set("k", 3, seen=event["version"])
    assert ann.values("k") == [3]


def test_in_a_snapshot_the_siblings_are_told_too(node: Host) -> None:
    """With what each had seen, as anywhere."""
    conflict(node, "k", 1, 2)
    (event, _) = watch(node).told()
    assert event["event"] == "snapshot"
    assert values_told(event) == [2, 1]
    assert event["seen"] == []
    assert event["siblings"][0]["seen"] == []


@pytest.mark.parametrize("how", ["live", "lagged", "snapshot"])
def test_many_large_siblings_fit_into_one_event(node: Host, how: str) -> None:
    """The first ones come with their values. The version covers those alone: nobody overwrites the rest unseen."""
    watcher = watch(node)
    watcher.told()
    if how != "live":
        watcher.flow(blocked=True)
    large = [f"{n}" * 1_000_000 for n in range(9)]
    ann = conflict(node, "k", *large)
    if how == "lagged":
        watcher.flow(blocked=False)
        settle(node)
    if how == "snapshot":
        watcher = watch(node)
    event = next(event for event in reversed(watcher.told()) if event["key"] == "k")
    told = values_told(event)
    whole = [value for value in told if value is not None]
    assert whole == large[::-1][: len(whole)]
    assert 4 <= len(whole) < 9
    assert [one.get("cut", False) for one in event["siblings"]] == [value is None for value in told[1:]]
    assert len(told) == 9
    assert len(pack(event)) < AGENT_FRAME_BYTES_MAX
    ann.set("k", "mine", seen=event["version"])
    assert set(ann.values("k")) == {"mine", *large[: 9 - len(whole)]}


def test_what_is_said_about_siblings_is_bounded_too(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that do not fit even without a value are counted."""
    ann = node.agent("ann")
    for n in range(9):
        ann.set("k", n, seen="?", meta=pack("m" * 1000))
    monkeypatch.setattr(event_size, "CONFLICT_BYTES_MAX", 5000)
    (event, _) = watch(node).told()
    assert len(pack(event)) < 5500
    assert 0 < event["more"] < 8
    assert event["more"] + len(event["siblings"]) == 8
    assert event["siblings"][0]["meta"] is not None
    assert event["siblings"][-1]["meta"] is None


def test_a_batch_on_keys_with_many_siblings_fits_into_one_event(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the batch wrote itself is told; the conflicts that it met are told without their values."""
    keys = [f"k{n}" for n in range(4)]
    for key in keys:
        conflict(node, key, *("x" * 1000 for _ in range(4)))
    monkeypatch.setattr(event_size, "BATCH_BYTES_MAX", 8000)
    watcher = watch(node)
    watcher.told()
    ops = [["set", {"key": key, "value": pack("new"), "seen": "?"}] for key in keys]
    ops += [["append", {"key": "log", "value": pack("y" * 1000)}]]
    node.agent("bob").do("batch", ops=ops)
    (batch,) = watcher.told()
    assert len(pack(batch)) < 8500
    assert [event["key"] for event in batch["events"]] == [*keys, "log"]
    assert value_of(batch["events"][-1]) == "y" * 1000
    cut = [event for event in batch["events"] if event.get("cut")]
    assert cut
    assert all(event["event"] == "conflict" for event in cut)
    assert all(event["more"] == 4 and event["version"] is None and not event["siblings"] for event in cut)


def test_a_value_that_is_too_large_for_an_event_is_marked(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not null."""
    from crdtsync.core.kinds import base

    ann = node.agent("ann")
    for _ in range(20):
        ann.append("k", "x" * 20)
    ann.set("null", None)
    monkeypatch.setattr(base, "CHANGE_BYTES_MAX", 100)
    large, null, _ = watch(node).told()
    assert (brief([large]), large["cut"]) == ([("snapshot", "k", None)], True)
    assert "cut" not in null
