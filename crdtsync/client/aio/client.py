"""The asyncio client: every operation as a coroutine.

What each does and promises is written at its twin in :class:`Session`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from inspect import isawaitable
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet, WeakValueDictionary

from crdtsync.client.aio.connection import AsyncConnection
from crdtsync.client.aio.methods.access import AsyncAccessMethods
from crdtsync.client.aio.methods.cluster import AsyncClusterMethods
from crdtsync.client.aio.methods.daemon import AsyncServiceMethods
from crdtsync.client.aio.methods.editors import AsyncEditorMethods
from crdtsync.client.aio.methods.explain import AsyncExplainMethods
from crdtsync.client.aio.methods.history import AsyncHistoryMethods
from crdtsync.client.aio.methods.keys import AsyncPlainMethods
from crdtsync.client.aio.methods.kinds import AsyncKindMethods
from crdtsync.client.aio.methods.mirrors import AsyncMirrorMethods
from crdtsync.client.aio.methods.resolvers import AsyncResolverMethods
from crdtsync.client.aio.methods.schemas import AsyncSchemaMethods
from crdtsync.client.aio.methods.spaces import AsyncSpaceMethods
from crdtsync.client.operations import writes
from crdtsync.client.operations.keys import Operations
from crdtsync.client.protocol.address import connection_of
from crdtsync.client.protocol.steps import Call, Compute, Plan, Step, limit_s, unfit
from crdtsync.client.session.request_context import seen_or
from crdtsync.client.session.tokens import Past
from crdtsync.client.values.listing import Listing
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    import os

    from crdtsync.client.aio.text import AsyncText
    from crdtsync.client.aio.watch import AsyncWatch
    from crdtsync.client.operations.batch import Batch
    from crdtsync.client.session.request_context import Arguments, Seen, WriteConcern
    from crdtsync.client.text.operations import TextOperations
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.results import Entry
    from crdtsync.client.values.write_result import Written

T = TypeVar("T")


class AsyncSession(
    AsyncAccessMethods,
    AsyncClusterMethods,
    AsyncEditorMethods,
    AsyncExplainMethods,
    AsyncHistoryMethods,
    AsyncKindMethods,
    AsyncMirrorMethods,
    AsyncPlainMethods,
    AsyncResolverMethods,
    AsyncSchemaMethods,
    AsyncServiceMethods,
    AsyncSpaceMethods,
    Past,
):
    """What one author does over a client's connection: it has its own memory of what it has read.

    The twin of :class:`Session`. A task that is cancelled during a write may have written
    or not.
    """

    def __init__(self, connection: AsyncConnection, timeout_s: float, overrides: Arguments) -> None:
        self._connection = connection
        self.timeout_s = timeout_s
        self._overrides = overrides
        self._operations = Operations(overrides, connection.horizon)
        self._texts: TextOperations | None = None
        self._text_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._watches: WeakSet[AsyncWatch] = WeakSet()

    # -- reads ------------------------------------------------------------------------------------------------

    async def entry(self, key: str, *, after: str | None = None, timeout: Seconds | None = None) -> Entry | None:
        """The value of ``key`` with all that is known of it; see :meth:`Client.entry`."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.entry(key, after, timeout_s), timeout_s)

    async def keys(
        self,
        prefix: str = "",
        *,
        start: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        timeout: Seconds | None = None,
    ) -> Listing[str]:
        """The keys that start with ``prefix``; see :meth:`Client.keys`."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.keys(prefix, start, limit, after, timeout_s), timeout_s)

    async def items(
        self,
        prefix: str = "",
        *,
        start: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        timeout: Seconds | None = None,
    ) -> Listing[tuple[str, Any]]:
        """Keys and values; see :meth:`Client.items`."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.items(prefix, start, limit, after, timeout_s), timeout_s)

    async def entries(
        self,
        prefix: str = "",
        *,
        start: str | None = None,
        limit: int | None = None,
        values: bool = True,
        after: str | None = None,
        timeout: Seconds | None = None,
    ) -> Listing[Entry]:
        """Whole entries; see :meth:`Client.entries`."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(
            self._operations.entries(prefix, start, limit, after, timeout_s, values=values), timeout_s
        )

    async def conflicts(
        self,
        prefix: str = "",
        *,
        start: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        timeout: Seconds | None = None,
    ) -> Listing[Entry]:
        """The entries that have siblings; see :meth:`Client.conflicts`."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.conflicts(prefix, start, limit, after, timeout_s), timeout_s)

    async def wait(self, token: str, *, w: WriteConcern = None, timeout: Seconds | None = None) -> int:
        """Wait until this daemon, or ``w`` nodes, hold ``token``; see :meth:`Client.wait`."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.wait(token, w, timeout_s), timeout_s)

    async def status(self, *, far: bool = False, timeout: Seconds | None = None) -> dict[str, Any]:
        """What the daemon says of itself; see :meth:`Client.status`."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.status(far), timeout_s)

    # -- writes -----------------------------------------------------------------------------------------------

    async def update(
        self,
        key: str,
        function: Callable[[Any], object | Awaitable[object]],
        *,
        attempts: int = 16,
        siblings: bool = False,
        default: Any = None,
        ttl: Seconds | None = None,
        confidence: float | None = None,
        meta: dict[str, Any] | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Replace the value by ``function(value)``, which may be a coroutine function.

        See :meth:`Client.update`.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        options = {"ttl": ttl, "confidence": confidence, "meta": meta, "w": w}
        plan = self._operations.update(
            key, function, timeout_s, attempts=attempts, siblings=siblings, default=default, options=options
        )
        return await self.run(plan, timeout_s)

    async def delete(
        self,
        key: str,
        *,
        if_version: str | None = None,
        seen: Seen = ...,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> bool:
        """Delete ``key``; whether it existed; see :meth:`Client.delete`."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.delete(key, timeout_s, if_version=if_version, seen=seen, w=w), timeout_s)

    async def resolve(
        self,
        key: str,
        *,
        take: str | None = None,
        value: object = ...,
        merge: bool = False,
        if_version: str | None = None,
        seen: Seen = ...,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Make one value of a key's siblings; the token; see :meth:`Client.resolve`."""
        write = writes.resolve(self._operations, key, take, value, merge, seen_or(seen, if_version))
        return await self._write(writes.conditional(write, if_version), w, timeout)

    @asynccontextmanager
    async def batch(self, *, w: WriteConcern = None, timeout: Seconds | None = None) -> AsyncIterator[Batch]:
        """Several writes as one change; see :meth:`Client.batch`.

        Its methods are no coroutines.
        """
        from crdtsync.client.operations.batch import Batch

        timeout_s = limit_s(timeout, self.timeout_s)
        batch = Batch(self._operations, w)
        yield batch
        await self.run(batch.commit(timeout_s), timeout_s)

    # -- texts, watches, sessions -------------------------------------------------------------------------------

    def text(self, key: str) -> AsyncText:
        """A handle on the text at ``key``. Nothing is sent yet."""
        from crdtsync.client.aio.text import AsyncText
        from crdtsync.client.text.operations import TextOperations

        if self._texts is None:
            self._texts = TextOperations(self._operations)
        return AsyncText(self, self._texts, key, self._text_locks.setdefault(key, asyncio.Lock()))

    def watch(self, prefix: str = "", *, after: str | None = None, timeout: Seconds | None = None) -> AsyncWatch:
        """Iterate with ``async for`` over changes by prefix; see :meth:`Client.watch`.

        It starts at the first event asked for, or with ``async with``.
        """
        from crdtsync.client.aio.watch import AsyncWatch

        watch = AsyncWatch(self._connection, self._operations.memory, prefix, after, self._overrides, timeout)
        self._watches.add(watch)
        return watch

    def session(self, agent: str | None = None, *, space: str | None = None) -> AsyncSession:
        """Another author over the same connection, with its own memory of what it has read."""
        overrides = dict(self._overrides)
        overrides |= {"agent": agent} if agent else {}
        overrides |= {"space": space} if space else {}
        return AsyncSession(self._connection, self.timeout_s, overrides)

    async def close(self) -> None:
        """End this session's editors (what they hold is sent), watches and mirrors. The connection stays open for the
        client and its other sessions.
        """
        try:
            await self._close_editors()
        finally:
            for watch in list(self._watches):
                watch.close()
            self._close_mirrors()
            self._close_resolvers()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- running plans ------------------------------------------------------------------------------------------

    async def run(self, plan: Plan[T], timeout_s: float) -> T:
        """Do what a plan says; its result. For the other parts of this library.

        The time limit is for what happens before, between and after runs of the caller's function, each time anew.
        """
        deadline = monotonic() + timeout_s
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
            if type(step) is not Call:  # the caller's own function, or value
                raise
            raise unfit(step, missing) from missing

    async def _do(self, step: Step, deadline: float) -> Any:  # Any: see Plan
        if type(step) is Call:
            reply = await self._connection.call(step, deadline)
            if step.is_write and self._connection.mirrors:
                await self._show_in_mirrors(step.arguments, reply["token"], deadline)
            return reply
        if type(step) is Compute:
            outcome = step.function(step.argument)
            return await outcome if isawaitable(outcome) else outcome
        await asyncio.sleep(step.seconds)  # type: ignore[union-attr]  # what is left is a Pause
        return None


class AsyncClient(AsyncSession):
    """A connection to the daemon of this host, for asyncio; the twin of :class:`Client`, with the same arguments.

    It connects with ``async with``, or at its first use, and belongs to the event loop that this happens in. It
    reconnects by itself.
    """

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        space: str | None = None,
        agent: str | None = None,
        *,
        after: str | None = None,
        timeout: Seconds = 30.0,
        agent_key: str | os.PathLike[str] | None = None,
    ) -> None:
        connection = connection_of(AsyncConnection, socket, space, agent, after, agent_key)
        super().__init__(connection, limit_s(timeout, 0), {})

    async def __aenter__(self) -> Self:
        await self._connection.attach(self.timeout_s)
        return self

    async def close(self) -> None:
        """End the connection and this client's watches; requests of other tasks that are in flight fail."""
        try:
            await super().close()
        except CrdtSyncError:  # of an editor; when it was interrupted it can be closed again
            self._connection.close()
            raise
        self._connection.close()
