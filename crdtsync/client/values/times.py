"""Times as the protocol carries them, in ms since 1970, to what Python has."""

from __future__ import annotations

from datetime import UTC, datetime

from crdtsync.causality import TIME_MS_MAX


def moment(time_ms: float) -> datetime:
    """A time in UTC. A time of another agent or host may be any number: beyond the years 1970 to 9999 it is the end
    that is nearer.
    """
    return datetime.fromtimestamp(min(max(time_ms, 0), TIME_MS_MAX) / 1000, UTC)
