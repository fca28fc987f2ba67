"""Rights in the asyncio client: agents with keys, rules, quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.aio.methods.base import AsyncMethods

if TYPE_CHECKING:
    from types import EllipsisType

    from crdtsync.client.values.durations import Seconds


class AsyncAccessMethods(AsyncMethods):
    """The part of a session that says who may do what. See ``docs/how-to/rights.md``.

    ``who`` is ``agent:NAME``, ``uid:NUMBER``, ``gid:NUMBER``, ``socket`` (the socket's owner and group, on each host)
    or ``anyone``.
    """

    async def agent_create(
        self, name: str, *, key: str | None = None, timeout: Seconds | None = None
    ) -> dict[str, Any]:
        """Make an agent that proves its name, on all hosts, and return its ``key``: nobody can show it again.

        With a ``key`` that :func:`crdtsync.client.operations.agent_keys.new_agent_key` made, and that was put in a safe
        place first, only its hash is sent, and the reply has none; asking once more with it is harmless. The agent has
        no rights yet. For root and the daemon's own user alone.
        """
        from crdtsync.client.operations.agent_keys import new_agent  # hashes take ms to import

        return await self._ask("agent_create", new_agent(name, key), timeout)

    async def agent_list(self, *, timeout: Seconds | None = None) -> list[dict[str, Any]]:
        """The agents with keys that this one may see, with how often each is ``attached`` to this daemon."""
        return await self._ask_for(lambda reply: list(reply["agents"]), "agent_list", {}, timeout)

    async def agent_revoke(self, name: str, *, timeout: Seconds | None = None) -> dict[str, Any]:
        """Make an agent's key worthless. Its connections end: here at once, elsewhere as soon as that is known there.

        Its writes and its rules stay.
        """
        return await self._ask("agent_revoke", {"name": name}, timeout)

    async def access_grant(
        self, who: str, right: str, pattern: str = "**", *, timeout: Seconds | None = None
    ) -> dict[str, Any]:
        """Let somebody ``read``, ``write`` or ``admin`` the keys of a pattern in this space, on all hosts.

        Each right includes those before it. Returns the rule, and a ``token``: a host that holds it knows the rule.
        """
        return await self._ask("access_grant", {"who": who, "right": right, "pattern": pattern}, timeout)

    async def access_revoke(
        self, who: str, pattern: str = "**", *, right: str = "read", timeout: Seconds | None = None
    ) -> dict[str, Any]:
        """Take a rule away: of this very pattern, the ``right`` and those that include it.

        Watches, mirrors and resolvers that need it end with :class:`~crdtsync.errors.NotAllowed`.
        """
        return await self._ask("access_revoke", {"who": who, "pattern": pattern, "right": right}, timeout)

    async def access_list(self, *, everywhere: bool = False, timeout: Seconds | None = None) -> dict[str, Any]:
        """The ``rules`` of this space, or of all spaces, that this agent may see; ``quotas`` and ``quota_defaults``."""
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
        """Give an agent or user other quotas than the daemons' settings do; None: what those say.

        For root and the daemon's own user alone.
        """
        given = {
            "requests_per_s": requests_per_s,
            "bytes_per_s": bytes_per_s,
            "watches": watches,
            "connections": connections,
        }
        limits = {name: limit for name, limit in given.items() if limit is not ...}
        return await self._ask("access_quota", {"who": who, **limits}, timeout)
