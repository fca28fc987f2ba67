"""What the asyncio client tells of why a node has what it has; see its twin in ``blocking.explaining``."""

# ruff: noqa: ASYNC109  # `timeout` ends with an error that says more than a cancellation

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from crdtsync.client.protocol.steps import Plan, limit_s

if TYPE_CHECKING:
    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.values.durations import Seconds

T = TypeVar("T")


class AsyncExplainMethods:
    """The part of a session that explains."""

    timeout_s: float
    _operations: Operations

    async def run(self, plan: Plan[T], timeout_s: float) -> T:
        """Do what a plan says."""
        raise NotImplementedError

    async def explain(self, key: str, *, space: str | None = None, timeout: Seconds | None = None) -> dict[str, Any]:
        """The twin of :meth:`ExplainMethods.explain`."""
        from crdtsync.client.operations.explain import explain

        return await self.run(explain(self._operations, key, space), limit_s(timeout, self.timeout_s))
