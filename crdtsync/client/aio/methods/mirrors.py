"""How a session of the asyncio client opens mirrors, and lets them show what it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.aio.methods.base import AsyncMethods
from crdtsync.client.mirror.limits import MIRROR_BYTES_MAX, MIRROR_KEYS_MAX
from crdtsync.client.protocol.steps import limit_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.aio.mirror import AsyncMirror
    from crdtsync.client.session.read_memory import ReadMemory
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.values.durations import Seconds


class AsyncMirrorMethods(AsyncMethods):
    """The part of a session that has to do with mirrors."""

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
