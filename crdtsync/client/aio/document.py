"""A handle on the map of one document, for the asyncio client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.protocol.steps import limit_s
from crdtsync.client.session.request_context import Condition
from crdtsync.wire.codec import pack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crdtsync.client.aio.client import AsyncSession
    from crdtsync.client.session.request_context import WriteConcern
    from crdtsync.client.text.operations import TextOperations
    from crdtsync.client.text.tree import Path
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.points import Point
    from crdtsync.client.values.write_result import Written


class AsyncDocument:
    """Nested maps and lists that several authors edit at once: the map ``doc`` of a Yjs document.

    A path is names and indexes, as one str with ``/`` between them, or as a list; ``""`` is the whole. An index counts
    in the list as this daemon has it when the edit is made; ``-`` is its end. Numbers are JavaScript's: 1.0 is 1.
    Edits are on disk on return; one that changes nothing is none.

    The key is a text: what its :class:`AsyncText` sends and follows as Yjs updates is this, too.
    """

    def __init__(self, session: AsyncSession, operations: TextOperations, key: str) -> None:
        self.key = key
        self._session = session
        self._operations = operations

    async def get(
        self,
        path: Path = "",
        default: Any = None,
        *,
        sibling: str | None = None,
        after: str | None = None,
        at: Point | None = None,
        timeout: Seconds | None = None,
    ) -> Any:
        """The plain values at ``path``, or ``default`` if nothing is there; shared texts and XML as str.

        ``sibling`` is the dot of another document that was made at the same time: it reads that one. ``after`` and
        ``at`` are those of :meth:`AsyncSession.get`.
        """
        if at is not None:
            past = self._session.session(at=at).doc(self.key)
            return await past.get(path, default, sibling=sibling, after=after, timeout=timeout)
        timeout_s = limit_s(timeout, self._session.timeout_s)
        plan = self._operations.doc_get(self.key, path, default, after, timeout_s, sibling)
        return await self._session.run(plan, timeout_s)

    async def observe(
        self, path: Path = "", default: Any = None, *, timeout: Seconds | None = None
    ) -> AsyncIterator[Any]:
        """The value at ``path`` now, as :meth:`get` returns it, and then each time that it has become another one.

        Values that come and go while the last one is looked at are left out. ``timeout`` is that of a watch.
        """
        shown: bytes | None = b""
        async with self._session.watch(self.key, timeout=timeout) as events:
            async for event in events:
                if event.key not in (None, self.key):
                    continue
                value = await self.get(path, default, after=event.token)
                packed = None if value is default else pack(value)  # a default may be what no value can be
                if packed != shown:
                    shown = packed
                    yield value

    async def set(
        self,
        path: Path,
        value: Any,
        *,
        if_version: str | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Put ``value`` at ``path``, with maps where parts before it are missing; returns the token.

        The old value goes, with what others add to it at the same time: to keep that, set what is below it.

        :raises InvalidRequest: ``path`` leads through what is no map and no list, or to no place of a list.
        """
        timeout_s = limit_s(timeout, self._session.timeout_s)
        condition = Condition(if_version)
        return await self._session.run(
            self._operations.doc_set(self.key, path, value, w, timeout_s, condition), timeout_s
        )

    async def insert(
        self,
        path: Path,
        value: Any,
        *,
        if_version: str | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Put ``value`` into a list, before what is at ``path``; returns the token. Raises as :meth:`set`."""
        timeout_s = limit_s(timeout, self._session.timeout_s)
        condition = Condition(if_version)
        return await self._session.run(
            self._operations.doc_insert(self.key, path, value, w, timeout_s, condition), timeout_s
        )

    async def delete(
        self, path: Path, *, if_version: str | None = None, w: WriteConcern = None, timeout: Seconds | None = None
    ) -> Written:
        """Take out what is at ``path``, if anything; returns the token. Raises as :meth:`set`."""
        timeout_s = limit_s(timeout, self._session.timeout_s)
        condition = Condition(if_version)
        return await self._session.run(self._operations.doc_delete(self.key, path, w, timeout_s, condition), timeout_s)
