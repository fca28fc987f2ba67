"""Histories of Microsoft Agent Framework's sessions."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent_framework import HistoryProvider, Message
from agent_framework._sessions import filter_new_messages

from crdtsync.adapters.attached import Attached
from crdtsync.adapters.readable import readable
from crdtsync.adapters.redaction import Rule
from crdtsync.adapters.threads import reading, writing

if TYPE_CHECKING:
    from crdtsync.client import Client


class CrdtHistoryProvider(Attached, HistoryProvider):
    """Keeps what was said in sessions on this host's disk and on every other host.

    Arguments are those of :class:`~crdtsync.adapters.attached.Attached`, and ``options`` those of every
    ``HistoryProvider``, such as ``load_messages``. The history of a session is the log ``PREFIX/messages/SESSION_ID``.
    A message has at most 1 MiB.
    """

    def __init__(
        self,
        client: Client | str | os.PathLike[str] | None = None,
        source_id: str = "crdtsync_history",
        *,
        prefix: str = "agent-framework",
        skip_excluded: bool = False,
        w: int | str | None = None,
        redact: Rule | None = None,
        **options: Any,
    ) -> None:
        Attached.__init__(self, client, prefix=prefix, w=w, redact=redact)
        HistoryProvider.__init__(self, source_id, **options)
        self.skip_excluded = skip_excluded

    @reading
    def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """The messages of a session, oldest first; without those that a compaction has excluded, if it was asked so."""
        messages = self._read(session_id)
        if self.skip_excluded:
            return [message for message in messages if not message.additional_properties.get("_excluded", False)]
        return messages

    @writing
    def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add those messages that are new, all or none where they fit into one change."""
        said = [self._redacted(json.loads(json.dumps(message.to_dict()))) for message in messages]
        new = filter_new_messages(self._read(session_id), [*map(Message.from_dict, said)]) if said else []
        self._write_all("append", [(self._key(session_id), message) for message in said[len(said) - len(new) :]])

    def _key(self, session_id: str | None) -> str:
        return self._keys.key("messages", session_id or "")

    def _read(self, session_id: str | None) -> list[Message]:
        key = self._key(session_id)
        return [message for _, message in readable(key, self._client.log(key), Message.from_dict)]
