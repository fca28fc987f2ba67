"""Points of a space's past, as callers name them and as the protocol carries them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import floor

from crdtsync.errors import InvalidRequest

CHECKPOINT = "checkpoint:"
"""The prefix of a checkpoint's name where a token may stand in its place."""
Point = str | datetime | timedelta
"""A token, ``checkpoint:NAME``, a time with its time zone, or how long ago: what this node showed then."""


def point_argument(point: Point) -> str | int:
    """A point as an argument of a request: a time in ms since 1970.

    :raises InvalidRequest: a time without a time zone, or something else.
    """
    if isinstance(point, timedelta):
        point = datetime.now(UTC) - point
    if isinstance(point, datetime):
        if point.tzinfo is None:
            raise InvalidRequest(f"the time {point} has no time zone: give one, as in 2026-11-20T10:00Z")
        return floor(point.timestamp() * 1000)  # not after now, if it is that
    if not isinstance(point, str):
        raise InvalidRequest(
            f"a point of the past is a token, checkpoint:NAME, a datetime or a timedelta, not a {type(point).__name__}"
        )
    return point
