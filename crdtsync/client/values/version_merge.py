"""Versions of a key that was read in parts, put together. Imported when first used."""

from __future__ import annotations

from crdtsync.errors import InvalidRequest
from crdtsync.wire.tokens import Version, decode_token, decode_version, encode_version, joined

DOTS_MAX = 256
"""Entries that a session names one by one in what it remembers of a key, beside what it read at once."""


def both(one: str, other: str, point: str | None = None) -> str | None:
    """The version that covers what either covers, and all there was at ``point`` (a token of one space).

    None if that takes too many dots, or something is not what it should be.
    """
    try:
        parts = [decode_version(one), decode_version(other)]
        points = decode_token(point) if point is not None else {}
    except InvalidRequest:
        return None
    if len(points) > 1:
        return None
    whole = joined([*parts, *(Version(vector=vector) for _, vector in points.values())])
    return encode_version(whole) if len(whole.dots) <= DOTS_MAX else None
