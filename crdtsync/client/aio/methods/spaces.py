"""What the asyncio client does with spaces.

What each method does and promises is written at its twin in ``blocking.spaces``.
"""

# ruff: noqa: ASYNC109  # `timeout` ends with an error that says more than a cancellation

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from crdtsync.client.protocol.steps import Plan, limit_s

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.operations.spaces import Archive, Dropped, Space
    from crdtsync.client.values.durations import Seconds

T = TypeVar("T")


class AsyncSpaceMethods:
    """The part of a session that makes and drops spaces; the twin of ``SpaceMethods``."""

    timeout_s: float
    _operations: Operations

    async def run(self, plan: Plan[T], timeout_s: float) -> T:
        """Do what a plan says."""
        raise NotImplementedError

    async def create_space(
        self, name: str, *, nodes: Iterable[str] | None = None, private: bool = False, timeout: Seconds | None = None
    ) -> Space:
        """Make a space; see :meth:`Client.create_space`."""
        from crdtsync.client.operations.spaces import create

        return await self.run(create(self._operations, name, nodes, private), limit_s(timeout, self.timeout_s))

    async def drop_space(self, name: str, *, timeout: Seconds | None = None) -> Dropped:
        """Drop a space on all nodes; see :meth:`Client.drop_space`."""
        from crdtsync.client.operations.spaces import drop

        return await self.run(drop(self._operations, name), limit_s(timeout, self.timeout_s))

    async def spaces(self, *, timeout: Seconds | None = None) -> list[Space]:
        """All spaces of the cluster; see :meth:`Client.spaces`."""
        from crdtsync.client.operations.spaces import spaces

        return await self.run(spaces(self._operations), limit_s(timeout, self.timeout_s))

    async def archives(self, *, timeout: Seconds | None = None) -> list[Archive]:
        """What this node keeps of dropped spaces; see :meth:`Client.archives`."""
        from crdtsync.client.operations.spaces import archives

        return await self.run(archives(self._operations), limit_s(timeout, self.timeout_s))
