"""One connection for many tasks: requests are pipelined, replies wake the tasks that wait for them."""

from __future__ import annotations

import asyncio
import os
from time import monotonic
from typing import TYPE_CHECKING, cast

from crdtsync.client.aio.receive_buffer import Receiver
from crdtsync.client.aio.stream import HELLO_TIMEOUT_S, first_of, time_limit
from crdtsync.client.protocol.address import may_come
from crdtsync.client.protocol.backoff import Backoff
from crdtsync.client.protocol.frames import HELLO_ID, MessageReader, encode_hello
from crdtsync.client.protocol.in_flight import (
    AHEAD_MAX,
    WAIT_GRACE_S,
    WRITES_MAX,
    InFlight,
    Pending,
    closed,
    timed_out,
)
from crdtsync.client.protocol.seen_point import Horizon
from crdtsync.errors import CrdtSyncError, DaemonUnavailable, from_wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crdtsync.client.aio.mirror import AsyncMirror
    from crdtsync.client.protocol.frames import Message

_TIMER_STEP_S = 0.005
"""Deadlines are checked no more often than this."""


class DaemonSocket(Receiver):
    """One socket, from its connection to its end."""

    def __init__(self, owner: AsyncConnection) -> None:
        super().__init__()
        self._owner = owner
        self._frames = MessageReader()
        self.answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport
        self.writable = asyncio.Event()
        self.writable.set()
        self.is_writable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio has connected us."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance

    def room(self) -> memoryview:
        """In a long frame that has begun."""
        return self._frames.room()

    def data_received(self, data: bytes | memoryview) -> None:
        """Hand on what is complete. The first message answers the hello."""
        try:
            messages = self._frames.feed(data)
            if messages and not self.answer.done():
                self._take_answer(messages.pop(0))
            self._owner.take(messages)
        except CrdtSyncError as error:  # about the connection as a whole: a frame that is none, or the daemon says so
            self._owner.end(self, error)
            self.transport.abort()
        except BaseException:  # a signal handler's: what was received is lost
            self.transport.abort()
            raise

    def connection_lost(self, _error: Exception | None) -> None:
        """The connection is gone."""
        if not self.answer.done():
            self.answer.set_exception(DaemonUnavailable("the daemon closed the connection at once: see its log"))
            self.answer.exception()  # looked at: nobody may be waiting any more
        self.resume_writing()
        self._owner.end(self, None)

    def pause_writing(self) -> None:
        """The daemon takes no more for now."""
        self.is_writable = False
        self.writable.clear()

    def resume_writing(self) -> None:
        """The daemon takes more."""
        self.is_writable = True
        self.writable.set()

    def _take_answer(self, message: Message) -> None:
        request_id, status, content = message
        if status:
            self.answer.set_exception(from_wire(content))
        else:
            assert request_id == HELLO_ID, "the daemon answers only what it was asked"
            self.answer.set_result(content)


class AsyncConnection:
    """The connection of a client and its sessions, in one event loop."""

    def __init__(
        self, paths: Sequence[str], agent: str, space: str, after: str | None = None, key: str | None = None
    ) -> None:
        self.paths = paths
        self.key = key
        self.agent = agent
        self.space = space
        self.horizon = Horizon(space, after)
        self.wait_s = 0.0
        """How long to wait for a daemon before the first connection."""
        self.mirrors: list[AsyncMirror] = []
        """The mirrors of all sessions: a write returns when those of its session show it."""
        self._client = os.urandom(16)
        self._table = InFlight(self.horizon)
        self._backoff = Backoff()
        self._link: DaemonSocket | None = None
        self._outgoing: list[bytes] = []
        self._was_single = False  # what was sent together last was one request
        self._was_attached = False
        self._attaching = asyncio.Lock()
        self._reconnecting: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._turn = asyncio.Lock()
        self._queued = 0
        self._ahead: list[Pending] = []  # were begun, and may not be done
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._is_closed = False

    @property
    def node(self) -> str:
        """The name of the daemon's node, by its last answer to a hello."""
        return self._table.node

    async def attach(self, timeout_s: float) -> None:
        """Connect, unless that was done before; while there is no daemon, try again for ``wait_s``.

        :raises DaemonUnavailable: nobody answers; the message says what to do.
        """
        async with self._attaching:
            until = monotonic() + self.wait_s
            while not self._was_attached:
                try:
                    await self._attach(max(monotonic() + timeout_s, until))
                except DaemonUnavailable as error:
                    left_s = until - monotonic()
                    if left_s <= 0 or self._is_closed or not may_come(error):
                        raise
                    await asyncio.sleep(min(self._backoff.next_s(), left_s))

    def waits_s(self, timeout_s: float) -> float:
        """How long what has a connection of its own, and is begun now, waits for a daemon: there was one before."""
        return max(timeout_s, self.wait_s) if self._was_attached else self.wait_s

    async def ask(self, pending: Pending, deadline: float, *, is_write: bool) -> None:
        """Send a request and wait until it is done; ``deadline`` is a time of ``time.monotonic``.

        :raises Timeout: the deadline came before it was sent.
        """
        pending.limit = deadline
        pending.deadline = deadline + WAIT_GRACE_S if pending.waits else deadline
        if not self._was_attached:
            await self.attach(deadline - monotonic())
        try:
            if self._queued or not self._has_room(is_write):
                await (await self._queue(pending, is_write=is_write))
            else:
                await self._send(pending, is_write=is_write)
        finally:
            if not pending.done:
                self._table.abandon(pending)
                self._room.set()

    def begin(self, pending: Pending, deadline: float) -> bool:
        """Send a request that reads, for :meth:`finish` to wait for; False: not now, nothing was done."""
        self._ahead = [one for one in self._ahead if not one.done]
        if len(self._ahead) >= AHEAD_MAX or self._link is None or self._queued or not self._has_room(is_write=False):
            return False
        pending.limit = pending.deadline = deadline
        pending.waker = self._send(pending, is_write=False)
        self._ahead.append(pending)
        return True

    async def finish(self, pending: Pending, deadline: float) -> None:
        """Wait until a request that was begun is done."""
        pending.limit = pending.deadline = deadline
        try:
            await pending.waker
        finally:
            if not pending.done:
                self._table.abandon(pending)

    def close(self) -> None:
        """End the connection; requests in flight fail."""
        for mirror in list(self.mirrors):
            mirror.close()
        self._is_closed = True
        if self._reconnecting is not None:
            self._reconnecting.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._wake(self._table.fail_all(closed()))
        link, self._link = self._link, None
        if link is not None:
            link.transport.close()

    # -- sending ----------------------------------------------------------------------------------------------

    def _send(self, pending: Pending, *, is_write: bool) -> asyncio.Future[None]:
        """Number and send a request; its waker."""
        if self._is_closed:
            raise closed()
        loop = asyncio.get_running_loop()
        waker: asyncio.Future[None] = loop.create_future()
        pending.waker = waker
        frame = self._table.admit(pending, is_write=is_write)
        if self._link is None:
            self._start_reconnecting()  # it sends what is pending
        else:
            pending.sent = True
            if self._was_single and not (is_write or self._outgoing) and len(self._table.pending) == 1:
                try:
                    self._link.transport.write(frame)  # one at a time, as before: nobody to wait for
                except BaseException:  # see `_flush`
                    self._link.transport.abort()
                    self._table.abandon(pending)
                    raise
            else:
                if not self._outgoing:
                    loop.call_soon(self._flush)  # what other tasks send meanwhile goes in the same call
                self._outgoing.append(frame)
        if pending.deadline < self._timer_at:
            self._set_timer(pending.deadline)
        return waker

    def _flush(self) -> None:
        frames, self._outgoing = self._outgoing, []
        self._was_single = len(frames) == 1
        if self._link is not None and frames:
            try:
                self._link.transport.write(b"".join(frames) if len(frames) > 1 else frames[0])
            except BaseException:  # a signal handler's: nobody knows how much was sent
                self._link.transport.abort()
                raise

    def _has_room(self, is_write: bool) -> bool:
        if is_write and self._table.writes >= WRITES_MAX:
            return False
        return self._link is None or self._link.is_writable

    async def _queue(self, pending: Pending, *, is_write: bool) -> asyncio.Future[None]:
        """Send when there is room. Calls keep their order: while one waits, those that come later wait behind it."""
        self._queued += 1
        try:
            async with time_limit(pending.deadline - monotonic()), self._turn:
                while not self._has_room(is_write):
                    await self._wait_for_room(is_write=is_write)
                return self._send(pending, is_write=is_write)
        except TimeoutError:
            raise timed_out(pending) from None
        finally:
            self._queued -= 1

    async def _wait_for_room(self, *, is_write: bool) -> None:
        if self._link is not None:
            await self._link.writable.wait()
        if is_write and self._table.writes >= WRITES_MAX:
            self._room.clear()
            await self._room.wait()

    # -- receiving --------------------------------------------------------------------------------------------

    def take(self, messages: Iterable[Message]) -> None:
        """Messages have come.

        :raises CrdtSyncError: one concerns the whole connection, which the daemon closes.
        """
        deliver = self._table.deliver
        try:
            for message in messages:
                pending = deliver(message)
                if pending is not None and not pending.waker.done():
                    pending.waker.set_result(None)
        finally:
            self._tell_room()

    def end(self, link: DaemonSocket, error: CrdtSyncError | None) -> None:
        """A link has ended; with ``error`` all that is in flight fails for it, unless the daemon only goes away."""
        if link is not self._link:
            return
        self._link = None
        if error is not None and not isinstance(error, DaemonUnavailable):
            self._wake(self._table.fail_all(error))
        self._start_reconnecting()

    def _wake(self, done: Iterable[Pending]) -> None:
        for pending in done:
            if not pending.waker.done():
                pending.waker.set_result(None)
        self._tell_room()

    def _tell_room(self) -> None:
        if self._table.writes < WRITES_MAX:
            self._room.set()

    # -- deadlines --------------------------------------------------------------------------------------------

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        if deadline != float("inf"):
            delay_s = max(deadline - monotonic(), _TIMER_STEP_S)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        now = monotonic()
        for pending in [p for p in self._table.pending.values() if p.deadline <= now]:
            self._table.give_up(pending)
            self._wake([pending])
        self._set_timer(min((p.deadline for p in self._table.pending.values()), default=float("inf")))

    # -- connecting -------------------------------------------------------------------------------------------

    async def _attach(self, deadline: float) -> None:
        link = await first_of(self.paths, self._connect, min(deadline - monotonic(), HELLO_TIMEOUT_S))
        if self._is_closed:
            link.transport.abort()
            raise closed()
        failed = self._table.resume(link.answer.result())
        self._link = link
        self._was_attached = True
        self._backoff.reset()
        link.transport.writelines(list(self._table.replay()))
        self._wake(failed)

    async def _connect(self, path: str) -> DaemonSocket:
        transport, link = await asyncio.get_running_loop().create_unix_connection(lambda: DaemonSocket(self), path)
        try:
            transport.write(encode_hello(self._client, self.agent, self.space, self.key, points=True))
            await link.answer
        except BaseException:
            transport.abort()
            raise
        return link

    def _start_reconnecting(self) -> None:
        if not self._is_closed and (self._reconnecting is None or self._reconnecting.done()):
            self._reconnecting = asyncio.get_running_loop().create_task(self._reconnect())

    async def _reconnect(self) -> None:
        while self._link is None:
            await asyncio.sleep(self._backoff.next_s())
            try:
                await self._attach(float("inf"))
            except DaemonUnavailable:
                continue
            except CrdtSyncError as error:  # it is there, and will not have us; the next request tries again
                self._wake(self._table.fail_all(error))
                return
