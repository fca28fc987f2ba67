"""A mirror for asyncio: a task feeds it."""

# ruff: noqa: ASYNC109  # `timeout` ends with an error that says more than a cancellation

from __future__ import annotations

import asyncio
import os
from time import monotonic
from typing import TYPE_CHECKING, Self

from crdtsync.client.address import unavailable
from crdtsync.client.aio.connection import HELLO_TIMEOUT_S, time_limit
from crdtsync.client.backoff import Backoff
from crdtsync.client.mirror.state import CONFIRM_INTERVAL_S, MirrorState, report
from crdtsync.client.plan import limit_s
from crdtsync.client.wire import ERROR, FrameReader, encode_hello
from crdtsync.errors import CrdtSyncError, DaemonUnavailable, Timeout, from_wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.causality import VersionVector
    from crdtsync.client.aio.connection import AsyncConnection
    from crdtsync.client.aio.session import AsyncSession
    from crdtsync.client.durations import Seconds

_PATIENCE_S = 0.02
"""So long what a write has done is waited for before the daemon is asked whether there was anything to tell."""
_RECEIVE_BYTES = 256 * 1024


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
        self._names = (connection.agent, connection.space)
        self._on_change = on_change
        self._timeout_s = timeout_s
        self._client = os.urandom(16)
        self._backoff = Backoff()
        self._frames = FrameReader()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._moved: asyncio.Event = asyncio.Event()
        self._confirm_due_s = 0.0
        self._task: asyncio.Task[None] | None = None
        self._is_calling = False
        overrides = session.overrides
        super().__init__(
            str(overrides.get("space", connection.space)), session.memory, prefix, overrides, keys_max, bytes_max
        )

    async def attach(self) -> None:
        """Start it; returns when it shows what there is.

        :raises DaemonUnavailable: no daemon answers; the message says what to do.
        :raises TooLarge: there is more than its bounds allow.
        :raises Timeout: the keys did not come in time.
        """
        if self._task is not None:
            return
        try:
            await self._connect()
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"mirror of {self.prefix!r}")
            if not await self._until(lambda: bool(self._token or self._error), monotonic() + self._timeout_s):
                raise Timeout(f"the keys under {self.prefix!r} did not come in time")
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
        if await self._until(lambda: self._has_shown(wanted), min(monotonic() + _PATIENCE_S, deadline)):
            return
        self._ask()
        if not await self._until(lambda: self._has_shown(wanted), deadline):
            raise Timeout(
                f"the mirror of {self.prefix!r} did not show that in time; a write that it waited for is done",
                token=token,
            )

    def _has_shown(self, wanted: VersionVector) -> bool:
        return self._error is not None or self.shows(wanted)

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
        if self._streams is None:
            await self._reconnect()
            return
        if self.wants_confirmation or (not self._asked and monotonic() >= self._confirm_due_s):
            self._ask()
        due_s = monotonic() + CONFIRM_INTERVAL_S if self._asked else self._confirm_due_s
        try:
            async with asyncio.timeout(max(due_s - monotonic(), 0)):
                data = await self._streams[0].read(_RECEIVE_BYTES)
        except TimeoutError:
            return
        except OSError:
            data = b""
        if data:
            self._take(data)
        else:
            self._drop()

    def _take(self, data: bytes) -> None:
        try:
            for message in self._frames.feed(data):
                changed = self.take(message)
                if changed is not None:
                    self._move()
                    self._tell(changed)
        except DaemonUnavailable:
            self._drop()
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
        self._confirm_due_s = monotonic() + CONFIRM_INTERVAL_S
        if self._streams is not None:
            self._streams[1].write(self.confirmation())

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                await self._dial()
        except TimeoutError:
            self._drop()
            raise DaemonUnavailable("the daemon took the connection and did not answer in time: see its log") from None
        if self._error is not None:
            self._drop()
        if self._streams is not None:
            self._streams[1].write(self.request())
        self._confirm_due_s = 0.0
        self._backoff.reset()

    async def _dial(self) -> None:
        failures: list[tuple[str, OSError]] = []
        for path in self._connection.paths:
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

    async def _reconnect(self) -> None:
        await asyncio.sleep(self._backoff.next_s())
        try:
            await self._connect()
        except DaemonUnavailable:
            return

    def _drop(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    def _finish(self, error: CrdtSyncError) -> None:
        self._connection.mirrors = [mirror for mirror in self._connection.mirrors if mirror is not self]
        self.end(error)
        self._drop()
        self._move()
