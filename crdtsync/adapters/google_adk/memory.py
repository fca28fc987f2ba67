"""Google ADK's memory: what was said in sessions, searched by words.

google-adk/memory/APP/USER/EVENT    the text; author, time and content are its ``meta``
google-adk/forgotten/APP/USER       a set: the ids of memories that were deleted, and are not to come back
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from uuid import uuid4

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session

from crdtsync.adapters.attached import Attached, check_each, in_changes
from crdtsync.adapters.readable import readable
from crdtsync.adapters.redaction import Rule
from crdtsync.adapters.threads import reading, writing
from crdtsync.client import Client, Entry
from crdtsync.context import Search

RESULTS_MAX = 10


class CrdtMemoryService(Attached, BaseMemoryService):
    """Keeps memories on this host's disk and on every other host.

    Arguments are those of :class:`~crdtsync.adapters.attached.Attached`. A memory is found by its words;
    with ``meaning`` also by what it means, in English. The index is made on this host, by the first search
    (:class:`crdtsync.context.Search`).
    """

    PREFIX = "google-adk"

    def __init__(
        self,
        client: Client | str | os.PathLike[str] | None = None,
        *,
        prefix: str | None = None,
        w: int | str | None = None,
        redact: Rule | None = None,
        meaning: bool = False,
    ) -> None:
        super().__init__(client, prefix=prefix, w=w, redact=redact)
        self._search = Search(self._client, meaning=meaning)

    async def add_session_to_memory(self, session: Session) -> None:
        """Remember what was said in a session; what is known already stays as it is."""
        await self.add_events_to_memory(app_name=session.app_name, user_id=session.user_id, events=session.events)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember events, those that say something; ``session_id`` and ``custom_metadata`` are not kept."""
        memories = [
            MemoryEntry(
                id=event.id, content=event.content, author=event.author,
                timestamp=datetime.fromtimestamp(event.timestamp, UTC).isoformat(),
            ) for event in events if event.content and event.content.parts
        ]  # fmt: skip
        await self.add_memory(app_name=app_name, user_id=user_id, memories=memories)

    @writing
    def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember what is said here, under ids of its own where it has none."""
        place = app_name, user_id
        held = set(self._client.keys(self._keys.below("memory", *place)))
        forgotten = set(self._client.members(self._keys.key("forgotten", *place)))

        def write(part: Sequence[tuple[str, MemoryEntry]]) -> None:
            with self._client.batch(w=self._w) as batch:
                for key, memory in part:
                    said = " ".join(each.text for each in memory.content.parts or [] if each.text)
                    meta = json.loads(memory.model_dump_json(exclude_none=True, exclude={"id"}))
                    batch.set(key, self._redacted(said), seen=None, meta=self._redacted(meta))

        named = [(memory.id or str(uuid4()), memory) for memory in memories]
        keys = [(self._keys.key("memory", *place, name), memory) for name, memory in named if name not in forgotten]
        new = [(key, memory) for key, memory in keys if key not in held]
        check_each((key, memory.model_dump(mode="json")) for key, memory in new)
        in_changes(write, new)

    @reading
    def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """The ten memories that fit best, among those that have a word of the query."""
        below = self._keys.below("memory", app_name, user_id)
        found = [self._client.entry(each.key) for each in self._search.search(query, prefix=below, limit=RESULTS_MAX)]
        held = [entry for entry in found if entry is not None]
        return SearchMemoryResponse(
            memories=[memory for entry in held for _, memory in readable(entry.key, [entry], self._memory)]
        )

    def _memory(self, entry: Entry) -> MemoryEntry:
        meta = {**(entry.meta or {}), "id": self._keys.names(entry.key)[-1]}
        return MemoryEntry.model_validate_json(json.dumps(meta))

    @writing
    def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Delete a memory; what was said is not remembered again."""
        key = self._keys.key("memory", app_name, user_id, memory_id or "")
        if memory_id and self._client.get(key) is not None:
            with self._client.batch(w=self._w) as batch:
                batch.delete(key, seen=None)
                batch.add(self._keys.key("forgotten", app_name, user_id), memory_id)
