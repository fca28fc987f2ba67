"""One more message of a session: ``talk.py TEXT`` prints all that was said, on the daemon of CRDTSYNC_SOCKET."""

from __future__ import annotations

import asyncio
import sys

from agent_framework import Message

from crdtsync.adapters.agent_framework import CrdtHistoryProvider


async def main(text: str) -> None:
    with CrdtHistoryProvider() as history:
        await history.save_messages("chat-17", [Message("user", [text])])
        print([message.text for message in await history.get_messages("chat-17")])


asyncio.run(main(sys.argv[1]))
