"""A session of the OpenAI Agents SDK."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agents.memory import SessionSettings
from agents.memory.session_settings import coerce_session_settings

from crdtsync.adapters.attached import Attached
from crdtsync.adapters.keys import quoted
from crdtsync.adapters.readable import readable
from crdtsync.adapters.redaction import Rule
from crdtsync.adapters.threads import reading, settled, writing
from crdtsync.client import LogItem, Session
from crdtsync.errors import InvalidRequest

if TYPE_CHECKING:
    from agents import TResponseInputItem


class CrdtSession(Attached):
    """Keeps the history of a conversation on this host's disk and on every other host.

    Arguments are those of :class:`~crdtsync.adapters.attached.Attached`. The history is the log
    ``PREFIX/SESSION_ID``: ``crdtsync log`` shows who said what, when and on which host. An item has at most 1 MiB.

    It may be used from any event loop and thread: every call waits in a thread of its own.
    """

    def __init__(
        self,
        session_id: str,
        client: Session | str | os.PathLike[str] | None = None,
        *,
        prefix: str = "openai-agents",
        session_settings: SessionSettings | dict[str, Any] | None = None,
        w: int | str | None = None,
        redact: Rule | None = None,
    ) -> None:
        self._key = f"{prefix.rstrip('/')}/{quoted(session_id)}"
        super().__init__(client, prefix=prefix, w=w, redact=redact)
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or {})

    @reading
    def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest ``limit`` items, oldest first; without a limit that of the settings, or all there are."""
        return self._items(self._log(None), limit)

    def _log(self, branch: str | None) -> str:
        """The key of the items."""
        return self._key

    def _items(self, key: str, limit: int | None) -> list[TResponseInputItem]:
        last = self.session_settings.limit if limit is None else limit
        return [] if last == 0 else [item.value for item in self._newest(key, last if last and last > 0 else None)]

    def _newest(self, key: str, count: int | None) -> list[LogItem]:
        """The newest items of a log, or all, oldest first."""
        log = self._client.log_items(key, last=count)
        found = [element for element, _ in readable(key, log, _check)]
        if count is None or len(found) == len(log):
            return found
        return self._newest(key, None)[-count:]  # what is no item does not count

    async def add_items(self, items: Sequence[TResponseInputItem]) -> None:
        """Add items, all or none and as neighbours where they fit into one change."""
        await settled(self._add, json.dumps([*items]))  # as they are now

    def _add(self, items: str) -> None:
        found = json.loads(items)
        if not all(isinstance(item, dict) for item in found):
            raise InvalidRequest("add_items takes a list of items, such as [{'role': 'user', 'content': 'Hello'}]")
        key = self._log(None)
        self._write_all("append", [(key, item) for item in self._redacted(found)])

    @writing
    def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it; None if there is none. On one host nobody else gets the same."""
        return self._pop(self._key)

    def _pop(self, key: str) -> Any:
        while newest := self._newest(key, 1):
            if self._client.remove(key, newest[0].dot, w=self._w):
                return newest[0].value
        return None

    @writing
    def clear_session(self) -> None:
        """Remove all items that this host has; one that another host adds meanwhile stays."""
        self._client.delete(self._key, w=self._w)


def _check(element: LogItem) -> None:
    """That this is an item: each says its role or its type, or names one by its id."""
    if not isinstance(element.value, dict) or not element.value.keys() & {"id", "role", "type"}:
        message = "it has no role, type or id"
        raise ValueError(message)
