"""Points of a space's past, as callers name them and as the protocol carries them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import floor

from crdtsync.errors import InvalidRequest
from crdtsync.wire.limits import shown

CHECKPOINT = "checkpoint:"
"""The prefix of a checkpoint's name where a token may stand in its place."""
TOKEN = "c1."
"""And that of a token."""
Point = str | datetime | timedelta
"""A token, ``checkpoint:NAME``, a time with its time zone, or how long ago: what this node showed then."""


def point_argument(point: object) -> str | int:
    """A :data:`Point` as an argument of a request: a time in ms since 1970.

    :raises InvalidRequest: a time without a time zone, or something else.
    """
    if isinstance(point, timedelta):
        point = datetime.now(UTC) - point
    if isinstance(point, datetime):
        if point.tzinfo is None:
            raise InvalidRequest(f"the time {point} has no time zone: give one, as in 2026-11-20T10:00Z")
        return floor(point.timestamp() * 1000)  # not after now, if it is that
    if not isinstance(point, str) or not point.startswith((CHECKPOINT, TOKEN)):
        raise InvalidRequest(
            f"{shown(point)} is no point of the past: give a token, {CHECKPOINT}NAME, a datetime with its time zone, "
            "or a timedelta (so long ago)"
        )
    return point
