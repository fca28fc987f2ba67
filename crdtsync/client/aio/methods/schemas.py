"""What the asyncio client does with schemas.

What each method does and promises is written at its twin in ``blocking.schemas``.
"""

# ruff: noqa: ASYNC109  # `timeout` ends with an error that says more than a cancellation

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from crdtsync.client.operations import schemas
from crdtsync.client.protocol.steps import Plan, limit_s
from crdtsync.client.values.listing import Listing

if TYPE_CHECKING:
    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.session.request_context import WriteConcern
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.results import Schema
    from crdtsync.client.values.write_result import Written

T = TypeVar("T")


class AsyncSchemaMethods:
    """The part of a session that declares things of keys; the twin of ``SchemaMethods``."""

    timeout_s: float
    _operations: Operations

    async def run(self, plan: Plan[T], timeout_s: float) -> T:
        """Do what a plan says."""
        raise NotImplementedError

    async def schema_set(
        self,
        pattern: str,
        policy: str | None,
        *,
        refuse_lower: bool = False,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Declare the read policy of all keys that match a pattern; the token; see :meth:`Client.schema_set`."""
        timeout_s = limit_s(timeout, self.timeout_s)
        write = schemas.schema_set(pattern, policy, refuse_lower)
        return await self.run(self._operations.do(write, timeout_s, w), timeout_s)

    async def schemas(self, *, after: str | None = None, timeout: Seconds | None = None) -> Listing[Schema]:
        """All schemas of the space, by pattern; see :meth:`Client.schemas`."""
        timeout_s = limit_s(timeout, self.timeout_s)
        return await self.run(schemas.schemas(self._operations, {}, after, timeout_s), timeout_s)

    async def schema(
        self, key: str, *, exact: bool = False, after: str | None = None, timeout: Seconds | None = None
    ) -> Schema | None:
        """The schema that applies to a key; see :meth:`Client.schema`."""
        timeout_s = limit_s(timeout, self.timeout_s)
        choice: dict[str, object] = {"pattern" if exact else "key": key}
        plan = schemas.only(schemas.schemas(self._operations, choice, after, timeout_s))
        return await self.run(plan, timeout_s)
