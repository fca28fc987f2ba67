"""A handle on one text, for the asyncio client."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from crdtsync.client.protocol.steps import Plan, limit_s
from crdtsync.client.session.request_context import Condition
from crdtsync.errors import Timeout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from crdtsync.client.aio.client import AsyncSession
    from crdtsync.client.aio.text_lock import AsyncTextLock
    from crdtsync.client.session.request_context import WriteConcern
    from crdtsync.client.text.operations import TextOperations
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.results import TextUpdate
    from crdtsync.client.values.write_result import Written

T = TypeVar("T")


class AsyncText:
    """One text. Positions are Unicode code points in the text as this session last read it; edits of others in
    between move them.

    A session that has not read the text yet reads it before its first edit. Edits are on disk on return; one that
    changes nothing is none. ``if_version`` and ``if_absent`` as for :meth:`~crdtsync.client.AsyncClient.set`.

    An editor that holds its own Yjs document uses :meth:`updates` and :meth:`apply` instead of the other methods.
    """

    def __init__(self, session: AsyncSession, operations: TextOperations, key: str, lock: AsyncTextLock) -> None:
        self.key = key
        self.document: str | None = None
        """The Yjs document that :meth:`updates` last gave edits of; :meth:`apply` sends to it."""
        self._session = session
        self._operations = operations
        self._lock = lock

    async def read(self, *, after: str | None = None, timeout: Seconds | None = None) -> str:
        """The text now, empty if there is none.

        With ``after`` (a token) it waits until this daemon holds what that names.
        """
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
        """Insert ``text`` before the character at ``position``; returns the token.

        :raises StaleRead: this session read the text so long ago that it no longer knows what ``position`` meant.
        """
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
        """Delete ``length`` characters from ``position`` on; returns the token. Raises as :meth:`insert`."""
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
        """Turn the text as this session last read it into ``whole``, by small edits; returns the token. Raises as
        :meth:`insert`.

        Edits that others made since then stay.
        """
        timeout_s = self._limit_s(timeout)
        return await self._run(
            self._operations.set(self.key, whole, w, timeout_s, Condition(if_version, if_absent)), timeout_s
        )

    async def compact(self, *, w: WriteConcern = None, timeout: Seconds | None = None) -> Written:
        """Store the text anew without the past that its edits have left behind, and return the token.

        The text stays as it is. Edits that others make meanwhile, on the old document, are made in the new one too. So
        the daemon keeps the old one for a while. If it keeps six, it compacts a text of fewer than 10,000 pieces only
        when one is gone. The result's ``bytes_before`` and ``bytes_after`` tell what it was worth.

        :raises InvalidRequest: there is no such text.
        """
        timeout_s = self._limit_s(timeout)
        return await self._run(self._operations.compact(self.key, w, timeout_s), timeout_s)

    async def apply(
        self,
        update: bytes | Sequence[bytes],
        *,
        if_version: str | None = None,
        if_absent: bool = False,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Send a Yjs update (v1) of an editor's own document, whose text is named ``text``, or several, which are one
        change; returns the token.

        It goes to the document that this handle's :meth:`updates` showed, else to the one that is there now, else it
        makes the text.
        """
        timeout_s = self._limit_s(timeout)
        session = self._session
        if self.document is None:
            self.document = await session.run(self._operations.document(self.key), timeout_s)
        written = await session.run(
            self._operations.apply_all(self.key, self.document, update, w, timeout_s, Condition(if_version, if_absent)),
            timeout_s,
        )
        self.document = written.document
        return written

    async def state(self, *, timeout: Seconds | None = None) -> TextUpdate | None:
        """All of the text as one update, to begin an editor's replica with; None: there is no text.

        Go on with :meth:`updates` and ``after`` set to its ``token``. It does not tell who wrote what.
        """
        timeout_s = self._limit_s(timeout)
        whole = await self._session.run(self._operations.state(self.key), timeout_s)
        self.document = None if whole is None else whole.document
        return whole

    async def updates(self, *, after: str | None = None, timeout: Seconds | None = None) -> AsyncIterator[TextUpdate]:
        """The edits so far that ``after`` (a token) does not cover, all of them without it, in causal order; does
        not wait for more.

        ``timeout`` is for each page of them. Go on later with ``after`` set to the last one's ``token``.
        """
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
        if not await self._lock.acquire(timeout_s):
            raise Timeout(f"other edits of {self.key!r} by this session took all the time; this one was not sent")
        try:
            return await self._session.run(plan, timeout_s)
        finally:
            self._lock.release()
