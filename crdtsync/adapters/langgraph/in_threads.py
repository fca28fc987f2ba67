"""The blocking checkpointer under asyncio: its calls, each in a thread."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from crdtsync.adapters.threads import in_thread, settled

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple


class CallsInThreads(BaseCheckpointSaver[str]):
    """The coroutines of a checkpointer that has no others. A task cancelled while it writes is so when the outcome is
    there.
    """

    serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    """Calls nothing that a checkpoint names, but what LangGraph holds for safe: other agents may have written it."""

    aput = in_thread(BaseCheckpointSaver.put)
    aput_writes = in_thread(BaseCheckpointSaver.put_writes)
    adelete_thread = in_thread(BaseCheckpointSaver.delete_thread)
    acopy_thread = in_thread(BaseCheckpointSaver.copy_thread)
    adelete_for_runs = in_thread(BaseCheckpointSaver.delete_for_runs)
    aget_tuple = in_thread(BaseCheckpointSaver.get_tuple, to_thread)
    aget_delta_channel_history = in_thread(BaseCheckpointSaver.get_delta_channel_history, to_thread)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As ``list``."""
        found = iter(self.list(config, filter=filter, before=before, limit=limit))
        while (each := await to_thread(next, found, None)) is not None:
            yield each

    async def aprune(
        self, thread_ids: Sequence[str] | None, *, strategy: str = "keep_latest", older_than: timedelta | None = None
    ) -> None:
        """As ``prune``."""
        await settled(self.prune, thread_ids, strategy=strategy, older_than=older_than)
