"""What was read of a key in parts: versions put together. Imported when first used."""

from __future__ import annotations

from crdtsync.causality import Dot, VersionVector, merge
from crdtsync.errors import InvalidRequest
from crdtsync.wire.tokens import Version, decode_token, decode_version, encode_version

DOTS_MAX = 256
"""So many entries are named one by one beside what was read at once."""


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
    parts += [Version(vector=vector) for _, vector in points.values()]
    vector: VersionVector = {}
    for part in parts:
        merge(vector, part.vector or {})
    dots = tuple(dict.fromkeys(dot for part in parts for dot in part.dots if dot.seq > vector.get(dot.writer, 0)))
    if len(dots) > DOTS_MAX:
        return None
    others = dict.fromkeys(dot for part in parts for dot in part.others)
    unseen = tuple(dot for dot in others if not any(_hands_over(part, dot) for part in parts))
    has_vector = any(part.vector is not None for part in parts)
    return encode_version(Version(dots, unseen, vector if has_vector else None, max(part.hlc for part in parts)))


def _hands_over(version: Version, dot: Dot) -> bool:
    return dot in version.dots or (dot.seq <= (version.vector or {}).get(dot.writer, 0) and dot not in version.others)
