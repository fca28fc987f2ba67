"""A watch on its own connection, for asyncio."""

# ruff: noqa: ASYNC109  # `timeout` ends with an error that says more than a cancellation

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Self

from crdtsync.client.address import unavailable
from crdtsync.client.aio.connection import HELLO_TIMEOUT_S, time_limit
from crdtsync.client.backoff import Backoff
from crdtsync.client.plan import limit_s
from crdtsync.client.watching import WatchState
from crdtsync.client.wire import ERROR, FrameReader, encode_hello
from crdtsync.errors import CrdtSyncError, DaemonUnavailable, Timeout, from_wire

if TYPE_CHECKING:
    from crdtsync.client.aio.connection import AsyncConnection
    from crdtsync.client.context import Arguments
    from crdtsync.client.durations import Seconds
    from crdtsync.client.forms import Event
    from crdtsync.client.memory import ReadMemory

_RECEIVE_BYTES = 64 * 1024
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
    ) -> None:
        self._paths = connection.paths
        self._names = (connection.agent, connection.space)
        self._state = self._begin(memory, prefix, after, overrides)
        self._state.horizon = connection.horizon
        self._timeout_s = limit_s(timeout, _FOREVER)
        self._client = os.urandom(16)
        self._backoff = Backoff()
        self._frames = FrameReader()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._was_attached = False
        self._lagging: Timeout | None = None
        self._closed = asyncio.Event()

    def _begin(self, memory: ReadMemory, prefix: str, after: str | None, overrides: Arguments) -> WatchState:
        return WatchState(memory, prefix, after, overrides)

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
            raise self._lagging or Timeout("no event came in time; the watch goes on") from None

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

    async def _receive(self) -> None:
        if self._streams is None:
            await self._reattach()
            return
        reader, _ = self._streams
        try:
            data = await reader.read(_RECEIVE_BYTES)
        except OSError:
            data = b""
        if not data:
            self._drop()
            return
        try:
            for message in self._frames.feed(data):
                self._state.take(message)
            self._lagging = None
        except Timeout as error:  # the daemon lacks what this session has seen: it is asked again
            self._drop()
            self._lagging = error
        except CrdtSyncError as error:
            self._drop()
            if not isinstance(error, DaemonUnavailable):
                raise

    async def _attach(self) -> None:
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                await self._dial()
        except TimeoutError:
            raise DaemonUnavailable("the daemon took the connection and did not answer in time: see its log") from None
        if self._closed.is_set():
            self._drop()
        if self._streams is not None:
            self._streams[1].write(self._state.request())
        self._was_attached = True
        self._backoff.reset()

    async def _dial(self) -> None:
        failures: list[tuple[str, OSError]] = []
        for path in self._paths:
            try:
                self._streams = await asyncio.open_unix_connection(path)
                await self._greet(*self._streams)
            except CrdtSyncError:
                self._drop()
                raise
            except OSError as error:
                self._drop()
                failures.append((path, error))
            else:
                return
        raise unavailable(failures)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._frames = FrameReader()
        writer.write(encode_hello(self._client, *self._names))
        while data := await reader.read(_RECEIVE_BYTES):
            for _, status, content in self._frames.feed(data):
                if status == ERROR:
                    raise from_wire(content)
                return
        raise DaemonUnavailable("the daemon closed the connection at once: see its log")

    async def _reattach(self) -> None:
        await asyncio.sleep(self._backoff.next_s())
        try:
            await self._attach()
        except DaemonUnavailable:
            return

    def _drop(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
