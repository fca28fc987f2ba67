"""Requests that wait: until this node holds what a token names, or until so many nodes do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crdtsync.errors import CrdtSyncError


@dataclass(slots=True)
class Wait:
    """``check`` returns the result once it is there; None: not yet. ``expire`` makes the error when time runs out.

    ``stands``: what it belongs to is on disk, so that a later commit that fails does not concern it.
    """

    conn: int
    request: int
    deadline_s: float
    check: Callable[[], object | None]
    expire: Callable[[], CrdtSyncError]
    stands: bool = False


class Waits:
    """All waiting requests, bounded per agent connection."""

    PER_AGENT_MAX = 1024

    def __init__(self) -> None:
        self._waits: list[Wait] = []

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, wait: Wait) -> bool:
        """False: this agent has too many requests waiting already."""
        if self.is_full(wait.conn):
            return False
        self._waits.append(wait)
        return True

    def is_full(self, conn: int) -> bool:
        """Whether this agent has as many requests waiting as it may have."""
        return sum(1 for wait in self._waits if wait.conn == conn) >= self.PER_AGENT_MAX

    def drop(self, conn: int) -> None:
        """Forget what a closed connection was waiting for."""
        self._waits = [wait for wait in self._waits if wait.conn != conn]

    def take_unsettled(self) -> list[Wait]:
        """The waiting requests that a failed commit undoes; the others go on waiting."""
        undone = [wait for wait in self._waits if not wait.stands]
        self._waits = [wait for wait in self._waits if wait.stands]
        return undone

    def settle(self, now_s: float) -> list[tuple[Wait, object]]:
        """Those that are done, with their result, and those whose time ran out, with their error."""
        if not self._waits:
            return []
        settled: list[tuple[Wait, object]] = []
        waiting: list[Wait] = []
        due = list(self._waits)
        for wait in due:
            try:
                result = wait.check()
            except CrdtSyncError as error:
                result = error
            if result is None and now_s >= wait.deadline_s:
                result = wait.expire()
            if result is None:
                waiting.append(wait)
            else:
                settled.append((wait, result))
        self._waits = waiting + self._waits[len(due) :]  # a request that goes on may find something else to wait for
        return settled

    def deadline_s(self) -> float | None:
        """When the first of them runs out of time."""
        return min((wait.deadline_s for wait in self._waits), default=None)
