"""Values come back exactly as they were, or are refused with the path of what could not."""

import datetime as dt
import enum
import math
from collections import OrderedDict

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.client.values.encoding import decode, encode
from crdtsync.errors import InvalidEncoding, InvalidValue, TooLarge
from crdtsync.wire.limits import VALUE_DEPTH_MAX

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.binary()
)
storable = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=30)
anything = st.recursive(
    st.none()
    | st.floats()
    | st.integers()
    | st.text(st.characters())
    | st.binary()
    | st.just(math.pi)
    | st.just(frozenset((1,)))
    | st.just(dt.date(2026, 1, 1)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(st.characters()) | st.integers() | st.binary() | st.none(), inner, max_size=4)
    ),
    max_leaves=15,
)


def same(one: object, other: object) -> bool:
    """Equal and of the same types throughout; True is not 1, and -0.0 is not 0.0."""
    return repr(one) == repr(other)


@given(storable)
def test_what_is_stored_comes_back_exactly(value):
    assert same(decode(encode(value)), value)


def as_lists(value: object) -> object:
    if isinstance(value, list | tuple):
        return [as_lists(item) for item in value]
    return {key: as_lists(item) for key, item in value.items()} if isinstance(value, dict) else value


@given(anything)
def test_anything_is_stored_exactly_or_refused_with_a_path(value):
    refused, packed = None, b""
    try:
        packed = encode(value)
    except InvalidValue as error:
        refused = error
    if refused is None:
        assert same(decode(packed), as_lists(value))
    else:
        assert refused.path.startswith("$")
        assert refused.path in refused.message


class Colour(enum.StrEnum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


class Name(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value, path",
    [
        ({1, 2}, "$"),
        ({"steps": [0, 1, 2, {"when": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}]}, "$.steps[3].when"),
        ({"a": {"b": {1: 2}}}, "$.a.b"),
        ({"a": {b"b": 1}}, "$.a"),
        ({None: 1}, "$"),
        ([1, 2**64], "$[1]"),
        ([-(2**63) - 1], "$[0]"),
        ({"x": float("nan")}, "$.x"),
        ([1.0, float("-inf")], "$[1]"),
        (float("inf"), "$"),
        ("\ud800", "$"),
        (["ok", "\udfff"], "$[1]"),
        ({"\ud800": 1}, "$"),
        ({"c": Colour.RED}, "$.c"),
        ([Number.ONE], "$[0]"),
        (Name("x"), "$"),
        ({Name("x"): 1}, "$"),
        ([memoryview(b"x")], "$[0]"),
        ([msgpack.Timestamp(1, 2)], "$[0]"),
        (msgpack.ExtType(1, b"x"), "$"),
        (OrderedDict(a=1), "$"),
        (((1, [object()]),), "$[0][1][0]"),
        (1j, "$"),
    ],
)
def test_a_refusal_names_the_offending_part(value, path):
    with pytest.raises(InvalidValue) as refused:
        encode(value)
    assert refused.value.path == path


def nested(depth: int, innermost: object) -> object:
    for _ in range(depth):
        innermost = [innermost]
    return innermost


def test_nesting_is_bounded():
    assert same(decode(encode(nested(64, 1))), nested(64, 1))
    with pytest.raises(InvalidValue, match="64") as refused:
        encode(nested(65, 1))
    assert refused.value.path == "$" + "[0]" * 64


def test_a_value_that_holds_itself_is_refused():
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(InvalidValue):
        encode(loop)


def test_bytes_that_look_like_a_nan_are_no_nan():
    looks = [b"\xcb\x7f\xf8", "\u02ff\x7f", -(2**63), 0xCB7FF8, b"\xcb\xff\xf0"]
    assert decode(encode(looks)) == looks


def test_tuples_become_lists_and_bytearrays_bytes():
    assert decode(encode({"t": (1, (2, ()))})) == {"t": [1, [2, []]]}
    assert same(decode(encode(bytearray(b"x"))), b"x")


def test_size_is_bounded():
    assert len(encode(b"x" * (1024 * 1024 - 5))) == 1024 * 1024
    with pytest.raises(TooLarge):
        encode(b"x" * (1024 * 1024 - 4))


@pytest.mark.parametrize("packed", [b"", b"\xc1", b"\x92\x01", b"\x01\x01", b"\xa1\xff", b"\xd4\x01x", b"\x91" * 2000])
def test_what_is_not_a_value_is_an_error(packed):
    with pytest.raises(InvalidEncoding):
        decode(packed)


def test_a_long_path_is_cut_in_what_an_error_says_and_whole_beside_it():
    value: object = None
    for _ in range(VALUE_DEPTH_MAX + 1):
        value = [value]
    with pytest.raises(InvalidValue) as caught:
        encode(value)
    assert len(str(caught.value)) < 250
    assert str(caught.value).endswith("… nesting is deeper than 64")
    assert caught.value.path == "$" + "[0]" * VALUE_DEPTH_MAX
