"""Laws of version vectors and of the hybrid logical clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.causality import (
    HLC_AHEAD_MS_MAX,
    Dot,
    HybridClock,
    covers,
    flatten,
    hlc_ms,
    merge,
    missing,
    vector_of,
)

VECTORS = st.dictionaries(st.integers(1, 6), st.integers(0, 9), max_size=5)
NOW_MS = 1_800_000_000_000


def changes(vector):
    """The set of changes that a vector stands for."""
    return {(writer, seq) for writer, last in vector.items() for seq in range(1, last + 1)}


@given(VECTORS, VECTORS)
def test_a_vector_covers_another_when_it_stands_for_a_larger_set(one, other):
    assert covers(one, other) == (changes(one) >= changes(other))


@given(VECTORS, VECTORS)
def test_merging_is_the_union_of_the_sets(one, other):
    merged = dict(one)
    merge(merged, other)
    assert changes(merged) == changes(one) | changes(other)


@given(VECTORS, VECTORS)
def test_missing_counts_what_only_the_other_stands_for(one, other):
    assert missing(one, other) == len(changes(other) - changes(one))


@given(st.lists(st.builds(Dot, st.integers(1, 5), st.integers(1, 9), st.integers(0, 3)), max_size=12))
def test_the_vector_of_dots_is_the_least_that_covers_them(dots):
    vector = vector_of(dots)
    assert all(vector[dot.writer] >= dot.seq for dot in dots)
    assert all(Dot(writer, seq, 0)[:2] in {dot[:2] for dot in dots} for writer, seq in vector.items())


@given(VECTORS)
def test_flattening_is_in_order_of_writer_whatever_the_order_of_insertion(vector):
    backwards = dict(reversed(vector.items()))
    flat = flatten(vector)
    assert flat == flatten(backwards)
    assert flat[::2] == sorted(vector)
    assert dict(zip(flat[::2], flat[1::2], strict=True)) == vector


# -- the clock -------------------------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(st.sampled_from(["tick", "witness"]), st.integers(-200, 200), st.integers(0, 2**17)), max_size=40
)


@given(EVENTS)
def test_ticks_rise_above_all_ticked_and_witnessed_before_also_when_the_wall_clock_jumps_back(events):
    clock = HybridClock()
    seen = 0
    for event, ms, offset in events:
        if event == "tick":
            ticked = clock.tick(NOW_MS + ms)
            assert ticked > seen
            seen = ticked
        else:
            hlc = ((NOW_MS + ms) << 16) + offset
            assert clock.witness(hlc, NOW_MS)
            seen = max(seen, hlc)


def test_a_tick_is_the_wall_clock_where_nothing_is_ahead_of_it():
    clock = HybridClock()
    assert hlc_ms(clock.tick(NOW_MS)) == NOW_MS
    assert hlc_ms(clock.tick(NOW_MS + 5)) == NOW_MS + 5


def test_within_one_millisecond_the_counter_counts():
    clock = HybridClock()
    first = clock.tick(NOW_MS)
    assert [clock.tick(NOW_MS) for _ in range(3)] == [first + 1, first + 2, first + 3]


@pytest.mark.parametrize(
    "ahead_ms, taken", [(0, True), (HLC_AHEAD_MS_MAX, True), (HLC_AHEAD_MS_MAX + 1, False), (2**47, False)]
)
def test_a_clock_over_24_hours_ahead_is_not_taken_over(ahead_ms, taken):
    clock = HybridClock()
    before = clock.tick(NOW_MS)
    assert clock.witness((NOW_MS + ahead_ms) << 16, NOW_MS) is taken
    assert (clock.last == (NOW_MS + ahead_ms) << 16) if taken and ahead_ms else clock.last >= before
    if not taken:
        assert clock.last == before


def test_witnessing_the_past_changes_nothing():
    clock = HybridClock()
    last = clock.tick(NOW_MS)
    assert clock.witness(last - 1, NOW_MS)
    assert clock.last == last
