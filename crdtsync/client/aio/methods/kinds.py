"""What the asyncio client does with logs, counters, sets and maps.

What each method does and promises is written at its twin in ``blocking.kinds``.
"""

# ruff: noqa: ASYNC109  # `timeout` ends with an error that says more than a cancellation

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from crdtsync.client.operations import writes
from crdtsync.client.protocol.steps import Plan, limit_s
from crdtsync.client.session.request_context import seen_or
from crdtsync.client.values.listing import Listing

if TYPE_CHECKING:
    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.operations.writes import Write
    from crdtsync.client.session.request_context import Seen, WriteConcern
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.results import Field, LogItem, Member
    from crdtsync.client.values.write_result import Written

T = TypeVar("T")


class AsyncKindMethods:
    """The part of a session that works on what several authors build together; the twin of ``KindMethods``."""

    timeout_s: float
    _operations: Operations

    async def run(self, plan: Plan[T], timeout_s: float) -> T:
        """Do what a plan says."""
        raise NotImplementedError

    async def _write(self, write: Write[T], w: WriteConcern, timeout: Seconds | None) -> T:
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.do(write, timeout_s, w), timeout_s)

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
        """The values of a log; see :meth:`Client.log`."""
        items = await self.log_items(key, start=start, last=last, limit=limit, after=after, timeout=timeout)
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
        """The elements of a log with author and time; see :meth:`Client.log_items`."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.log(key, start, last, limit, after, timeout_s), timeout_s)

    async def append(
        self,
        key: str,
        value: object,
        *,
        if_version: str | None = None,
        if_absent: bool = False,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> int:
        """Append to a log; its new length; see :meth:`Client.append`."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.append(key, value, timeout_s, w, if_version, if_absent), timeout_s)

    async def trim(
        self,
        key: str,
        keep: int,
        *,
        if_version: str | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> int:
        """Keep the newest elements of a log; how many were removed; see :meth:`Client.trim`."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(self._operations.trim(key, keep, timeout_s, w, if_version), timeout_s)

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
        """Add to a counter; its new value; see :meth:`Client.incr`."""
        return await self._write(
            writes.conditional(writes.incr(self._operations, key, n), if_version, if_absent), w, timeout
        )

    async def reset(
        self, key: str, *, if_version: str | None = None, w: WriteConcern = None, timeout: Seconds | None = None
    ) -> int:
        """Set a counter back to 0; what it was; see :meth:`Client.reset`."""
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
        """Add to a set; whether it was not there; see :meth:`Client.add`."""
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
        """Remove from a set; whether it was there; see :meth:`Client.discard`."""
        write = writes.discard(self._operations, key, value, seen_or(seen, if_version))
        return await self._write(writes.conditional(write, if_version), w, timeout)

    async def members(
        self, key: str, *, limit: int | None = None, after: str | None = None, timeout: Seconds | None = None
    ) -> Listing[Any]:
        """The elements of a set; see :meth:`Client.members`."""
        items = await self.member_items(key, limit=limit, after=after, timeout=timeout)
        return Listing((item.value for item in items), items.token)

    async def member_items(
        self, key: str, *, limit: int | None = None, after: str | None = None, timeout: Seconds | None = None
    ) -> Listing[Member]:
        """The elements of a set with author and time; see :meth:`Client.member_items`."""
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
        seen: Seen = ...,
        confidence: float | None = None,
        meta: dict[str, Any] | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Write fields of a map; the token; see :meth:`Client.merge`."""
        write = writes.merge(self._operations, key, fields, seen_or(seen, if_version), confidence, meta)
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
        """The fields of a map by name, with author and time; see :meth:`Client.fields`."""
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
        """Remove a field from a map; whether it was there; see :meth:`Client.drop`."""
        write = writes.drop(self._operations, key, field, seen_or(seen, if_version))
        return await self._write(writes.conditional(write, if_version), w, timeout)
