"""The base of all methods of the asyncio client: a session, and how it runs a plan."""

from __future__ import annotations

from asyncio import sleep
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from crdtsync.client.operations.keys import Operations
from crdtsync.client.protocol.steps import Compute, Exchange, Plan, Step, limit_s, unfit
from crdtsync.client.values.points import point_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crdtsync.client.aio.connection import AsyncConnection
    from crdtsync.client.session.request_context import Arguments, Write, WriteConcern
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.points import Point

T = TypeVar("T")


class AsyncMethods:
    """A part of a session."""

    timeout_s: float
    _connection: AsyncConnection
    _operations: Operations
    _overrides: Arguments

    @property
    def agent(self) -> str:
        """The name under which this session writes."""
        return str(self._overrides.get("agent", self._connection.agent))

    @property
    def node(self) -> str:
        """The name of the node that it is attached to; empty before the first answer."""
        return self._connection.node

    @property
    def space(self) -> str:
        """The space that this session works in."""
        return str(self._overrides.get("space", self._connection.space))

    @property
    def last_token(self) -> str | None:
        """The token of this session's newest operation: of a write that write's, of a read that of all that it was
        shown; None if there was none yet.
        """
        return self._operations.last_token

    @property
    def token(self) -> str | None:
        """One token for all that this client has read and written, in all its spaces; None if that is nothing.

        Hand it over with the work: a client that is begun with ``after`` set to it, at any daemon, is never shown
        less.
        """
        return self._operations.horizon.token()

    @staticmethod
    def join(tokens: Iterable[str | None]) -> str:
        """One token for all that several name, None among them names nothing: what three agents have written, for the
        one who reads their findings ``after`` it. Nothing is asked of the daemon.

        :raises InvalidRequest: one of them is no token, or there is none.
        """
        from crdtsync.client.protocol.seen_point import joined
        from crdtsync.errors import InvalidRequest

        token = joined(tokens)
        if token is None:
            raise InvalidRequest("join needs one token at least")
        return token

    def forget_token(self) -> None:
        """Go on without :attr:`token`, in all sessions of this client, at a daemon that lacks some of it and will not
        get it soon: what was read and written may then seem undone until it arrives.

        The session still remembers what it has read of each key: a write supersedes those of these values that are
        there, and the rest lives on as a sibling.
        """
        self._operations.horizon.forget()

    async def run(self, plan: Plan[T], timeout_s: float) -> T:
        """Do what a plan says; its result. For the other parts of this library.

        The time limit is for what happens before, between and after runs of the caller's function, each time anew.
        """
        deadline = monotonic() + timeout_s
        if isinstance(plan, Exchange):
            return await self._call(plan, deadline)
        step: Step | None = None
        try:
            step = next(plan)
            while True:
                try:
                    outcome = await self._do(step, deadline)
                    if type(step) is Compute:
                        deadline = monotonic() + timeout_s  # the time that the caller's function took is the caller's
                except BaseException as error:  # noqa: BLE001  # the plan tidies up and raises it again
                    step = plan.throw(error)
                else:
                    step = plan.send(outcome)
        except StopIteration as done:
            result: T = done.value
            return result
        except KeyError as missing:
            if not isinstance(step, Exchange):  # the caller's own function, or value
                raise
            raise unfit(step, missing) from missing

    def begin(self, call: Exchange[T], timeout_s: float) -> bool:
        """Send a request that reads, whose outcome :meth:`finish` waits for; False: not now. For the same."""
        return self._connection.begin(call, monotonic() + timeout_s)

    async def finish(self, call: Exchange[T], timeout_s: float) -> T:
        """The outcome of a request that was begun."""
        await self._connection.finish(call, monotonic() + timeout_s)
        return call.outcome()

    async def _do(self, step: Step, deadline: float) -> Any:  # Any: see Steps
        if isinstance(step, Exchange):
            return await self._call(step, deadline)
        if type(step) is Compute:
            return await self._compute(step)
        await sleep(step.seconds)  # type: ignore[union-attr]  # what is left is a Pause
        return None

    def _as_of(self, at: Point | None) -> Operations:
        """The plans of this session, or of one that reads the past and remembers nothing of it."""
        return self._operations if at is None else self._at(point_argument(at))

    def _at(self, at: str | int) -> Operations:
        return Operations({**self._overrides, "at": at}, self._operations.horizon)

    async def _call(self, call: Exchange[T], deadline: float) -> T:
        """A plan of one request, for which there is no more to do than this."""
        connection = self._connection
        await connection.ask(call, deadline, is_write=call.is_write)
        result = call.outcome()
        if call.is_write and connection.mirrors:
            await self._show_in_mirrors(call.arguments, call.result["token"], deadline)
        return result

    async def _compute(self, step: Compute) -> Any:
        raise NotImplementedError

    async def _show_in_mirrors(self, arguments: Arguments, token: Any, deadline: float) -> None:
        raise NotImplementedError

    async def _ask(self, name: str, arguments: Arguments, timeout: Seconds | None) -> dict[str, Any]:
        """One request that is answered with a map."""
        return await self._ask_for(dict, name, arguments, timeout)

    async def _ask_for(self, result: Callable[[Any], T], name: str, arguments: Arguments, timeout: Seconds | None) -> T:
        """One request; ``result`` makes of its reply what the caller gets."""
        deadline = monotonic() + limit_s(timeout, self.timeout_s)
        return await self._call(self._operations.call(name, arguments, result), deadline)

    async def _write(self, write: Write[T], w: WriteConcern, timeout: Seconds | None) -> T:
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self._call(self._operations.send(write, w, timeout_s), monotonic() + timeout_s)
