"""The past in the asyncio client: what was written, and why a node has what it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.aio.methods.base import AsyncMethods
from crdtsync.client.protocol.steps import limit_s

if TYPE_CHECKING:
    from crdtsync.client.operations.history import History
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.values.durations import Seconds


class AsyncHistoryMethods(AsyncMethods):
    """The part of a session that reads history, and explains."""

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
        """All writes to ``key``, or to all keys that start with ``prefix``: the newest first, with author, node, time,
        what it had seen, what became of it and by whom (:class:`~crdtsync.client.PastValue`).

        ``last`` is how many at most (None: of a key all, of a prefix 1,000, the most that one answer has). With
        ``lost`` only values that were lost: written over by somebody who had not read them, or not chosen among
        siblings. Reading history does not count as reading the key. Old lines go; the list says whether some have
        (:class:`~crdtsync.client.History`).
        """
        from crdtsync.client.operations.history import history

        timeout_s = limit_s(timeout, self.timeout_s)
        plan = history(self._operations, key, prefix, last, lost=lost, after=after, timeout_s=timeout_s)
        return await self.run(plan, timeout_s)

    async def explain(self, key: str, *, space: str | None = None, timeout: Seconds | None = None) -> dict[str, Any]:
        """Why this node has of ``key`` what it has, or lacks it: which change, from whom, over which peer, and what it
        waits for. ``space`` may also be one that this node does not hold.

        An object for people to look at: ``state`` and ``summary``, ``values`` with how each came and who else has it,
        ``removed``, and ``reasons``, each with a ``code`` and a ``message``
        (all fields: agent-protocol.md). Nothing is asked of other nodes, and it does
        not count as reading the key.
        """
        from crdtsync.client.operations.history import explanation

        arguments: Arguments = {"key": key} if space is None else {"key": key, "space": space}
        return await self._ask_for(explanation, "explain", arguments, timeout)
