"""The shared context for asyncio."""

from __future__ import annotations

import os
from asyncio import to_thread
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from crdtsync.client import AsyncClient, AsyncSession, Entry
from crdtsync.context.given import expect, expect_count
from crdtsync.context.shared.entry import (
    ContextEntry,
    SharedContextStats,
    change_of,
    entry_from,
    oldest,
    puts_in,
    record,
    stats_of,
    unpacked,
)
from crdtsync.context.tokens import DEFAULT_MODEL, tokenizer
from crdtsync.errors import VersionMismatch


class AsyncSharedContext:
    """The entries that agents hand each other, compact by default, on all hosts.

    ``client`` is a client, or the path of a daemon's socket (None: the usual one). What is put lives for ``ttl``
    seconds. When a new key makes more than ``max_entries``, the oldest ones go; putting a key again makes none go.
    Two hosts that were cut off may hold more until the next put. An entry put meanwhile by another agent is never taken
    for old: an entry goes only at the version that was looked at. ``by`` is as of :func:`~crdtsync.context.compress`.

    Under asyncio, use it as ``async with AsyncSharedContext() as context``, or close a client of your own.
    """

    def __init__(
        self,
        client: AsyncClient | AsyncSession | str | os.PathLike[str] | None = None,
        *,
        model: str = DEFAULT_MODEL,
        ttl: float | None = 3600,
        max_entries: int = 100,
        prefix: str = "context/",
        by: str = "rules",
    ) -> None:
        expect(AsyncSession | str | os.PathLike | None, client=client)
        expect_count(1, max_entries=max_entries)
        expect(str, prefix=prefix)
        self._owned = None if isinstance(client, AsyncSession) else AsyncClient(client)
        self._client = client if isinstance(client, AsyncSession) else self._owned or AsyncClient()
        self.model = tokenizer(model).model
        self.ttl = ttl
        self.max_entries = max_entries
        self._by = by
        self._prefix = prefix.rstrip("/") + "/"
        self._full = prefix.rstrip("/") + ".full/"
        self._blob = prefix.rstrip("/") + ".blob/"

    async def put(self, key: str, content: Any, *, agent: str | None = None, kind: str = "auto") -> ContextEntry:
        """Store ``content`` under ``key``, compressed once for all readers; durable on this host on return.

        ``content`` is a str, bytes or any value that a key can hold; what is over 512 KiB as text goes into a blob, so
        its length is that of the daemon's ``blob_bytes_max``. ``kind`` is as of :func:`~crdtsync.context.compress`.
        """
        expect(str, key=key)
        expect(str | None, agent=agent)
        value, packed = await to_thread(record, key, content, agent, kind, self.model, self._by)
        if packed is not None:  # the blob comes first: whoever sees the compact text finds all of it
            await self._client.put_blob(self._blob + key, packed, ttl=self.ttl)
        async with self._client.batch() as batch:
            batch.set(self._prefix + key, value, ttl=self.ttl)
            if packed is None:
                batch.set(self._full + key, content, ttl=self.ttl)
                batch.delete(self._blob + key)
            else:
                batch.delete(self._full + key)
        await self._evict(key)
        stored = await self._client.entry(self._prefix + key)
        if stored is None:  # expired or deleted by somebody else already
            raise VersionMismatch(f"{key!r} was removed while it was being put")
        return entry_from(key, stored, content)

    async def get(self, key: str, *, full: bool = False) -> Any:
        """The compact text of ``key``, or with ``full`` what was put, value for value; None if there is none.

        What hosts that were cut off have both put stands in the text one after the other, each after its author, until
        somebody puts it again; ``full`` gives one of them, and :meth:`get_entry` all.
        """
        found = await self._found(key, full=full)
        return None if found is None else found.original if full else found.text

    async def get_entry(self, key: str) -> ContextEntry | None:
        """All that is known of ``key``, with the original; None if there is none."""
        return await self._found(key, full=True)

    async def keys(self) -> list[str]:
        """The keys that are there, sorted."""
        return [key[len(self._prefix) :] for key in await self._client.keys(self._prefix)]

    async def stats(self) -> SharedContextStats:
        """How many entries there are, and what they take and save."""
        return stats_of(value for _, value in await self._client.items(self._prefix))

    async def clear(self) -> int:
        """Remove every entry that this host shows; how many these were."""
        keys = await self.keys()
        for key in keys:
            await self._remove(key, None)
        return len(keys)

    async def close(self) -> None:
        """Close the client that this made for itself; one that was handed in stays open."""
        if self._owned is not None:
            await self._owned.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _found(self, key: str, *, full: bool) -> ContextEntry | None:
        expect(str, key=key)
        stored = puts_in(await self._client.entry(self._prefix + key))
        if not stored:
            return None
        originals = await self._originals(key, stored) if full else {}
        first, *others = (entry_from(key, one, originals.get(change_of(one))) for one in stored)
        return replace(first, siblings=tuple(others))

    async def _originals(self, key: str, stored: list[Entry]) -> dict[str, Any]:
        """The entries put, by the change; of several that are large the one that comes first."""
        whole = await self._client.entry(self._full + key)
        found = {change_of(one): one.value for one in (whole, *whole.siblings)} if whole is not None else {}
        large = next((one for one in stored if one.value.get("packed")), None)
        blob = await self._client.get_blob(self._blob + key) if large is not None else None
        if large is not None and blob is not None:
            found[change_of(large)] = unpacked(await blob.read(), large.value["packed"])
        return found

    async def _evict(self, spared: str) -> None:
        entries = await self._client.entries(self._prefix, values=False)
        for entry in oldest(entries, self.max_entries, self._prefix + spared):
            await self._remove(entry.key[len(self._prefix) :], entry.version)

    async def _remove(self, key: str, version: str | None) -> None:
        """Remove both keys of an entry, if it is still at ``version``."""
        try:
            async with self._client.batch() as batch:
                batch.delete(self._prefix + key, if_version=version)
                batch.delete(self._full + key)
                batch.delete(self._blob + key)
        except VersionMismatch:
            pass  # somebody has put it again: it is new
