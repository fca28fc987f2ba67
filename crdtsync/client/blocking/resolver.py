"""A resolver for the blocking client: a thread that settles conflicts, or an iterator over them."""

from __future__ import annotations

from threading import Thread, current_thread
from time import monotonic
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from crdtsync.client.blocking.watch import Watch
from crdtsync.client.operations.conflict_answer import answering
from crdtsync.client.protocol.steps import limit_s
from crdtsync.client.streams.resolver_state import TAKEOVER_S, Conflict, Decline, ResolverState, reason_of
from crdtsync.client.values.durations import milliseconds, seconds
from crdtsync.errors import CrdtSyncError, Timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.blocking.connection import Connection
    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.protocol.seen_point import Horizon
    from crdtsync.client.protocol.steps import Plan
    from crdtsync.client.session.read_memory import ReadMemory
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.streams.watch_state import WatchState
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.write_result import Written

T = TypeVar("T")

JOIN_S = 5.0
"""How long closing a resolver waits for its function."""


class _Stream(Watch):
    """The connection on which conflicts come. It goes on by itself after a broken one, as a watch does."""

    asking: ResolverState

    def _begin(
        self, memory: ReadMemory, prefix: str, _after: str | None, overrides: Arguments, horizon: Horizon
    ) -> WatchState:
        self.asking = ResolverState(memory, prefix, overrides, horizon)
        return self.asking

    def confirm(self, deadline: float) -> None:
        """Wait for the daemon's word that the resolver stands.

        :raises Timeout: it did not come in time.
        """
        while not self.asking.is_confirmed and not self._is_closed:
            try:
                self._receive(deadline)
            except Timeout:
                raise self.asking.not_taken() from None

    def done(self, conflict: Conflict, attachment: int, error: str | None, deadline: float) -> None:
        """Say that a conflict is settled, or why not, unless the daemon has asked somebody else since."""
        channel = self._channel
        if channel is not None and attachment == self.asking.attachment:
            channel.send(self.asking.done(conflict.key, error), deadline)


class Runner(Protocol):
    """The session of a resolver."""

    timeout_s: float

    def run(self, plan: Plan[T], timeout_s: float) -> T:
        """Do what a plan says."""


class Resolver:
    """Settles the conflicts of keys that match a pattern, on a connection of its own that comes back by itself.

    Made by :meth:`Client.resolver`. With a function, a thread calls it with each :class:`~crdtsync.client.Conflict`,
    one at a time. Without, iterate over the conflicts and :meth:`answer` each; one that is passed over counts as
    declined.
    """

    def __init__(
        self,
        session: Runner,
        connection: Connection,
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
        deadline = monotonic() + session.timeout_s
        self._stream = _Stream(
            connection, operations.memory, pattern, None, arguments, None, attach_s=session.timeout_s
        )
        self._fatal: Exception | None = None
        self._thread: Thread | None = None
        try:
            self._stream.confirm(deadline)
        except BaseException:
            self._stream.close()
            raise
        if function is not None:
            self._thread = Thread(target=self._work, name=f"resolver {pattern}", daemon=True)
            self._thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Conflict:
        conflict = self.next()
        if conflict is None:
            raise StopIteration
        return conflict

    def next(self, timeout: Seconds | None = None) -> Conflict | None:
        """The next conflict; None when the resolver is closed. For use without a function.

        :raises Timeout: none came in ``timeout``; without one it waits for ever.
        :raises CrdtSyncError: the daemon refuses the resolver.
        """
        if self._current is not None:
            self._finish("it was passed over")
        deadline = monotonic() + limit_s(timeout, float("inf"))
        while self._stream.next(max(0.0, deadline - monotonic())) is not None:
            conflict = self._stream.asking.conflict
            assert conflict is not None, "an event of a resolver is a conflict"
            self._current = conflict, self._stream.asking.attachment
            if self._answered != (conflict.key, conflict.version):
                return conflict
            self._finish(None)  # settled just as the connection broke, and asked once more meanwhile
        return None

    def answer(self, conflict: Conflict, value: object, *, timeout: Seconds | None = None) -> Written | None:
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
            written = self._session.run(plan, timeout_s)
        except Exception as error:
            self._finish(reason_of(error))
            raise
        self._answered = conflict.key, conflict.version
        self._finish(None)
        return written

    def close(self) -> None:
        """End it. A function at work has a few seconds to come to its end; its conflict is left to others."""
        self._stream.close()
        thread = self._thread
        if thread is not None and thread is not current_thread():
            thread.join(JOIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
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
        self._stream.done(conflict, attachment, error, monotonic() + self._session.timeout_s)

    def _work(self) -> None:
        assert self._function is not None, "a thread has a function to call"
        try:
            while (conflict := self.next()) is not None:
                self._settle(self._function, conflict)
        except Exception as error:  # noqa: BLE001  # raised where the caller can see it, at the end of the with block
            self._fatal = error
            self._stream.close()

    def _settle(self, function: Callable[[Conflict], object], conflict: Conflict) -> None:
        try:
            value = function(conflict)
        except Exception as error:  # noqa: BLE001  # whatever it raises, the daemon is told and asks another
            self.last_error = error
            self._finish(reason_of(error))
            return
        try:
            self.answer(conflict, value)
        except CrdtSyncError as error:
            self.last_error = error
