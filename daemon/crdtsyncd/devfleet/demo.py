"""Three small agents that give a trial cluster something to look at: a register, a log, a text."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from crdtsyncd.devfleet.layout import NodePlace

    from crdtsync.client import AsyncClient

PAUSE_S = (0.4, 1.6)
FINDINGS_KEPT = 50
NOTES_CHARS_MAX = 200

_GOALS = ("survey the sources", "draft the report", "check the figures", "ask a reviewer", "ship")
_WORDS = ("cache", "clock", "disk", "queue", "socket")

Act = Callable[["AsyncClient", int], Awaitable[object]]


async def _plan(client: AsyncClient, turn: int) -> None:
    await client.set("plan/goal", _GOALS[turn % len(_GOALS)])
    await client.set("plan/step", turn)


async def _find(client: AsyncClient, turn: int) -> None:
    await client.append("findings", {"n": turn, "about": random.choice(_WORDS)})
    await client.trim("findings", keep=FINDINGS_KEPT)


async def _note(client: AsyncClient, turn: int) -> None:
    notes = client.text("notes")
    text = await notes.read()
    await notes.set(f"{turn}. look at the {random.choice(_WORDS)}; {text}"[:NOTES_CHARS_MAX])


AGENTS: dict[str, Act] = {"planner": _plan, "researcher": _find, "critic": _note}


async def run(places: list[NodePlace]) -> None:
    """Let them write until cancelled, each at a node of its own if there are enough."""
    agents = enumerate(AGENTS.items())
    async with asyncio.TaskGroup() as group:
        for number, (name, act) in agents:
            group.create_task(_live(name, act, places[number % len(places)]))


async def _live(name: str, act: Act, place: NodePlace) -> None:
    from crdtsync.client import AsyncClient

    turns = count(1)
    while True:
        with suppress(CrdtSyncError):
            async with AsyncClient(socket=place.socket, agent=name) as client:
                while True:
                    await act(client, next(turns))
                    await asyncio.sleep(random.uniform(*PAUSE_S))
        await asyncio.sleep(PAUSE_S[0])
