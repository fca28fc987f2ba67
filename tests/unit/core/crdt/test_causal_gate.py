"""The causal gate: nothing is released before its time, nothing is forgotten, and there is an end to what is kept."""

# Writers are plain numbers here.
# mypy: disable-error-code="arg-type,dict-item,operator,var-annotated"

from __future__ import annotations

import gc
import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.core.crdt import causal_gate
from crdtsync.core.crdt.causal_gate import CausalGate, blocker
from crdtsync.wire.change import Dep
from tests.examples import examples
from tests.fleet.fleet import CODEC
from tests.unit.core.sync.test_sync import chain, change_of


def dep(change):
    return Dep(change.writer, change.seq, change.short_hash)


def test_what_blocks_a_change():
    first = change_of(7, 1)
    second = change_of(7, 2, (Dep(8, 3, bytes(8)), Dep(9, 1, bytes(8))))
    assert blocker(first, {}) is None
    assert blocker(second, {}) == (7, 1)
    assert blocker(second, {7: 1}) == (8, 3)
    assert blocker(second, {7: 1, 8: 2, 9: 1}) == (8, 3)
    assert blocker(second, {7: 1, 8: 3}) == (9, 1)
    assert blocker(second, {7: 1, 8: 4, 9: 1}) is None
    assert blocker(second, {7: 2, 8: 4, 9: 1}) == (7, 1)  # a repeat: never applied twice


def test_released_in_order_of_what_they_wait_for():
    gate = CausalGate()
    changes = chain(7, 4)
    for change in reversed(changes[1:]):
        assert gate.hold(change, (7, change.seq - 1))
    assert len(gate) == 3
    assert gate.missing() == [(7, 1)]
    assert gate.release(7, 1) == [changes[1].body]
    assert gate.release(7, 3) == [change.body for change in changes[2:]]
    assert len(gate) == 0
    assert gate.missing() == []


def test_nothing_is_released_for_what_nobody_waits_for():
    gate = CausalGate()
    gate.hold(chain(7, 2)[1], (7, 1))
    assert gate.release(8, 100) == []
    assert gate.release(7, 0) == []
    assert len(gate) == 1


def test_a_change_is_kept_once():
    gate = CausalGate()
    second = chain(7, 2)[1]
    assert gate.hold(second, (7, 1))
    assert gate.hold(second, (7, 1))
    assert gate.release(7, 1) == [second.body]


@pytest.mark.parametrize("is_one_writer", [True, False])
def test_what_counts_is_what_memory_takes(is_one_writer):
    """Of a short change most is what goes with it; also if each is by a writer of its own."""
    gate = CausalGate()
    changes = chain(7, 1000)[1:] if is_one_writer else [change_of(writer, 2) for writer in range(1, 1000)]
    gc.collect()  # also what Python keeps for reuse, which would not be counted when it is taken again
    tracemalloc.start()
    try:
        for change in changes:
            gate.hold(decoded(change), (change.writer, change.seq - 1))
        taken_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(gate) == 999
    assert gate.size_bytes / 4 < taken_bytes < gate.size_bytes


def decoded(change):
    """As it comes from a peer: nothing of it is held elsewhere."""
    return CODEC.decode(bytes(bytearray(change.body)))


def test_bounded_in_number_per_writer(monkeypatch):
    monkeypatch.setattr(causal_gate, "WRITER_CHANGES_MAX", 3)
    gate = CausalGate()
    changes = chain(7, 6)
    assert [gate.hold(change, (7, change.seq - 1)) for change in changes[1:]] == [True, True, True, False, False]
    assert gate.hold(chain(8, 2)[1], (8, 1))
    gate.release(7, 1)
    assert gate.hold(changes[4], (7, 4))


@pytest.mark.parametrize("bound", ["WRITER_BYTES_MAX", "BYTES_MAX"])
def test_bounded_in_bytes(monkeypatch, bound):
    changes = chain(7, 4)
    size = len(changes[1].body) + causal_gate.CHANGE_BYTES
    monkeypatch.setattr(causal_gate, bound, 2 * size)
    gate = CausalGate()
    assert [gate.hold(change, (7, change.seq - 1)) for change in changes[1:]] == [True, True, False]
    gate.release(7, 1)
    assert gate.hold(changes[3], (7, 3))


def test_many_made_up_writers_do_not_cost_more_than_the_bound(monkeypatch):
    monkeypatch.setattr(causal_gate, "BYTES_MAX", 10_000)
    gate = CausalGate()
    kept = sum(gate.hold(change_of(writer, 2), (writer, 1)) for writer in range(1, 500))
    assert 0 < kept <= 10_000 // len(change_of(1, 2).body)
    assert len(gate) == kept
    assert len(gate._held) == kept


@examples(100)
@given(st.integers(0, 2**32), st.integers(2, 5))
def test_any_order_releases_everything_exactly_once_and_causally(seed, writers):
    """Drive it as a replica does: hold what is blocked, release what was waited for, until nothing is left."""
    random = Random(seed)
    made = []
    heads = {}
    for _ in range(25):
        writer = random.randint(1, writers)
        seen = [head for head in heads.values() if head.writer != writer and random.random() < 0.5]
        before = heads.get(writer)
        heads[writer] = change_of(
            writer, before.seq + 1 if before else 1, tuple(map(dep, seen)), before.hash if before else bytes(16)
        )
        made.append(heads[writer])
    by_body = {change.body: change for change in made}
    gate, vector, applied = CausalGate(), {}, []
    arrivals = [*made, *random.choices(made, k=10)]
    random.shuffle(arrivals)
    for change in arrivals:
        todo = [change]
        while todo:
            candidate = todo.pop()
            if candidate.seq <= vector.get(candidate.writer, 0):
                continue
            waits_for = blocker(candidate, vector)
            if waits_for is not None:
                gate.hold(candidate, waits_for)
                continue
            vector[candidate.writer] = candidate.seq
            applied.append(candidate)
            todo += [by_body[body] for body in gate.release(candidate.writer, candidate.seq)]
    assert sorted((c.writer, c.seq) for c in applied) == sorted((c.writer, c.seq) for c in made)
    assert len(gate) == 0
