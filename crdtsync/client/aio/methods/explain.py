"""What the asyncio client tells of why a node has what it has."""

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
        """Why this node has of ``key`` what it has, or lacks it: which change, from whom, over which peer, and what it
        waits for. ``space`` may also be one that this node does not hold.

        An object for people to look at: ``state`` and ``summary``, ``values`` with how each came and who else has it,
        ``removed``, and ``reasons``, each with a ``code`` and a ``message``
        (all fields: agent-protocol.md). Nothing is asked of other nodes, and it does
        not count as reading the key.
        """
        from crdtsync.client.operations.explain import explain

        return await self.run(explain(self._operations, key, space), limit_s(timeout, self.timeout_s))
