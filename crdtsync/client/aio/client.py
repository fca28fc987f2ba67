"""The asyncio client: a connection, and its sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from crdtsync.client.aio.background import at_once, call
from crdtsync.client.aio.connection import AsyncConnection
from crdtsync.client.aio.methods.access import AsyncAccessMethods
from crdtsync.client.aio.methods.blobs import AsyncBlobMethods
from crdtsync.client.aio.methods.checkpoints import AsyncCheckpointMethods
from crdtsync.client.aio.methods.cluster import AsyncClusterMethods
from crdtsync.client.aio.methods.coordination import AsyncCoordinationMethods
from crdtsync.client.aio.methods.daemon import AsyncDaemonMethods
from crdtsync.client.aio.methods.forks import AsyncForkMethods
from crdtsync.client.aio.methods.handles import AsyncHandleMethods
from crdtsync.client.aio.methods.history import AsyncHistoryMethods
from crdtsync.client.aio.methods.keys import AsyncKeyMethods
from crdtsync.client.aio.methods.kinds import AsyncKindMethods
from crdtsync.client.aio.methods.schemas import AsyncSchemaMethods
from crdtsync.client.aio.methods.spaces import AsyncSpaceMethods
from crdtsync.client.aio.text_lock import AsyncTexts
from crdtsync.client.operations.keys import Operations
from crdtsync.client.protocol.address import connection_of
from crdtsync.client.protocol.steps import Compute, limit_s
from crdtsync.client.values.durations import seconds
from crdtsync.client.values.points import point_argument
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    import os

    from crdtsync.client.aio.document import AsyncDocument
    from crdtsync.client.aio.text import AsyncText
    from crdtsync.client.aio.watch import AsyncWatch
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.streams.changes_state import Changes
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.points import Point


class AsyncSession(
    AsyncAccessMethods,
    AsyncBlobMethods,
    AsyncCheckpointMethods,
    AsyncClusterMethods,
    AsyncCoordinationMethods,
    AsyncDaemonMethods,
    AsyncHandleMethods,
    AsyncForkMethods,
    AsyncHistoryMethods,
    AsyncKeyMethods,
    AsyncKindMethods,
    AsyncSchemaMethods,
    AsyncSpaceMethods,
):
    """One author's operations over a client's connection, with a memory of what it has read.

    Where tasks share a session, they are one author: what one of them reads, a write by another supersedes. Where
    that is not meant, give each its own :meth:`session`.

    Every method raises :class:`~crdtsync.errors.Timeout` when its ``timeout`` (seconds or timedelta; the client's if
    not given) ends first, and :class:`~crdtsync.errors.Refused` or one of its kinds when the daemon says no. A write
    whose Timeout has no ``token`` may or may not be done. What takes several requests, page by page, key by key or
    change by change, has that time for each of them.

    Under asyncio, a task that is cancelled during a write may have written or not.
    """

    def __init__(self, connection: AsyncConnection, timeout_s: float, overrides: Arguments) -> None:
        self._connection = connection
        self.timeout_s = timeout_s
        self._overrides = overrides
        self._operations = Operations(overrides, connection.horizon)
        self._texts = AsyncTexts(self._operations)
        self._watches: WeakSet[AsyncWatch] = WeakSet()

    # -- texts, watches, sessions -------------------------------------------------------------------------------

    def text(self, key: str) -> AsyncText:
        """A handle on the text at ``key``. Nothing is sent yet."""
        from crdtsync.client.aio.text import AsyncText

        return AsyncText(self, self._texts.operations, key, self._texts.lock(key))

    def doc(self, key: str) -> AsyncDocument:
        """A handle on the nested maps and lists at ``key``. Nothing is sent yet."""
        from crdtsync.client.aio.document import AsyncDocument

        return AsyncDocument(self, self._texts.operations, key)

    def watch(
        self, prefix: str = "", *, after: str | None = None, snapshot: bool = True, timeout: Seconds | None = None
    ) -> AsyncWatch:
        """Iterate over the changes of the keys that start with ``prefix``: first a snapshot, then each change as it
        comes.

        With ``after`` (a token) it goes on from there instead, and with ``snapshot=False`` it tells only what comes
        from now on. It has a connection of its own and resumes by itself, without a gap, when that breaks. It ends when
        it or the client is closed. With ``timeout`` each wait for an event that takes longer raises
        :class:`~crdtsync.errors.Timeout`, after which the iteration can go on; without, it waits for ever.

        Under asyncio, it starts at the first event asked for, or with ``async with``.
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
        """The keys that start with ``prefix`` and have changed since ``after``, a token of an earlier answer.

        Each is named once, however often it changed. Without ``after`` all keys are named. Nothing counts as read.

        :raises Timeout: the answer did not come in time.
        """
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
        return await call(step.function, step.argument)


class AsyncClient(AsyncSession):
    """A connection to the daemon of this host, for asyncio.

    It reconnects by itself, and many tasks may use it at once. A write that was cut off by a broken connection is
    sent again and never done twice. One for threads and scripts connects at once, and may be used after a fork.

    Under asyncio, it connects with ``async with``, or at its first use, and belongs to the event loop that this happens
    in.

    :param socket: path of the daemon's socket; else CRDTSYNC_SOCKET, ``$XDG_RUNTIME_DIR/crdtsync/agent.sock``,
        ``/run/crdtsync/agent.sock``.
    :param space: else CRDTSYNC_SPACE, ``default``.
    :param agent: the name to write under, such as ``Research Lead``; else CRDTSYNC_AGENT, or one made of the user and
        the program.
    :param after: a token, such as another client's :attr:`token`; else CRDTSYNC_AFTER. The daemon waits with each
        operation of this client until it holds what that names; an operation that waits in vain raises Timeout and says
        what is missing. When the client reconnects to another daemon, it asks the same for all that it has seen.
    :param timeout: the time limit of every operation that is given none, in seconds or as a timedelta.
    :param wait: how long to wait for a daemon that is not there yet. Later on this is not needed: whatever is asked,
        watched, mirrored or edited while the daemon restarts waits for it, as long as ``timeout`` allows.
    :param agent_key: what the agent proves its name with, or the path of a file that holds it; else
        CRDTSYNC_AGENT_KEY, or the file CRDTSYNC_AGENT_KEY_FILE. With a key its rights are those of that agent.
    :raises DaemonUnavailable: no daemon answers there; the message says what to do.
    :raises NotAllowed: the key is that of no agent, or the name is that of an agent with a key.
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
        timeout_s = limit_s(timeout, 0)
        connection = connection_of(AsyncConnection, socket, space, agent, after, agent_key)
        connection.wait_s = seconds(wait, "wait")
        at_once(connection.attach, timeout_s)
        super().__init__(connection, timeout_s, {})

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
