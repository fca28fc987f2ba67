"""How a session of the asyncio client opens editors; the twin of ``blocking.editing``."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from crdtsync.client.protocol.steps import limit_s
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.aio.connection import AsyncConnection
    from crdtsync.client.aio.editor import AsyncEditor
    from crdtsync.client.values.durations import Seconds


class AsyncEditorMethods:
    """The part of a session that has to do with editors."""

    timeout_s: float
    _connection: AsyncConnection

    def editor(
        self, key: str, *, on_change: Callable[[], object] | None = None, timeout: Seconds | None = None
    ) -> AsyncEditor:
        """The text at ``key`` with a replica in this process; see :meth:`Client.editor`.

        It starts with ``async with``.
        """
        from crdtsync.client.aio.editor import AsyncEditor
        from crdtsync.client.aio.editor_tasks import Typing

        timeout_s = limit_s(timeout, self.timeout_s)
        typing = Typing(self, self._connection, key, on_change, timeout_s)  # type: ignore[arg-type]  # the session that this is part of
        editor = AsyncEditor(key, typing)
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
