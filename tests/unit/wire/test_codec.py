"""The codec keeps values exactly, and refuses the rest with one exception."""

from __future__ import annotations

import sys
import tracemalloc

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.errors import InvalidEncoding
from crdtsync.wire import codec
from crdtsync.wire.codec import check_items, check_packed, pack, unpack
from crdtsync.wire.limits import VALUE_CONTAINERS_MAX, VALUE_DEPTH_MAX

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def check_value(value):
    """By all ways that there are, which agree: item by item and all at once, of what is unpacked and of bytes."""
    with pytest.MonkeyPatch.context() as patch:
        said = {_fault(codec.check_value, value)}
        if _is_packable(value):
            said.add(_fault(check_packed, pack(value)))
            for bound in ("LONG_BYTES", "PIECES_BYTES"):
                patch.setattr(codec, bound, 0)
                said.add(_fault(check_packed, pack(value)))
            patch.setattr(codec, "PIECE_ITEMS", 2)
            said.add(_fault(check_packed, pack(value)))
        patch.setattr(codec, "SHORT_LEVEL_ITEMS", 0)
        said.add(_fault(codec.check_value, value))
    assert len(said) == 1
    (fault,) = said
    if fault:
        raise InvalidEncoding(fault)


def _fault(check, value):
    try:
        check(value)
    except InvalidEncoding as error:
        return error.message
    return ""


def _is_packable(value):
    """Whether there are bytes of it that the codec itself takes for msgpack."""
    try:
        unpack(pack(value))
    except (InvalidEncoding, TypeError):
        return False
    return True


def same(one, other):
    """Equal, and of the same types: 1, 1.0 and True differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return [*one] == [*other] and all(same(one[key], other[key]) for key in one)
    return repr(one) == repr(other)


@given(VALUES)
def test_a_value_comes_back_as_it_was(value):
    check_value(value)
    assert same(unpack(pack(value)), value)


@given(VALUES)
def test_every_truncation_is_refused(value):
    data = pack(value)
    for end in range(len(data)):
        with pytest.raises(InvalidEncoding):
            unpack(data[:end])


@given(VALUES, st.binary(min_size=1, max_size=4))
def test_trailing_bytes_are_refused(value, more):
    with pytest.raises(InvalidEncoding):
        unpack(pack(value) + more)


@given(st.binary(max_size=64))
def test_garbage_decodes_or_is_refused_with_the_one_exception(data):
    try:
        unpack(data)
    except InvalidEncoding:
        return
    check_items(data, 10)


@pytest.mark.parametrize(
    "value",
    [(1, 2), {1, 2}, object(), 2**64, type("Text", (str,), {})("x")],
    ids=["tuple", "set", "object", "65 bits", "subclass"],
)
def test_what_msgpack_does_not_hold_exactly_is_not_packed(value):
    with pytest.raises((TypeError, OverflowError)):
        pack(value)


@pytest.mark.parametrize(
    "data",
    [msgpack.packb(msgpack.ExtType(5, b"x")), msgpack.packb(msgpack.Timestamp(1)), b"\xa2\xff\xfe", b"\xc1", b""],
    ids=["extension", "timestamp", "not UTF-8", "unused code", "nothing"],
)
def test_not_a_value(data):
    with pytest.raises(InvalidEncoding):
        check_value(unpack(data))


@pytest.mark.parametrize("key", [1, b"k", None, True])
def test_maps_have_str_keys(key):
    with pytest.raises(InvalidEncoding):
        check_value({key: 1})


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_without_a_value_are_refused_at_any_depth(number):
    for value in (number, [number], {"a": [{"b": number}]}):
        with pytest.raises(InvalidEncoding, match="NaN"):
            check_value(value)


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"k": value}], ids=["lists", "maps"])
def test_nesting_up_to_the_limit_passes(wrap):
    value = 0
    for _ in range(VALUE_DEPTH_MAX):
        value = wrap(value)
    check_value(value)
    with pytest.raises(InvalidEncoding, match="nest"):
        check_value(wrap(value))


MANY = b"\x01\xa1a\xc0" * 100 + b"\x90\x91\x01\x80\x81\xa1k\x01" * 100


@pytest.mark.parametrize(
    "item, is_fine",
    [(b"\x01", True), (msgpack.packb(float("nan")), False), (b"\xd4\x00\x00", False), (b"\x91\x90", False)],
    ids=["fine", "no number", "extension", "too deep"],
)
def test_one_item_among_many_is_looked_at(item, is_fine):
    for items in (item + MANY, MANY + item):
        data = b"\x91" * (VALUE_DEPTH_MAX - 2) + b"\xdd" + (701).to_bytes(4, "big") + items
        if is_fine:
            check_packed(data)
        else:
            with pytest.raises(InvalidEncoding):
                check_packed(data)


LONG = 70_000
"""Bytes of a value that is looked at in pieces."""


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd" + LONG.to_bytes(4, "big") + b"\x01" * (LONG - 1),
        b"\xdd" + LONG.to_bytes(4, "big") + b"\x01" * LONG + b"\x01",
        b"\xdf" + LONG.to_bytes(4, "big") + b"\xa0\x01" * (LONG - 1) + b"\xa0",
        b"\xdf" + LONG.to_bytes(4, "big") + b"\xa0\x01" * (LONG - 1) + b"\xc4\x01k\x01",
        b"\xc6" + LONG.to_bytes(4, "big") + b"\x01" * LONG + b"\x01",
        b"\xdd" + LONG.to_bytes(4, "big") + b"\x01" * (LONG - 1) + b"\xa1\xff",
    ],
    ids=["cut off", "something behind", "no last value", "bytes for a key", "behind bytes", "no UTF-8"],
)
def test_what_is_wrong_with_a_long_value_is_found(data):
    with pytest.raises(InvalidEncoding):
        check_packed(data)


def lists(item, count):
    return b"\xdd" + count.to_bytes(4, "big") + item * count


@pytest.mark.parametrize("item, each", [(b"\x90", 1), (b"\x80", 1), (b"\x91\x81\xa0\x01", 2), (b"\x92\xc0\x90", 2)])
def test_an_agent_may_write_so_many_lists_and_maps_in_each_other_and_no_more(item, each):
    most = (VALUE_CONTAINERS_MAX - 1) // each
    filler = b"\xc4\xff" + b"\x90" * 255
    for wrap in (lambda packed: packed, lambda packed: b"\x92" + filler + packed):  # at the top, and further down
        packed = wrap(lists(item, most - 1))
        check_packed(packed, VALUE_CONTAINERS_MAX)
        over = wrap(lists(item, most + 2))
        check_packed(over)
        with pytest.raises(InvalidEncoding, match="65,536 lists and maps"):
            check_packed(over, VALUE_CONTAINERS_MAX)


def test_of_too_many_maps_far_down_in_a_value_few_are_made():
    packed = b"\x92\xc0" + lists(b"\x81\xa0" * 20 + b"\x01", 25_000)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidEncoding, match="65,536 lists and maps"):
            check_packed(packed, VALUE_CONTAINERS_MAX)
        assert tracemalloc.get_traced_memory()[1] < 2 * VALUE_CONTAINERS_MAX * sys.getsizeof({"": 1})
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "value, parts",
    [(5, 0), ("abc", 0), ([], 8), ([1, "two", None], 11), ({"a": 1, "b": 2.0}, 12), ([[1], {"a": []}], 37)],
)
def test_the_parts_of_a_value_are_counted(value, parts, monkeypatch):
    assert check_packed(pack(value)) == parts
    monkeypatch.setattr(codec, "LONG_BYTES", 0)
    assert check_packed(pack(value)) == parts
    monkeypatch.setattr(codec, "PIECES_BYTES", 0)
    assert check_packed(pack(value)) == (parts or 9)  # what is neither list nor map is looked at in a list of its own
    monkeypatch.setattr(codec, "SHORT_LEVEL_ITEMS", 0)
    assert check_packed(pack(value)) == (parts or 9)


def test_a_value_with_too_many_parts_is_looked_at_no_further():
    packed = lists(b"\x01", 100_000)[:-1] + b"\xc1"  # which stands for nothing
    with pytest.raises(InvalidEncoding):
        check_packed(packed)
    assert 1000 < check_packed(packed, parts_max=1000) < 2000


def test_hostile_nesting_costs_no_recursion():
    with pytest.raises(InvalidEncoding):
        check_value(unpack(b"\x91" * 500 + b"\x00"))
    with pytest.raises(InvalidEncoding):
        unpack(b"\x91" * 100_000 + b"\x00")


def test_items_are_counted_before_they_cost_memory():
    check_items(pack([0] * 100), 102)
    with pytest.raises(InvalidEncoding, match="items"):
        check_items(pack([0] * 100), 99)
    with pytest.raises(InvalidEncoding, match="items"):
        check_items(pack([[i, {"k": i}] for i in range(50)]), 200)


def test_an_announced_length_is_not_believed():
    with pytest.raises(InvalidEncoding):
        unpack(b"\xdd\xff\xff\xff\xff")
    with pytest.raises(InvalidEncoding):
        unpack(b"\xdf\xff\xff\xff\xff")
