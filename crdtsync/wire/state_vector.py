"""Yjs state vectors: ``count, (client, clock) …`` as lib0 variable-length integers. Their bytes are not canonical."""

from __future__ import annotations

from crdtsync.wire.yjs import InvalidUpdate

CLIENTS_MAX = 100_000
_INTEGER_BYTES_MAX = 9


def decode_state_vector(data: bytes) -> dict[int, int]:
    """Client id to the next clock that is not included.

    :raises InvalidUpdate: truncated, trailing bytes, or more clients than bytes could hold.
    """
    count, at = _integer(data, 0)
    if count > min(CLIENTS_MAX, len(data) // 2):
        raise InvalidUpdate(f"a state vector of {len(data)} bytes cannot hold {count} clients")
    clocks: dict[int, int] = {}
    for _ in range(count):
        client, at = _integer(data, at)
        clocks[client], at = _integer(data, at)
    if at != len(data):
        raise InvalidUpdate(f"{len(data) - at} bytes after the end of the state vector")
    return clocks


def _integer(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for i in range(_INTEGER_BYTES_MAX):
        if at + i >= len(data):
            break
        byte = data[at + i]
        number |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return number, at + i + 1
    raise InvalidUpdate(f"no complete integer at byte {at} of the state vector")
