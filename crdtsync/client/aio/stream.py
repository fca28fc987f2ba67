"""The connection of what has one of its own: a watch, a mirror, a resolver. Its twin is ``blocking.stream``."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from crdtsync.client.aio.receive_buffer import RECEIVE_BYTES, open_stream
from crdtsync.client.protocol.address import may_come, unavailable
from crdtsync.client.protocol.backoff import Backoff
from crdtsync.client.protocol.frames import ERROR, MessageReader, encode_hello
from crdtsync.errors import CrdtSyncError, DaemonUnavailable, from_wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from crdtsync.client.aio.connection import AsyncConnection
    from crdtsync.client.protocol.frames import Message
    from crdtsync.client.streams.resume import Standing

T = TypeVar("T")

HELLO_TIMEOUT_S = 30.0
"""A daemon that hangs is found out, and started anew, well before."""


def time_limit(limit_s: float) -> asyncio.Timeout:
    """``asyncio.timeout``, but for an endless wait too."""
    return asyncio.timeout(None if limit_s == float("inf") else limit_s)


class AsyncStream:
    """A connection of its own that comes back by itself.

    Before the first it awaits ``prepare``. On each new one it sends what ``request`` gives, and ``take`` is handed each
    message. Nothing is read ahead of a slow consumer, beyond one buffer.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        standing: Standing,
        request: Callable[[], bytes],
        take: Callable[[Message], object],
        begin_s: float,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._connection = connection
        self._names = (connection.agent, connection.space, connection.key)
        self._standing, self._request, self._take, self._begin_s = standing, request, take, begin_s
        self._prepare = prepare
        self._client = os.urandom(16)
        self._backoff = Backoff()
        self._channel: AsyncChannel | None = None
        self._was_begun = False
        self.is_closed = False

    @property
    def is_up(self) -> bool:
        """Whether there is a connection now."""
        return self._channel is not None

    async def begin(self) -> None:
        """Connect, unless that was done before. If there was a daemon once, one that is away is waited for.

        :raises CrdtSyncError: there is none, or it refuses us.
        """
        if not self._was_begun:
            if self._prepare is not None:
                await self._prepare()
                self._prepare = None
            await self._dial(self._connection.waits_s(self._begin_s))

    async def receive(self, deadline: float) -> bool:
        """Take what comes next, or connect; False: the time is over.

        :raises CrdtSyncError: the daemon refuses what is asked, or ends it.
        """
        try:
            async with time_limit(max(deadline - monotonic(), 0)):
                if self._channel is not None:
                    await self._receive(self._channel)
                else:
                    await (self._dial_again() if self._was_begun else self.begin())
        except TimeoutError as late:
            if isinstance(late, CrdtSyncError):
                raise
            return False
        return True

    def say(self, frame: Callable[[], bytes], _within_s: float) -> None:
        """Send what that gives, unless the connection is broken."""
        if self._channel is not None:
            self._channel.send(frame())

    def close(self) -> None:
        """End it; a task that waits for it sees that."""
        self.is_closed = True
        self._drop()

    async def _receive(self, channel: AsyncChannel) -> None:
        data = await channel.receive()
        if not data:
            self._drop()
            return
        try:
            for message in channel.frames.feed(data):
                self._take(message)
        except CrdtSyncError as error:
            self._drop()
            self._standing.outlast(error)
        if self._standing.is_taken:
            self._backoff.reset()

    async def _dial(self, wait_s: float) -> None:
        channel = await dial_when_up(self._connection.paths, encode_hello(self._client, *self._names), wait_s)
        self._was_begun = True
        if self.is_closed:
            channel.close()
        else:
            channel.send(self._request())
            self._channel = channel

    async def _dial_again(self) -> None:
        await asyncio.sleep(self._backoff.next_s())
        try:
            await self._dial(0.0)
        except CrdtSyncError as error:
            self._standing.outlast(error)

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


class AsyncChannel:
    """A connected unix socket, and the reader of its frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.frames = MessageReader()
        self._reader = reader
        self._writer = writer

    async def receive(self) -> bytes:
        """The next bytes; empty at the end of the connection."""
        try:
            return await self._reader.read(4 * RECEIVE_BYTES)
        except OSError:
            return b""

    def send(self, frame: bytes) -> None:
        """Send ``frame``, at once or when there is room; to a connection that broke, nothing."""
        self._writer.write(frame)

    def close(self) -> None:
        """End the connection."""
        self._writer.close()


async def dial_when_up(paths: Sequence[str], hello: bytes, wait_s: float) -> AsyncChannel:
    """Connect and introduce ourselves; while there is no daemon, try for so long: one that restarts is soon back.

    :raises DaemonUnavailable: none takes us, or the daemon hangs up, or does not answer.
    :raises CrdtSyncError: the daemon refuses us, with its reason.
    """
    backoff, until = Backoff(), monotonic() + wait_s
    while True:
        try:
            return await first_of(paths, partial(_dial, hello), HELLO_TIMEOUT_S)
        except DaemonUnavailable as error:
            left_s = until - monotonic()
            if left_s <= 0 or not may_come(error):
                raise
            await asyncio.sleep(min(backoff.next_s(), left_s))


async def first_of(paths: Sequence[str], connect: Callable[[str], Awaitable[T]], timeout_s: float) -> T:
    """The result of ``connect`` for the first socket that takes us.

    :raises DaemonUnavailable: none does, or the daemon does not answer in time.
    """
    failures: list[tuple[str, OSError]] = []
    try:
        async with asyncio.timeout(timeout_s):
            for path in paths:
                try:
                    return await connect(path)
                except CrdtSyncError:
                    raise
                except OSError as error:
                    failures.append((path, error))
    except TimeoutError:
        raise DaemonUnavailable("the daemon took the connection and did not answer in time: see its log") from None
    raise unavailable(failures)


async def _dial(hello: bytes, path: str) -> AsyncChannel:
    channel = AsyncChannel(*await open_stream(path))
    try:
        channel.send(hello)
        while data := await channel.receive():
            for _, status, content in channel.frames.feed(data):
                if status == ERROR:
                    raise from_wire(content)
                return channel
        raise DaemonUnavailable("the daemon closed the connection at once: see its log")
    except BaseException:
        channel.close()
        raise
