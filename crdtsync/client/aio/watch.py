"""A watch on its own connection, for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import os
from time import monotonic
from typing import TYPE_CHECKING, Self

from crdtsync.client.aio.connection import time_limit
from crdtsync.client.aio.stream import AsyncChannel, dial_when_up
from crdtsync.client.protocol.backoff import Backoff
from crdtsync.client.protocol.frames import encode_hello
from crdtsync.client.protocol.steps import limit_s
from crdtsync.client.streams.watch_state import WatchState
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crdtsync.client.aio.connection import AsyncConnection
    from crdtsync.client.protocol.seen_point import Horizon
    from crdtsync.client.session.read_memory import ReadMemory
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.results import Event

_FOREVER = float("inf")


class AsyncWatch:
    """An async iterator over events that goes on by itself after a broken connection.

    Nothing is read ahead of a slow consumer, beyond one buffer. One task at a time iterates; any may :meth:`close` it.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        memory: ReadMemory,
        prefix: str,
        after: str | None,
        overrides: Arguments,
        timeout: Seconds | None,
        now: Callable[[], Awaitable[str]] | None = None,
        *,
        attach_s: float,
    ) -> None:
        self._connection = connection
        self._attach_s = attach_s
        self._paths = connection.paths
        self._names = (connection.agent, connection.space, connection.key)
        self._state = self._begin(memory, prefix, after, overrides, connection.horizon)
        self._timeout_s = limit_s(timeout, _FOREVER)
        self._now = now
        self._client = os.urandom(16)
        self._backoff = Backoff()
        self._channel: AsyncChannel | None = None
        self._was_attached = False
        self._closed = asyncio.Event()

    def _begin(
        self, memory: ReadMemory, prefix: str, after: str | None, overrides: Arguments, horizon: Horizon
    ) -> WatchState:
        return WatchState(memory, prefix, after, overrides, horizon)

    @property
    def token(self) -> str | None:
        """Names all up to the event handed out last: a watch with ``after`` set to it goes on with the next."""
        return self._state.token

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        event = await self.next()
        if event is None:
            raise StopAsyncIteration
        return event

    async def next(self, timeout: Seconds | None = None) -> Event | None:
        """The next event; None when the watch is closed.

        :raises Timeout: none came in ``timeout``, by default the watch's; the watch goes on.
        :raises DaemonUnavailable: there was no daemon to start the watch.
        :raises CrdtSyncError: the daemon refuses the watch.
        """
        event = self._state.next_event()
        if event is not None and not self._closed.is_set():
            return event
        try:
            async with time_limit(limit_s(timeout, self._timeout_s)):
                return await self._wait()
        except TimeoutError:
            raise self._state.nothing_came() from None

    async def attach(self) -> None:
        """Start the watch now rather than at the first event.

        :raises DaemonUnavailable: no daemon answers; the message says what to do.
        """
        if not self._was_attached:
            await self._attach()

    def close(self) -> None:
        """End the watch; a task that iterates over it comes to the end."""
        self._closed.set()
        self._drop()

    async def __aenter__(self) -> Self:
        await self.attach()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # A loop that was left by `break` drops its watch, and should not be warned of a socket it never saw.
        with contextlib.suppress(AttributeError, RuntimeError):  # no socket yet, or no loop any more
            self._drop()

    async def _wait(self) -> Event | None:
        while not self._closed.is_set():
            event = self._state.next_event()
            if event is not None:
                return event
            try:
                await (self._receive() if self._was_attached else self._attach())
            except CrdtSyncError:
                if not self._closed.is_set():
                    raise
        return None

    async def _take_until(self, is_done: Callable[[], bool], deadline: float) -> bool:
        """Begin, and take what comes until that is so, or it is closed; False: the time is over."""
        await self.attach()
        try:
            async with time_limit(deadline - monotonic()):
                while not (is_done() or self._closed.is_set()):
                    await self._receive()
        except TimeoutError:
            return False
        return True

    def _say(self, frame: bytes, _timeout_s: float) -> None:
        """Send it, unless the connection is broken."""
        if self._channel is not None:
            self._channel.send(frame)

    async def _receive(self) -> None:
        channel = self._channel
        if channel is None:
            await self._reattach()
            return
        data = await channel.receive()
        if not data:
            self._drop()
            return
        try:
            for message in channel.frames.feed(data):
                self._state.take(message)
        except CrdtSyncError as error:
            self._drop()
            self._state.standing.outlast(error)
        if self._state.standing.is_taken:
            self._backoff.reset()

    async def _attach(self) -> None:
        if self._now is not None:
            self._state.begin_after(await self._now())
            self._now = None
        wait_s = 0.0 if self._was_attached else self._connection.waits_s(self._attach_s)
        channel = await dial_when_up(self._paths, encode_hello(self._client, *self._names), wait_s)
        if self._closed.is_set():
            channel.close()
        else:
            channel.send(self._state.request())
            self._channel = channel
        self._was_attached = True

    async def _reattach(self) -> None:
        await asyncio.sleep(self._backoff.next_s())
        try:
            await self._attach()
        except CrdtSyncError as error:
            self._state.standing.outlast(error)

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
