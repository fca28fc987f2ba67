"""What the asyncio client does with the cluster that its node belongs to.

What each method does and promises is written at its twin in ``blocking.cluster``.
"""

# ruff: noqa: ASYNC109  # `timeout` ends with an error that says more than a cancellation

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from crdtsync.client.operations.cluster import JOIN_TIMEOUT_S, ask, invite_arguments, join_arguments
from crdtsync.client.protocol.steps import limit_s
from crdtsync.client.values.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.protocol.steps import Plan
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.values.durations import Seconds

T = TypeVar("T")
DAY_S = 24 * 3600


class AsyncClusterMethods:
    """The part of a session that begins a cluster, lets nodes in and removes them; the twin of ``ClusterMethods``."""

    timeout_s: float
    _operations: Operations

    async def run(self, plan: Plan[T], timeout_s: float) -> T:
        """Do what a plan says."""
        raise NotImplementedError

    async def cluster_init(self, *, listen: Sequence[str] = (), timeout: Seconds | None = None) -> dict[str, Any]:
        """See :meth:`Client.cluster_init`."""
        return await self._ask("cluster_init", {"listen": list(listen)}, timeout)

    async def cluster_invite(
        self,
        *,
        ttl: Seconds = DAY_S,
        uses: int = 1,
        addresses: Sequence[str] = (),
        local: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[str, Any]:
        """See :meth:`Client.cluster_invite`."""
        return await self._ask("cluster_invite", invite_arguments(seconds(ttl, "ttl"), uses, addresses, local), timeout)

    async def cluster_join(
        self,
        invite: str,
        *,
        listen: Sequence[str] = (),
        archive: bool = False,
        timeout: Seconds | None = JOIN_TIMEOUT_S,
    ) -> dict[str, Any]:
        """See :meth:`Client.cluster_join`."""
        return await self._ask("cluster_join", join_arguments(invite, listen, archive), timeout)

    async def cluster_members(self, *, timeout: Seconds | None = None) -> dict[str, Any]:
        """See :meth:`Client.cluster_members`."""
        return await self._ask("cluster_members", {}, timeout)

    async def cluster_remove(self, node: str, *, timeout: Seconds | None = None) -> dict[str, Any]:
        """See :meth:`Client.cluster_remove`."""
        return await self._ask("cluster_remove", {"node": node}, timeout)

    async def cluster_rotate_key(self, *, finish: bool = False, timeout: Seconds | None = None) -> dict[str, Any]:
        """See :meth:`Client.cluster_rotate_key`."""
        return await self._ask("cluster_rotate_key", {"finish": finish}, timeout)

    async def _ask(self, name: str, arguments: Arguments, timeout: Seconds | None) -> dict[str, Any]:
        return await self.run(ask(self._operations, name, arguments), limit_s(timeout, self.timeout_s))
