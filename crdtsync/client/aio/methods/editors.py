"""How a session of the asyncio client opens editors."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from crdtsync.client.aio.methods.base import AsyncMethods
from crdtsync.client.protocol.steps import limit_s
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.aio.editor import AsyncEditor
    from crdtsync.client.values.durations import Seconds


class AsyncEditorMethods(AsyncMethods):
    """The part of a session that has to do with editors."""

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
