"""Yjs state vectors: those of pycrdt pass, and nothing malformed does."""

from __future__ import annotations

import contextlib

import pycrdt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.wire.yjs.state_vector import decode_state_vector
from crdtsync.wire.yjs.validator import InvalidUpdate


def encode(clocks):
    out = uint(len(clocks))
    for client, clock in clocks.items():
        out += uint(client) + uint(clock)
    return out


def uint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


CLOCKS = st.dictionaries(st.integers(0, 2**53 - 1), st.integers(0, 2**31 - 1), max_size=6)


@given(CLOCKS)
def test_round_trip(clocks):
    assert decode_state_vector(encode(clocks)) == clocks


@given(CLOCKS)
def test_every_truncation_is_refused(clocks):
    data = encode(clocks)
    for end in range(len(data)):
        with pytest.raises(InvalidUpdate):
            decode_state_vector(data[:end])


@given(CLOCKS, st.binary(min_size=1, max_size=3))
def test_trailing_bytes_are_refused(clocks, more):
    with pytest.raises(InvalidUpdate):
        decode_state_vector(encode(clocks) + more)


@given(st.binary(max_size=30))
def test_garbage(data):
    with contextlib.suppress(InvalidUpdate):
        decode_state_vector(data)


def test_what_pycrdt_says():
    doc: pycrdt.Doc[pycrdt.Text] = pycrdt.Doc(client_id=77)
    doc["text"] = text = pycrdt.Text()
    text += "hello"
    assert decode_state_vector(doc.get_state()) == {77: 5}


@pytest.mark.parametrize("data", [b"", b"\x01", uint(2**40), b"\xff" * 9, b"\x01" + b"\x80" * 9 + b"\x01\x00"])
def test_counts_and_integers_that_cannot_be(data):
    with pytest.raises(InvalidUpdate):
        decode_state_vector(data)
