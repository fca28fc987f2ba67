"""Holds the events of a watch back that come without a token, until one with a token comes.

A watch goes on from the log. A counter under its prefix has changed, so its events have no token until the counter's
state has been told at the log's end. If the connection breaks before that, the watch goes on after the last token
there was: all those events come again. Had they been handed out, the watch would go back, and tell twice.

So an event without a token waits for the next one that has one. What waits when the connection breaks is dropped, for
it comes again. More than :data:`EVENTS_MAX` or :data:`BYTES_MAX` do not wait: they are handed out, and if the
connection breaks then, the watch starts over with a ``reset``. Events of a snapshot never wait: one that is cut off
starts over with a ``reset``, too.
"""

from __future__ import annotations

from collections import deque
from typing import Any

EVENTS_MAX = 10_000
BYTES_MAX = 16 * 1024 * 1024

RawEvent = dict[str, Any]


class HeldEvents:
    """Those of one watch, as they come on the wire: ``ready`` to be handed out, or waiting.

    ``resume_after``: the newest token of those that are ready; None: there is no going on. ``is_cut_off``: some have
    been handed out after it, so that there is none either.
    """

    def __init__(self, resume_after: str | None) -> None:
        self.ready: deque[RawEvent] = deque()
        self.resume_after = resume_after
        self.is_cut_off = False
        self._waiting: list[RawEvent] = []
        self._waiting_bytes = 0

    def add(self, event: RawEvent, *, is_snapshot: bool) -> None:
        """An event has come.

        What it changes it changes with no call between: whatever comes from outside, all of that or nothing.
        """
        token: str | None = None if is_snapshot else event.get("token")
        size_bytes = self._waiting_bytes + len(event.get("value") or b"")
        is_over = len(self._waiting) >= EVENTS_MAX or size_bytes > BYTES_MAX
        if token is None and not is_snapshot and not is_over and not self.is_cut_off:
            self._waiting_bytes = size_bytes
            self._waiting.append(event)
            return
        come, ready = [*self._waiting, event], self.ready
        self._waiting, self._waiting_bytes = [], 0
        self.is_cut_off = token is None and not is_snapshot
        if token is not None:
            self.resume_after = token
        ready.extend(come)

    def broken(self) -> None:
        """The connection broke: what waits will come again."""
        self._waiting, self._waiting_bytes = [], 0
        self.is_cut_off = False
