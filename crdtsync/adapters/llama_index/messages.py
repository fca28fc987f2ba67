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

from crdtsync.adapters.attached import Attached, in_changes
from crdtsync.client import LogItem

CHAT, ARCHIVED = "chat", "archived"
KINDS = (ARCHIVED, CHAT)


class Messages(Attached):
    """What both stores of messages do, on one client."""

    PREFIX = "llama-index"

    def read(self, key: str, kinds: Sequence[str] = (CHAT,)) -> list[ChatMessage]:
        """The messages of these kinds, oldest first."""
        stored: list[Any] = []
        for kind in kinds:
            found = self._client.log(self._keys.key(kind, key))
            stored += found if kind == CHAT else {each["dot"]: each["message"] for each in found}.values()
        return [ChatMessage.model_validate(each) for each in stored]

    def add(self, key: str, messages: Sequence[ChatMessage], kind: str = CHAT, *, instead: bool = False) -> None:
        """Add messages, all or none where they fit into one change; ``instead`` of all that this host has."""
        plain: list[Any] = [message.model_dump(mode="json") for message in messages]
        if kind == ARCHIVED:
            plain = [{"dot": str(uuid4()), "message": message} for message in plain]

        def append(part: Sequence[Any]) -> None:
            with self._client.batch(w=self._w) as batch:
                if instead and part[0] is plain[0]:
                    for each in KINDS:
                        batch.delete(self._keys.key(each, key), seen=None)
                for message in part:
                    batch.append(self._keys.key(kind, key), message)

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
        while items := self._client.log_items(self._keys.key(CHAT, key), start=index, limit=1):
            if self._client.remove(self._keys.key(CHAT, key), items[0].dot, w=self._w):
                return ChatMessage.model_validate(items[0].value)
        return None

    def take_oldest(self, key: str, count: int, *, archive: bool) -> list[ChatMessage]:
        """Remove the oldest messages, or archive them, and return them."""

        def take(part: Sequence[LogItem]) -> None:
            with self._client.batch(w=self._w) as batch:
                for item in part:
                    batch.remove(self._keys.key(CHAT, key), item.dot)
                    if archive:
                        batch.append(self._keys.key(ARCHIVED, key), {"dot": item.dot, "message": item.value})

        items = self._client.log_items(self._keys.key(CHAT, key), limit=max(count, 0))
        in_changes(take, items)
        return [ChatMessage.model_validate(item.value) for item in items]

    def names(self) -> list[str]:
        """The keys of all conversations, sorted."""
        found = [self._keys.names(key)[0] for kind in KINDS for key in self._client.keys(self._keys.below(kind))]
        return sorted(set(found))
