"""Sends peers the acknowledgements that are due when no turn brings them: they take none of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class Owing(Protocol):
    """The part that owes acknowledgements: the node."""

    @property
    def ack_due_s(self) -> float | None:
        """When the next one is due, on the loop's clock; None: none is owed."""


class AckTimer:
    """Looked after following each turn; see :meth:`mind`. ``send`` sends those that are due."""

    def __init__(self, send: Callable[[], None]) -> None:
        self._send = send
        self._timer: asyncio.Handle | None = None  # uvloop's own does not say for when it is
        self._timer_s = 0.0

    def mind(self, owing: Owing) -> None:
        """There was a turn: see to it that what is owed by now is sent when it is due."""
        due_s = owing.ack_due_s
        if due_s is None or (self._timer is not None and self._timer_s <= due_s):
            return
        self.stop()
        self._timer_s = due_s
        self._timer = asyncio.get_running_loop().call_at(due_s, self._due, owing)

    def _due(self, owing: Owing) -> None:
        self._timer = None
        self._send()
        due_s = owing.ack_due_s
        if due_s is not None and due_s > asyncio.get_running_loop().time():
            self.mind(owing)  # else a turn is due, which brings it, or nothing is sent any more

    def stop(self) -> None:
        """Forget what was arranged for."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
