"""The map of live entries: its digest depends on what it holds and on nothing else."""

# Writers are plain numbers here.
# mypy: disable-error-code="arg-type,dict-item,operator,var-annotated"

from __future__ import annotations

from gc import get_referrers
from itertools import chain
from random import Random
from struct import calcsize
from sys import getsizeof
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.causality import Dot, vector_of
from crdtsync.core.crdt import entries as entries_module
from crdtsync.core.crdt import key_entries
from crdtsync.core.crdt.entries import Entries, IncomingEntries
from crdtsync.core.crdt.entry import Entry, reach_of
from crdtsync.core.crdt.key_entries import KeyEntries, covered_by
from crdtsync.wire.change import RemoveRange, value_hash
from tests.examples import examples

KEYS = ["a", "b", "a/b", "ü", "😀", "z"]


def entry(dot, key="k", kind=0, hlc=None, value=b"\x01", attrs=None, sub=None):
    dot = Dot(*dot)
    return Entry(0, dot, key, sub, kind, dot.seq << 16 if hlc is None else hlc, "x", value, value_hash(value), attrs)


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


@examples(100)
@given(ENTRIES, st.integers(0, 99))
def test_the_digest_does_not_depend_on_the_order(entries, seed):
    shuffled = Random(seed).sample(entries, len(entries))
    assert filled(entries).digest == filled(shuffled).digest


@pytest.mark.parametrize("is_whole_known", [True, False])
@pytest.mark.parametrize("is_asked_before", [True, False])
def test_the_digest_is_right_after_many_were_exchanged_at_once(is_whole_known, is_asked_before):
    """Of entries that were loaded and not summed up yet, of some that came since, and of some that go."""
    loaded = [entry((1, seq, 0), key=f"k{seq}") for seq in range(1, 9)]
    late = [entry((2, seq, 0), key=f"l{seq}") for seq in range(1, 4)]
    come = [entry((3, 1, 0), key="k1"), entry((3, 2, 0), key="new"), entry((3, 3, 0), key="new")]
    come.append(entry((3, 4, 0), key="brief", attrs={"ttl": 5}))
    gone = [loaded[2], loaded[3], late[0]]
    with patch.object(entries_module, "SUMMED_AT_ONCE_MAX", 2):
        store = Entries()
        store.load([*loaded])
    for each in late:
        store.add(each)
    if is_asked_before:
        assert store.digest == filled([*loaded, *late]).digest
    expected = filled([one for one in (*loaded, *late, *come) if one not in gone])
    incoming = IncomingEntries(come)
    added = sum(one.digest for one in come) % entries_module.DIGEST_MODULUS
    store.exchange(gone, incoming, added, expected.digest if is_whole_known else None)
    assert store.digest == expected.digest
    assert store.is_summed
    store.remove("k5", (loaded[4].dot,))
    expected.remove("k5", (loaded[4].dot,))
    assert store.digest == expected.digest


@given(ENTRIES)
def test_how_far_entries_reach_is_as_each_says(entries):
    assert reach_of(entries) == (
        vector_of(each.dot for each in entries),
        max((each.hlc for each in entries), default=0),
    )


@given(ENTRIES, st.dictionaries(st.integers(1, 4), st.integers(0, 6)))
def test_a_vector_covers_what_each_says(entries, vector):
    assert covered_by(entries, RemoveRange(vector)) == [each for each in entries if each.is_in(vector)]


@examples(100)
@given(ENTRIES, ENTRIES)
def test_adding_and_removing_are_inverse(kept, passing):
    dots = {e.dot for e in kept}
    passing = [e for e in passing if e.dot not in dots]
    store = filled(kept)
    before = (
        store.digest,
        store.count,
        len(store),
        set(store.keys_with_several),
        {key: [*store.held(key)] for key in KEYS},
    )
    for each in passing:
        store.add(each)
    for each in passing:
        assert store.remove(each.key, (each.dot,)) == [each]
    assert (
        store.digest,
        store.count,
        len(store),
        set(store.keys_with_several),
        {key: store.held(key) for key in KEYS},
    ) == before


@examples(100)
@given(ENTRIES, st.integers(0, 99), st.integers(1, 4), st.sampled_from([0, 3, 99]), st.booleans())
def test_what_is_loaded_at_once_is_as_what_came_one_by_one(entries, seed, slice_entries, at_once, is_known):
    """Whenever its digest is summed up or if it is known, and whatever comes and goes before that has been done."""
    random = Random(seed)
    some = random.randrange(len(entries) + 1)
    loaded, expected = Entries(), filled(entries[:some])
    with patch.object(entries_module, "SUMMED_AT_ONCE_MAX", at_once):
        loaded.load(entries[:some], expected.digest if is_known else None)
    steps = entries[some:] + random.sample(entries, len(entries))
    for step in steps:
        for store in (loaded, expected):
            if step in store.held(step.key):
                store.remove(step.key, (step.dot,))
            else:
                store.add(step)
        loaded.sum_up(slice_entries)
        assert (loaded.count, loaded.keys_with_several, [*loaded.keys()]) == (
            expected.count,
            expected.keys_with_several,
            [*expected.keys()],
        )
        assert [loaded.held(key) for key in KEYS] == [expected.held(key) for key in KEYS]
    assert loaded.digest == expected.digest
    assert loaded.is_summed


STEPS = st.lists(st.tuples(st.sampled_from(["add", "remove", "replace", "ask"]), st.sampled_from(KEYS)), max_size=40)


@examples(100)
@given(STEPS)
def test_the_digest_is_the_sum_of_all_live_entries_whenever_they_are_hashed(steps):
    """Few may wait to be hashed here, so that some are before anybody asks, and others go unhashed."""
    store, live = Entries(), {}
    with patch.object(entries_module, "UNHASHED_ENTRIES_MAX", 3):
        for seq, (what, key) in enumerate([*steps, ("ask", "")], 1):
            held = store.held(key)
            one = entry((1, seq, 0), key)
            if what == "ask":
                assert store.digest == sum(each.digest for each in live.values()) % entries_module.DIGEST_MODULUS
            elif what == "remove":
                for gone in store.remove(key, (held[0].dot,)) if held else ():
                    del live[gone.dot]
            elif what == "replace" and len(held) == 1:
                del live[held[0].dot]
                store.put_in_place(held[0], one)
                live[one.dot] = one
            else:
                store.add(one)
                live[one.dot] = one
            assert len(store._unhashed) <= 3
            assert {each.dot for each in chain.from_iterable(map(store.held, KEYS))} == set(live)


@examples(100)
@given(ENTRIES)
def test_plural_and_mixed_tell_the_truth(entries):
    store = filled(entries)
    for each in Random(1).sample(entries, len(entries)):
        for key in KEYS:
            held = store.held(key)
            assert (key in store.keys_with_several) == (len(held) > 1)
            assert key in store.keys_of_mixed_kinds or len({e.kind for e in held}) < 2
        store.remove(each.key, (each.dot,))
    assert store.digest == store.count == len(store) == 0
    assert not store.keys_with_several
    assert not store.keys_of_mixed_kinds


@examples(100)
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


@examples(100)
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


@examples(100)
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


# -- keys with many entries ------------------------------------------------------------------------------------


class Sum:
    """A summary: the sum of the numbers of operations."""

    def __init__(self):
        self.total = 0

    def add(self, each):
        self.total += each.dot.n

    def remove(self, each):
        self.total -= each.dot.n


DOTS = st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(0, 2))
ONE_KEY = st.lists(
    st.builds(
        entry,
        DOTS,
        kind=st.integers(0, 2),
        hlc=st.integers(0, 5),
        sub=st.none() | st.sampled_from(["x", "y", "reset"]),
    ),
    max_size=40,
    unique_by=lambda e: e.dot,
)
REMOVES = (
    st.lists(DOTS.map(lambda dot: Dot(*dot)), max_size=20).map(tuple)
    | st.builds(RemoveRange, st.dictionaries(st.integers(1, 3), st.integers(1, 9), max_size=3))
    | st.builds(
        RemoveRange,
        st.dictionaries(st.integers(1, 3), st.integers(1, 9), max_size=3),
        st.tuples(st.integers(0, 5), st.integers(1, 3), st.integers(1, 9), st.integers(0, 2)),
    )
)


def done(store, step):
    """What adding or removing gives back."""
    if isinstance(step, Entry):
        store.add(step)
        return None
    return store.remove("k", step)


@examples(100)
@given(
    ONE_KEY, st.lists(REMOVES, max_size=6), st.integers(0, 999), st.sampled_from([0, 1, 64]), st.sampled_from([1, 9])
)
def test_keys_with_many_entries_are_as_those_with_few(entries, all_removes, seed, singly, at_once):
    """The indexes of a long key change nothing that anybody sees."""
    random = Random(seed)
    few, many = Entries(), Entries()
    here = [tuple(e.dot for e in entries if random.random() < 0.3) for _ in range(3)]
    bounds = [RemoveRange({1: 9, 2: random.randrange(9)}, e.order) for e in entries[:3]]
    steps = [*entries, *all_removes, *here, *bounds]
    random.shuffle(steps)
    for step in steps:
        with (
            patch.object(entries_module, "SMALL_ENTRIES_MAX", 2),
            patch.object(key_entries, "REMOVED_SINGLY_MAX", singly),
            patch.object(entries_module, "REMOVED_AT_ONCE_MAX", at_once),
        ):
            gone = done(many, step)
        assert gone == done(few, step)
        held = few.held("k")
        assert many.held("k") == held
        assert (many.digest, many.count, many.keys_with_several, len(many)) == (
            few.digest,
            few.count,
            few.keys_with_several,
            len(few),
        )
        assert ("k" in many.keys_of_mixed_kinds) == ("k" in few.keys_of_mixed_kinds)
        for sub in ("x", "y", "reset", "none"):
            assert sorted(map(id, many.of_sub("k", sub))) == sorted(map(id, few.of_sub("k", sub)))
        assert many.subs("k") == few.subs("k")
        assert many.summary("k", Sum).total == few.summary("k", Sum).total == sum(e.dot.n for e in held)
        twin = many.copy_of("k")
        assert twin.entries == held
        assert twin.kinds == KeyEntries(held.copy()).kinds
        assert twin.reach == reach_of(held)[0]
        assert many.reach("k") in (None, twin.reach)
        assert twin.summary(Sum).total == few.summary("k", Sum).total


def test_a_copy_is_changed_on_its_own():
    store = filled([entry((1, seq, 0), sub=f"{seq % 9}") for seq in range(1, 100)])
    twin = store.copy_of("k")
    twin.remove(twin.covered((Dot(1, 5, 0),)))
    twin.add(entry((2, 1, 0), sub="5"))
    assert len(store.held("k")) == 99
    assert [e.dot.writer for e in store.of_sub("k", "5")] == [1] * 11
    assert sorted(e.dot.writer for e in twin.by_sub["5"]) == [1] * 10 + [2]
    assert store.remove("k", (Dot(1, 5, 0),))


@examples(100)
@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "look"]), st.integers(0, 20)), max_size=60))
def test_keys_come_in_order_whatever_came_and_went(steps):
    store, wanted, seq = Entries(), set(), 0
    with patch.multiple(entries_module, NEW_KEYS_MAX=3, STALE_KEYS_MAX=2):
        for what, number in [*steps, ("look", 0)]:
            key = f"{number:02}"
            if what == "look":
                assert [*store.keys()] == sorted(wanted)
                assert [*store.keys(start=key)] == [each for each in sorted(wanted) if each > key]
            elif what == "remove":
                store.remove(key, RemoveRange({1: 99}))
                wanted.discard(key)
            else:
                seq += 1
                store.add(entry((1, seq, 0), key=key))
                wanted.add(key)
            assert len(store._new) <= 3


class Counted(Entry):
    """Counts how often entries are looked at."""

    looks = 0

    @property
    def order(self):
        Counted.looks += 1
        return super().order


def test_a_key_with_many_entries_costs_no_look_at_each():
    store = Entries()
    count = 5000
    for seq in range(1, count + 1):
        store.add(Counted(0, Dot(1, seq, 0), "k", f"{seq}", 2, seq, "x", b"", b"", None))
    Counted.looks = 0
    for seq in range(1, 101):
        store.add(Counted(0, Dot(2, seq, 0), "k", f"{seq}", 2, count + seq, "x", b"", b"", None))
        assert len(store.remove("k", (Dot(1, seq * 7, 0),))) == 1
        assert len(store.of_sub("k", f"{seq * 7}")) <= 1
    assert Counted.looks < 100 * 25


def test_memory_follows_what_is_alive():
    store = Entries()
    for n in range(20_000):
        one = entry((1, n + 1, 0), f"k{n}", attrs={"ttl": 1000})
        store.add(one)
        if n % 1000 == 999:
            assert len([*store.keys()]) == 1000
            for gone in range(n - 999, n + 1):
                store.remove(f"k{gone}", (Dot(1, gone + 1, 0),))
    assert not store._keys
    assert not store._expiring
    assert len(store._sorted) <= entries_module.STALE_KEYS_MAX


def test_the_entries_of_a_part_are_in_causal_order_however_they_came():
    """The last of a field's is its winner; one that was written before it may arrive after it."""
    key_entries = KeyEntries([entry((1, n, 0), sub="f", hlc=n << 16) for n in (5, 9)])
    key_entries.add(entry((2, 1, 0), sub="f", hlc=7 << 16))
    key_entries.add(entry((3, 1, 0), sub="g", hlc=1 << 16))
    assert [each.hlc >> 16 for each in key_entries.by_sub["f"]] == [5, 7, 9]


def test_a_plain_key_takes_no_more_memory_than_it_needs():
    plain, part = entry((1, 1, 0)), entry((1, 2, 0), sub="s")
    assert getsizeof(part) - getsizeof(plain) == 4 * calcsize("P")
    assert (plain.sub, plain.attrs, plain.hidden, plain.kept_ms) == (None, None, False, 0)
    store = filled([plain])
    assert list not in {type(holder) for holder in get_referrers(plain)}
    assert store.held("k") == [plain]
