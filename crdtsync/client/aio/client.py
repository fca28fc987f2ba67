"""The asyncio client: every operation as a coroutine."""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet, WeakValueDictionary

from crdtsync.client.aio.connection import AsyncConnection
from crdtsync.client.aio.methods.access import AsyncAccessMethods
from crdtsync.client.aio.methods.blobs import AsyncBlobMethods
from crdtsync.client.aio.methods.checkpoints import AsyncCheckpointMethods
from crdtsync.client.aio.methods.cluster import AsyncClusterMethods
from crdtsync.client.aio.methods.coordination import AsyncCoordinationMethods
from crdtsync.client.aio.methods.daemon import AsyncDaemonMethods
from crdtsync.client.aio.methods.editors import AsyncEditorMethods
from crdtsync.client.aio.methods.explain import AsyncExplainMethods
from crdtsync.client.aio.methods.forks import AsyncForkMethods
from crdtsync.client.aio.methods.history import AsyncHistoryMethods
from crdtsync.client.aio.methods.keys import AsyncKeyMethods
from crdtsync.client.aio.methods.kinds import AsyncKindMethods
from crdtsync.client.aio.methods.mirrors import AsyncMirrorMethods
from crdtsync.client.aio.methods.resolvers import AsyncResolverMethods
from crdtsync.client.aio.methods.schemas import AsyncSchemaMethods
from crdtsync.client.aio.methods.spaces import AsyncSpaceMethods
from crdtsync.client.operations.keys import Operations
from crdtsync.client.protocol.address import connection_of
from crdtsync.client.protocol.steps import Compute, limit_s
from crdtsync.client.session.tokens import Past
from crdtsync.client.values.durations import seconds
from crdtsync.client.values.points import point_argument
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    import os

    from crdtsync.client.aio.document import AsyncDocument
    from crdtsync.client.aio.text import AsyncText
    from crdtsync.client.aio.text_lock import AsyncTextLock
    from crdtsync.client.aio.watch import AsyncWatch
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.streams.changes_state import Changes
    from crdtsync.client.text.operations import TextOperations
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.points import Point


class AsyncSession(
    AsyncAccessMethods,
    AsyncBlobMethods,
    AsyncCheckpointMethods,
    AsyncClusterMethods,
    AsyncCoordinationMethods,
    AsyncDaemonMethods,
    AsyncEditorMethods,
    AsyncExplainMethods,
    AsyncForkMethods,
    AsyncHistoryMethods,
    AsyncKeyMethods,
    AsyncKindMethods,
    AsyncMirrorMethods,
    AsyncResolverMethods,
    AsyncSchemaMethods,
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
        self._text_locks: WeakValueDictionary[str, AsyncTextLock] = WeakValueDictionary()
        self._watches: WeakSet[AsyncWatch] = WeakSet()

    # -- texts, watches, sessions -------------------------------------------------------------------------------

    def text(self, key: str) -> AsyncText:
        """A handle on the text at ``key``. Nothing is sent yet."""
        from crdtsync.client.aio.text import AsyncText
        from crdtsync.client.aio.text_lock import AsyncTextLock
        from crdtsync.client.text.operations import TextOperations

        if self._texts is None:
            self._texts = TextOperations(self._operations)
        return AsyncText(self, self._texts, key, self._text_locks.setdefault(key, AsyncTextLock()))

    def doc(self, key: str) -> AsyncDocument:
        """A handle on the nested maps and lists at ``key``. Nothing is sent yet."""
        from crdtsync.client.aio.document import AsyncDocument
        from crdtsync.client.text.operations import TextOperations

        if self._texts is None:
            self._texts = TextOperations(self._operations)
        return AsyncDocument(self, self._texts, key)

    def watch(
        self, prefix: str = "", *, after: str | None = None, snapshot: bool = True, timeout: Seconds | None = None
    ) -> AsyncWatch:
        """Iterate with ``async for`` over changes by prefix; see :meth:`Client.watch`.

        It starts at the first event asked for, or with ``async with``.
        """
        from crdtsync.client.aio.watch import AsyncWatch

        now = self.now if after is None and not snapshot else None
        memory = self._operations.memory
        watch = AsyncWatch(
            self._connection, memory, prefix, after, self._overrides, timeout, now, attach_s=self.timeout_s
        )
        self._watches.add(watch)
        return watch

    async def changes(self, prefix: str = "", *, after: str | None = None, timeout: Seconds | None = None) -> Changes:
        """The keys that start with ``prefix`` and have changed since ``after``; see :meth:`Client.changes`."""
        from crdtsync.client.aio.changes import AsyncChangesWatch

        timeout_s = limit_s(timeout, self.timeout_s)
        memory = self._operations.memory
        watch = AsyncChangesWatch(
            self._connection, memory, prefix, after, self._overrides, timeout_s, attach_s=timeout_s
        )
        return await watch.answer()

    def session(
        self,
        agent: str | None = None,
        *,
        space: str | None = None,
        at: Point | None = None,
        schema_version: int | None = None,
    ) -> AsyncSession:
        """Another author over the same connection, with its own memory of what it has read.

        With ``at`` it reads the past (see :meth:`get`) and nothing else: what would write or watch is refused.
        ``schema_version`` is the version of the schemas that its author knows: it may not write under newer ones.
        """
        overrides = dict(self._overrides)
        overrides |= {"agent": agent} if agent else {}
        overrides |= {"space": space} if space else {}
        overrides |= {} if at is None else {"at": point_argument(at)}
        overrides |= {} if schema_version is None else {"schema_version": schema_version}
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

    async def _compute(self, step: Compute) -> Any:
        outcome = step.function(step.argument)
        return await outcome if isawaitable(outcome) else outcome


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
        wait: Seconds = 0.0,
        agent_key: str | os.PathLike[str] | None = None,
    ) -> None:
        connection = connection_of(AsyncConnection, socket, space, agent, after, agent_key)
        connection.wait_s = seconds(wait, "wait")
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
