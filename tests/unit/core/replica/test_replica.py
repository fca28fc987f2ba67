"""A second machine gets every change in any order and any number of times, and comes to the same state."""

from __future__ import annotations

import sys
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crdtsync.core.history import recorder
from crdtsync.core.text.marker import named_document
from crdtsync.wire.kinds import Kind
from tests.examples import examples
from tests.fleet.fleet import fleet_of
from tests.fleet.replicas import Site, sites
from tests.simulator.healing import entries_of
from tests.simulator.kinds import KEYS
from tests.simulator.player import Player
from tests.simulator.world import World


def texts_of(replica):
    """The text of each document that a live marker names."""
    markers = [entry for entry in replica.entries.all() if entry.kind == Kind.TEXT]
    return {
        document: replica.documents.get(document).read()
        for document in sorted({named_document(marker.value) for marker in markers})
    }


def changes_of_a_history(seed):
    """Bodies of all changes of a short history, and the node that holds them all."""
    world = World(seed, 3)
    random = Random(seed)
    player = Player(world, random.random)
    for name in random.choices(["write", "read", "deliver", "connect", "turn", "pass_time"], [6, 3, 6, 1, 3, 1], k=70):
        getattr(player, name)()
    world.heal()
    return world


@examples(12)
@given(seed=st.integers(0, 2**32 - 1), shuffle=st.integers(0, 2**32 - 1))
@example(seed=32213, shuffle=0)  # a strict write is sent before the replies to two others of its key
def test_any_order_and_any_number_of_times(seed, shuffle):
    world = changes_of_a_history(seed)
    try:
        source = world.hosts[0]
        bodies = [row.body for row in source.store.log(1, 0, 10**9, 10**6)]
        random = Random(shuffle)
        arrivals = [*bodies, *random.choices(bodies, k=len(bodies) // 2)] if bodies else []
        random.shuffle(arrivals)
        with fleet_of("second") as fleet:
            replica = fleet["second"].replica
            now_ms = source.running.now_ms
            for body in arrivals:
                replica.receive(replica.codec.decode(body), now_ms)
            assert replica.vector == source.replica.vector
            assert replica.entries.digest == source.replica.entries.digest
            assert entries_of(replica) == entries_of(source.replica)
            assert texts_of(replica) == texts_of(source.replica)
            assert len(replica.gate) == 0
            assert fleet["second"].alarms == set()
    finally:
        world.close()


def test_the_histories_for_this_hold_texts_and_logs():
    kinds: set[Kind] = set()
    for seed in range(4):
        world = changes_of_a_history(seed)
        try:
            kinds.update(entry.kind for key in KEYS for entry in world.hosts[0].replica.entries.held(key))
        finally:
            world.close()
    assert {Kind.REGISTER, Kind.LOG, Kind.TEXT} <= kinds


def test_a_first_change_carries_the_whole_vector_and_later_ones_only_what_is_new(trio):
    ann, bob = trio["a"].agent(), trio["b"].agent()
    ann.set("k", 1)
    trio.run(1)
    bob.set("k", 2)
    bob.set("k", 3)
    trio.run(1)
    ann.set("k", 4)
    ann.set("k", 5)
    log = [trio["a"].replica.codec.decode(row.body) for row in trio["a"].store.log(1, 0, 10**6, 100)]
    writer_a, writer_b = trio["a"].replica.writer, trio["b"].replica.writer
    named = {(change.writer, change.seq): {dep.writer: dep.seq for dep in change.deps} for change in log}
    assert named == {
        (writer_a, 1): {},
        (writer_b, 1): {writer_a: 1},
        (writer_b, 2): {},
        (writer_a, 2): {writer_b: 2},
        (writer_a, 3): {},
    }


def test_after_a_restart_deps_name_what_was_applied_since_the_last_own_change(pair):
    ann, bob = pair["a"].agent(), pair["b"].agent()
    ann.set("k", 1)
    bob.set("j", 1)
    pair.run(1)
    pair["a"].restart()
    pair["a"].agent().set("k", 2)
    (last,) = pair["a"].store.log(1, 2, 10**6, 100)[-1:]
    change = pair["a"].replica.codec.decode(last.body)
    assert [(dep.writer, dep.seq) for dep in change.deps] == [(pair["b"].replica.writer, 1)]
    assert change.prev_hash != bytes(16)


def test_a_new_writer_is_taken_when_the_mark_says_that_the_disk_went_back(node):
    node.agent().set("k", 1)
    first = node.replica.writer
    node.store.close()
    for mark in (node.directory / "run").iterdir():
        mark.unlink()
    node.sessions.clear()
    node.open()
    node.agent().set("k", 2)
    assert node.replica.writer != first
    assert node.replica.vector == {first: 1, node.replica.writer: 1}
    (last,) = node.store.log(1, 1, 10**6, 100)
    change = node.replica.codec.decode(last.body)
    assert [(dep.writer, dep.seq) for dep in change.deps] == [(first, 1)]
    assert change.origin == (node.store.node, "a")


def calls_to_remove(elements: int, kept: int, *, is_read: bool = False) -> tuple[int, int]:
    """How many functions are called where a log of so many is deleted, or trimmed to those that are ``kept``, and by
    another node that takes that in.
    """
    ann, bob = sites("a", "b")
    for start in range(0, elements, 1000):
        ann.do("batch", ops=[["append", {"key": "k", "value": b"1"}] for _ in range(start, start + 1000)])
    ann.sync(bob)
    left = ann.replica.entries.held("k")[elements - kept :]
    removal = ("trim", {"keep": kept}) if kept else ("delete", {"seen": ann.version()} if is_read else {})
    asked = calls_of(lambda: ann.do(removal[0], **removal[1]))
    taken = calls_of(lambda: bob.take(ann.changes[-1:]))
    assert ann.replica.entries.held("k") == left
    other = Site("c")
    other.take(ann.changes)
    assert ann.replica.entries.digest == bob.replica.entries.digest == other.replica.entries.digest
    for site in (ann, bob):
        assert len(site.replica.entries.held("k")) == site.replica.entries.count == kept
        assert len([*site.replica.past.unsaved_of("k")]) == elements - kept
        assert [mark.row for mark in site.replica.ledger.batch.marks()] == [*range(1, elements - kept + 1)]
    return asked, taken


def calls_of(do) -> int:
    """How many calls that makes, of functions in Python and others."""
    called = []
    sys.setprofile(lambda _frame, event, _what: called.append(event))
    try:
        do()
    finally:
        sys.setprofile(None)
    return sum(event.endswith("call") for event in called)


@pytest.mark.parametrize("is_read", [True, False])
def test_a_key_of_many_parts_goes_without_much_work_for_each(is_read):
    """The loop is held meanwhile, on every node: by 18 calls for each of 20,000 parts it was for 100 ms."""
    few, many = (calls_to_remove(elements, 0, is_read=is_read) for elements in (2000, 6000))
    for before, after in zip(few, many, strict=True):
        assert (after - before) / 4000 < 0.1


@pytest.mark.parametrize("kept", [1, 900, 4000])
def test_most_of_a_key_goes_without_much_work_for_each(kept):
    """With 12 calls for each, a trim of 100,000 elements took 590 ms."""
    few, many = (calls_to_remove(elements, kept) for elements in (kept // 1000 * 1000 + 2000, 10_000))
    for before, after in zip(few, many, strict=True):
        assert (after - before) / 4000 < 0.1


def test_what_went_at_once_leaves_memory_by_slices(monkeypatch):
    """To give back what 100,000 parts took held the loop for as long again."""
    monkeypatch.setattr(recorder, "FREED_MAX", 500)
    ann = Site("a")
    for start in range(0, 3000, 1000):
        ann.do("batch", ops=[["append", {"key": "k", "value": b"1"}] for n in range(start, start + 1000)])
    ann.replica.committed()
    ann.do("delete")
    entries, past = ann.replica.entries, ann.replica.past
    left = []
    while not entries.is_summed:
        entries.sum_up(700)
        left += [len(gone.by_dot) for gone in entries._departed]
    assert left == [2300, 1600, 900, 200]
    assert entries._departed == []
    ann.replica.committed()
    assert past.unsaved == {}
    freed = 0
    while not past.free_some():
        freed += 1
    assert freed == 5
    assert past._unfreed == []
