"""Waiting between attempts: exponential with full jitter, so that a fleet does not come back all at once.

https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
"""

from __future__ import annotations

import os

FIRST_S = 0.05
MAX_S = 2.0
_EXPONENT_MAX = 16


def random_up_to(limit_s: float) -> float:
    """A random part of ``limit_s``; from the system, so that forked processes do not wait alike."""
    return limit_s * int.from_bytes(os.urandom(4), "big") / 2**32


class Backoff:
    """How long to wait before the next attempt to connect."""

    def __init__(self) -> None:
        self._attempts = 0

    def next_s(self) -> float:
        """Seconds to wait now; longer on average each time."""
        limit_s = min(MAX_S, FIRST_S * 2.0**self._attempts)
        self._attempts = min(self._attempts + 1, _EXPONENT_MAX)
        return random_up_to(limit_s)

    def reset(self) -> None:
        """It worked: start from the shortest wait next time."""
        self._attempts = 0
