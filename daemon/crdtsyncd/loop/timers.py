"""Arranges for what time alone brings: the next turn of the loop, and between turns acknowledgements that are due."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from crdtsyncd.loop.agent_socket import AgentConnection
from crdtsyncd.telemetry.turn_times import TurnTimes

from crdtsync.core.agenda import TURN_PATIENCE_S
from crdtsync.core.interface import Event, Tick


class Due(Protocol):
    """The part that knows when the next turn is due: the node."""

    @property
    def patience_s(self) -> float:
        """So late may it be asked :meth:`turn_due_s`; 0: something is left to do at once."""

    def turn_due_s(self) -> float | None:
        """When time alone calls for a turn, on the monotonic clock; None: never."""


class TurnTimer:
    """Feeds ticks, and gives agents' connections their turns. ``due`` gives None once there are no more turns, and
    while one is about to begin, which is followed by :meth:`plan_soon`.
    """

    def __init__(self, feed: Callable[[Event], None], due: Callable[[], Due | None], times: TurnTimes) -> None:
        self._feed = feed
        self._due = due
        self._times = times
        self._timer: asyncio.TimerHandle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._later_s = self._held_before_s = 0.0
        self._is_overdue = False  # it was to be planned, and a turn was about to begin
        self._turns: dict[AgentConnection, None] = {}

    def take_turn_later(self, connection: AgentConnection) -> None:
        """This agent has asked for more than fits into one turn."""
        self._turns[connection] = None

    def plan_soon(self) -> None:
        """Arrange for the next turn: at once if there is work left; else once for all turns of a little while."""
        due = self._due()
        delay_s = TURN_PATIENCE_S if due is None else due.patience_s
        if self._turns or self._is_overdue or not delay_s:
            self.plan()
            return
        later_s = time.monotonic() + delay_s
        if self._later is not None and later_s < self._later_s:
            self._later.cancel()
            self._later = None
        if self._later is None:
            self._later_s, self._held_before_s = later_s, self._times.held_s
            self._later = asyncio.get_running_loop().call_later(delay_s, self._plan_now)

    def _plan_now(self) -> None:
        """By a timer, which is there while there are turns: so it tells how late things are then."""
        self._times.came_late(self._later_s, self._held_before_s)
        with self._times.work("plan"):
            self.plan()

    def plan(self) -> None:
        """Arrange for the next turn, if time alone calls for one."""
        self.stop()
        due = self._due()
        self._is_overdue = due is None
        if due is None:
            return
        loop = asyncio.get_running_loop()
        if self._turns:
            turns, self._turns = self._turns, {}
            for connection in turns:
                loop.call_soon(connection.take_turn)
        deadline_s = due.turn_due_s()
        if deadline_s is not None:
            self._timer = loop.call_later(max(0.0, deadline_s - time.monotonic()), self._feed, Tick())

    def stop(self) -> None:
        """Forget what was arranged for."""
        for timer in (self._timer, self._later):
            if timer is not None:
                timer.cancel()
        self._timer = self._later = None


class AckTimer:
    """Sends peers the acknowledgements that are due when no turn brings them: they take none of their own.

    Looked after following each turn; see :meth:`mind`. ``send`` sends those that are due. ``owed_s``: when the next one
    is due, on the loop's clock; None: none is owed.
    """

    def __init__(self, send: Callable[[], None], owed_s: Callable[[], float | None]) -> None:
        self._send = send
        self._owed_s = owed_s
        self._timer: asyncio.Handle | None = None  # uvloop's own does not say for when it is
        self._timer_s = 0.0

    def mind(self) -> None:
        """There was a turn: see to it that what is owed by now is sent when it is due."""
        due_s = self._owed_s()
        if due_s is None or (self._timer is not None and self._timer_s <= due_s):
            return
        self.stop()
        self._timer_s = due_s
        self._timer = asyncio.get_running_loop().call_at(due_s, self._due)

    def _due(self) -> None:
        self._timer = None
        self._send()
        due_s = self._owed_s()
        if due_s is not None and due_s > asyncio.get_running_loop().time():
            self.mind()  # else a turn is due, which brings it, or nothing is sent any more

    def stop(self) -> None:
        """Forget what was arranged for."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
