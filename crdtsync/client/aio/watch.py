"""A watch on its own connection, for asyncio."""

from __future__ import annotations

import contextlib
from time import monotonic
from typing import TYPE_CHECKING, Self

from crdtsync.client.aio.background import at_once
from crdtsync.client.aio.stream import AsyncStream
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
    """An iterator over events that goes on by itself after a broken connection. Nothing is read ahead of a slow
    consumer.

    One task at a time iterates; any may :meth:`close` it, which ends the iteration.
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
        self._state = state = self._begin(memory, prefix, after, overrides, connection.horizon)

        async def prepare() -> None:
            if now is not None:
                state.begin_after(await now())

        self._stream = AsyncStream(connection, state.standing, state.request, state.take, attach_s, prepare)
        self._timeout_s = limit_s(timeout, _FOREVER)
        at_once(self.attach)

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
        deadline = monotonic() + limit_s(timeout, self._timeout_s)
        while not self._stream.is_closed:
            event = self._state.next_event()
            if event is not None:
                return event
            try:
                if not await self._stream.receive(deadline):
                    raise self._state.nothing_came() if self._stream.is_up else self._state.nobody_there()
            except CrdtSyncError:
                if not self._stream.is_closed:
                    raise
        return None

    async def attach(self) -> None:
        """Start the watch, unless it has begun.

        Under asyncio, it begins at the first event otherwise.

        :raises DaemonUnavailable: no daemon answers; the message says what to do.
        """
        await self._stream.begin()

    def close(self) -> None:
        """End the watch; a task that iterates over it comes to the end."""
        self._stream.close()

    async def __aenter__(self) -> Self:
        await self.attach()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # A loop that was left by `break` drops its watch, and should not be warned of a socket it never saw.
        with contextlib.suppress(AttributeError, RuntimeError):  # no socket yet, or no loop any more
            self.close()

    async def _take_until(self, is_done: Callable[[], bool], deadline: float) -> bool:
        """Take what comes until that is so, or it is closed; False: the time is over."""
        while not (is_done() or self._stream.is_closed):
            if not await self._stream.receive(deadline):
                return False
        return True

    def _say(self, frame: bytes, within_s: float) -> None:
        """Send it, unless the connection is broken."""
        self._stream.say(lambda: frame, within_s)
