"""The memory of one client."""

from __future__ import annotations

import os
from asyncio import to_thread
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Any

from crdtsync.client import AsyncClient, AsyncSession, Entry
from crdtsync.context import AsyncSearch
from crdtsync.context.given import expect, expect_count, texts
from crdtsync.context.memory.curate import Same, duplicates, says_the_same, stale
from crdtsync.context.memory.record import (
    EVENTS,
    Scope,
    aware,
    digest,
    holds,
    is_record,
    matches,
    moment,
    now_text,
    said,
    shown,
    stored,
    texts_of,
    worded,
)
from crdtsync.errors import InvalidRequest, VersionMismatch

_SIMILAR = 5
FORGOTTEN = "Memory forgotten"
_LOOKED_AT_MAX = 1_000
_SCORE_MIN = 0.0001  # of a word that most memories have

Extract = Callable[[object], list[str]]
Merge = Callable[[str, list[dict[str, Any]]], dict[str, Any]]


class AsyncMemory:
    """A memory that all hosts share.

    ``extract(messages)`` returns the facts that are worth to be remembered; without it each message is remembered as
    it is. ``merge(fact, similar)`` is asked for each of them, with up to five memories of the same scope that speak of
    the same, and returns ``{"event": "ADD" | "UPDATE" | "DELETE" | "NONE", "id": …, "memory": …}``; without it a fact
    is added unless it is there, word for word. ``folder`` is where search indexes are kept. ``authors`` are the agents
    who are believed: what others wrote is not served. Without it everybody is who may write beneath ``prefix``.

    A memory is one key under ``prefix``. An addition or change is durable on this host on return.
    """

    def __init__(
        self,
        client: AsyncClient | AsyncSession,
        *,
        prefix: str = "memory/",
        extract: Extract | None = None,
        merge: Merge | None = None,
        folder: str | os.PathLike[str] | None = None,
        authors: Iterable[str] | None = None,
    ) -> None:
        expect(str, prefix=prefix)
        expect(Callable | None, extract=extract, merge=merge)
        self._client = client
        self._authors = None if authors is None else frozenset(texts("authors", authors))
        self._prefix = prefix.rstrip("/") + "/"
        self._extract = extract
        self._merge = merge
        self._search = AsyncSearch(client, folder=folder)

    async def add(
        self,
        messages: object,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        infer: bool = True,
        about: str | None = None,
        source: str | None = None,
        valid_from: datetime | None = None,
        confidence: float | None = None,
    ) -> dict[str, Any]:
        """Remember ``messages``: a text, a message (``{"role", "content"}``) or a list of them.

        Returns ``{"results": [{"id", "memory", "event"}, …]}``. With ``infer=False`` neither ``extract`` nor ``merge``
        is asked. ``about`` names what a fact is about, ``source`` the key that it comes from, ``valid_from`` since when
        it holds, ``confidence`` (0 to 1) how sure its author is.

        :raises InvalidRequest: nobody is named whose memory it is, or ``messages`` are none.
        """
        scope = Scope(user_id, agent_id, run_id).needed()
        expect(Mapping | None, metadata=metadata)
        expect(str | None, about=about, source=source)
        expect(int | float | None, confidence=confidence)
        extract = self._extract if infer and self._extract is not None else texts_of
        texts: Any = await to_thread(extract, messages)
        if not isinstance(texts, list | tuple):
            raise InvalidRequest(f"extract returned {type(texts).__name__}: it must be a list of texts")
        fact = {"about": about, "source": source, "valid_from": _text(valid_from)}
        results = []
        for text in map(worded, texts):
            decided: dict[str, Any] = {"event": "ADD", "memory": text}
            if infer and self._merge is not None:
                similar = await self.search(text, user_id=user_id, agent_id=agent_id, run_id=run_id, limit=_SIMILAR)
                asked: Any = await to_thread(self._merge, text, similar["results"])
                if not isinstance(asked, Mapping):
                    raise InvalidRequest(f"merge returned {type(asked).__name__}: it must be a dict with 'event'")
                decided |= asked
            results.append(await self._carry_out(decided, scope, metadata, fact, confidence))
        return {"results": results}

    async def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        filters: Mapping[str, Any] | None = None,
        threshold: float | None = None,
        as_of: datetime | None = None,
    ) -> dict[str, Any]:
        """Memories that speak of ``query``, the best first: ``{"results": [{"id", "memory", "score", …}, …]}``.

        ``filters`` are fields of the metadata, or of the memory. A ``score`` is between 0 and 1; what scores below
        ``threshold`` is left out. Only what holds is found: now, or at ``as_of``.

        :raises InvalidRequest: nobody is named whose memories are looked through.
        """
        scope, as_of = Scope(user_id, agent_id, run_id).needed(), aware(as_of)
        expect_count(1, limit=limit)
        expect(int | float | None, threshold=threshold)
        expect(Mapping | None, filters=filters)
        looked_at = min(_LOOKED_AT_MAX, max(50, 10 * limit))
        found = await self._search.search(query, prefix=self._prefix + scope.folder, limit=looked_at)
        results = []
        for one in found:
            score = max(_SCORE_MIN, round(one.score / (1 + one.score), 4))
            entry = await self._client.entry(one.key)
            if entry is not None and score >= (threshold or 0) and self._is_wanted(entry, scope, filters, as_of):
                results.append(shown(self._id(one.key), entry, score))
                if len(results) == limit:
                    break
        return {"results": results}

    async def get(self, memory_id: str) -> dict[str, Any] | None:
        """The memory of that id; None if there is none."""
        entry = await self._client.entry(self._key(memory_id))
        return shown(memory_id, entry) if entry is not None and self._is_served(entry) else None

    async def get_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        filters: Mapping[str, Any] | None = None,
        as_of: datetime | None = None,
    ) -> dict[str, Any]:
        """All memories of a scope that hold, the newest first; see :meth:`search`."""
        expect_count(1, limit=limit)
        expect(Mapping | None, filters=filters)
        found = await self._all(Scope(user_id, agent_id, run_id).needed(), filters, aware(as_of))
        return {"results": [shown(self._id(entry.key), entry) for entry in found[:limit]]}

    async def update(self, memory_id: str, data: str, *, metadata: Mapping[str, Any] | None = None) -> dict[str, str]:
        """Let the memory say ``data`` from now on; what it said stays in its history.

        :raises InvalidRequest: there is no such memory, or ``data`` is no text.
        """
        expect(Mapping | None, metadata=metadata)
        entry = await self._there(memory_id)
        changed = {**entry.value, "memory": worded(data), "updated_at": now_text()}
        changed |= {"metadata": dict(metadata)} if metadata is not None else {}
        await self._client.set(entry.key, changed, confidence=entry.confidence)
        return {"message": "Memory updated successfully!"}

    async def supersede(
        self, memory_id: str, data: str, *, at: datetime | None = None, source: str | None = None
    ) -> dict[str, Any]:
        """A fact no longer holds, from ``at`` (now) on another one does: both are kept. Returns as :meth:`add`.

        :raises InvalidRequest: there is no such memory, ``data`` is no text, or ``at`` is before the fact began.
        """
        expect(str | None, source=source)
        entry = await self._there(memory_id)
        since = _text(at) or now_text()
        record = entry.value
        began, ended = moment(record.get("valid_from")), moment(since)
        if at is not None and began is not None and ended is not None and ended < began:
            message = f"{memory_id!r} holds since {record['valid_from']}: it cannot end at {since}, before that"
            raise InvalidRequest(message)
        fact = {"about": record.get("about"), "source": source, "valid_from": since, "supersedes": memory_id}
        scope = Scope(*(record.get(name) for name in ("user_id", "agent_id", "run_id")))
        made = stored(data, scope, record.get("metadata"), fact)
        new_id = scope.place() + token_hex(16)
        async with self._client.batch() as batch:
            batch.set(entry.key, {**record, "valid_until": since}, confidence=entry.confidence)
            batch.set(self._prefix + new_id, made, confidence=entry.confidence)
        return {"results": [{"id": new_id, "memory": data, "event": "ADD"}]}

    async def contradictions(
        self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> list[list[dict[str, Any]]]:
        """Groups of memories that are ``about`` one thing, hold now, and say different things; and each memory that two
        hosts changed at once to say different things.
        """
        groups: dict[str, list[Entry]] = {}
        for entry in await self._all(Scope(user_id, agent_id, run_id).needed(), None, None):
            about = entry.value.get("about")
            groups.setdefault(about if about and isinstance(about, str) else entry.key, []).append(entry)
        return [
            [shown(self._id(entry.key), entry) for entry in group]
            for _, group in sorted(groups.items())
            if len({digest(text) for entry in group for text in said(entry)}) > 1
        ]

    async def curate(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        same: Same = says_the_same,
        stale_after: timedelta = timedelta(days=365),
        dry_run: bool = True,
    ) -> dict[str, Any]:
        """List what there is to tidy up in a scope: ``{"duplicates": [[kept, other, …], …], "stale": […]}``.

        Duplicates say the same in nearly the same words, or by ``same(text, other)``, which may ask a model. Stale is
        what nobody has written for ``stale_after``. With ``dry_run=False`` all of a group but the first are deleted, if
        nobody has changed them meanwhile; their history says what they were. Stale memories are only listed.
        """
        expect(Callable, same=same)
        expect(timedelta, stale_after=stale_after)
        entries = await self._all(Scope(user_id, agent_id, run_id).needed(), None, None)
        groups = await to_thread(duplicates, entries, same)
        for group in groups if not dry_run else ():
            for entry in group[1:]:
                with suppress(VersionMismatch):
                    await self._client.delete(entry.key, if_version=entry.version)
        old = stale(entries, stale_after, datetime.now(UTC))
        return {
            "duplicates": [[shown(self._id(one.key), one) for one in group] for group in groups],
            "stale": [shown(self._id(one.key), one) for one in old],
        }

    async def forget(self, memory_id: str) -> dict[str, str]:
        """Forget a memory for good: also what it said before, in history, checkpoints and on every other host.

        On return it is served to nobody any more; its history is empty soon after, and a search index that knew it
        loses it with its next search. Deletes what lies under its key now, also if that was deleted before. It needs
        the right ``admin`` on that key. What a purge does not reach is told by
        :meth:`~crdtsync.AsyncClient.purge`.

        :raises InvalidRequest: ``memory_id`` is a pattern.
        """
        key = self._key(memory_id)
        if "*" in memory_id:
            raise InvalidRequest(f"{memory_id!r} is no id: name one memory; state.purge takes patterns")
        is_known = await self.get(memory_id) is not None or bool(await self.history(memory_id))
        await self._client.purge(key)
        return {"message": FORGOTTEN if is_known else f"This host knew nothing of the memory {memory_id!r}"}

    async def delete(self, memory_id: str) -> dict[str, str]:
        """Forget a memory.

        :raises InvalidRequest: there is no such memory.
        """
        await self._client.delete((await self._there(memory_id)).key)
        return {"message": "Memory deleted successfully!"}

    async def delete_all(
        self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, str]:
        """Forget all memories of a scope, also those that no longer hold."""
        scope = Scope(user_id, agent_id, run_id).needed()
        for entry in await self._client.entries(self._prefix + scope.folder):
            if is_record(entry.value) and scope.covers(entry.value):
                await self._client.delete(entry.key)
        return {"message": "Memories deleted successfully!"}

    async def history(self, memory_id: str) -> list[dict[str, Any]]:
        """The wordings of a memory, the oldest first: ``{"id", "memory_id", "old_memory", "new_memory", "event",
        "created_at", "agent", "is_deleted"}``. ``old_memory`` is what its author had seen. What hosts that were cut off
        have changed at once has ``at_odds``, what the others say, until somebody changes it again.
        """
        told: list[dict[str, Any]] = []
        known: dict[str, str] = {}
        past = [
            value for value in await self._client.history(self._key(memory_id), last=None) if is_record(value.value)
        ]
        at_odds = {value.dot: value.value["memory"] for value in past if value.fate == "live"}
        for value in reversed(past):
            time = value.time.astimezone(UTC).isoformat(timespec="milliseconds") if value.time else None
            line = {"id": value.dot, "memory_id": memory_id, "created_at": time, "agent": value.agent}
            before = next((known[dot] for dot in (*(value.seen or ()), *(value.blind or ())) if dot in known), None)
            new = known[value.dot] = value.value["memory"]
            event = "ADD" if before is None else "UPDATE"
            told.append(line | {"old_memory": before, "new_memory": new, "event": event, "is_deleted": False})
            if value.dot in at_odds and len(at_odds) > 1:
                told[-1]["at_odds"] = [text for dot, text in at_odds.items() if dot != value.dot]
            if value.fate == "deleted" and value.removed_by is not None:
                told.append(
                    line | {"id": value.removed_by.dot, "agent": value.removed_by.agent, "old_memory": new,
                            "new_memory": None, "event": "DELETE", "is_deleted": True}
                )  # fmt: skip
                del known[value.dot]
        return told

    async def reset(self) -> None:
        """Forget everything, of everybody."""
        await self._client.delete_prefix(self._prefix)

    async def _carry_out(
        self,
        decided: Mapping[str, Any],
        scope: Scope,
        metadata: Mapping[str, Any] | None,
        fact: Mapping[str, Any],
        confidence: float | None,
    ) -> dict[str, Any]:
        event, text = decided.get("event"), decided.get("memory") or ""
        if event not in EVENTS:
            raise InvalidRequest(f"merge returned the event {event!r}: it must be one of {', '.join(EVENTS)}")
        memory_id = str(decided.get("id") or "")
        if event == "UPDATE":
            old = (await self._there(memory_id)).value["memory"]
            await self.update(memory_id, text)
            return {"id": memory_id, "memory": text, "event": event, "previous_memory": old}
        if event == "DELETE":
            await self.delete(memory_id)
        if event != "ADD":
            return {"id": memory_id, "memory": text, "event": event}
        return await self._added(text, scope, stored(text, scope, metadata, fact), confidence)

    async def _added(
        self, text: str, scope: Scope, record: Mapping[str, Any], confidence: float | None
    ) -> dict[str, Any]:
        whom = "\0".join(f"{name}={value}" for name, value in scope.fields.items())
        memory_id = scope.place() + digest(f"{whom}\0{digest(text)}\0{record.get('valid_from')}")
        try:
            await self._client.set(self._prefix + memory_id, record, if_absent=True, confidence=confidence)
        except VersionMismatch:
            there = await self._client.get(self._prefix + memory_id)
            if is_record(there) and digest(there["memory"]) == digest(text) and holds(there, datetime.now(UTC)):
                return {"id": memory_id, "memory": text, "event": "NONE"}
            memory_id = scope.place() + token_hex(16)  # that one says something else by now
            await self._client.set(self._prefix + memory_id, record, confidence=confidence)
        return {"id": memory_id, "memory": text, "event": "ADD"}

    async def _all(self, scope: Scope, filters: Mapping[str, Any] | None, as_of: datetime | None) -> list[Entry]:
        entries = await self._client.entries(self._prefix + scope.folder)
        found = [entry for entry in entries if self._is_wanted(entry, scope, filters, as_of)]
        return sorted(found, key=lambda entry: (entry.value["created_at"], entry.key), reverse=True)

    async def _there(self, memory_id: str) -> Entry:
        entry = await self._client.entry(self._key(memory_id))
        if entry is None or not is_record(entry.value):
            raise InvalidRequest(f"there is no memory {memory_id!r}")
        return entry

    def _key(self, memory_id: str) -> str:
        expect(str, memory_id=memory_id)
        return self._prefix + memory_id

    def _id(self, key: str) -> str:
        return key[len(self._prefix) :]

    def _is_served(self, entry: Entry) -> bool:
        """Whether it is a memory, and nobody wrote at it who is not believed."""
        agents = {one.agent for one in (entry, *entry.siblings)}
        return is_record(entry.value) and (self._authors is None or agents <= self._authors)

    def _is_wanted(self, entry: Entry, scope: Scope, filters: Mapping[str, Any] | None, as_of: datetime | None) -> bool:
        record = entry.value
        if not self._is_served(entry) or not scope.covers(record) or not matches(record, filters):
            return False
        learnt = moment(record["created_at"])
        is_known = as_of is None or record.get("valid_from") is not None or learnt is None or learnt <= as_of
        return is_known and holds(record, as_of or datetime.now(UTC))


def _text(time: datetime | None) -> str | None:
    given = aware(time)
    return None if given is None else given.isoformat(timespec="milliseconds")
