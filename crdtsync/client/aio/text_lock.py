"""The texts of a session, and what keeps two edits of one apart, under asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from crdtsync.client.aio.stream import time_limit

if TYPE_CHECKING:
    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.text.operations import TextOperations


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


class AsyncTexts:
    """The common part of the handles on the texts of one session."""

    def __init__(self, operations: Operations) -> None:
        self._context = operations
        self._operations: TextOperations | None = None
        self._locks: WeakValueDictionary[str, AsyncTextLock] = WeakValueDictionary()

    @property
    def operations(self) -> TextOperations:
        """The plans of texts; imported when they are first wanted."""
        if self._operations is None:
            from crdtsync.client.text.operations import TextOperations

            self._operations = TextOperations(self._context)
        return self._operations

    def lock(self, key: str) -> AsyncTextLock:
        """That of one text."""
        return self._locks.setdefault(key, AsyncTextLock())
