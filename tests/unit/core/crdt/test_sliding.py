"""A value with a sliding time to live lives on when it is read, on any host, and no read brings an old value back."""

from __future__ import annotations

import pytest

from crdtsync.core.crdt import sliding
from crdtsync.core.crdt.sliding import KEPT_PREFIX
from crdtsync.wire.limits import KEY_BYTES_MAX
from tests.fleet.agent import Refusal
from tests.fleet.fleet import Fleet
from tests.unit.core.crdt.test_expiry import part
from tests.unit.core.watch.test_change_watch import brief, watch

TTL_MS = 10_000


@pytest.fixture
def sliding_trio(trio: Fleet) -> Fleet:
    """Three hosts on which values under ``memory/`` live for ten seconds after they were read."""
    trio["a"].agent("admin").do("schema_set", pattern="memory/**", policy="lww", ttl=TTL_MS, sliding=True)
    trio.run(1)
    return trio


def kept(fleet: Fleet, name: str) -> list[str]:
    """What a host holds to keep keys alive."""
    return [entry.key for entry in fleet[name].replica.entries.all() if entry.key.startswith(KEPT_PREFIX)]


def test_what_is_read_on_any_host_lives_on_everywhere_until_nobody_reads_it(sliding_trio: Fleet):
    ann, bob, watcher = (sliding_trio[name].agent(name) for name in "abc")
    told = watch(sliding_trio["c"])
    ann.set("memory/k", 1)
    for _ in range(5):
        sliding_trio.run(8)
        assert bob.get("memory/k") == 1
    assert watcher.get("memory/k") == 1
    assert bob.ask("entry", key="memory/k")["siblings"] == []
    sliding_trio.run(20)
    assert [agent.get("memory/k") for agent in (ann, bob, watcher)] == [None] * 3
    assert [event[0] for event in brief(told.told())] == ["snapshot", "set", "expired"]
    assert all(not machine.replica.entries.held("memory/k") for machine in sliding_trio.machines.values())
    assert [kept(sliding_trio, name) for name in "abc"] == [[]] * 3


def test_a_read_with_more_than_half_of_the_time_left_writes_nothing(sliding_trio: Fleet):
    ann = sliding_trio["a"].agent("ann")
    ann.set("memory/k", 1)
    sliding_trio.run(4)
    position = sliding_trio["a"].replica.position
    assert ann.get("memory/k") == 1
    assert ann.ask("scan", prefix="memory/", values=True)["items"]
    sliding_trio.run(2)
    ann.ask("scan", prefix="memory/", values=True)
    sliding_trio.run(0.5)
    assert sliding_trio["a"].replica.position == position, "a listing keeps nothing"
    ann.get("memory/k")
    sliding_trio.run(0.5)
    assert sliding_trio["a"].replica.position == position + 1


def test_a_read_that_names_a_key_often_keeps_it_once(sliding_trio: Fleet):
    ann = sliding_trio["a"].agent("ann")
    ann.set("memory/k", 1)
    sliding_trio.run(7)
    ann.ask("get_many", keys=["memory/k"] * 3)
    assert kept(sliding_trio, "a") == [KEPT_PREFIX + "memory/k"]


def test_two_who_read_at_once_leave_one_value(sliding_trio: Fleet):
    ann, bob = (sliding_trio[name].agent(name) for name in "ab")
    ann.set("memory/k", 1)
    sliding_trio.run(7)
    assert [agent.get("memory/k") for agent in (ann, bob)] == [1, 1]
    sliding_trio.run(7)
    assert ann.get("memory/k") == 1
    assert ann.values("memory/k") == [1]
    sliding_trio.run(20)
    assert [kept(sliding_trio, name) for name in "abc"] == [[]] * 3


def test_a_read_beside_a_write_elsewhere_does_not_bring_the_old_value_back(sliding_trio: Fleet):
    ann, bob = (sliding_trio[name].agent(name) for name in "ab")
    ann.set("memory/k", "old")
    sliding_trio.run(7)
    part(sliding_trio, "b")
    ann.set("memory/k", "new")
    ann.set("memory/gone", 1)
    sliding_trio.run(1)
    assert bob.get("memory/k") == "old", "read later than the new value was written"
    sliding_trio.link("a", "b")
    sliding_trio.run(2)
    assert [agent.values("memory/k") for agent in (ann, bob)] == [["new"], ["new"]]


def test_who_hears_of_a_read_too_late_shows_the_value_again(sliding_trio: Fleet):
    ann, bob, carol = (sliding_trio[name].agent(name) for name in "abc")
    ann.set("memory/k", 1)
    sliding_trio.run(7)
    part(sliding_trio, "c")
    told = watch(sliding_trio["c"])
    assert bob.get("memory/k") == 1
    sliding_trio.run(5)
    assert (ann.get("memory/k"), carol.get("memory/k")) == (1, None)
    sliding_trio.link("a", "c")
    sliding_trio.run(2)
    assert carol.get("memory/k") == 1
    assert [event[0] for event in brief(told.told())][-3:] == ["expired", "lagged", "set"]


def test_what_keeps_a_key_alive_outlives_a_restart(sliding_trio: Fleet):
    ann = sliding_trio["a"].agent("ann")
    ann.set("memory/k", 1)
    sliding_trio.run(7)
    assert ann.get("memory/k") == 1
    sliding_trio.run(5)
    sliding_trio["a"].restart()
    assert sliding_trio["a"].agent("ann").get("memory/k") == 1
    history = sliding_trio["a"].agent("ann").ask("history", key="memory/k")
    assert [item["fate"] for item in history["items"]] == ["live"]


def test_a_ttl_of_its_own_does_not_slide_nor_does_an_element_of_a_log(sliding_trio: Fleet):
    ann = sliding_trio["a"].agent("ann")
    ann.set("memory/own", 1, ttl=TTL_MS)
    ann.append("memory/log", 1)
    sliding_trio.run(7)
    assert ann.get("memory/own") == 1
    assert ann.get("memory/log") is not None
    sliding_trio.run(5)
    assert (ann.get("memory/own"), ann.get("memory/log")) == (None, None)


def test_a_read_of_many_keeps_a_bounded_number_at_once(sliding_trio: Fleet, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sliding, "KEPT_AT_ONCE_MAX", 2)
    ann = sliding_trio["a"].agent("ann")
    keys = [f"memory/{n}" for n in range(3)]
    for key in keys:
        ann.set(key, 1)
    long = "memory/" + "x" * (KEY_BYTES_MAX - 7)
    ann.set(long, 1)
    sliding_trio.run(7)
    for count in (2, 3):
        ann.ask("get_many", keys=[long, *keys])
        assert len(kept(sliding_trio, "a")) == count


@pytest.mark.parametrize(
    "rules", [{"ttl": TTL_MS, "sliding": 1}, {"sliding": True}, {"kind": "log", "ttl": 1, "sliding": True}]
)
def test_what_cannot_slide_is_refused(sliding_trio: Fleet, rules: dict[str, object]):
    with pytest.raises(Refusal, match="sliding"):
        sliding_trio["a"].agent("admin").do("schema_set", pattern="x", policy="lww", **rules)


def test_where_nothing_may_be_written_a_read_is_answered_all_the_same(sliding_trio: Fleet):
    ann = sliding_trio["a"].agent("ann")
    ann.set("memory/k", 1)
    sliding_trio.run(7)
    sliding_trio["b"].node.read_only = "full"
    assert sliding_trio["b"].agent("bob").get("memory/k") == 1
    ann.ask("space_drop", name="default")
    sliding_trio.run(1)
    assert ann.get("memory/k", space="default@0") == 1
    assert [kept(sliding_trio, name) for name in "abc"] == [[]] * 3
