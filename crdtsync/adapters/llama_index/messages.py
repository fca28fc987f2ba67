"""Chat messages as logs.

llama-index/chat/KEY        the messages
llama-index/archived/KEY    {"dot": …, "message": …}: those that a memory has archived, each with what it was there

Two hosts that archive one message at once do so twice; it is shown once, by its dot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from llama_index.core.base.llms.types import ChatMessage

from crdtsync.adapters.attached import Attached, check_each, in_changes
from crdtsync.adapters.readable import readable
from crdtsync.client import LogItem

CHAT, ARCHIVED = "chat", "archived"
KINDS = (ARCHIVED, CHAT)


class Messages(Attached):
    """The common part of both stores of messages, on one client."""

    PREFIX = "llama-index"

    def read(self, key: str, kinds: Sequence[str] = (CHAT,)) -> list[ChatMessage]:
        """The messages of these kinds, oldest first."""
        found: list[ChatMessage] = []
        for kind in kinds:
            if kind == CHAT:
                found += [message for _, message in self._chat(key)]
            else:
                log = self._keys.key(kind, key)
                found += dict(read for _, read in readable(log, self._client.log(log), _archived)).values()
        return found

    def _chat(self, key: str) -> list[tuple[LogItem, ChatMessage]]:
        """The messages that are not archived, each with its element of the log; what is no message does not count."""
        log = self._keys.key(CHAT, key)
        return [*readable(log, self._client.log_items(log), lambda item: _message(item.value))]

    def add(self, key: str, messages: Sequence[ChatMessage], kind: str = CHAT, *, instead: bool = False) -> None:
        """Add messages, all or none where they fit into one change; ``instead`` of all that this host has."""
        plain: list[Any] = [self._redacted(message.model_dump(mode="json")) for message in messages]
        if kind == ARCHIVED:
            plain = [{"dot": str(uuid4()), "message": message} for message in plain]

        def append(part: Sequence[Any]) -> None:
            with self._client.batch(w=self._w) as batch:
                if instead and part[0] is plain[0]:
                    for each in KINDS:
                        batch.delete(self._keys.key(each, key), seen=None)
                for message in part:
                    batch.append(self._keys.key(kind, key), message)

        check_each((self._keys.key(kind, key), message) for message in plain)
        if instead and not plain:
            self.delete(key)
        in_changes(append, plain)

    def delete(self, key: str, kinds: Sequence[str] = KINDS) -> None:
        """Delete the messages that this host has; what another host adds meanwhile stays."""
        with self._client.batch(w=self._w) as batch:
            for kind in kinds:
                batch.delete(self._keys.key(kind, key), seen=None)

    def remove(self, key: str, index: int) -> ChatMessage | None:
        """Remove one message, by its place from the first or the last (-1), and return it; None if there is none."""
        while -len(chat := self._chat(key)) <= index < len(chat):
            item, message = chat[index]
            if self._client.remove(self._keys.key(CHAT, key), item.dot, w=self._w):
                return message
        return None

    def take_oldest(self, key: str, count: int, *, archive: bool) -> list[ChatMessage]:
        """Remove the oldest messages, or archive them, and return them."""

        def take(part: Sequence[LogItem]) -> None:
            with self._client.batch(w=self._w) as batch:
                for item in part:
                    batch.remove(self._keys.key(CHAT, key), item.dot)
                    if archive:
                        batch.append(self._keys.key(ARCHIVED, key), {"dot": item.dot, "message": item.value})

        oldest = self._chat(key)[: max(count, 0)]
        in_changes(take, [item for item, _ in oldest])
        return [message for _, message in oldest]

    def names(self) -> list[str]:
        """The keys of all conversations, sorted."""
        found = [self._keys.names(key)[0] for kind in KINDS for key in self._client.keys(self._keys.below(kind))]
        return sorted(set(found))


def _message(stored: Any) -> ChatMessage:
    if "role" not in stored:  # LlamaIndex would take it for a user's
        message = "it has no role"
        raise ValueError(message)
    return ChatMessage.model_validate(stored)


def _archived(stored: Any) -> tuple[str, ChatMessage]:
    """The place of a message that was archived, and the message."""
    return str(stored["dot"]), _message(stored["message"])
