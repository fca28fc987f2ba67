"""The view where there is no terminal: a line for what has changed, so that logs and pipes can use it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from crdtsyncd import terminal
from crdtsyncd.devfleet.hints import commands
from crdtsyncd.devfleet.observer import POLL_S
from crdtsyncd.devfleet.state import MemberState, state_of
from crdtsyncd.wording import counted

if TYPE_CHECKING:
    from crdtsyncd.devfleet.observer import Observer


def greet(observers: list[Observer], took_s: float) -> None:
    """Say what runs where, and what to try."""
    terminal.line(f"cluster: {counted(len(observers), 'node')}, ready in {took_s:.1f} s", at_once=True)
    for observer in observers:
        member = observer.member
        terminal.line(f"cluster: {member.place.name}, pid {member.pid}, socket {member.place.socket}", at_once=True)
    for command in commands([observer.member.place for observer in observers]):
        terminal.line(f"cluster: try {command}", at_once=True)


async def show(observers: list[Observer]) -> None:
    """Print until cancelled.

    :raises OSError: nobody reads any more.
    """
    told: dict[str, object] = {}
    while True:
        for state in map(state_of, observers):
            line = _line(state)
            if line is not None and told.get(state.name) != line:
                told[state.name] = line
                terminal.line(f"{datetime.now(UTC):%H:%M:%S}Z {line}", at_once=True)
        await asyncio.sleep(POLL_S)


def _line(state: MemberState) -> str | None:
    """What there is to say; lag is left out, for it changes with every write and back."""
    if state.is_up:
        assert state.lags is not None
        linked = sum(lag is not None for lag in state.lags.values())
        parts = [
            f"{state.name} {state.condition}",
            f"pid {state.pid}",
            counted(state.keys, "key"),
            counted(state.changes, "change"),
            counted(state.conflicts, "conflict"),
            f"{counted(linked, 'peer')} connected",
        ]
        return "; ".join([", ".join(parts), *(f"ALARM {alarm}" for alarm in state.alarms)])
    if state.condition == "starting":
        return None
    return f"{state.name} {state.condition}, {state.fault}"
