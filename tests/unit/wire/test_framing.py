"""Frames come out as they went in, however the stream is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.errors import InvalidEncoding
from crdtsync.wire.framing import FrameReader, frame

PAYLOADS = st.lists(st.binary(min_size=1, max_size=40), max_size=8)


@given(PAYLOADS, st.data())
def test_any_split_of_the_stream_gives_the_same_frames(payloads, data):
    stream = b"".join(map(frame, payloads))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    reader = FrameReader(64)
    out = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        out += reader.feed(stream[start:end])
    assert out == payloads


def test_byte_by_byte_a_frame_comes_out_with_its_last_byte():
    reader = FrameReader(100)
    stream = frame(b"abc")
    assert [reader.feed(stream[i : i + 1]) for i in range(len(stream))] == [[], [], [], [], [], [], [b"abc"]]


def test_the_largest_frame_passes_and_one_byte_more_does_not():
    assert FrameReader(5).feed(frame(b"12345")) == [b"12345"]
    with pytest.raises(InvalidEncoding, match="6 bytes"):
        FrameReader(5).feed(frame(b"123456"))


def test_too_large_a_frame_is_refused_by_its_length_alone():
    with pytest.raises(InvalidEncoding):
        FrameReader(1000).feed(b"\xff\xff\xff\xff")


def test_an_empty_frame_is_refused():
    with pytest.raises(InvalidEncoding):
        FrameReader(5).feed(bytes(4))


def test_what_is_left_over_is_at_most_one_frame():
    reader = FrameReader(10)
    reader.feed(frame(b"x" * 10) * 50 + frame(b"y" * 10)[:-1])
    assert len(reader._buffer) == 13
