"""Who belongs to a cluster, and who may connect, by records alone."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.core.cluster.membership import (
    KEYS_MAX,
    Member,
    RemovedMember,
    membership_of,
    merge_members,
    merge_removed,
    read_member,
    read_removed,
)

NAMES = ("a", "b", "c")


def pin(name: str) -> str:
    return name * 64


def member(name: str, keys: str = "", **fields: Any) -> Member:
    return Member(name, name, tuple((pin(key), key.encode()) for key in keys or name), **fields)


def removed(name: str, keys: str = "") -> RemovedMember:
    return RemovedMember(name, name, tuple((pin(key), key.encode()) for key in keys or name), by="a")


def test_members_are_known_by_their_keys():
    both = membership_of([member("a"), member("b", "bc")], [])
    assert [both.node_of(pin(key)) for key in "abcd"] == ["a", "b", "b", ""]
    assert both.refusal_of(pin("c")) == ""
    assert "no member" in both.refusal_of(pin("d"))


def test_removal_beats_whatever_is_written_of_the_member():
    left = membership_of([member("a"), member("b", time_ms=10**15)], [removed("b")])
    assert list(left.members) == ["a"]
    assert "b was removed from this cluster by a" in left.refusal_of(pin("b"))


def test_a_removed_key_does_not_come_back_under_another_name():
    left = membership_of([member("a"), member("c", "bc")], [removed("b")])
    assert list(left.members) == ["a"]
    assert left.refusal_of(pin("b"))
    assert left.refusal_of(pin("c"))


def test_what_a_node_was_told_when_it_joined_counts_until_there_is_a_record():
    told = [member("b", addresses=("old:1",)), member("c")]
    found = membership_of([member("a"), member("b", addresses=("new:1",))], [removed("c")], told)
    assert {node: each.addresses for node, each in found.members.items()} == {"a": (), "b": ("new:1",)}


def test_of_two_records_the_later_says_where_and_both_say_keys():
    old = member("b", "x", addresses=("old:1",), time_ms=1)
    new = member("b", "y", addresses=("new:1",), time_ms=2)
    for one, other in ((old, new), (new, old)):
        merged = merge_members(one, other)
        assert merged.addresses == ("new:1",)
        assert {key for key, _ in merged.keys} == {pin("x"), pin("y")}


def test_a_member_has_few_keys():
    merged = merge_members(member("b", "pqrs", time_ms=1), member("b", "wxyz", time_ms=2))
    assert [key[0] for key, _ in merged.keys] == list("wxyz")[:KEYS_MAX]


records = st.builds(
    member, st.just("b"), st.text("wxyz", min_size=1, max_size=2), time_ms=st.integers(0, 3),
    addresses=st.lists(st.sampled_from(["p:1", "q:1"]), max_size=2).map(tuple),
)  # fmt: skip


@given(st.lists(records, min_size=2, max_size=3))
def test_the_order_of_siblings_says_nothing_about_who_a_member_is(siblings: list[Member]):
    ends = set()
    for order in permutations(siblings):
        merged = order[0]
        for other in order[1:]:
            merged = merge_members(merged, other)
        ends.add((merged.name, merged.addresses, frozenset(merged.keys)))
    assert len(ends) == 1


def test_two_removals_are_one():
    one, other = removed("b", "x"), removed("b", "y")
    assert {key for key, _ in merge_removed(one, other).keys} == {pin("x"), pin("y")}


def test_records_survive_being_written():
    full = Member("b", "host-b", ((pin("b"), b"cert"),), ("h:1",), 5, "a", 6)
    assert read_member(full.plain()) == full
    assert read_removed(removed("b").plain()) == removed("b")


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["node", "name", "keys", "addresses", "joined_ms", "by", "time_ms"]), junk))
def test_a_record_of_whatever_is_read_or_refused(plain: dict[str, Any]):
    for read in (read_member, read_removed):
        try:
            found = read({"node": "b", **plain})
        except ValueError:
            continue
        assert membership_of([found] if isinstance(found, Member) else [], []).node_of(pin("b")) in ("", "b")


@pytest.mark.parametrize(
    "keys", [[["short", b"c"]], [[pin("b"), b""]], [[pin("b"), b"c" * 5000]], [[pin("b")]], "keys"]
)
def test_a_malformed_key_lets_nobody_in(keys: Any):
    assert membership_of([read_member({"node": "b", "keys": keys})], []).members == {}
