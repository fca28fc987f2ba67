"""A mirror for asyncio: a task of its own feeds it."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Self

from crdtsync.client.aio.background import AsyncBackground, AsyncNews, at_once
from crdtsync.client.aio.stream import AsyncStream
from crdtsync.client.mirror.state import CONFIRM_INTERVAL_S, PATIENCE_S, MirrorState, report
from crdtsync.client.protocol.steps import limit_s
from crdtsync.errors import CrdtSyncError, DaemonUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.causality import VersionVector
    from crdtsync.client.aio.client import AsyncSession
    from crdtsync.client.aio.connection import AsyncConnection
    from crdtsync.client.protocol.frames import Message
    from crdtsync.client.values.durations import Seconds

_END_S = 10.0


class AsyncMirror(MirrorState):
    """A copy of the keys that start with a prefix, in this process, as a mapping from key to value.

    A read costs a dict lookup, in any task; only ``len``, :meth:`snapshot` and iteration look at more. Readers
    see one change or batch whole or not at all. A write through the same client returns when it is seen here. If
    the connection breaks, the mirror goes on showing what it has, and catches up by itself. :meth:`close` it, or
    use ``with``: a task feeds it until then. It does not live on in a forked child, where reading it raises
    :class:`~crdtsync.errors.InvalidRequest`.

    Under asyncio, reading needs no ``await``, and it starts with ``async with`` or :meth:`attach`.
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
        self._on_change = on_change
        self._timeout_s = timeout_s
        self._confirm_due_s = 0.0
        self._is_begun = False
        self._news = AsyncNews()
        overrides = session.overrides
        space = str(overrides.get("space", connection.space))
        super().__init__(space, session.memory, prefix, overrides, keys_max, bytes_max, connection.horizon)
        self._stream = AsyncStream(connection, self._standing, self.request, self._take, timeout_s)
        self._worker = AsyncBackground(self._run, f"mirror of {prefix!r}")
        at_once(self.attach)

    async def attach(self) -> None:
        """Start it; returns when it shows what there is.

        :raises DaemonUnavailable: no daemon answers; the message says what to do.
        :raises TooLarge: there is more than its bounds allow.
        :raises Timeout: the keys did not come in time.
        """
        if self._is_begun:
            return
        self._is_begun = True
        deadline = monotonic() + self._timeout_s
        try:
            await self._stream.begin()
            self._worker.start()
            is_shown = await self._news.until(lambda: bool(self._token or self._error), deadline)
            if self._error is not None:
                raise self._error.with_traceback(None)
            if not is_shown:
                raise self.unopened()
        except BaseException:
            self.close()
            raise
        self._connection.mirrors.append(self)

    async def wait(self, token: str, *, timeout: Seconds | None = None) -> None:
        """Until it shows all that ``token`` names of its space.

        :raises Timeout: it did not in time.
        """
        wanted = self.point_of(token)
        deadline = monotonic() + limit_s(timeout, self._session.timeout_s)
        if not self.shows(wanted):
            await self._session.wait(token, timeout=max(deadline - monotonic(), 0))
            await self.see(wanted, token, deadline)

    def close(self) -> None:
        """End it and its task; from then on to read it raises."""
        self._finish(self._closed())
        self._worker.end(_END_S)

    async def __aenter__(self) -> Self:
        await self.attach()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._finish(self._closed())
        await self._worker.ended(_END_S)

    async def see(self, wanted: VersionVector, token: str, deadline: float) -> None:
        """Wait until it shows ``wanted``, which the daemon holds; at once if it has ended.

        :raises Timeout: it did not in time.
        """
        if self._worker.is_current:
            return  # its own callback: it shows that as soon as the callback returns
        if await self._news.until(lambda: self.has_shown(wanted), min(monotonic() + PATIENCE_S, deadline)):
            return
        self._ask()
        if not await self._news.until(lambda: self.has_shown(wanted), deadline):
            raise self.unseen(token)

    # -- its life -------------------------------------------------------------------------------------------

    def request(self) -> bytes:
        """Also: a new connection is asked at once how fresh it is."""
        self._confirm_due_s = 0.0
        return super().request()

    async def _run(self) -> None:
        try:
            while not self._stream.is_closed:
                await self._turn()
        except CrdtSyncError as error:
            self._finish(error)
        except Exception as error:
            self._finish(CrdtSyncError(f"the mirror of {self.prefix!r} failed: {error!r}"))
            raise
        finally:
            self._finish(self._closed())

    async def _turn(self) -> None:
        if not self._stream.is_up:
            due_s = float("inf")  # the stream itself gives a daemon long enough for its hello, and no longer
        else:
            if self.is_confirmation_due(self._confirm_due_s):
                self._ask()
            due_s = self._confirm_due_s if self.may_confirm else monotonic() + CONFIRM_INTERVAL_S
        await self._stream.receive(due_s)
        self._news.tell()

    def _take(self, message: Message) -> None:
        changed = self.take(message)
        if changed is None:
            return
        self._news.tell()
        if self._on_change is None or not changed or self._stream.is_closed:
            return
        try:
            self._on_change(changed)
        except Exception as error:  # noqa: BLE001  # whatever it is, the mirror goes on
            report(self.prefix, error)

    def _ask(self) -> None:
        self._stream.say(self._question, CONFIRM_INTERVAL_S)

    def _question(self) -> bytes:
        """Nothing before the daemon has begun to tell."""
        if not self._standing.is_taken:
            return b""
        self._confirm_due_s = monotonic() + CONFIRM_INTERVAL_S
        return self.confirmation()

    def _closed(self) -> DaemonUnavailable:
        return DaemonUnavailable(f"the mirror of {self.prefix!r} is closed")

    def _finish(self, error: CrdtSyncError) -> None:
        self._connection.mirrors = [mirror for mirror in self._connection.mirrors if mirror is not self]
        self.end(error)
        self._stream.close()
        self._news.tell()
