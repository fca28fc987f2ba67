"""What the asyncio client does to register resolvers."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from crdtsync.client.aio.methods.base import AsyncMethods

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.aio.resolver import AsyncResolver
    from crdtsync.client.streams.resolver_state import Conflict
    from crdtsync.client.values.durations import Seconds


class AsyncResolverMethods(AsyncMethods):
    """The part of a session that registers resolvers."""

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
