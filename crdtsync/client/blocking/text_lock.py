"""What keeps two edits of one text apart, among threads."""

from __future__ import annotations

from threading import TIMEOUT_MAX, Lock


class TextLock:
    """One plan at a time for one text of a session; shared by its handles."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Also in a forked child, where nobody will release it."""
        self._lock = Lock()

    def acquire(self, timeout_s: float) -> bool:
        """Wait for it; False: the time is over."""
        return self._lock.acquire(timeout=min(timeout_s, TIMEOUT_MAX))

    def release(self) -> None:
        """Let the next one go on."""
        self._lock.release()
