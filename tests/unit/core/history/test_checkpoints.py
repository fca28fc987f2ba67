"""Checkpoints: one small write each, and every node keeps what they hold for as long as they are there."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.core.background.retention_caps import Caps
from crdtsync.core.crdt import entries
from crdtsync.core.history.checkpoints import Checkpoints
from crdtsync.core.reads import checkpoint_check
from crdtsync.core.replica import checkpoint_operations
from crdtsync.wire.codec import unpack
from tests.fleet.agent import Agent, Refusal
from tests.fleet.editor import Editor
from tests.fleet.fleet import fleet_of
from tests.simulator.cuts import patiently, shown

SMALL = Caps(log_bytes_max=2000, history_bytes_max=3000)


def names(session: Agent) -> list[str]:
    return [item["name"] for item in session.ask("checkpoints")["items"]]


def churn(session: Agent, key: str = "churn", times: int = 100) -> None:
    """Write so much that log and history go over their caps."""
    for n in range(times):
        session.set(key, n)


def test_a_checkpoint_is_one_write_that_every_node_has(pair):
    ann, bob = pair["a"].agent("ann"), pair["b"].agent("bob")
    for n in range(30):
        ann.set(f"k{n}", n)
    pair.sync()
    position = pair["a"].replica.position
    ann.do("checkpoint_set", name="before", note="the agents are let loose", prefixes=["k"])
    assert pair["a"].replica.position == position + 1
    pair.sync()
    bob.set("k1", "ruined")
    bob.delete("k2")
    pair.sync()
    for agent in (ann, bob):
        (item,) = agent.ask("checkpoints")["items"]
        told = {name: item[name] for name in ("name", "note", "prefixes", "keys", "whole", "agent", "node")}
        assert told == {
            "name": "before", "note": "the agents are let loose", "prefixes": ["k"], "keys": 30, "whole": True,
            "agent": "ann", "node": "a",
        }  # fmt: skip
        assert unpack(patiently(agent, "get", key="k1", at="checkpoint:before")["value"]) == 1
        assert unpack(patiently(agent, "get", key="k2", at=item["cut"])["value"]) == 2


def test_soon_after_a_start_what_it_holds_is_summed_up_in_slices(pair, monkeypatch):
    ann = pair["a"].agent("ann")
    for n in range(10):
        ann.set(f"k{n}", n)
    pair.sync()
    digest = pair["b"].replica.entries.digest
    monkeypatch.setattr(entries, "SUMMED_AT_ONCE_MAX", 0)
    monkeypatch.setattr(checkpoint_check, "SLICE_ENTRIES", 3)
    pair["a"].restart()
    slices: list[int] = []

    def sum_up(self, count_max, do=entries.Entries.sum_up):
        slices.append(count_max)
        do(self, count_max)

    monkeypatch.setattr(entries.Entries, "sum_up", sum_up)
    bob = pair["a"].agent("bob")
    bob.number += 1
    patiently(bob, "checkpoint_set", n=bob.number, name="before")
    assert pair["a"].replica.checkpoints.get("before").digest == digest.to_bytes(16, "big")
    assert slices == [3] * 4


def test_the_status_says_how_old_the_newest_checkpoint_is(pair):
    ann, bob = pair["a"].agent("ann"), pair["b"].agent("bob")

    def ages() -> list[float | None]:
        return [space["checkpoint_age_s"] for space in bob.ask("status")["spaces"] if space["name"] == "default"]

    assert ages() == [None]
    for name in ("first", "second"):
        pair.pass_time(40)
        ann.do("checkpoint_set", name=name)
        pair.sync()
    pair.pass_time(60)
    assert ages() == [pytest.approx(60, abs=5)]
    for name in ("first", "second"):
        ann.do("checkpoint_set", name=name, remove=True)
    pair.sync()
    assert ages() == [None]


def test_retention_keeps_what_a_checkpoint_holds_until_it_is_deleted():
    with fleet_of("a", "b", linked=True, caps=Caps(2000, 7 * 86_400_000, 30_000, 86_400_000)) as fleet:
        ann, bob = fleet["a"].agent("ann"), fleet["b"].agent("bob")
        editor = Editor(fleet["a"], "text", "ann")
        editor.append("to be kept")
        bob.set("k", "to be kept")
        fleet.sync()
        ann.do("checkpoint_set", name="before")
        state = shown(ann)
        editor.edit(0, 10, "ruined")
        fleet.sync()
        bob.delete("k")
        editor.session.delete("text")
        churn(ann)
        churn(bob)
        fleet.sync()
        fleet.run(200_000, step_s=50_000)  # longer than the history's age
        for host in fleet.machines.values():
            assert host.replica.trimmed_position
            assert host.replica.checkpoints.pins
            host.restart()
        fleet.link("a", "b")
        fleet.run(10, step_s=1)
        for name in "ab":
            agent = fleet[name].agent("ann" if name == "a" else "bob")
            assert shown(agent, "checkpoint:before") == state
        ann = fleet["a"].agent("ann")
        ann.do("checkpoint_set", name="before", remove=True)
        fleet.run(200, step_s=1)
        for host in fleet.machines.values():
            assert not host.replica.checkpoints.pins
            assert host.store.metas(f"checkpoint/{host.replica.id}/") == []
            with pytest.raises(Refusal, match="there is no checkpoint"):
                patiently(host.agent("x"), "get", key="k", at="checkpoint:before")


def test_a_checkpoint_that_holds_back_too_much_is_let_go_and_new_ones_are_refused():
    with fleet_of("a", caps=SMALL) as fleet:
        ann = fleet["a"].agent("ann")
        ann.set("k", 1)
        ann.do("checkpoint_set", name="before")
        for n in range(20):
            ann.set("k", f"{n}" * 500)
            fleet.run(0.2)
            if "checkpoint_lost" in fleet["a"].alarms:
                break
            assert unpack(patiently(ann, "get", key="k", at="checkpoint:before")["value"]) == 1
        assert "checkpoint_lost" in fleet["a"].alarms
        with pytest.raises(Refusal, match="delete old ones"):
            ann.do("checkpoint_set", name="after")
        fleet.run(100, step_s=1)
        assert [item["whole"] for item in ann.ask("checkpoints")["items"]] == [False]
        with pytest.raises(Refusal, match="too_old"):
            patiently(ann, "get", key="k", at="checkpoint:before")
        ann.do("checkpoint_set", name="after")
        assert names(ann) == ["before", "after"]


def test_one_who_came_later_by_a_snapshot_says_that_it_does_not_hold_all(small):
    with fleet_of("a", caps=Caps(log_bytes_max=2000)) as fleet:
        ann = fleet["a"].agent("ann")
        ann.set("k", 1)
        ann.do("checkpoint_set", name="before")
        churn(ann)
        ann.delete("k")
        fleet.run(5)
        fleet.add("b")
        fleet.link("a", "b")
        fleet.run(5)
        bob = fleet["b"].agent("bob")
        assert [item["whole"] for item in bob.ask("checkpoints")["items"]] == [False]
        with pytest.raises(Refusal, match="too_old"):
            patiently(bob, "get", key="k", at="checkpoint:before")
        assert unpack(patiently(ann, "get", key="k", at="checkpoint:before")["value"]) == 1


def test_names_are_unique_and_one_made_twice_at_once_is_told(pair):
    ann, bob = pair["a"].agent("ann"), pair["b"].agent("bob")
    ann.do("checkpoint_set", name="x")
    with pytest.raises(Refusal, match="already"):
        ann.do("checkpoint_set", name="x")
    pair.wires[0].close("cut")
    ann.do("checkpoint_set", name="y")
    bob.do("checkpoint_set", name="y")
    pair.link("a", "b")
    pair.sync()
    assert sorted(names(bob)) == ["x", "y", "y"]
    with pytest.raises(Refusal, match="2 times at once"):
        patiently(bob, "get", key="k", at="checkpoint:y")
    assert bob.do("checkpoint_set", name="y", remove=True)["existed"]
    assert names(bob) == ["x"]


@pytest.mark.parametrize("name", ["1h", "500ms", "1.5d", "c1.abc", "2026-11-29", "20261129", "a" * 129])
def test_none_is_named_as_a_time_or_a_token_is_written(node, name):
    """For restore would take it for that."""
    ann = node.agent("ann")
    with pytest.raises(Refusal, match="cannot name a checkpoint"):
        ann.do("checkpoint_set", name=name)
    assert not ann.do("checkpoint_set", name=name[:9], remove=True)["existed"]  # one that was made before goes


def test_there_is_a_cap_on_their_number_and_an_end_if_it_is_given(node, monkeypatch):
    monkeypatch.setattr(checkpoint_operations, "CHECKPOINTS_MAX", 2)
    ann = node.agent("ann")
    ann.do("checkpoint_set", name="short", ttl=5000)
    ann.do("checkpoint_set", name="long")
    with pytest.raises(Refusal, match="quota_exceeded"):
        ann.do("checkpoint_set", name="more")
    node.fleet.run(20, step_s=1)
    assert names(ann) == ["long"]
    ann.do("checkpoint_set", name="more")
    assert names(ann) == ["long", "more"]


@pytest.mark.parametrize(
    "wrong", [{"name": "a b"}, {"name": ""}, {"name": None}, {"name": "x", "note": 1}, {"name": "x", "prefixes": "p"}]
)
def test_what_makes_no_sense_is_refused(node, wrong: dict[str, Any]):
    with pytest.raises(Refusal, match="invalid_request"):
        node.agent("ann").do("checkpoint_set", **wrong)


def test_one_that_came_with_a_snapshot_or_from_disk_is_known(small):
    with fleet_of("a", caps=Caps(log_bytes_max=2000)) as fleet:
        ann = fleet["a"].agent("ann")
        churn(ann)
        ann.do("checkpoint_set", name="before")
        churn(ann)
        fleet.run(5)
        fleet.add("b")
        fleet.link("a", "b")
        fleet.run(5)
        assert names(fleet["b"].agent("bob")) == ["before"]
        fleet["b"].restart()
        assert names(fleet["b"].agent("bob")) == ["before"]
        ann.do("checkpoint_set", name="before", remove=True)
        fleet.link("a", "b")
        fleet.run(5)
        assert names(fleet["b"].agent("bob")) == []


@pytest.mark.parametrize("is_at_once", [False, True])
def test_a_text_in_a_checkpoint_stays_when_its_whole_state_is_stored_anew(is_at_once, monkeypatch):
    """Also before anybody has looked where the cut stands. Of the states after it only the newest stays."""
    with fleet_of("a", caps=Caps(log_bytes_max=2000)) as fleet:
        machine = fleet["a"]
        ann, editor = machine.agent("ann"), Editor(machine, "text", "ann")

        def store() -> list[int]:
            (document,) = machine.store.documents(machine.replica.id)
            machine.replica.texts.store(document)
            ann.set("other", 1)
            return machine.store.document_spans(machine.replica.id, None, 2)[0].states

        editor.edit(0, 0, "as it was")
        assert len(store()) == 1
        churn(ann)
        fleet.run(30, step_s=1)  # its edits have gone with the log
        if is_at_once:
            monkeypatch.setattr(Checkpoints, "find_pins", lambda *_: None)
        ann.do("checkpoint_set", name="before")
        assert (machine.replica.checkpoints.newest_pin() is None) == is_at_once
        for _ in range(5):
            editor.edit(0, 0, "not ")
            states = store()
            assert is_at_once or len(states) == 2
        monkeypatch.undo()
        churn(ann)
        fleet.run(30, step_s=1)
        assert len(store()) == 2
        assert unpack(patiently(ann, "get", key="text", at="checkpoint:before")["value"]) == "as it was"
