"""What keeps two edits of one text apart, under asyncio."""

from __future__ import annotations

import asyncio

from crdtsync.client.aio.connection import time_limit


class AsyncTextLock:
    """One plan at a time for one text of a session; shared by its handles."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def acquire(self, timeout_s: float) -> bool:
        """Wait for it; False: the time is over."""
        try:
            async with time_limit(timeout_s):
                return await self._lock.acquire()
        except TimeoutError:
            return False

    def release(self) -> None:
        """Let the next one go on."""
        self._lock.release()
