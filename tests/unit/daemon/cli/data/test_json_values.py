"""Values survive the way through JSON exactly, and what cannot be a value is refused with its place."""

from __future__ import annotations

import json

import pytest
from crdtsyncd.cli.data import json_values
from hypothesis import given
from hypothesis import strategies as st

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary()
)
names = st.text() | st.sampled_from(["$bytes", "$$bytes", "$$$bytes", "$", "bytes"])
trees = st.recursive(scalars, lambda part: st.lists(part) | st.dictionaries(names, part), max_leaves=20)


@given(trees)
def test_every_value_comes_back_as_it_was(value):
    text = json_values.dumps(value)
    back = json_values.loads(text)
    assert back == value
    assert repr(back) == repr(value)  # == takes 1, 1.0 and True for one


@given(trees)
def test_output_is_one_line_of_plain_json(value):
    text = json_values.dumps(value)
    json.loads(text)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text)


def test_bytes_are_base64():
    assert json_values.dumps({"key": b"\x00\xff"}) == '{"key": {"$bytes": "AP8="}}'
    assert json_values.loads('{"$bytes": "AP8="}') == b"\x00\xff"


def test_a_map_that_looks_like_bytes_is_escaped():
    assert json_values.dumps({"$bytes": "AP8="}) == '{"$$bytes": "AP8="}'
    assert json_values.loads('{"$$bytes": "AP8="}') == {"$bytes": "AP8="}


def test_a_map_with_more_keys_needs_no_escape():
    value = {"$bytes": "not base64", "other": 1}
    assert json_values.loads(json_values.dumps(value)) == value


@pytest.mark.parametrize(
    "text, place",
    [("hello", "at line 1, column 1"), ("", "at line 1, column 1"), ('{"a": 1,\n "b" 2}', "at line 2, column 6")],
)
def test_what_is_not_json_is_refused_with_its_place(text, place):
    with pytest.raises(json_values.NotJson, match=place):
        json_values.loads(text)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("NaN", "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("1e999", "too large"),
        ("18446744073709551616", "does not fit in 64 bits"),
        ("-9223372036854775809", "does not fit in 64 bits"),
        ("9" * 5000, "does not fit in 64 bits"),
        ('{"a": 1, "b": 2, "a": 3}', 'the key "a" is there twice'),
        ('{"$bytes": "!"}', "not base64"),
        ('{"$bytes": "A"}', "not base64"),
        ('{"$bytes": "ä"}', "not base64"),
        ('{"$bytes": 1}', "must hold a base64 string"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_no_value_can_hold_is_refused_with_a_reason(text, reason):
    with pytest.raises(json_values.NotStorable) as caught:
        json_values.loads(text)
    assert not isinstance(caught.value, json_values.NotJson)
    assert reason in str(caught.value)


@pytest.mark.parametrize("number", ["9223372036854775807", "-9223372036854775808", "18446744073709551615"])
def test_64_bits_are_enough(number):
    assert str(json_values.loads(number)) == number


def test_numbers_that_only_a_page_has_are_null():
    assert json_values.dumps({"a": [float("nan"), float("-inf"), 1.5]}) == '{"a": [null, null, 1.5]}'
