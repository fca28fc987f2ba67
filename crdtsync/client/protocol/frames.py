"""The agent protocol as bytes: frames out, messages in. No sockets here.

The specification is docs/reference/agent-protocol.md.
"""

from __future__ import annotations

from typing import Any, NoReturn

from msgpack import unpackb

from crdtsync.client.values.packer import packb, succeeds
from crdtsync.errors import InvalidEncoding, InvalidRequest, TooLarge
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX, PROTOCOL_VERSION

HELLO_ID = 1
RESULT, ERROR, EVENTS, POINT = 0, 1, 2, 3
_HEAD_BYTES = 4
_LONG_BYTES = 64 * 1024
"""Bytes of a frame that does not come at once: so much is received together
(:mod:`crdtsync.client.aio.receive_buffer`).
"""

Message = tuple[int, int, Any]
"""``(id, RESULT, result)``, ``(id, ERROR, fields)``, ``(id, EVENTS, events)`` or ``(id, POINT, [space, token])``."""


def encode_request(request_id: int, operation: str, arguments: dict[str, object]) -> bytes:
    """One request as a frame.

    :raises InvalidRequest: an argument is of a type that the protocol does not have, or is not valid Unicode.
    :raises TooLarge: over 8 MiB.
    """
    try:
        body = packb((request_id, operation, arguments))
    except (TypeError, ValueError, OverflowError) as error:
        if succeeds(packb, (request_id, operation, arguments)):
            raise
        raise InvalidRequest(f"an argument of {operation!r} cannot be sent: {error}") from None
    if len(body) > AGENT_FRAME_BYTES_MAX:
        raise TooLarge(f"the request has {len(body):,} bytes; at most {AGENT_FRAME_BYTES_MAX:,} go into one")
    return len(body).to_bytes(_HEAD_BYTES, "big") + body


def encode_hello(client: bytes, agent: str, space: str, key: str | None = None, *, points: bool = False) -> bytes:
    """The first request of a connection.

    ``key``: what the agent proves its name with; ``points``: it wants to be told the causal point of what it reads.
    """
    arguments: dict[str, object] = {"protocol": PROTOCOL_VERSION, "client": client, "agent": agent, "space": space}
    if key is not None:
        arguments["key"] = key
    if points:
        arguments["points"] = True
    return encode_request(HELLO_ID, "hello", arguments)


class MessageReader:
    """Collects bytes as they come and gives out the messages that are complete.

    A long frame is collected in a place of its own length: one that grows with each piece costs more than all else that
    the client does with 512 KiB.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._long = memoryview(b"")  # the frame that has begun, if it is long
        self._long_bytes = 0  # of it that are there

    def room(self) -> memoryview:
        """Where the rest of a long frame belongs: what is received into it is then fed. Empty: none has begun."""
        return self._long[self._long_bytes :]

    def feed(self, data: bytes | memoryview) -> list[Message]:
        """The messages that ``data`` completes, in order.

        :raises InvalidEncoding: not the protocol; the connection is of no more use.
        """
        if self._long:
            return self._feed_long(data)
        if not self._buffer:
            if len(data) == _HEAD_BYTES + int.from_bytes(data[:_HEAD_BYTES], "big"):
                return [_decode(data[_HEAD_BYTES:])]  # the common case: exactly one frame, nothing to collect
            messages, end = _whole(data)  # many frames at once, and most often none of them cut
            if end < len(data):
                self._buffer += memoryview(data)[end:]
        else:
            self._buffer += data
            messages, end = _whole(self._buffer)
            del self._buffer[:end]
        if len(self._buffer) >= _HEAD_BYTES:
            self._begin(_HEAD_BYTES + int.from_bytes(self._buffer[:_HEAD_BYTES], "big"))
        return messages

    def _begin(self, size_bytes: int) -> None:
        if size_bytes > _LONG_BYTES:
            self._long, self._long_bytes = memoryview(bytearray(size_bytes)), len(self._buffer)
            self._long[: self._long_bytes] = self._buffer
            self._buffer.clear()

    def _feed_long(self, data: bytes | memoryview) -> list[Message]:
        end = self._long_bytes + len(data)
        over = max(0, end - len(self._long))
        here = memoryview(data)[: len(data) - over]
        self._long[self._long_bytes : end] = here
        self._long_bytes = end - over
        if self._long_bytes < len(self._long):
            return []
        whole, self._long = self._long, memoryview(b"")
        messages = [_decode(whole[_HEAD_BYTES:])]
        return messages + self.feed(data[len(data) - over :]) if over else messages


def _whole(data: bytes | bytearray | memoryview) -> tuple[list[Message], int]:
    """The messages whose frames are whole, and where the rest begins."""
    messages: list[Message] = []
    start, size_bytes = 0, len(data)
    while size_bytes - start >= _HEAD_BYTES:
        body = start + _HEAD_BYTES
        length = int.from_bytes(data[start:body], "big")
        if length > AGENT_FRAME_BYTES_MAX:
            raise InvalidEncoding(
                f"the daemon announced a frame of {length:,} bytes; at most {AGENT_FRAME_BYTES_MAX:,}"
            )
        end = body + length
        if size_bytes < end:
            break
        messages.append(_decode(data[body:end]))
        start = end
    return messages, start


def _decode(body: bytes | bytearray | memoryview) -> Message:
    try:
        request_id, status, content = unpackb(body, use_list=True, ext_hook=_refuse_extension)
    except Exception as error:  # ValueError, StackError, OutOfData and others happen
        if succeeds(_unpack, body):
            raise
        raise InvalidEncoding(f"the daemon sent a frame that is not a message: {error!r}") from None
    if (
        type(request_id) is not int
        or type(status) is not int
        or (status and not isinstance(content, _CONTENTS.get(status, object)))
    ):
        raise InvalidEncoding("the daemon sent a frame that is not a message: wrong types")
    return request_id, status, content


def _unpack(body: bytes | bytearray | memoryview) -> None:
    _, _, _ = unpackb(body, use_list=True, ext_hook=_refuse_extension)


_CONTENTS: dict[int, type] = {ERROR: dict, POINT: list}


def _refuse_extension(code: int, _data: bytes) -> NoReturn:
    raise ValueError(f"extension type {code}")
