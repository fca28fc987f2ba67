"""Length-prefixed frames on a byte stream: four bytes of length, big-endian, then the payload."""

from __future__ import annotations

from crdtsync.errors import InvalidEncoding

PREFIX_BYTES = 4


def frame(payload: bytes) -> bytes:
    """The payload with its length in front."""
    return len(payload).to_bytes(PREFIX_BYTES, "big") + payload


class FrameReader:
    """Cuts a byte stream into frames. Holds at most one incomplete frame.

    ``first_bytes_max``: the most that the first frame may have, if that is less than others may.
    """

    def __init__(self, frame_bytes_max: int, first_bytes_max: int | None = None) -> None:
        self._later_bytes_max = frame_bytes_max
        self._frame_bytes_max = frame_bytes_max if first_bytes_max is None else first_bytes_max
        self._buffer = bytearray()

    @property
    def begun_bytes(self) -> int:
        """The size of the incomplete frame as its length says; 0: there is none, or that is not known yet."""
        if len(self._buffer) < PREFIX_BYTES:
            return 0
        return int.from_bytes(self._buffer[:PREFIX_BYTES], "big")

    @property
    def missing_bytes(self) -> int:
        """How much of that is still to come."""
        return max(0, self.begun_bytes + PREFIX_BYTES - len(self._buffer))

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads completed by ``data``.

        :raises InvalidEncoding: a length of 0 or over the limit; the stream cannot be used further.
        """
        buffer = self._buffer
        size = len(data) - PREFIX_BYTES
        if not buffer and 1 <= size <= self._frame_bytes_max and size == int.from_bytes(data[:PREFIX_BYTES], "big"):
            self._frame_bytes_max = self._later_bytes_max
            return [data[PREFIX_BYTES:]]  # the common case: exactly one frame, nothing to collect
        buffer += data
        payloads: list[bytes] = []
        start = 0
        while len(buffer) - start >= PREFIX_BYTES:
            size = int.from_bytes(buffer[start : start + PREFIX_BYTES], "big")
            if not 1 <= size <= self._frame_bytes_max:
                raise InvalidEncoding(f"a frame of {size:,} bytes; frames have 1 to {self._frame_bytes_max:,}")
            end = start + PREFIX_BYTES + size
            if len(buffer) < end:
                break
            payloads.append(bytes(buffer[start + PREFIX_BYTES : end]))
            self._frame_bytes_max = self._later_bytes_max
            start = end
        del buffer[:start]
        return payloads
