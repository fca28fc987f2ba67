"""How fast something grows: bytes an hour, from a reading a minute over the last hour."""

from __future__ import annotations

from collections import deque

SAMPLE_INTERVAL_S = 60.0
SAMPLES_MAX = 61
_HOUR_S = 3600.0


class Growth:
    """Readings of one figure. Nothing is said before two of them are there."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES_MAX)

    def note(self, now_s: float, size_bytes: int) -> None:
        """One reading; those that come too early are left out."""
        if not self._samples or now_s - self._samples[-1][0] >= SAMPLE_INTERVAL_S:
            self._samples.append((now_s, size_bytes))

    def bytes_per_hour(self) -> int | None:
        """The difference between the newest reading and the oldest, for an hour; None: not known yet."""
        if len(self._samples) < 2:
            return None
        (first_s, first_bytes), (last_s, last_bytes) = self._samples[0], self._samples[-1]
        return round((last_bytes - first_bytes) * _HOUR_S / (last_s - first_s))
