"""A task that goes on beside its owner, and what else a thread does otherwise. Its twin is ``blocking.background``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from crdtsync.client.aio.stream import time_limit
from crdtsync.errors import InvalidRequest


class AsyncBackground:
    """Runs a coroutine function until that returns. To end it, a caller tells it so, and joins it."""

    def __init__(self, run: Callable[[], Awaitable[None]], _name: str = "") -> None:
        self._run = run
        self._task: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.ensure_future(self._run())

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not returned."""
        return self._task is not None and not self._task.done()

    @property
    def is_current(self) -> bool:
        """Whether who asks is within it."""
        return self._task is not None and self._task is asyncio.current_task()

    def end(self, _within_s: float) -> None:
        """Cancel it; from within it, do nothing."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def ended(self, within_s: float) -> None:
        """Cancel it and wait until it has returned; from within it, do nothing."""
        self.end(within_s)
        if self._task is not None and self._task is not asyncio.current_task():
            await asyncio.wait([self._task])

    async def join(self) -> None:
        """Wait until it has returned; from within it, do nothing."""
        if self._task is not None and self._task is not asyncio.current_task():
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()


class AsyncNews:
    """Wakes all who wait for something to come true, which they look at whenever there is news."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def tell(self) -> None:
        """Something has changed."""
        told, self._next = self._next, asyncio.Event()
        told.set()

    async def until(self, condition: Callable[[], bool], deadline: float) -> bool:
        """Wait until that is so; False: the time is over."""
        try:
            async with time_limit(max(deadline - monotonic(), 0)):
                while not condition():
                    await self._next.wait()
        except TimeoutError:
            return condition()
        return True


def check_handler(handler: object) -> None:
    """A function or a coroutine function.

    :raises InvalidRequest: it is neither.
    """
    if not callable(handler):
        raise InvalidRequest(f"a handler is a function or a coroutine function, not {handler!r}")


def at_once(_begin: Callable[..., Awaitable[object]], *_: object) -> None:
    """Nothing: under asyncio, what its owner makes begins with ``async with``, or at its first use."""


async def call(function: Callable[..., object], *arguments: Any) -> Any:
    """The result of a caller's function, a coroutine function or not."""
    result = function(*arguments)
    return await result if isinstance(result, Awaitable) else result


def wake_up() -> asyncio.Event:
    """An event that one task waits for and another one sets."""
    return asyncio.Event()


async def woken(event: asyncio.Event, within_s: float | None) -> bool:
    """Wait until it is set, or the time is over; then it is not set any more. Whether it was."""
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True
