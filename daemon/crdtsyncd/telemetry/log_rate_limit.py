"""How many lines of the log somebody may cause: who is not let in, or is slow."""

from __future__ import annotations

import time
from collections import Counter
from typing import Protocol

REFUSALS_PER_MINUTE_MAX = 300
"""Lines of the log about strangers that were refused; the next one says how many were ``left_out``."""
REFUSALS_ALIKE_PER_MINUTE_MAX = 10
"""Lines of these of one host for one reason."""
_MINUTE_S = 60.0


class Log(Protocol):
    """The log."""

    def __call__(self, event: str, level: str = "info", **fields: object) -> None:
        """Write a line."""


class LineBounds:
    """Counts lines by minute. It reports the lines that were left out with the next one that is logged."""

    def __init__(self, alike_max: int, all_max: int) -> None:
        self._alike_max = alike_max
        self._all_max = all_max
        self._began_s = -_MINUTE_S
        self._alike: Counter[tuple[str, str]] = Counter()
        self._left_out_count = 0

    def left_out(self, whose: str, reason: str, now_s: float) -> int | None:
        """How many were left out since the last line; None: this one is, too."""
        if now_s - self._began_s >= _MINUTE_S:
            self._began_s = now_s
            self._alike.clear()
        is_too_much = self._alike.total() >= self._all_max
        if is_too_much or self._alike[whose, reason] >= self._alike_max:
            self._left_out_count += 1
            return None
        self._alike[whose, reason] += 1
        count, self._left_out_count = self._left_out_count, 0
        return count


_bounds = LineBounds(REFUSALS_ALIKE_PER_MINUTE_MAX, REFUSALS_PER_MINUTE_MAX)
"""The bounds of this process, as its log is."""


def stranger_refused(log: Log, url: str, reason: str) -> None:
    """Log that somebody was refused who has not shown a member's key, unless too many were just now."""
    count = _bounds.left_out(url.rpartition(":")[0], reason, time.monotonic())
    if count is not None:
        more = {"left_out": count} if count else {}
        log("peer_refused", level="warning", url=url, reason=reason, **more)
