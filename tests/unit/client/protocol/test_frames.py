"""Frames out and messages in, however the bytes are cut."""

import contextlib
import struct

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.client.protocol.frames import Message, MessageReader, encode_hello, encode_request
from crdtsync.errors import InvalidEncoding, InvalidRequest, TooLarge


def frame(message: object) -> bytes:
    body = msgpack.packb(message)
    return struct.pack(">I", len(body)) + body


MESSAGES = [
    (2, 0, {"value": b"\x01"}),
    (3, 1, {"code": "refused", "message": "no"}),
    (4, 2, [{"event": "set"}]),
    (5, 0, None),
]


@given(st.lists(st.sampled_from(MESSAGES)), st.lists(st.integers(1, 60)))
def test_messages_arrive_however_they_are_cut(messages, cuts):
    data = b"".join(frame(list(message)) for message in messages)
    reader = MessageReader()
    received: list[Message] = []
    for cut in [*cuts, len(data)]:
        piece, data = data[:cut], data[cut:]
        received += reader.feed(piece)
    assert received == messages


@pytest.mark.parametrize("is_received_into", [False, True])
def test_long_messages_arrive_however_they_are_cut(is_received_into: bool) -> None:
    """Also those that are received where they belong, of which the next one begins in the same piece."""
    messages = [(n, 0, {"value": bytes([n]) * size}) for n, size in enumerate((3, 300_000, 65_000, 70_000, 5, 200_000))]
    for cut in (1_000, 65_536, 70_001, 1_000_000):
        data, reader, received = (
            b"".join(frame(list(message)) for message in messages),
            MessageReader(),
            list[Message](),
        )
        while data:
            room = reader.room() if is_received_into else memoryview(b"")
            count = min(cut, len(data), len(room) or cut)
            piece, data = memoryview(data)[:count], data[count:]
            if room:
                room[:count], piece = piece, room[:count]
            received += reader.feed(piece if room else bytes(piece))
        assert received == messages


@pytest.mark.parametrize(
    "data",
    [
        frame("no array"),
        frame([1, 0]),
        frame(["1", 0, None]),
        frame([1, 1, "no map"]),
        b"\x00\x00\x00\x01\xc1",
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        frame([2, 0, None]) + b"\x00\x80\x00\x01",
        frame([1, 0, msgpack.ExtType(5, b"x")]),
    ],
)
def test_what_is_not_the_protocol_is_an_error(data):
    with pytest.raises(InvalidEncoding):
        list(MessageReader().feed(data))


@given(st.binary())
def test_any_bytes_give_messages_or_that_error(data):
    with contextlib.suppress(InvalidEncoding):
        list(MessageReader().feed(data))


def test_a_request_is_one_frame():
    data = encode_request(7, "get", {"key": "k"})
    assert data == frame([7, "get", {"key": "k"}])


def test_the_hello_comes_first_and_names_us():
    body = msgpack.unpackb(encode_hello(b"c" * 16, "me", "default")[4:])
    assert body == [1, "hello", {"protocol": 1, "client": b"c" * 16, "agent": "me", "space": "default"}]


@pytest.mark.parametrize("key", ["\ud800", object(), 2**70])
def test_an_argument_that_cannot_travel_is_refused_here(key):
    with pytest.raises(InvalidRequest, match="'get'"):
        encode_request(1, "get", {"key": key})


def test_a_frame_that_the_daemon_would_close_the_connection_for_is_refused_here():
    with pytest.raises(TooLarge):
        encode_request(1, "text_apply", {"update": b"x" * (8 * 1024 * 1024)})
