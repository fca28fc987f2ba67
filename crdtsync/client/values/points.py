"""Points of a space's past, as callers name them and as the protocol carries them."""

from __future__ import annotations

from datetime import datetime
from math import floor

from crdtsync.errors import InvalidRequest

CHECKPOINT = "checkpoint:"
"""What the name of a checkpoint begins with where a token may stand in its place."""
Point = str | datetime
"""A token, ``checkpoint:NAME``, or a time with its time zone: what this node showed then."""


def point_argument(point: Point) -> str | int:
    """A point as an argument of a request: a time in ms since 1970.

    :raises InvalidRequest: a time without a time zone, or something else.
    """
    if isinstance(point, datetime):
        if point.tzinfo is None:
            raise InvalidRequest(f"the time {point} has no time zone: give one, such as datetime.now(UTC)")
        return floor(point.timestamp() * 1000)  # not after now, if it is that
    if not isinstance(point, str):
        raise InvalidRequest(
            f"a point of the past is a token, checkpoint:NAME or a datetime, not a {type(point).__name__}"
        )
    return point
