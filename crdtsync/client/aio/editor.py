"""An editor for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from crdtsync.client.aio.editor_tasks import BaseEditor, Typing
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.aio.client import AsyncSession
    from crdtsync.client.aio.connection import AsyncConnection
    from crdtsync.client.session.request_context import WriteConcern
    from crdtsync.client.values.durations import Seconds


class AsyncEditor(BaseEditor):
    """One text with a replica in this process; the twin of :class:`Editor`, which describes it.

    It starts with ``async with`` or :meth:`attach`. Typing suspends only while too much is not sent yet, or while
    :meth:`read` waits; so who types on and on without ever waiting for anything else lets nothing be sent.
    ``on_change`` is a plain function.
    """

    def __init__(
        self,
        session: AsyncSession,
        connection: AsyncConnection,
        key: str,
        on_change: Callable[[], object] | None,
        timeout_s: float,
    ) -> None:
        self.key = key
        self._typing = Typing(session, connection, key, on_change, timeout_s)
        self._state = self._typing.state

    async def attach(self) -> None:
        """Start it; returns when the text is here.

        :raises DaemonUnavailable: no daemon answers; the message says what to do.
        :raises KindMismatch: the key holds something else than a text.
        :raises Timeout: the text did not come in time.
        """
        await self._typing.attach()

    # -- the text -------------------------------------------------------------------------------------------

    async def read(self, *, timeout: Seconds | None = None) -> str:
        """The text with all that others wrote as far as it has come; see :meth:`Editor.read`."""
        return await self._typing.read(timeout)

    async def insert(self, position: int, text: str, *, timeout: Seconds | None = None) -> None:
        """Insert ``text`` before ``position``; see :meth:`Editor.insert`."""
        await self._typing.type(position, position, text, timeout)

    async def append(self, text: str, *, timeout: Seconds | None = None) -> None:
        """Insert ``text`` at the end; see :meth:`Editor.append`."""
        await self._typing.append(text, timeout)

    async def delete(self, position: int, length: int, *, timeout: Seconds | None = None) -> None:
        """Delete ``length`` characters from ``position`` on; see :meth:`Editor.delete`."""
        await self._typing.type(position, position + length, "", timeout)

    async def replace(self, position: int, length: int, text: str, *, timeout: Seconds | None = None) -> None:
        """Put ``text`` in the place of ``length`` characters; see :meth:`Editor.replace`."""
        await self._typing.type(position, position + length, text, timeout)

    async def set(self, whole: str, *, timeout: Seconds | None = None) -> None:
        """Turn the text into ``whole``, by small edits; see :meth:`Editor.set`."""
        await self._typing.set(whole, timeout)

    # -- sending --------------------------------------------------------------------------------------------

    async def flush(self, *, w: WriteConcern = None, timeout: Seconds | None = None) -> str:
        """Wait until all that was typed is on disk; the token. See :meth:`Editor.flush`."""
        return await self._typing.flush(w, timeout)

    async def discard(self, *, timeout: Seconds | None = None) -> str:
        """Give up what was typed and is not on disk; the text. See :meth:`Editor.discard`."""
        return await self._typing.discard(timeout)

    async def close(self, *, timeout: Seconds | None = None) -> None:
        """Send what is typed, wait until it is on disk, and end; see :meth:`Editor.close`.

        When it is cancelled the editor has not ended, and goes on: close it again.
        """
        if not self._typing.is_inherited:
            await self._typing.close(timeout)

    @property
    def _has_ended(self) -> bool:
        """For the session that opened it."""
        return self._typing.is_closed

    async def __aenter__(self) -> Self:
        await self.attach()
        return self

    async def __aexit__(self, _type: object, raised: BaseException | None, _trace: object) -> None:
        try:
            await self.close()
        except CrdtSyncError as error:
            if raised is None:
                raise
            raised.add_note(f"besides, {self.unsent:,} edits of {self.key!r} were not sent: {error}")
