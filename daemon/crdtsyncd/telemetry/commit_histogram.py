"""How long something takes, as a histogram: counting one costs a fraction of a µs, a commit 100 µs and more."""

from __future__ import annotations

from bisect import bisect_left

BOUNDS_S = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_FIRST_S = BOUNDS_S[0]


class Durations:
    """``counts[n]`` took up to ``BOUNDS_S[n]``, and the last of them longer than all; not cumulative."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def note(self, duration_s: float) -> None:
        """One more."""
        self.counts[0 if duration_s <= _FIRST_S else bisect_left(BOUNDS_S, duration_s)] += 1
        self.sum_s += duration_s
