"""One attached socket of what has a connection of its own: a watch, a mirror, a resolver."""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from crdtsync.client.aio.receive_buffer import RECEIVE_BYTES, open_stream
from crdtsync.client.protocol.address import may_come, unavailable
from crdtsync.client.protocol.backoff import Backoff
from crdtsync.client.protocol.frames import ERROR, FrameReader
from crdtsync.errors import CrdtSyncError, DaemonUnavailable, from_wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

T = TypeVar("T")

HELLO_TIMEOUT_S = 30.0
"""A daemon that hangs is found out, and started anew, well before."""


class AsyncChannel:
    """A connected unix socket, and the reader of its frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.frames = FrameReader()
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
    """What ``connect`` gives of the first socket that takes us.

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
