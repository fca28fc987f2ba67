"""Length-prefixed frames on a byte stream: four bytes of length, big-endian, then the payload."""

from __future__ import annotations

from crdtsync.errors import InvalidEncoding

_PREFIX_BYTES = 4


def frame(payload: bytes) -> bytes:
    """The payload with its length in front."""
    return len(payload).to_bytes(_PREFIX_BYTES, "big") + payload


class FrameReader:
    """Cuts a byte stream into frames. Holds at most one incomplete frame."""

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads completed by ``data``.

        :raises InvalidEncoding: a length of 0 or over the limit; the stream cannot be used further.
        """
        buffer = self._buffer
        size = len(data) - _PREFIX_BYTES
        if not buffer and 1 <= size <= self._frame_bytes_max and size == int.from_bytes(data[:_PREFIX_BYTES], "big"):
            return [data[_PREFIX_BYTES:]]  # the common case: exactly one frame, nothing to collect
        buffer += data
        payloads: list[bytes] = []
        start = 0
        while len(buffer) - start >= _PREFIX_BYTES:
            size = int.from_bytes(buffer[start : start + _PREFIX_BYTES], "big")
            if not 1 <= size <= self._frame_bytes_max:
                raise InvalidEncoding(f"a frame of {size:,} bytes; frames have 1 to {self._frame_bytes_max:,}")
            end = start + _PREFIX_BYTES + size
            if len(buffer) < end:
                break
            payloads.append(bytes(buffer[start + _PREFIX_BYTES : end]))
            start = end
        del buffer[:start]
        return payloads
