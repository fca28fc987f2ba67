"""What the asyncio client tells of the past; see its twin in ``blocking.history``."""

# ruff: noqa: ASYNC109  # `timeout` ends with an error that says more than a cancellation

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from crdtsync.client.protocol.steps import Plan, limit_s

if TYPE_CHECKING:
    from crdtsync.client.operations.history import History
    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.values.durations import Seconds

T = TypeVar("T")


class AsyncHistoryMethods:
    """The part of a session that reads history."""

    timeout_s: float
    _operations: Operations

    async def run(self, plan: Plan[T], timeout_s: float) -> T:
        """Do what a plan says."""
        raise NotImplementedError

    async def history(
        self,
        key: str | None = None,
        *,
        prefix: str | None = None,
        last: int | None = 10,
        lost: bool = False,
        after: str | None = None,
        timeout: Seconds | None = None,
    ) -> History:
        """The twin of :meth:`HistoryMethods.history`."""
        from crdtsync.client.operations.history import history

        timeout_s = limit_s(timeout, self.timeout_s)
        plan = history(self._operations, key, prefix, last, lost=lost, after=after, timeout_s=timeout_s)
        return await self.run(plan, timeout_s)
