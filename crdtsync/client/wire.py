"""The agent protocol as bytes: frames out, messages in. No sockets here; docs/agent-protocol.md is what it follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from msgpack import unpackb

from crdtsync.client.packing import packb
from crdtsync.errors import InvalidEncoding, InvalidRequest, TooLarge
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX, PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that ``data`` completes, in order.

        :raises InvalidEncoding: not the protocol; the connection is of no more use.
        """
        if not self._buffer and len(data) == _HEAD_BYTES + int.from_bytes(data[:_HEAD_BYTES], "big"):
            return iter((_decode(data[_HEAD_BYTES:]),))  # the common case: exactly one frame, nothing to copy
        self._buffer += data
        return self._complete()

    def missing_bytes(self) -> int:
        """How many bytes the frame that has begun still lacks; 0 if that is not known."""
        if len(self._buffer) < _HEAD_BYTES:
            return 0
        return _HEAD_BYTES + int.from_bytes(self._buffer[:_HEAD_BYTES], "big") - len(self._buffer)

    def _complete(self) -> Iterator[Message]:
        messages: list[Message] = []
        start = 0
        buffer = self._buffer
        while len(buffer) - start >= _HEAD_BYTES:
            length = int.from_bytes(buffer[start : start + _HEAD_BYTES], "big")
            if length > AGENT_FRAME_BYTES_MAX:
                raise InvalidEncoding(
                    f"the daemon announced a frame of {length:,} bytes; at most {AGENT_FRAME_BYTES_MAX:,}"
                )
            end = start + _HEAD_BYTES + length
            if len(buffer) < end:
                break
            messages.append(_decode(bytes(buffer[start + _HEAD_BYTES : end])))
            start = end
        del buffer[:start]
        return iter(messages)


def _decode(body: bytes) -> Message:
    try:
        request_id, status, content = unpackb(body, use_list=True, ext_hook=_refuse_extension)
    except Exception as error:  # noqa: BLE001  # ValueError, StackError, OutOfData and others happen
        raise InvalidEncoding(f"the daemon sent a frame that is not a message: {error!r}") from None
    if type(request_id) is not int or type(status) is not int or not isinstance(content, _CONTENTS.get(status, object)):
        raise InvalidEncoding("the daemon sent a frame that is not a message: wrong types")
    return request_id, status, content


_CONTENTS: dict[int, type] = {ERROR: dict, POINT: list}


def _refuse_extension(code: int, _data: bytes) -> NoReturn:
    raise ValueError(f"extension type {code}")
