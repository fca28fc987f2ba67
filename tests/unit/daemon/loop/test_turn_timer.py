"""When the next turn of the event loop comes: at once for work that is left, else when time alone calls for one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from crdtsyncd.loop.agent_socket import AgentConnection
from crdtsyncd.loop.timers import TurnTimer
from crdtsyncd.telemetry.turn_times import TurnTimes

from crdtsync.core.agenda import NEWS_PATIENCE_S, TURN_PATIENCE_S
from crdtsync.core.interface import Event, Tick

WAIT_S = 60.0
"""What is to come has come long before; only a failure waits so long."""
NEVER_S = 3600.0
"""A delay that no test lives to see."""


class FakeDue:
    """A node of which the test says when it wants a turn."""

    def __init__(self) -> None:
        self.patience_s = NEVER_S  # what is not planned at once is never planned
        self.in_s: float | None = None

    def turn_due_s(self) -> float | None:
        if not self.patience_s:
            return time.monotonic()
        return None if self.in_s is None else time.monotonic() + self.in_s


class World:
    """A planner with what is around it: ``fed`` are the events that it has fed, ``asked`` counts its questions."""

    def __init__(self) -> None:
        self.due = FakeDue()
        self.is_about_to_begin = False
        self.fed: list[Event] = []
        self.came = asyncio.Event()
        self.asked = 0
        self.times = TurnTimes(lambda _hold: None)
        self.planner = TurnTimer(self._feed, self._ask, self.times)

    def _feed(self, event: Event) -> None:
        self.fed.append(event)
        self.came.set()

    def _ask(self) -> FakeDue | None:
        self.asked += 1
        return None if self.is_about_to_begin else self.due

    async def turn(self) -> None:
        """Wait for the next tick."""
        await asyncio.wait_for(self.came.wait(), WAIT_S)
        self.came.clear()
        assert self.fed == [Tick()]
        self.fed.clear()


class FakeConnection:
    """Counts its turns."""

    def __init__(self) -> None:
        self.turns = 0
        self.taken = asyncio.Event()

    def take_turn(self) -> None:
        self.turns += 1
        self.taken.set()


def play(story: Callable[[World], Awaitable[None]]) -> None:
    async def whole() -> None:
        world = World()
        await story(world)
        world.planner.stop()

    asyncio.run(whole())


def test_work_that_is_left_is_planned_at_once() -> None:
    async def story(world: World) -> None:
        world.due.patience_s = 0.0
        world.planner.plan_soon()
        await world.turn()

    play(story)


@pytest.mark.parametrize("patience_s", [TURN_PATIENCE_S, NEWS_PATIENCE_S])
def test_what_time_alone_calls_for_is_planned_a_little_later(patience_s: float) -> None:
    async def story(world: World) -> None:
        world.due.patience_s, world.due.in_s = patience_s, 0.0
        for _ in range(5):  # many turns, one plan
            world.planner.plan_soon()
        asked = world.asked
        await world.turn()
        assert world.asked == asked + 1

    play(story)


def test_a_plan_while_a_turn_is_about_to_begin_is_caught_up() -> None:
    async def story(world: World) -> None:
        world.due.in_s = 0.0
        world.is_about_to_begin = True
        world.planner.plan()
        world.is_about_to_begin = False
        world.planner.plan_soon()  # after the turn
        await world.turn()
        asked = world.asked
        world.planner.plan_soon()  # nothing is overdue any more
        assert world.asked == asked + 1
        assert not world.fed

    play(story)


def test_a_patient_timer_gives_way_to_one_that_is_not() -> None:
    async def story(world: World) -> None:
        world.due.in_s = 0.0
        world.planner.plan_soon()
        world.due.patience_s = TURN_PATIENCE_S
        world.planner.plan_soon()
        await world.turn()

    play(story)


def test_an_impatient_timer_stays_where_a_patient_one_would_do() -> None:
    async def story(world: World) -> None:
        world.due.patience_s, world.due.in_s = TURN_PATIENCE_S, 0.0
        world.planner.plan_soon()
        world.due.patience_s = NEVER_S
        world.planner.plan_soon()
        await world.turn()

    play(story)


def test_nothing_more_comes_of_what_was_planned_at_once() -> None:
    async def story(world: World) -> None:
        world.due.patience_s = 0.0
        world.planner.plan_soon()
        asked = world.asked
        await until_timers_are_done()
        assert world.asked == asked

    play(story)


def test_a_connection_is_given_its_turn_once() -> None:
    async def story(world: World) -> None:
        connection, other = FakeConnection(), FakeConnection()
        for each in (connection, connection, other):
            world.planner.take_turn_later(cast("AgentConnection", each))
        world.planner.plan_soon()
        assert not connection.turns  # not inside the turn that asks for it
        await asyncio.wait_for(connection.taken.wait(), WAIT_S)
        await asyncio.wait_for(other.taken.wait(), WAIT_S)
        world.planner.plan()
        await until_ready_calls_are_done()
        assert (connection.turns, other.turns) == (1, 1)

    play(story)


def test_a_connection_waits_for_its_turn_while_another_is_about_to_begin() -> None:
    async def story(world: World) -> None:
        connection = FakeConnection()
        world.planner.take_turn_later(cast("AgentConnection", connection))
        world.is_about_to_begin = True
        world.planner.plan_soon()
        await until_ready_calls_are_done()
        assert not connection.turns
        world.is_about_to_begin = False
        world.planner.plan_soon()
        await asyncio.wait_for(connection.taken.wait(), WAIT_S)

    play(story)


async def until_ready_calls_are_done() -> None:
    """All that was to be called soon has been called: the loop keeps their order."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_soon(done.set)
    await done.wait()


async def until_timers_are_done() -> None:
    """All that was to be called in no time has been called: the loop keeps the order of timers, too."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(0.002, done.set)
    await done.wait()


def test_stop_cancels_the_tick_that_was_arranged_for() -> None:
    async def story(world: World) -> None:
        world.due.in_s = 0.001
        world.planner.plan()
        world.planner.stop()
        await until_timers_are_done()
        assert not world.fed

    play(story)


def test_stop_cancels_the_plan_that_was_to_come() -> None:
    async def story(world: World) -> None:
        world.due.patience_s = TURN_PATIENCE_S
        world.planner.plan_soon()
        asked = world.asked
        world.planner.stop()
        await until_timers_are_done()
        assert world.asked == asked
        world.due.in_s = 0.0
        world.planner.plan_soon()  # and it goes on, if it is asked to
        await world.turn()

    play(story)


def test_a_new_plan_takes_the_place_of_the_old_one() -> None:
    async def story(world: World) -> None:
        world.due.in_s = 0.001
        world.planner.plan()
        world.due.in_s = None
        world.planner.plan()
        await until_timers_are_done()
        assert not world.fed

    play(story)
