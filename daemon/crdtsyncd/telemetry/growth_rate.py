"""How fast something grows: bytes an hour, from a reading a minute over the last hour."""

from __future__ import annotations

from collections import deque

SAMPLE_INTERVAL_S = 60.0
SAMPLES_MAX = 61
"""Readings of a size, a minute apart."""
_HOUR_S = 3600.0
KNOWN_S = 120.0
"""From so long a time on it is said how much: two readings alone mostly find nothing, or what a start takes."""
LASTING_S = 1800.0
"""Growth that has lasted less than this may be a first filling: nobody can say where that leads."""


class Growth:
    """Readings of one figure. Nothing is said before they span :data:`KNOWN_S`."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES_MAX)

    def note(self, now_s: float, size_bytes: int) -> None:
        """One reading; those that come too early are left out."""
        if not self._samples or now_s - self._samples[-1][0] >= SAMPLE_INTERVAL_S:
            self._samples.append((now_s, size_bytes))

    def bytes_per_hour(self) -> int | None:
        """The difference between the newest reading and the oldest, for an hour; None: not known yet."""
        if not self._samples or self._samples[-1][0] - self._samples[0][0] < KNOWN_S:
            return None
        return _rate(self._samples[0], self._samples[-1])

    def lasting_bytes_per_hour(self) -> int | None:
        """The rate at which it has grown all the time: the lower one of the older and the newer half of the readings.
        None: it has been looked at for less than :data:`LASTING_S`.
        """
        if len(self._samples) < 2 or self._samples[-1][0] - self._samples[0][0] < LASTING_S:
            return None
        middle = self._samples[len(self._samples) // 2]
        return min(_rate(self._samples[0], middle), _rate(middle, self._samples[-1]))


def _rate(first: tuple[float, int], last: tuple[float, int]) -> int:
    return round((last[1] - first[1]) * _HOUR_S / (last[0] - first[0]))
