"""What the asyncio client opens that goes on by itself: editors, mirrors, resolvers; mirrors show what it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from crdtsync.client.aio.methods.base import AsyncMethods
from crdtsync.client.mirror.limits import MIRROR_BYTES_MAX, MIRROR_KEYS_MAX
from crdtsync.client.protocol.steps import limit_s
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.aio.editor import AsyncEditor
    from crdtsync.client.aio.mirror import AsyncMirror
    from crdtsync.client.aio.resolver import AsyncResolver
    from crdtsync.client.session.read_memory import ReadMemory
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.streams.resolver_state import Conflict
    from crdtsync.client.values.durations import Seconds


class AsyncHandleMethods(AsyncMethods):
    """The part of a session that opens editors, mirrors and resolvers."""

    def editor(
        self, key: str, *, on_change: Callable[[], object] | None = None, timeout: Seconds | None = None
    ) -> AsyncEditor:
        """The text at ``key`` with a replica in this process, to type into at the speed of memory: what is typed is
        sent in the background, and is on disk when :meth:`~crdtsync.client.AsyncEditor.flush` returns.

        ``on_change`` is called, without arguments, by the editor's task when others have written something that the
        next ``read`` shows; what it raises is logged. ``timeout`` is for the text to come, and the limit of all that
        the editor does without one of its own. See :class:`~crdtsync.client.AsyncEditor`.

        Under asyncio, it starts with ``async with``, and ``on_change`` is a plain function, called in the event loop.

        :raises KindMismatch: the key holds something else than a text.
        :raises Timeout: the text did not come in time.
        """
        from crdtsync.client.aio.editor import AsyncEditor

        timeout_s = limit_s(timeout, self.timeout_s)
        editor = AsyncEditor(self, self._connection, key, on_change, timeout_s)  # type: ignore[arg-type]  # the session that this is part of
        self._editors().add(editor)
        return editor

    def _editors(self) -> WeakSet[AsyncEditor]:
        found: WeakSet[AsyncEditor] = self.__dict__.setdefault("_open_editors", WeakSet())
        return found

    async def _close_editors(self) -> None:
        """All of them; the first error, of those who had not told of it."""
        failure: CrdtSyncError | None = None
        for editor in list(self._editors()):
            try:
                if not editor._has_ended:  # noqa: SLF001  # the session's own
                    await editor.close()
            except CrdtSyncError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def mirror(
        self,
        prefix: str = "",
        *,
        keys_max: int = MIRROR_KEYS_MAX,
        bytes_max: int = MIRROR_BYTES_MAX,
        on_change: Callable[[set[str]], object] | None = None,
        timeout: Seconds | None = None,
    ) -> AsyncMirror:
        """A copy of the keys that start with ``prefix`` in this process, kept fresh by the daemon: ``m[key]`` costs a
        dict lookup.

        ``keys_max`` and ``bytes_max`` (of names and values) bound it. ``on_change`` is called with the keys that
        changed, after each change, by the mirror's task; what it raises is logged. ``timeout`` is for the keys to
        come. See :class:`~crdtsync.client.AsyncMirror`.

        Under asyncio, it starts with ``async with``, and ``on_change`` is a plain function, called in the event loop.

        :raises TooLarge: there is more than these bounds allow; reading it raises that too, when it grows so large.
        :raises Timeout: the keys did not come in time.
        """
        from crdtsync.client.aio.mirror import AsyncMirror

        timeout_s = limit_s(timeout, self.timeout_s)
        return AsyncMirror(self, self._connection, prefix, keys_max, bytes_max, on_change, timeout_s)  # type: ignore[arg-type]  # the session that this is part of

    @property
    def memory(self) -> ReadMemory:
        """What this session has read. For the other parts of this library."""
        return self._operations.memory

    @property
    def overrides(self) -> Arguments:
        """In what this session differs from the connection's hello. For the other parts of this library."""
        return self._overrides

    async def _show_in_mirrors(self, arguments: Arguments, token: Any, deadline: float) -> None:
        """A write is done: it returns when the client's mirrors show it."""
        from crdtsync.client.mirror.state import written_keys

        space = arguments.get("space", self._connection.space)
        keys = written_keys(arguments)
        for mirror in list(self._connection.mirrors):
            if mirror.concerns(space, keys):
                await mirror.see(mirror.point_of(token), token, deadline)

    def _close_mirrors(self) -> None:
        for mirror in list(self._connection.mirrors):
            if mirror.belongs_to(self._operations.memory):
                mirror.close()

    def resolver(
        self,
        pattern: str,
        function: Callable[[Conflict], object] | None = None,
        *,
        takeover: Seconds | None = None,
    ) -> AsyncResolver:
        """Settle the conflicts of keys that match ``pattern`` (``*`` is one part of a key, ``**`` any number), those
        that there are and those that come.

        ``function(conflict)`` is called in a task and returns the value that replaces all that it was shown, or what
        ``conflict.take(entry)``, ``conflict.merge()`` or ``conflict.decline(reason)`` give. If it raises, or what it
        returns is refused, another resolver is asked. Without a function, iterate over the resolver
        (:class:`~crdtsync.client.AsyncResolver`).

        Of all resolvers for a key that can reach each other one is asked, that of the lowest node id; if it is gone,
        fails, or takes longer than its ``takeover`` (30 seconds), another. Answers are ordinary writes: those of two
        sides that are cut off from each other become siblings, which are asked about when the sides meet. It ends when
        it or the session is closed, so use ``async with``.

        Under asyncio, ``function`` may be a coroutine function.

        :raises InvalidRequest: the daemon does not take the pattern.
        """
        from crdtsync.client.aio.resolver import AsyncResolver
        from crdtsync.client.operations.keys import Operations

        # with a memory of its own: what a resolver is shown, the session has not read
        operations = Operations(self._overrides)
        resolver = AsyncResolver(self, self._connection, operations, pattern, function, takeover, self._overrides)
        self._resolvers().add(resolver)
        return resolver

    def _resolvers(self) -> WeakSet[AsyncResolver]:
        found: WeakSet[AsyncResolver] = self.__dict__.setdefault("_open_resolvers", WeakSet())
        return found

    def _close_resolvers(self) -> None:
        for resolver in list(self._resolvers()):
            resolver.close()
