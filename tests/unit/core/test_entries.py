"""The map of live entries: its digest depends on what it holds and on nothing else."""

# Writers are plain numbers here.
# mypy: disable-error-code="arg-type,dict-item,operator,var-annotated"

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.causality import Dot
from crdtsync.core.entries import Entries, Entry, covered_by
from crdtsync.wire.change import RemoveRange, value_hash

KEYS = ["a", "b", "a/b", "ü", "😀", "z"]


def entry(dot, key="k", kind=0, hlc=None, value=b"\x01", attrs=None):
    dot = Dot(*dot)
    return Entry(0, dot, key, None, kind, dot.seq << 16 if hlc is None else hlc, "x", value, value_hash(value), attrs)


ENTRIES = st.lists(
    st.builds(
        entry,
        st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(0, 2)),
        st.sampled_from(KEYS),
        st.integers(0, 5),
    ),
    max_size=15,
    unique_by=lambda e: e.dot,
)


def filled(entries):
    store = Entries()
    for each in entries:
        store.add(each)
    return store


@given(ENTRIES, st.integers(0, 99))
def test_the_digest_does_not_depend_on_the_order(entries, seed):
    shuffled = Random(seed).sample(entries, len(entries))
    assert filled(entries).digest == filled(shuffled).digest


@given(ENTRIES, ENTRIES)
def test_adding_and_removing_are_inverse(kept, passing):
    dots = {e.dot for e in kept}
    passing = [e for e in passing if e.dot not in dots]
    store = filled(kept)
    before = (store.digest, store.count, len(store), set(store.plural), {key: [*store.held(key)] for key in KEYS})
    for each in passing:
        store.add(each)
    for each in passing:
        assert store.remove(each.key, (each.dot,)) == [each]
    assert (store.digest, store.count, len(store), set(store.plural), {key: store.held(key) for key in KEYS}) == before


@given(ENTRIES)
def test_plural_and_mixed_tell_the_truth(entries):
    store = filled(entries)
    for each in Random(1).sample(entries, len(entries)):
        for key in KEYS:
            held = store.held(key)
            assert (key in store.plural) == (len(held) > 1)
            assert key in store.mixed or len({e.kind for e in held}) < 2
        store.remove(each.key, (each.dot,))
    assert store.digest == store.count == len(store) == 0
    assert not store.plural
    assert not store.mixed


@given(ENTRIES)
def test_held_is_in_causal_order(entries):
    store = filled(entries)
    for key in KEYS:
        orders = [e.order for e in store.held(key)]
        assert orders == sorted(orders)


VARIATIONS = [
    entry((1, 1, 0)),
    entry((1, 1, 1)),
    entry((1, 2, 0), hlc=1 << 16),
    entry((2, 1, 0)),
    entry((1, 1, 0), key="l"),
    entry((1, 1, 0), kind=1),
    entry((1, 1, 0), hlc=5),
    entry((1, 1, 0), value=b"\x02"),
    entry((1, 1, 0), attrs={"ttl": 1}),
]


def test_everything_that_replicas_must_agree_on_is_in_the_digest():
    assert len({each.digest for each in VARIATIONS}) == len(VARIATIONS)


def test_removing_what_is_not_there_does_nothing():
    store = filled([entry((1, 1, 0))])
    digest = store.digest
    assert store.remove("k", (Dot(9, 9, 9),)) == []
    assert store.remove("other", (Dot(1, 1, 0),)) == []
    assert store.remove("k", ()) == []
    assert store.remove("k", RemoveRange({2: 5})) == []
    assert (store.digest, store.count) == (digest, 1)


@given(ENTRIES, st.dictionaries(st.integers(1, 4), st.integers(1, 6), max_size=3), st.none() | st.integers(0, 20))
def test_a_range_removes_what_its_vector_covers_up_to_its_bound(entries, vector, place):
    entries = [e for e in entries if e.key == "a"]
    in_order = sorted(entries, key=lambda e: e.order)
    bound = in_order[place % len(in_order)].order if in_order and place is not None else None
    store = filled(entries)
    gone = store.remove("a", RemoveRange(vector, bound))
    wanted = [e for e in in_order if e.dot.seq <= vector.get(e.dot.writer, 0) and (bound is None or e.order <= bound)]
    assert gone == wanted
    assert store.held("a") == [e for e in in_order if e not in wanted]


def test_many_dots_are_removed_as_few_are():
    entries = [entry((1, seq, 0)) for seq in range(1, 100)]
    dots = tuple(e.dot for e in entries[10:60])
    assert covered_by(entries, dots) == entries[10:60]
    assert covered_by(entries, dots[:3]) == entries[10:13]


@given(st.lists(st.sampled_from(KEYS), unique=True), st.sampled_from(["", *KEYS]), st.sampled_from(["", *KEYS]))
def test_keys_by_prefix_after_a_start(keys, prefix, start):
    store = filled([entry((1, n + 1, 0), key) for n, key in enumerate(keys)])
    assert [*store.keys(prefix, start)] == sorted(key for key in keys if key.startswith(prefix) and key > start)


def test_keys_that_are_gone_are_not_listed():
    store = filled([entry((1, 1, 0), "a"), entry((1, 2, 0), "b")])
    assert [*store.keys()] == ["a", "b"]
    store.remove("a", (Dot(1, 1, 0),))
    assert [*store.keys()] == ["b"]
    store.add(entry((1, 3, 0), "a"))
    assert [*store.keys()] == ["a", "b"]


def test_readers_do_not_see_what_has_expired():
    store = filled([entry((1, 1, 0), hlc=1000 << 16, attrs={"ttl": 500}), entry((1, 2, 0), hlc=1001 << 16)])
    assert [e.dot.seq for e in store.live("k", 1499)] == [1, 2]
    assert [e.dot.seq for e in store.live("k", 1500)] == [2]
    assert [e.dot.seq for e in store.held("k")] == [1, 2]
    store.remove("k", (Dot(1, 1, 0),))
    assert [e.dot.seq for e in store.live("k", 9999)] == [2]


@pytest.mark.parametrize("ttl", ["soon", 1.5, None, [], -5, 2**63])
def test_a_strange_ttl_from_elsewhere_breaks_nothing(ttl):
    store = filled([entry((1, 1, 0), attrs={"ttl": ttl})])
    assert len(store.live("k", 0)) in (0, 1)
