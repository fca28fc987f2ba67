"""Tells the page that something has changed, and what everybody wants to know at once: alarms, and whether the daemon
answers.

The page asks anew for what it shows; so a page that shows one key costs the daemon one read at a time, however many
others write. Nobody looks: nobody asks the daemon.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from time import monotonic
from typing import Any

from crdtsync.client import AsyncSession
from crdtsync.errors import CrdtSyncError
from crdtsync.ui.plain import plain

EVERY_S = 0.5
STATUS_EVERY_S = 5.0
"""How often alarms are asked for, which costs the daemon more than its newest point."""
BEAT_S = 15.0
_ASK_TIMEOUT_S = 5.0


class Live:
    """The news for the pages that show one space: ``{"token", "alarms", "down"}``."""

    def __init__(self, state: AsyncSession) -> None:
        self._state = state
        self._status_s = 0.0
        self._news: dict[str, Any] = {"alarms": []}
        self._number = 0  # of the news
        self._changed = asyncio.Condition()
        self._pages = 0
        self._task: asyncio.Task[None] | None = None

    async def events(self) -> AsyncIterator[bytes]:
        """Server-sent events for one page, until it goes. One that reads slowly gets the newest, not all."""
        self._pages += 1
        if self._task is None:
            self._task = asyncio.create_task(self._follow())
        told = 0

        def is_new() -> bool:
            return self._number > told

        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(BEAT_S), self._changed:
                        await self._changed.wait_for(is_new)
                if is_new():
                    told = self._number
                    yield f"data: {json.dumps(self._news)}\n\n".encode()
                else:
                    yield b": still here\n\n"
        finally:
            self._pages -= 1
            if not self._pages and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _follow(self) -> None:
        while True:
            try:
                news = await self._ask()
            except CrdtSyncError as error:
                news = {**self._news, "down": error.message}
            if news != self._news:
                async with self._changed:
                    self._news = news
                    self._number += 1
                    self._changed.notify_all()
            await asyncio.sleep(EVERY_S)

    async def _ask(self) -> dict[str, Any]:
        news = {**self._news, "token": await self._state.now(timeout=_ASK_TIMEOUT_S), "down": None}
        if monotonic() >= self._status_s:
            news["alarms"] = plain((await self._state.status(timeout=_ASK_TIMEOUT_S))["alarms"])
            self._status_s = monotonic() + STATUS_EVERY_S
        return news
