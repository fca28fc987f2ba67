"""Read policies: an order of siblings that does not depend on how they arrived."""

# Writers are plain numbers here.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.causality import Dot
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.read_policies import (
    LWW,
    POLICIES,
    RANKED_BYTES_MAX,
    first_of,
    newest_entries,
    ranks_lower,
    value_key,
)
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from tests.examples import examples

ASCENDING: list[Any] = [
    None,
    False,
    True,
    -(2**63),
    -1.5,
    0,
    0.5,
    1,
    2**53,
    2**53 + 1,
    1e300,
    "",
    "B",
    "a",
    "ab",
    "\uffff",
    "\U0001f600",
    b"",
    b"\x00",
    b"\xff",
    [],
    [1, "z"],
    [1, "z", None],
    [300],
    ["a"],
    [0] * RANKED_BYTES_MAX,
    {},
    {"a": 1},
    {"a": 1, "b": 0},
    {"a": 2},
    {"b": 0},
    {"a": "x" * RANKED_BYTES_MAX},
]


def entry(value: object, hlc: int, writer: int = 1, confidence: object = None) -> Entry:
    """A register's entry; bytes are taken as they are."""
    packed = value if isinstance(value, bytes) else pack(value)
    attrs = None if confidence is None else {"confidence": confidence}
    return Entry(1, Dot(writer, hlc, 0), "k", None, int(Kind.REGISTER), hlc, "ann", packed, b"", attrs)


def ranked(policy: str, entries: list[Entry]) -> list[int]:
    """The hybrid times in the order of the policy."""
    return [each.hlc for each in (POLICIES[policy].rank or newest_entries)(entries)]


@pytest.mark.parametrize(
    "policy, expected",
    [
        ("lww", [4, 3, 2, 1]),
        ("all", [4, 3, 2, 1]),
        ("manual", [4, 3, 2, 1]),
        ("first", [1, 2, 3, 4]),
        ("max", [2, 4, 1, 3]),
        ("min", [3, 4, 1, 2]),
        ("confidence", [3, 4, 2, 1]),
    ],
)
def test_a_policy_orders_alike_whatever_came_first(policy: str, expected: list[int]) -> None:
    """Two values are equal and two confidences too: among those the newest comes first. One has no confidence."""
    entries = [
        entry(5, 1),
        entry(9, 2, confidence=0.1),
        entry(-1, 3, confidence=0.8),
        entry(5.0, 4, confidence=0.1),
    ]
    for order in permutations(entries):
        assert ranked(policy, list(order)) == expected


@pytest.mark.parametrize("policy", POLICIES)
def test_entries_of_one_time_go_by_their_writers(policy: str) -> None:
    """Nothing is left to chance, not even where all is equal."""
    entries = [entry(1, 7, writer) for writer in (1, 2, 3)]
    orders = {
        tuple(each.dot.writer for each in (POLICIES[policy].rank or newest_entries)([*o]))
        for o in permutations(entries)
    }
    assert orders == {(1, 2, 3) if policy == "first" else (3, 2, 1)}


def test_all_values_are_ordered() -> None:
    """null < false < true < numbers < strings < bytes < lists < maps, each in its own order."""
    keys: list[Any] = [value_key(pack(value)) for value in ASCENDING]
    assert None not in keys
    assert keys == sorted(keys)
    assert all(keys[n] < keys[n + 1] for n in range(len(keys) - 1))


@pytest.mark.parametrize("one, other", [(1, 1.0), (0, -0.0), ([1], [1.0]), ({"a": 1, "b": 2}, {"b": 2, "a": 1})])
def test_equal_values_are_equal(one: object, other: object) -> None:
    """Numbers as numbers, maps whatever order they were written in."""
    assert value_key(pack(one)) == value_key(pack(other))


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
    | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@examples(100)
@given(st.lists(_VALUES, min_size=3, max_size=3))
def test_any_two_values_can_be_compared_and_the_order_is_one(values: list[Any]) -> None:
    """Total and transitive: otherwise nodes could disagree."""
    a, b, c = (value_key(pack(value)) for value in values)
    assert a is not None
    assert b is not None
    assert c is not None
    assert (a < b) + (b < a) + (a == b) == 1
    assert not (a < b and b < c) or a < c


@pytest.mark.parametrize(
    "careless",
    [
        b"",
        b"\xc1",
        b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",
        pack([float("inf")]),
        b"\x91" * 200 + b"\xc0",
        b"\xd4\x01\x00",
    ],
    ids=["nothing", "no msgpack", "NaN", "infinity", "deep", "extension"],
)
@pytest.mark.parametrize("policy", ["max", "min"])
def test_what_no_agent_can_write_never_wins(policy: str, careless: bytes) -> None:
    """Also what was purged."""
    entries = [entry(careless, 9), entry(None, 1)]
    assert ranked(policy, entries) == [1, 9]
    entries[0].value = None
    assert ranked(policy, entries) == [1, 9]


@pytest.mark.parametrize("careless", [float("nan"), 2.0, -0.5, "1", True, 1])
def test_a_confidence_that_is_none_counts_as_none(careless: object) -> None:
    """A careless author's: the daemon stores floats from 0 to 1."""
    assert ranked("confidence", [entry("a", 9, confidence=careless), entry("b", 1, confidence=0.0)]) == [1, 9]


def test_a_value_without_confidence_ranks_below_the_least_confident() -> None:
    """Whoever says something of how sure he is comes first."""
    assert ranked("confidence", [entry("a", 9), entry("b", 1, confidence=0.0), entry("c", 8)]) == [1, 9, 8]


@pytest.mark.parametrize(
    "policy, current, later, is_lower",
    [
        ("max", 5, 4, True),
        ("max", 5, 5, False),
        ("max", 5, 6, False),
        ("min", 5, 6, True),
        ("min", 5, 4, False),
        ("first", 5, 5, True),
        ("lww", 5, 4, False),
        ("all", 5, 4, False),
        ("manual", 5, 4, False),
    ],
)
def test_what_ranks_lower_is_what_would_not_be_shown(policy: str, current: int, later: int, is_lower: bool) -> None:
    """Of equal ones the later is shown, unless the first is."""
    assert ranks_lower(POLICIES[policy], entry(current, 1), entry(later, 2)) == is_lower


def test_confidence_refuses_less_and_none() -> None:
    """As much is enough."""
    policy = POLICIES["confidence"]
    sure = entry("a", 1, confidence=0.5)
    assert ranks_lower(policy, sure, entry("b", 2, confidence=0.4))
    assert ranks_lower(policy, sure, entry("b", 2))
    assert not ranks_lower(policy, sure, entry("b", 2, confidence=0.5))
    assert not ranks_lower(policy, entry("a", 1), entry("b", 2))


def test_one_value_needs_no_ranking() -> None:
    """A key without siblings pays nothing: its value is not even decoded."""
    alone = entry(b"\xc1", 1)
    assert all(first_of(policy, [alone]) is alone for policy in POLICIES.values())
    assert first_of(LWW, [entry(1, 1), entry(0, 2)]).hlc == 2
