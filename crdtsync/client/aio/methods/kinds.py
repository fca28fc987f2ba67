"""What the asyncio client does with logs, counters, sets and maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.aio.methods.base import AsyncMethods
from crdtsync.client.operations import writes
from crdtsync.client.protocol.steps import limit_s
from crdtsync.client.session.request_context import seen_or
from crdtsync.client.values.listing import Listing

if TYPE_CHECKING:
    from crdtsync.client.session.request_context import Seen, WriteConcern
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.results import Field, LogItem, Member
    from crdtsync.client.values.write_result import Written


class AsyncKindMethods(AsyncMethods):
    """The part of a session that works on what several authors build together.

    Every write is on disk on return; its token is ``last_token``. None of them asks what others write meanwhile: all
    that happens at once counts, in the way of its kind. Who wants it otherwise says ``if_version`` or ``if_absent``, as
    for :meth:`set`.
    """

    # -- logs -------------------------------------------------------------------------------------------------

    async def log(
        self,
        key: str,
        *,
        start: int | LogItem = 0,
        last: int | None = None,
        limit: int | None = None,
        after: str | None = None,
        timeout: Seconds | None = None,
    ) -> Listing[Any]:
        """The values of a log, oldest first; empty if it is absent.

        ``last=20`` gives the newest 20; ``start`` is an index, negative from the end, or an item of
        :meth:`log_items`: from the one after it, wherever it is by now (from the first, if it is gone); ``limit`` is
        how many at most. To follow the log from there, watch with ``after`` set to the ``token`` of the list
        (:class:`~crdtsync.client.Listing`).
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        plan = self._operations.log(key, start, last, limit, after, timeout_s, attributes=False)
        items = await self.run(plan, timeout_s)
        return Listing((item.value for item in items), items.token)

    async def log_items(
        self,
        key: str,
        *,
        start: int | LogItem = 0,
        last: int | None = None,
        limit: int | None = None,
        after: str | None = None,
        timeout: Seconds | None = None,
    ) -> Listing[LogItem]:
        """Like :meth:`log`, with the author, time, index and dot of each element, and what its author said of it."""
        timeout_s = limit_s(timeout, self.timeout_s)
        plan = self._operations.log(key, start, last, limit, after, timeout_s, attributes=True)
        return await self.run(plan, timeout_s)

    async def append(
        self,
        key: str,
        value: object,
        *,
        ttl: Seconds | None = None,
        if_version: str | None = None,
        if_absent: bool = False,
        confidence: float | None = None,
        meta: dict[str, Any] | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> int:
        """Append ``value`` to a log and return its new length on this node.

        On disk on return; the token is :attr:`last_token`. Concurrent appends are all kept, in one order everywhere.
        ``ttl``, ``confidence`` and ``meta`` are said of this element alone, as for :meth:`set`: one that has expired is
        gone from the log.
        """
        write = writes.append(self._operations, key, value, ttl, confidence, meta)
        return await self._write(writes.conditional(write, if_version, if_absent), w, timeout)

    async def trim(
        self,
        key: str,
        keep: int,
        *,
        if_version: str | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> int:
        """Remove all but the newest ``keep`` elements of a log; returns how many were removed."""
        write = writes.trim(self._operations, key, keep)
        return await self._write(writes.conditional(write, if_version), w, timeout)

    async def remove(
        self,
        key: str,
        dot: str,
        *,
        if_version: str | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> bool:
        """Remove one element of a log, by its ``dot`` as :meth:`log_items` shows it; returns whether it was there.

        The other elements stay, in their order. One that this node does not hold yet is waited for.
        """
        write = writes.remove(self._operations, key, dot)
        return await self._write(writes.conditional(write, if_version), w, timeout)

    # -- counters ---------------------------------------------------------------------------------------------

    async def incr(
        self,
        key: str,
        n: int = 1,
        *,
        if_version: str | None = None,
        if_absent: bool = False,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> int:
        """Add ``n``, which may be negative, to a counter and return its new value on this node.

        Increments of several hosts at once all count. An absent key counts as 0; ``get`` gives the value.

        :raises InvalidValue: not a whole number from -2^53 to 2^53.
        """
        return await self._write(
            writes.conditional(writes.incr(self._operations, key, n), if_version, if_absent), w, timeout
        )

    async def reset(
        self, key: str, *, if_version: str | None = None, w: WriteConcern = None, timeout: Seconds | None = None
    ) -> int:
        """Set a counter back to 0 and return what it was on this node: what was counted until here.

        Increments that this node does not hold yet count from 0 on; two resets at once take off what they saw once.

        :param if_version: only if the counter is at this version (``entry.version``) on this node.
        :raises VersionMismatch: it is not; ``current`` is what the key holds.
        """
        return await self._write(writes.reset(self._operations, key, if_version), w, timeout)

    # -- sets -------------------------------------------------------------------------------------------------

    async def add(
        self,
        key: str,
        value: object,
        *,
        if_version: str | None = None,
        if_absent: bool = False,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> bool:
        """Add ``value`` to a set; whether it was not there before on this node.

        Where one host adds an element and another discards it at once, it stays.

        :param value: anything that a key can hold. 1, 1.0 and True are three elements.
        """
        return await self._write(
            writes.conditional(writes.add(self._operations, key, value), if_version, if_absent), w, timeout
        )

    async def discard(
        self,
        key: str,
        value: object,
        *,
        if_version: str | None = None,
        seen: Seen = ...,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> bool:
        """Remove ``value`` from a set; whether it was there.

        What is removed is what this session has read (what there is, if it never read the key): an element that
        somebody else has added again since then stays. ``seen`` as for :meth:`set`.

        :raises StaleRead: the session read the set so long ago that it no longer knows what.
        """
        write = writes.discard(self._operations, key, value, seen_or(seen, if_version))
        return await self._write(writes.conditional(write, if_version), w, timeout)

    async def members(
        self, key: str, *, limit: int | None = None, after: str | None = None, timeout: Seconds | None = None
    ) -> Listing[Any]:
        """The elements of a set, in the order in which they were last added; empty if it is absent.

        ``limit`` is how many at most, from the first on. Large sets are fetched page by page: what is added or
        discarded meanwhile may or may not be among them.
        """
        items = await self.member_items(key, limit=limit, after=after, timeout=timeout)
        return Listing((item.value for item in items), items.token)

    async def member_items(
        self, key: str, *, limit: int | None = None, after: str | None = None, timeout: Seconds | None = None
    ) -> Listing[Member]:
        """Like :meth:`members`, with who added each element last, and when."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.members(key, limit, after, timeout_s), timeout_s)

    # -- maps -------------------------------------------------------------------------------------------------

    async def merge(
        self,
        key: str,
        fields: dict[str, Any],
        *,
        if_version: str | None = None,
        if_absent: bool = False,
        if_field_absent: bool = False,
        seen: Seen = ...,
        confidence: float | None = None,
        meta: dict[str, Any] | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Write some fields of a map, and leave the others as they are; returns the token.

        Each field is like a key of its own: the new value supersedes what this session last read of that field, and
        wrote since, and what it had not seen lives on as a sibling. ``get`` gives the dict of all fields. ``seen``,
        ``confidence`` and ``meta`` as for :meth:`set`; the latter two are said of each of these values.

        :param fields: at most 1,000 of them; a name has 1 to 1,024 bytes and no control characters.
        :param if_field_absent: write only if the map has none of these fields on this node.
        :raises VersionMismatch: the condition is false; ``current`` is what the key holds, and counts as read.
        :raises InvalidValue: a value cannot be stored exactly; ``path`` says where.
        """
        write = writes.merge(
            self._operations, key, fields, seen_or(seen, if_version), confidence, meta, if_field_absent
        )
        return await self._write(writes.conditional(write, if_version, if_absent), w, timeout)

    async def fields(
        self,
        key: str,
        *,
        start: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        timeout: Seconds | None = None,
    ) -> Listing[Field]:
        """The fields of a map by name, each with who wrote it; from the first one after ``start``, at most ``limit``.

        Large maps are fetched page by page. ``get`` gives a dict of all.
        """
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.fields(key, start, limit, after, timeout_s), timeout_s)

    async def drop(
        self,
        key: str,
        field: str,
        *,
        if_version: str | None = None,
        seen: Seen = ...,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> bool:
        """Remove a field from a map; whether it was there.

        What is removed is what this session has read of it (what there is, if it never read the key). ``seen`` as for
        :meth:`set`.

        :raises StaleRead: the session read the map so long ago that it no longer knows what.
        """
        write = writes.drop(self._operations, key, field, seen_or(seen, if_version))
        return await self._write(writes.conditional(write, if_version), w, timeout)
