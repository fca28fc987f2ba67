"""Explanations in the asyncio client: why a node has what it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.aio.methods.base import AsyncMethods

if TYPE_CHECKING:
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.values.durations import Seconds


class AsyncExplainMethods(AsyncMethods):
    """The part of a session that explains."""

    async def explain(self, key: str, *, space: str | None = None, timeout: Seconds | None = None) -> dict[str, Any]:
        """Why this node has of ``key`` what it has, or lacks it: which change, from whom, over which peer, and what it
        waits for. ``space`` may also be one that this node does not hold.

        An object for people to look at: ``state`` and ``summary``, ``values`` with how each came and who else has it,
        ``removed``, and ``reasons``, each with a ``code`` and a ``message``
        (all fields: agent-protocol.md). Nothing is asked of other nodes, and it does
        not count as reading the key.
        """
        from crdtsync.client.operations.explain import explanation

        arguments: Arguments = {"key": key} if space is None else {"key": key, "space": space}
        return await self._ask_for(explanation, "explain", arguments, timeout)
