"""Durations as Python has them, seconds or timedelta, to what the protocol carries: integers in milliseconds."""

from __future__ import annotations

from datetime import timedelta

from crdtsync.errors import InvalidRequest

Seconds = int | float | timedelta

_MS_MAX = 2**53
"""An endless wait, in milliseconds: some 285,000 years."""


def seconds(duration: Seconds, name: str) -> float:
    """``duration`` in seconds.

    :raises InvalidRequest: negative, not a number, or of another type.
    """
    if isinstance(duration, timedelta):
        value = duration.total_seconds()
    elif type(duration) in (int, float):
        value = float(duration)
    else:
        raise InvalidRequest(f"{name} must be a number of seconds or a timedelta, not {type(duration).__name__}")
    if not value >= 0:
        raise InvalidRequest(f"{name} must not be negative or NaN: {duration!r}")
    return value


def milliseconds(duration_s: float) -> int:
    """Seconds as whole milliseconds, at least 1 for what is above 0; infinity is the longest wait there is."""
    if duration_s * 1000 >= _MS_MAX:
        return _MS_MAX
    return max(round(duration_s * 1000), 1 if duration_s > 0 else 0)
