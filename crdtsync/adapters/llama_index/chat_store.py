"""LlamaIndex's two stores of chat messages: the one that its ``Memory`` takes, and that of its older memories.

Both keep the same logs, so a program may go from one to the other.
"""

from __future__ import annotations

import os
from asyncio import to_thread
from types import TracebackType
from typing import Any, Self

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.storage.chat_store.base import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from crdtsync.adapters.llama_index.messages import ARCHIVED, CHAT, KINDS, Messages
from crdtsync.adapters.redaction import Rule
from crdtsync.adapters.threads import settled
from crdtsync.client import Client


class _WithMessages:
    """The part of both beside models of pydantic's."""

    _messages: Any

    def __init__(
        self,
        client: Client | str | os.PathLike[str] | None = None,
        *,
        prefix: str | None = None,
        w: int | str | None = None,
        redact: Rule | None = None,
    ) -> None:
        super().__init__()
        self._messages = Messages(client, prefix=prefix, w=w, redact=redact)

    def close(self) -> None:
        """Close the client that this made for itself; one that was handed in stays open."""
        self._messages.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class CrdtMemoryStore(_WithMessages, AsyncDBChatStore):
    """Keeps the messages of ``Memory`` on this host's disk and on every other host.

    Arguments are those of :class:`~crdtsync.adapters.attached.Attached`. A message has at most 1 MiB.
    Messages that two hosts add at once are all kept, in one order everywhere.

    It may be used from any event loop and thread: every call waits in a thread of its own.
    """

    _messages: Any = PrivateAttr()

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """The messages of a status, or all, oldest first: ``limit`` of them, from the one at ``offset`` on."""
        found: list[ChatMessage] = await to_thread(self._messages.read, key, _kinds(status))
        first = offset or 0
        return found[first:] if limit is None else found[first : first + limit]

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        """How many messages of a status there are."""
        return len(await self.get_messages(key, status))

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        """Add a message."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add messages, all or none where they fit into one change."""
        await settled(self._messages.add, key, messages, *_kinds(status))

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Put messages in the place of all that this host has."""
        await settled(self._messages.add, key, messages, *_kinds(status), instead=True)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Remove the message at a place and return it; None if there is none."""
        return await settled(self._messages.remove, key, idx)

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Delete the messages of a status, or all, that this host has; what another host adds meanwhile stays."""
        await settled(self._messages.delete, key, _kinds(status))

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Remove the oldest active messages and return them."""
        return await settled(self._messages.take_oldest, key, n, archive=False)

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the oldest active messages and return them."""
        return await settled(self._messages.take_oldest, key, n, archive=True)

    async def get_keys(self) -> list[str]:
        """The keys of all conversations."""
        return await to_thread(self._messages.names)


class CrdtChatStore(_WithMessages, BaseChatStore):
    """Keeps the messages of ``ChatMemoryBuffer`` on this host's disk and on every other host.

    Arguments and promises are those of :class:`CrdtMemoryStore`. LlamaIndex makes the coroutines of its methods.
    """

    _messages: Any = PrivateAttr()

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Put messages in the place of all that this host has."""
        self._messages.add(key, messages, instead=True)

    def get_messages(self, key: str) -> list[ChatMessage]:
        """The messages, oldest first."""
        return list(self._messages.read(key))

    def add_message(self, key: str, message: ChatMessage) -> None:
        """Add a message."""
        self._messages.add(key, [message])

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Delete the messages that this host has, and return them; None if there are none."""
        found = self.get_messages(key)
        self._messages.delete(key)
        return found or None

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Remove the message at a place and return it; None if there is none."""
        return self._messages.remove(key, idx)

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Remove the newest message and return it; None if there is none."""
        return self._messages.remove(key, -1)

    def get_keys(self) -> list[str]:
        """The keys of all conversations."""
        return list(self._messages.names())


def _kinds(status: MessageStatus | None) -> tuple[str, ...]:
    if status is None:
        return KINDS
    return (ARCHIVED if status == MessageStatus.ARCHIVED else CHAT,)
