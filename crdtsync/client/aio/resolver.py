"""A resolver for asyncio: a task that settles conflicts, or an async iterator over them.

What each part does and promises is written at its twin in ``blocking.resolver``.
"""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from crdtsync.client.aio.connection import time_limit
from crdtsync.client.aio.watch import AsyncWatch
from crdtsync.client.operations.conflict_answer import answering
from crdtsync.client.protocol.steps import limit_s
from crdtsync.client.streams.resolver_state import TAKEOVER_S, Conflict, Decline, ResolverState, reason_of
from crdtsync.client.values.durations import milliseconds, seconds
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.aio.connection import AsyncConnection
    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.protocol.seen_point import Horizon
    from crdtsync.client.protocol.steps import Plan
    from crdtsync.client.session.read_memory import ReadMemory
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.streams.watch_state import WatchState
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.write_result import Written

T = TypeVar("T")


class _Stream(AsyncWatch):
    """The connection on which conflicts come. It goes on by itself after a broken one, as a watch does."""

    asking: ResolverState

    def _begin(
        self, memory: ReadMemory, prefix: str, _after: str | None, overrides: Arguments, horizon: Horizon
    ) -> WatchState:
        self.asking = ResolverState(memory, prefix, overrides, horizon)
        return self.asking

    async def confirm(self, timeout_s: float) -> None:
        """Wait for the daemon's word that the resolver stands.

        :raises Timeout: it did not come in time.
        """
        await self.attach()
        try:
            async with time_limit(timeout_s):
                while not self.asking.is_confirmed and not self._closed.is_set():
                    await self._receive()
        except TimeoutError:
            raise self.asking.not_taken() from None

    def done(self, conflict: Conflict, attachment: int, error: str | None) -> None:
        """Say that a conflict is settled, or why not, unless the daemon has asked somebody else since."""
        if self._channel is not None and attachment == self.asking.attachment:
            self._channel.send(self.asking.done(conflict.key, error))


class Runner(Protocol):
    """The session of a resolver."""

    timeout_s: float

    async def run(self, plan: Plan[T], timeout_s: float) -> T:
        """Do what a plan says."""


class AsyncResolver:
    """Settles the conflicts of keys that match a pattern; the twin of :class:`Resolver`.

    Made by :meth:`AsyncClient.resolver`; it begins with ``async with``. With a function, a task calls it. Without,
    iterate with ``async for``, and await :meth:`answer`.
    """

    def __init__(
        self,
        session: Runner,
        connection: AsyncConnection,
        operations: Operations,
        pattern: str,
        function: Callable[[Conflict], object] | None,
        takeover: Seconds | None,
        overrides: Arguments,
    ) -> None:
        takeover_s = TAKEOVER_S if takeover is None else seconds(takeover, "takeover")
        arguments = {**overrides, "takeover": milliseconds(takeover_s)}
        self.pattern = pattern
        self.settled = 0
        self.failed = 0
        self.last_error: Exception | None = None
        self._session = session
        self._operations = operations
        self._function = function
        self._current: tuple[Conflict, int] | None = None
        self._answered: tuple[str, str] | None = None
        self._fatal: Exception | None = None
        self._stream = _Stream(
            connection, operations.memory, pattern, None, arguments, None, attach_s=session.timeout_s
        )
        self._task: asyncio.Task[None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Conflict:
        conflict = await self.next()
        if conflict is None:
            raise StopAsyncIteration
        return conflict

    async def next(self, timeout: Seconds | None = None) -> Conflict | None:
        """The next conflict; see :meth:`Resolver.next`."""
        if self._current is not None:
            self._finish("it was passed over")
        deadline = asyncio.get_running_loop().time() + limit_s(timeout, float("inf"))
        while await self._stream.next(max(0.0, deadline - asyncio.get_running_loop().time())) is not None:
            conflict = self._stream.asking.conflict
            assert conflict is not None, "an event of a resolver is a conflict"
            self._current = conflict, self._stream.asking.attachment
            if self._answered != (conflict.key, conflict.version):
                return conflict
            self._finish(None)  # settled just as the connection broke, and asked once more meanwhile
        return None

    async def answer(self, conflict: Conflict, value: object, *, timeout: Seconds | None = None) -> Written | None:
        """Settle the conflict that came last; see :meth:`Resolver.answer`."""
        if self._current is None or self._current[0] is not conflict:
            raise ValueError(f"the conflict of {conflict.key!r} is not the one that was asked last")
        if isinstance(value, Decline):
            self._finish(value.reason)
            return None
        timeout_s = limit_s(timeout, self._session.timeout_s)
        try:
            plan = answering(self._operations, conflict, value, timeout_s)
            written = await self._session.run(plan, timeout_s)
        except Exception as error:
            self._finish(reason_of(error))
            raise
        self._answered = conflict.key, conflict.version
        self._finish(None)
        return written

    def close(self) -> None:
        """End it. The task is cancelled; what it was at work on is left to others."""
        self._stream.close()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def __aenter__(self) -> Self:
        try:
            await self._stream.confirm(self._session.timeout_s)
        except BaseException:
            self._stream.close()
            raise
        if self._function is not None:
            self._task = asyncio.get_running_loop().create_task(self._work())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._fatal is not None and kind is None:
            raise self._fatal

    def _finish(self, error: str | None) -> None:
        assert self._current is not None, "there is something to be done with"
        conflict, attachment = self._current
        self._current = None
        if error is None:
            self.settled += 1
        else:
            self.failed += 1
        self._stream.done(conflict, attachment, error)

    async def _work(self) -> None:
        assert self._function is not None, "a task has a function to call"
        try:
            while (conflict := await self.next()) is not None:
                await self._settle(self._function, conflict)
        except Exception as error:  # noqa: BLE001  # raised where the caller can see it, at the end of the with block
            self._fatal = error
            self._stream.close()

    async def _settle(self, function: Callable[[Conflict], object], conflict: Conflict) -> None:
        try:
            value = function(conflict)
            if isawaitable(value):
                value = await value
        except Exception as error:  # noqa: BLE001  # whatever it raises, the daemon is told and asks another
            self.last_error = error
            self._finish(reason_of(error))
            return
        try:
            await self.answer(conflict, value)
        except CrdtSyncError as error:
            self.last_error = error
