"""A handle on one text, for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from crdtsync.client.aio.connection import time_limit
from crdtsync.client.protocol.steps import Plan, limit_s
from crdtsync.client.session.request_context import Condition
from crdtsync.errors import Timeout

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

    from crdtsync.client.aio.client import AsyncSession
    from crdtsync.client.session.request_context import WriteConcern
    from crdtsync.client.text.operations import TextOperations
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.results import TextUpdate
    from crdtsync.client.values.write_result import Written

T = TypeVar("T")


class AsyncText:
    """One text; the twin of :class:`Text`, which describes it.

    ``lock`` is shared by a session's handles.
    """

    def __init__(self, session: AsyncSession, operations: TextOperations, key: str, lock: asyncio.Lock) -> None:
        self.key = key
        self.document: str | None = None
        """The Yjs document that :meth:`updates` last gave edits of; :meth:`apply` sends to it."""
        self._session = session
        self._operations = operations
        self._lock = lock

    async def read(self, *, after: str | None = None, timeout: Seconds | None = None) -> str:
        """The text now, empty if there is none; see :meth:`Text.read`."""
        timeout_s = self._limit_s(timeout)
        return await self._run(self._operations.read(self.key, after, timeout_s), timeout_s)

    async def insert(
        self,
        position: int,
        text: str,
        *,
        if_version: str | None = None,
        if_absent: bool = False,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Insert ``text`` before ``position``; see :meth:`Text.insert`."""
        timeout_s = self._limit_s(timeout)
        return await self._run(
            self._operations.insert(self.key, position, text, w, timeout_s, Condition(if_version, if_absent)), timeout_s
        )

    async def delete(
        self,
        position: int,
        length: int,
        *,
        if_version: str | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Delete ``length`` characters from ``position`` on; see :meth:`Text.delete`."""
        timeout_s = self._limit_s(timeout)
        return await self._run(
            self._operations.delete(self.key, position, length, w, timeout_s, Condition(if_version)), timeout_s
        )

    async def set(
        self,
        whole: str,
        *,
        if_version: str | None = None,
        if_absent: bool = False,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Turn the text into ``whole`` by small edits; see :meth:`Text.set`."""
        timeout_s = self._limit_s(timeout)
        return await self._run(
            self._operations.set(self.key, whole, w, timeout_s, Condition(if_version, if_absent)), timeout_s
        )

    async def compact(self, *, w: WriteConcern = None, timeout: Seconds | None = None) -> Written:
        """Store the text anew without its past; see :meth:`Text.compact`."""
        timeout_s = self._limit_s(timeout)
        return await self._run(self._operations.compact(self.key, w, timeout_s), timeout_s)

    async def apply(
        self,
        update: bytes,
        *,
        if_version: str | None = None,
        if_absent: bool = False,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Send a Yjs update of an editor's own document; see :meth:`Text.apply`."""
        timeout_s = self._limit_s(timeout)
        session = self._session
        if self.document is None:
            self.document = await session.run(self._operations.document(self.key), timeout_s)
        written = await session.run(
            self._operations.apply(self.key, self.document, update, w, timeout_s, Condition(if_version, if_absent)),
            timeout_s,
        )
        self.document = written.document
        return written

    async def updates(self, *, after: str | None = None, timeout: Seconds | None = None) -> AsyncIterator[TextUpdate]:
        """The edits that ``after`` does not cover, in causal order; see :meth:`Text.updates`."""
        timeout_s = self._limit_s(timeout)
        more = True
        while more:
            found, more = await self._session.run(self._operations.updates(self.key, after), timeout_s)
            for update in found:
                self.document = update.document
                after = update.token
                yield update

    def _limit_s(self, timeout: Seconds | None) -> float:
        return limit_s(timeout, self._session.timeout_s)

    async def _run(self, plan: Plan[T], timeout_s: float) -> T:
        try:
            async with time_limit(timeout_s):
                await self._lock.acquire()
        except TimeoutError:
            raise Timeout(
                f"other edits of {self.key!r} by this session took all the time; this one was not sent"
            ) from None
        try:
            return await self._session.run(plan, timeout_s)
        finally:
            self._lock.release()
