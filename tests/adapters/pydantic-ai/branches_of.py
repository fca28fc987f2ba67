"""Print what was said in the conversation of the how-to page: the history that is loaded first, then its branches."""

from __future__ import annotations

import asyncio

from crdtsync.adapters.pydantic_ai import CrdtConversationStore


async def main() -> None:
    with CrdtConversationStore() as store:
        record = await store.read_record("chat-17")
        assert record is not None
        for tip in (record.head_id, *record.branches):
            line = await store.read_history(tip)
            print(*[part.content for entry in line for part in entry.message.parts])


asyncio.run(main())
