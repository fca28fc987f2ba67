"""Yjs state vectors: ``count, (client, clock) …`` as lib0 variable-length integers. Their bytes are not canonical."""

from __future__ import annotations

from collections.abc import Mapping

from crdtsync.wire.yjs.lib0 import InvalidUpdate, read_uint, written_uint

CLIENTS_MAX = 100_000


def decode_state_vector(data: bytes) -> dict[int, int]:
    """Client id to the next clock that is not included.

    :raises InvalidUpdate: truncated, trailing bytes, or more clients than bytes could hold.
    """
    clocks: dict[int, int] = {}
    try:
        count, at = read_uint(data, 0)
        if count > min(CLIENTS_MAX, len(data) // 2):
            raise InvalidUpdate(f"a state vector of {len(data)} bytes cannot hold {count} clients")
        for _ in range(count):
            client, at = read_uint(data, at)
            clocks[client], at = read_uint(data, at)
    except IndexError:
        raise InvalidUpdate(f"the state vector ends inside an integer, at byte {len(data)}") from None
    if at != len(data):
        raise InvalidUpdate(f"{len(data) - at} bytes after the end of the state vector")
    return clocks


def encode_state_vector(clocks: Mapping[int, int]) -> bytes:
    """The same the other way round, clients in rising order."""
    pairs = [written_uint(number) for client in sorted(clocks) for number in (client, clocks[client])]
    return b"".join((written_uint(len(clocks)), *pairs))
