"""Frames read and made without the library, beside the library's own reading and making of the same bytes."""

from __future__ import annotations

import random
import struct
from itertools import islice, pairwise
from typing import Any

import pytest
from crdtsyncd.peers.websocket_frames import Splitter, masking_keys, message_frame, whole_message
from crdtsyncd.peers.websocket_peer import Counted
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import CLIENT, SERVER, Event, Protocol, Side, State

from tests.examples import examples

HANDSHAKE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
MAX_BYTES = 70_000
SIDES = pytest.mark.parametrize("side", [SERVER, CLIENT], ids=["server", "client"])


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.is_ended = False

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.is_ended = True


class Reader(Counted):
    """Notes the data that it is handed, from ``take`` and from the library alike."""

    def __init__(self, side: Side, seed: int | None) -> None:
        super().__init__(Protocol(side, max_size=MAX_BYTES))
        self.transport: Any = Transport()
        self.got: list[tuple[Opcode, bool, bytes]] = []
        self.taken = 0
        self._random = None if seed is None else random.Random(seed)
        self.take = self._take
        self._splitter.split(HANDSHAKE)

    def _take(self, message: bytes) -> bool:
        if self._random is not None and self._random.random() < 0.3:
            return False
        self.taken += 1
        self.got.append((Opcode.BINARY, True, message))
        return True

    def process_event(self, event: Event) -> None:
        assert isinstance(event, Frame)
        self.got.append((event.opcode, event.fin, bytes(event.data)))


def frames() -> st.SearchStrategy[list[tuple[int, int, int, bool, int]]]:
    """First byte, how to say the length, payload, a wrong mask, what to cut off: mostly none."""
    plain = st.just(0x82)
    first = st.one_of(plain, plain, plain, st.sampled_from([0x02, 0x00, 0x80, 0x01, 0x81, 0x88, 0x89, 0x8A]))
    odd = st.one_of(*[first] * 15, st.integers(0, 255))
    size = st.one_of(
        st.integers(0, 130), st.sampled_from([0, 1, 125, 126, 127, 65535, 65536, MAX_BYTES, MAX_BYTES + 1])
    )
    rare = st.one_of(*[st.just(0)] * 30, st.just(1))
    return st.lists(st.tuples(odd, rare, size, rare.map(bool), rare), min_size=1, max_size=8)


def packed(described: tuple[int, int, int, bool, int], side: Side) -> bytes:
    """One frame as the other side would send it, or would not."""
    first, is_wide, size, is_wrong, cut = described
    payload = (b"\x82\x05" * (size // 2 + 1))[:size]  # it looks like frames itself
    is_masked = (side is SERVER) is not is_wrong
    bit, length = 0x80 if is_masked else 0, len(payload)
    if length < 126 and not is_wide:
        head = struct.pack("!BB", first, bit | length)
    elif length < 65536:
        head = struct.pack("!BBH", first, bit | 126, length)
    else:
        head = struct.pack("!BBQ", first, bit | 127, length)
    mask = b"\x01\x82\x7f\xff" if is_masked else b""
    body = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)) if mask and length < 200 else payload
    whole = head + mask + body
    return whole[: len(whole) - cut]


@SIDES
@examples(50)
@given(described=frames(), cuts=st.lists(st.floats(0, 1), max_size=6), seed=st.none() | st.integers(0, 99))
async def test_whatever_comes_in_whatever_pieces_is_read_as_the_library_reads_it(
    side: Side, described: list[tuple[int, int, int, bool, int]], cuts: list[float], seed: int | None
) -> None:
    data = b"".join(packed(one, side) for one in described)
    library = Protocol(side, max_size=MAX_BYTES)
    library.receive_data(data)
    reader = Reader(side, seed)
    places = sorted({0, len(data), *(int(cut * len(data)) for cut in cuts)})
    for start, end in pairwise(places):
        reader.data_received(data[start:end])
        reader._offers = 100
    expected = [(e.opcode, e.fin, bytes(e.data)) for e in library.events_received() if isinstance(e, Frame)]
    ends = _ends(reader.protocol), _ends(library)
    held = reader._splitter._before
    assert reader.got == expected
    assert len(held) < 14
    if not held:  # else the library may know already that a header is wrong, or end it
        assert ends[0] == ends[1]


def _ends(protocol: Protocol) -> tuple[object, ...]:
    return protocol.state, protocol.close_sent, protocol.close_rcvd, str(protocol.parser_exc)


@SIDES
async def test_messages_that_come_whole_pass_the_library_by(side: Side) -> None:
    reader = Reader(side, None)
    sent = [b"a" * size for size in (0, 1, 125, 126, 60_000)]
    for message in sent:
        reader.data_received(_library(side, message))
    assert reader.got == [(Opcode.BINARY, True, message) for message in sent]
    assert reader.taken == len(sent)


def _library(side: Side, message: bytes) -> bytes:
    return Frame(Opcode.BINARY, message).serialize(mask=side is SERVER)


@SIDES
@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 100_000])
def test_a_frame_is_what_the_library_makes_and_reads(side: Side, size: int) -> None:
    message = random.Random(size).randbytes(size)
    frame = message_frame(message, is_masked=side is SERVER)
    assert len(frame) == len(_library(side, message))
    assert whole_message(frame, is_masked=side is SERVER) == message
    assert whole_message(frame, is_masked=side is CLIENT) is None
    library = Protocol(side)
    library.receive_data(frame)
    (event,) = library.events_received()
    assert isinstance(event, Frame)
    assert (event.opcode, event.fin, event.data) == (Opcode.BINARY, True, message)


def test_no_masking_key_comes_twice_in_a_row_and_none_is_short() -> None:
    keys = [*islice(masking_keys(), 5000)]
    assert {len(key) for key in keys} == {4}
    assert len(set(keys)) > 4990


def test_frames_are_told_apart_from_the_handshake_they_follow() -> None:
    sent = [b"\x82\x03abc", b"\x82\x01d"]
    data = HANDSHAKE + b"".join(sent)
    starts = (len(HANDSHAKE), len(HANDSHAKE) + len(sent[0]))
    for cut in range(len(data)):
        splitter = Splitter()
        pieces = splitter.split(data[:cut]) + splitter.split(data[cut:])
        assert b"".join(piece for piece, _ in pieces) == data
        whole = [frame for frame, at in zip(sent, starts, strict=True) if not at + 2 <= cut < at + len(frame)]
        assert [piece for piece, is_frame in pieces if is_frame] == whole, f"cut at {cut}: after its header it is not"


async def test_nothing_is_taken_while_the_library_is_not_open() -> None:
    reader = Reader(CLIENT, None)
    reader.protocol.state = State.CLOSING
    reader.data_received(b"\x82\x01a")
    assert reader.taken == 0


async def test_a_message_amid_another_one_that_comes_in_several_frames_breaks_the_protocol() -> None:
    reader = Reader(CLIENT, None)
    reader.data_received(b"\x02\x01a")
    reader.data_received(b"\x82\x01b")
    assert reader.taken == 0
    assert reader.protocol.close_sent is not None
    assert reader.protocol.close_sent.code == CloseCode.PROTOCOL_ERROR


async def test_a_message_in_several_frames_with_a_ping_amid_comes_whole_and_the_next_one_is_taken() -> None:
    reader = Reader(CLIENT, None)
    for frame in (b"\x02\x01a", b"\x89\x00", b"\x80\x01b", b"\x82\x01c"):
        reader.data_received(frame)
    codes = [(opcode, data) for opcode, _, data in reader.got]
    assert codes == [(Opcode.BINARY, b"a"), (Opcode.PING, b""), (Opcode.CONT, b"b"), (Opcode.BINARY, b"c")]
    assert reader.taken == 1
    assert reader.transport.written[:2] == b"\x8a\x80", "a pong, masked"
