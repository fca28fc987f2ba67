"""Tokens, versions and dots: what users hold on to comes back as it was, and anything else is refused kindly."""

# Writers are plain numbers here.
# mypy: disable-error-code="arg-type,dict-item,operator,var-annotated"

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.causality import HLC_MAX, SEQ_MAX, WRITER_MAX, Dot
from crdtsync.errors import InvalidRequest
from crdtsync.wire.codec import pack
from crdtsync.wire.tokens import (
    TOKEN_PREFIX,
    VERSION_DOTS_MAX,
    VERSION_PREFIX,
    Version,
    decode_dot,
    decode_token,
    decode_version,
    encode_dot,
    encode_token,
    encode_version,
)

WRITERS = st.integers(0, WRITER_MAX)
SEQS = st.integers(0, SEQ_MAX)
VECTORS = st.dictionaries(WRITERS, SEQS, max_size=5)
DOTS = st.builds(Dot, WRITERS, SEQS, st.integers(0, 1000))
MANY_DOTS = st.lists(DOTS, max_size=4).map(tuple)
SPACES = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True) | st.just("_cluster")
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**64 - 1) | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.tuples(SPACES, SEQS, VECTORS), max_size=3, unique_by=lambda point: point[0]))
def test_token_round_trip(points):
    token = encode_token(points)
    assert token.startswith(TOKEN_PREFIX)
    assert token.isascii()
    assert decode_token(token) == {space: (epoch, vector) for space, epoch, vector in points}


@given(MANY_DOTS, MANY_DOTS, st.integers(0, HLC_MAX))
def test_version_of_dots_round_trip(dots, others, hlc):
    assert decode_version(encode_version(Version(dots, others, None, hlc))) == Version(dots, others, None, hlc)


@given(MANY_DOTS, VECTORS, st.integers(0, HLC_MAX))
def test_version_with_a_vector_round_trip(dots, vector, hlc):
    assert decode_version(encode_version(Version(dots, (), vector, hlc))) == Version(dots, (), vector, hlc)


@given(DOTS)
def test_dot_round_trip(dot):
    assert decode_dot(encode_dot(dot)) == dot


def test_equal_points_have_equal_tokens():
    assert encode_token([("s", 0, {5: 1, 2: 3})]) == encode_token([("s", 0, {2: 3, 5: 1})])


@pytest.mark.parametrize("decode, prefix", [(decode_token, TOKEN_PREFIX), (decode_version, VERSION_PREFIX)])
class TestGarbage:
    @given(text=st.text(max_size=60))
    def test_text(self, decode, prefix, text):
        with pytest.raises(InvalidRequest):
            decode(text)

    @given(plain=PLAIN | st.lists(PLAIN, min_size=2, max_size=4))
    def test_well_packed_things_of_another_shape(self, decode, prefix, plain):
        self.check(decode, prefix, plain)

    @given(hlc=st.integers(-1, 5), form=st.integers(-1, 2), flat=PLAIN, rest=st.lists(PLAIN, max_size=2))
    def test_nearly_right_versions(self, decode, prefix, hlc, form, flat, rest):
        self.check(decode, prefix, [hlc, form, flat, *rest])

    @given(space=PLAIN | SPACES, epoch=PLAIN, flat=PLAIN)
    def test_nearly_right_tokens(self, decode, prefix, space, epoch, flat):
        self.check(decode, prefix, [[space, epoch, flat]])

    def check(self, decode, prefix, plain):
        from base64 import urlsafe_b64encode

        text = prefix + urlsafe_b64encode(pack(plain)).rstrip(b"=").decode()
        try:
            decode(text)
        except InvalidRequest:
            return

    @given(data=st.data())
    def test_every_truncation_and_no_crash_on_any_change(self, decode, prefix, data):
        good = (
            encode_token([("default", 0, {7: 3, 2**50: 9})])
            if prefix == TOKEN_PREFIX
            else encode_version(Version((Dot(7, 3, 0), Dot(2**50, 9, 2)), hlc=5))
        )
        for end in range(len(good)):
            with pytest.raises(InvalidRequest):
                decode(good[:end])
        at, char = data.draw(st.integers(0, len(good) - 1)), data.draw(st.characters())
        with contextlib.suppress(InvalidRequest):
            decode(good[:at] + char + good[at + 1 :])

    @pytest.mark.parametrize("thing", [None, 5, b"c1.", [], {}, ""])
    def test_other_types(self, decode, prefix, thing):
        with pytest.raises(InvalidRequest, match="start with"):
            decode(thing)


@pytest.mark.parametrize("flat", [{"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, 7, "ab", None])
def test_maps_and_numbers_in_place_of_lists(flat):
    """These have a length, or an item 0, as lists have."""
    from base64 import urlsafe_b64encode

    def text(prefix, plain):
        return prefix + urlsafe_b64encode(pack(plain)).rstrip(b"=").decode()

    for decode, plain in (
        (decode_token, text(TOKEN_PREFIX, [["default", 0, flat]])),
        (decode_version, text(VERSION_PREFIX, [0, 1, flat])),
        (decode_version, text(VERSION_PREFIX, [0, 0, flat])),
        (decode_version, text(VERSION_PREFIX, [0, 0, [], flat])),
    ):
        with pytest.raises(InvalidRequest):
            decode(plain)


@pytest.mark.parametrize(
    "text", ["", "1.2", "1.2.3.4", "a.b.c", "-1.2.3", "1.2.99999", "1..2", f"{2**60}.1.0", "1.2.3" + "0" * 80, None, 4]
)
def test_not_a_dot(text):
    with pytest.raises(InvalidRequest, match="not a dot"):
        decode_dot(text)


def test_a_version_with_too_many_dots_is_refused():
    dots = tuple(Dot(1, seq, 0) for seq in range(1, VERSION_DOTS_MAX + 1))
    assert len(decode_version(encode_version(Version(dots))).dots) == VERSION_DOTS_MAX
    with pytest.raises(InvalidRequest):
        decode_version(encode_version(Version((*dots, Dot(1, 9999, 0)))))
