"""What the asyncio client does about rights: agents with keys, rules, quotas.

What each method does and promises is written at its twin in ``blocking.access``.
"""

# ruff: noqa: ASYNC109  # `timeout` ends with an error that says more than a cancellation

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from crdtsync.client.operations.agent_keys import new_agent
from crdtsync.client.operations.cluster import ask
from crdtsync.client.protocol.steps import limit_s

if TYPE_CHECKING:
    from types import EllipsisType

    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.protocol.steps import Plan
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.values.durations import Seconds

T = TypeVar("T")


class AsyncAccessMethods:
    """The part of a session that says who may do what; the twin of ``AccessMethods``."""

    timeout_s: float
    _operations: Operations

    async def run(self, plan: Plan[T], timeout_s: float) -> T:
        """Do what a plan says."""
        raise NotImplementedError

    async def agent_create(
        self, name: str, *, key: str | None = None, timeout: Seconds | None = None
    ) -> dict[str, Any]:
        """See :meth:`Client.agent_create`."""
        return await self._ask("agent_create", new_agent(name, key), timeout)

    async def agent_list(self, *, timeout: Seconds | None = None) -> list[dict[str, Any]]:
        """See :meth:`Client.agent_list`."""
        return list((await self._ask("agent_list", {}, timeout))["agents"])

    async def agent_revoke(self, name: str, *, timeout: Seconds | None = None) -> dict[str, Any]:
        """See :meth:`Client.agent_revoke`."""
        return await self._ask("agent_revoke", {"name": name}, timeout)

    async def access_grant(
        self, who: str, right: str, pattern: str = "**", *, timeout: Seconds | None = None
    ) -> dict[str, Any]:
        """See :meth:`Client.access_grant`."""
        return await self._ask("access_grant", {"who": who, "right": right, "pattern": pattern}, timeout)

    async def access_revoke(
        self, who: str, pattern: str = "**", *, right: str = "read", timeout: Seconds | None = None
    ) -> dict[str, Any]:
        """See :meth:`Client.access_revoke`."""
        return await self._ask("access_revoke", {"who": who, "pattern": pattern, "right": right}, timeout)

    async def access_list(self, *, everywhere: bool = False, timeout: Seconds | None = None) -> dict[str, Any]:
        """See :meth:`Client.access_list`."""
        return await self._ask("access_list", {"all": everywhere}, timeout)

    async def access_quota(
        self,
        who: str,
        *,
        requests_per_s: int | EllipsisType | None = ...,
        bytes_per_s: int | EllipsisType | None = ...,
        watches: int | EllipsisType | None = ...,
        connections: int | EllipsisType | None = ...,
        timeout: Seconds | None = None,
    ) -> dict[str, Any]:
        """See :meth:`Client.access_quota`."""
        given = {
            "requests_per_s": requests_per_s,
            "bytes_per_s": bytes_per_s,
            "watches": watches,
            "connections": connections,
        }
        limits = {name: limit for name, limit in given.items() if limit is not ...}
        return await self._ask("access_quota", {"who": who, **limits}, timeout)

    async def _ask(self, name: str, arguments: Arguments, timeout: Seconds | None) -> dict[str, Any]:
        return await self.run(ask(self._operations, name, arguments), limit_s(timeout, self.timeout_s))
