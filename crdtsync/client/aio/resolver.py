"""A resolver for asyncio: a task that settles conflicts, or an iterator over them."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Self

from crdtsync.client.aio.background import AsyncBackground, at_once, call
from crdtsync.client.aio.watch import AsyncWatch
from crdtsync.client.operations.conflict_answer import answering
from crdtsync.client.protocol.steps import limit_s
from crdtsync.client.streams.resolver_state import TAKEOVER_S, Conflict, Decline, ResolverState, reason_of
from crdtsync.client.values.durations import milliseconds, seconds
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.aio.connection import AsyncConnection
    from crdtsync.client.aio.methods.base import AsyncMethods
    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.protocol.seen_point import Horizon
    from crdtsync.client.session.read_memory import ReadMemory
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.streams.watch_state import WatchState
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.write_result import Written

END_S = 5.0
"""How long closing a resolver waits for a function that cannot be cancelled."""


class _Stream(AsyncWatch):
    """The connection on which conflicts come. It goes on by itself after a broken one, as a watch does."""

    asking: ResolverState

    def _begin(
        self, memory: ReadMemory, prefix: str, _after: str | None, overrides: Arguments, horizon: Horizon
    ) -> WatchState:
        self.asking = ResolverState(memory, prefix, overrides, horizon)
        return self.asking

    async def confirm(self, deadline: float) -> None:
        """Wait for the daemon's word that the resolver stands.

        :raises Timeout: it did not come in time.
        """
        if not await self._take_until(lambda: self.asking.is_confirmed, deadline):
            raise self.asking.not_taken()

    def done(self, conflict: Conflict, attachment: int, error: str | None, timeout_s: float) -> None:
        """Say that a conflict is settled, or why not, unless the daemon has asked somebody else since."""
        if attachment == self.asking.attachment:
            self._say(self.asking.done(conflict.key, error), timeout_s)


class AsyncResolver:
    """Settles the conflicts of keys that match a pattern, on a connection of its own that comes back by itself.

    With a function, a task calls it with each :class:`~crdtsync.client.Conflict`, one at a time. Without, iterate
    over the conflicts and :meth:`answer` each; one that is passed over counts as declined.

    Under asyncio, it begins with ``async with``.
    """

    def __init__(
        self,
        session: AsyncMethods,
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
        deadline = monotonic() + session.timeout_s
        self._stream = _Stream(
            connection, operations.memory, pattern, None, arguments, None, attach_s=session.timeout_s
        )
        self._worker = None if function is None else AsyncBackground(self._work, f"resolver {pattern}")
        at_once(self._open, deadline)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Conflict:
        conflict = await self.next()
        if conflict is None:
            raise StopAsyncIteration
        return conflict

    async def next(self, timeout: Seconds | None = None) -> Conflict | None:
        """The next conflict; None when the resolver is closed. For use without a function.

        :raises Timeout: none came in ``timeout``; without one it waits for ever.
        :raises CrdtSyncError: the daemon refuses the resolver.
        """
        if self._current is not None:
            self._finish("it was passed over")
        deadline = monotonic() + limit_s(timeout, float("inf"))
        while await self._stream.next(max(0.0, deadline - monotonic())) is not None:
            conflict = self._stream.asking.conflict
            assert conflict is not None, "an event of a resolver is a conflict"
            self._current = conflict, self._stream.asking.attachment
            if self._answered != (conflict.key, conflict.version):
                return conflict
            self._finish(None)  # settled just as the connection broke, and asked once more meanwhile
        return None

    async def answer(self, conflict: Conflict, value: object, *, timeout: Seconds | None = None) -> Written | None:
        """Settle the conflict that came last: by a value, or by what ``conflict.take``, ``merge`` or ``decline`` gives.

        It supersedes exactly the values that the conflict showed; what came meanwhile is asked about next. Returns the
        token; None when declined.

        :raises Refused: the daemon refuses the answer, which counts as a failure.
        """
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
        """End it. The conflict that its function was at work on is left to other resolvers; a function that cannot be
        cancelled has a few seconds to come to its end.
        """
        self._stream.close()
        if self._worker is not None:
            self._worker.end(END_S)

    async def __aenter__(self) -> Self:
        await self._open(monotonic() + self._session.timeout_s)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stream.close()
        if self._worker is not None:
            await self._worker.ended(END_S)
        if self._fatal is not None and kind is None:
            raise self._fatal

    async def _open(self, deadline: float) -> None:
        try:
            await self._stream.confirm(deadline)
        except BaseException:
            self._stream.close()
            raise
        if self._worker is not None and not self._worker.is_running:
            self._worker.start()

    def _finish(self, error: str | None) -> None:
        assert self._current is not None, "there is something to be done with"
        conflict, attachment = self._current
        self._current = None
        if error is None:
            self.settled += 1
        else:
            self.failed += 1
        self._stream.done(conflict, attachment, error, self._session.timeout_s)

    async def _work(self) -> None:
        assert self._function is not None, "there is a function to call"
        try:
            while (conflict := await self.next()) is not None:
                await self._settle(self._function, conflict)
        except Exception as error:  # noqa: BLE001  # raised where the caller can see it, at the end of the with block
            self._fatal = error
        finally:
            self._stream.close()

    async def _settle(self, function: Callable[[Conflict], object], conflict: Conflict) -> None:
        try:
            value = await call(function, conflict)
        except Exception as error:  # noqa: BLE001  # whatever it raises, the daemon is told and asks another
            self.last_error = error
            self._finish(reason_of(error))
            return
        try:
            await self.answer(conflict, value)
        except CrdtSyncError as error:
            self.last_error = error
