"""A mirror for asyncio: a task feeds it."""

from __future__ import annotations

import asyncio
import os
from time import monotonic
from typing import TYPE_CHECKING, Self

from crdtsync.client.aio.connection import time_limit
from crdtsync.client.aio.stream import AsyncChannel, dial_when_up
from crdtsync.client.mirror.state import CONFIRM_INTERVAL_S, PATIENCE_S, MirrorState, report
from crdtsync.client.protocol.backoff import Backoff
from crdtsync.client.protocol.frames import encode_hello
from crdtsync.client.protocol.steps import limit_s
from crdtsync.errors import CrdtSyncError, DaemonUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.causality import VersionVector
    from crdtsync.client.aio.client import AsyncSession
    from crdtsync.client.aio.connection import AsyncConnection
    from crdtsync.client.values.durations import Seconds


class AsyncMirror(MirrorState):
    """A copy of the keys that start with a prefix, in this process; the twin of :class:`Mirror`.

    Reading is the same and needs no ``await``. It starts with ``async with`` or :meth:`attach`, and a task feeds it
    until it is closed.
    """

    def __init__(
        self,
        session: AsyncSession,
        connection: AsyncConnection,
        prefix: str,
        keys_max: int,
        bytes_max: int,
        on_change: Callable[[set[str]], object] | None,
        timeout_s: float,
    ) -> None:
        self._session = session
        self._connection = connection
        self._names = (connection.agent, connection.space, connection.key)
        self._on_change = on_change
        self._timeout_s = timeout_s
        self._client = os.urandom(16)
        self._backoff = Backoff()
        self._channel: AsyncChannel | None = None
        self._moved: asyncio.Event = asyncio.Event()
        self._confirm_due_s = 0.0
        self._task: asyncio.Task[None] | None = None
        self._is_calling = False
        overrides = session.overrides
        space = str(overrides.get("space", connection.space))
        super().__init__(space, session.memory, prefix, overrides, keys_max, bytes_max, connection.horizon)

    async def attach(self) -> None:
        """Start it; returns when it shows what there is.

        :raises DaemonUnavailable: no daemon answers; the message says what to do.
        :raises TooLarge: there is more than its bounds allow.
        :raises Timeout: the keys did not come in time.
        """
        if self._task is not None:
            return
        try:
            await self._connect(self._connection.waits_s(self._timeout_s))
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"mirror of {self.prefix!r}")
            if not await self._until(lambda: bool(self._token or self._error), monotonic() + self._timeout_s):
                raise self.unopened()
            if self._error is not None:
                raise self._error.with_traceback(None)
        except BaseException:
            self.close()
            raise
        self._connection.mirrors.append(self)

    async def wait(self, token: str, *, timeout: Seconds | None = None) -> None:
        """Until it shows all that ``token`` names of its space; see :meth:`Mirror.wait`."""
        wanted = self.point_of(token)
        deadline = monotonic() + limit_s(timeout, self._session.timeout_s)
        if not self.shows(wanted):
            await self._session.wait(token, timeout=max(deadline - monotonic(), 0))
            await self.see(wanted, token, deadline)

    def close(self) -> None:
        """End it and its task; from then on to read it raises."""
        self._finish(DaemonUnavailable(f"the mirror of {self.prefix!r} is closed"))
        if self._task is not None and not self._is_calling:
            self._task.cancel()

    async def __aenter__(self) -> Self:
        await self.attach()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        if self._task is not None and self._task is not asyncio.current_task():
            await asyncio.wait([self._task])

    async def see(self, wanted: VersionVector, token: str, deadline: float) -> None:
        """Wait until it shows ``wanted``, which the daemon holds; at once if it has ended. As of :class:`Mirror`."""
        if self._task is asyncio.current_task():
            return
        if await self._until(lambda: self.has_shown(wanted), min(monotonic() + PATIENCE_S, deadline)):
            return
        self._ask()
        if not await self._until(lambda: self.has_shown(wanted), deadline):
            raise self.unseen(token)

    async def _until(self, condition: Callable[[], bool], deadline: float) -> bool:
        try:
            async with time_limit(max(deadline - monotonic(), 0)):
                while not condition():
                    await self._moved.wait()
        except TimeoutError:
            return condition()
        return True

    def _move(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    # -- its life -------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while self._error is None:
                await self._turn()
        except CrdtSyncError as error:
            self._finish(error)
        except asyncio.CancelledError:
            self._finish(DaemonUnavailable(f"the mirror of {self.prefix!r} is closed"))
            raise
        except BaseException as error:
            self._finish(CrdtSyncError(f"the mirror of {self.prefix!r} failed: {error!r}"))
            raise

    async def _turn(self) -> None:
        channel = self._channel
        if channel is None:
            await self._reconnect()
            return
        if self.is_confirmation_due(self._confirm_due_s):
            self._ask()
        due_s = self._confirm_due_s if self.may_confirm else monotonic() + CONFIRM_INTERVAL_S
        try:
            async with asyncio.timeout(max(due_s - monotonic(), 0)):
                data = await channel.receive()
        except TimeoutError:
            return
        if data:
            self._take(channel, data)
        else:
            self._drop()

    def _take(self, channel: AsyncChannel, data: bytes) -> None:
        try:
            for message in channel.frames.feed(data):
                changed = self.take(message)
                if changed is not None:
                    self._move()
                    self._tell(changed)
        except DaemonUnavailable:
            self._drop()
        if self._standing.is_taken:
            self._backoff.reset()
        self._move()

    def _tell(self, changed: set[str]) -> None:
        if self._on_change is None or not changed or self._error is not None:
            return
        self._is_calling = True
        try:
            self._on_change(changed)
        except Exception as error:  # noqa: BLE001  # whatever it is, the mirror goes on
            report(self.prefix, error)
        finally:
            self._is_calling = False

    def _ask(self) -> None:
        if self._channel is not None and self._standing.is_taken:
            self._confirm_due_s = monotonic() + CONFIRM_INTERVAL_S
            self._channel.send(self.confirmation())

    async def _connect(self, wait_s: float = 0.0) -> None:
        channel = await dial_when_up(self._connection.paths, encode_hello(self._client, *self._names), wait_s)
        if self._error is not None:
            channel.close()
            return
        self._channel = channel
        channel.send(self.request())
        self._confirm_due_s = 0.0

    async def _reconnect(self) -> None:
        await asyncio.sleep(self._backoff.next_s())
        try:
            await self._connect()
        except CrdtSyncError as error:
            self._standing.outlast(error)

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _finish(self, error: CrdtSyncError) -> None:
        self._connection.mirrors = [mirror for mirror in self._connection.mirrors if mirror is not self]
        self.end(error)
        self._drop()
        self._move()
