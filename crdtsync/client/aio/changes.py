"""Changes since a token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.client.aio.watch import AsyncWatch
from crdtsync.client.streams.changes_state import Changes, ChangesState

if TYPE_CHECKING:
    from crdtsync.client.protocol.seen_point import Horizon
    from crdtsync.client.session.read_memory import ReadMemory
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.streams.watch_state import WatchState


class AsyncChangesWatch(AsyncWatch):
    """A watch that ends with its first answer."""

    question: ChangesState

    def _begin(
        self, memory: ReadMemory, prefix: str, after: str | None, overrides: Arguments, horizon: Horizon
    ) -> WatchState:
        self.question = ChangesState(memory, prefix, after, overrides, horizon)
        return self.question

    async def answer(self) -> Changes:
        """Wait for it, and end the watch."""
        async with self:
            while self.question.changes is None:
                await self.next()
        return self.question.changes
