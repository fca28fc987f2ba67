"""The agent protocol as bytes: frames out, messages in. No sockets here.

What it follows is docs/reference/agent-protocol.md.
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


class FrameReader:
    """Collects bytes as they come and gives out the messages that are complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that ``data`` completes, in order.

        :raises InvalidEncoding: not the protocol; the connection is of no more use.
        """
        if not self._buffer:
            if len(data) == _HEAD_BYTES + int.from_bytes(data[:_HEAD_BYTES], "big"):
                return [_decode(data[_HEAD_BYTES:])]  # the common case: exactly one frame, nothing to collect
            messages, end = _whole(data)  # many frames at once, and most often none of them cut
            if end < len(data):
                self._buffer += memoryview(data)[end:]
            return messages
        self._buffer += data
        messages, end = _whole(self._buffer)
        del self._buffer[:end]
        return messages

    def missing_bytes(self) -> int:
        """How many bytes the frame that has begun still lacks; 0 if that is not known."""
        if len(self._buffer) < _HEAD_BYTES:
            return 0
        return _HEAD_BYTES + int.from_bytes(self._buffer[:_HEAD_BYTES], "big") - len(self._buffer)


def _whole(data: bytes | bytearray) -> tuple[list[Message], int]:
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


def _decode(body: bytes | bytearray) -> Message:
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


def _unpack(body: bytes | bytearray) -> None:
    _, _, _ = unpackb(body, use_list=True, ext_hook=_refuse_extension)


_CONTENTS: dict[int, type] = {ERROR: dict, POINT: list}


def _refuse_extension(code: int, _data: bytes) -> NoReturn:
    raise ValueError(f"extension type {code}")
