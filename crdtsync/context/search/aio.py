"""The search of one client."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from asyncio import sleep, to_thread
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from crdtsync.client import AsyncClient, AsyncSession, Changes, Entry
from crdtsync.context.given import expect
from crdtsync.context.search.index import UNFINISHED, Found, Index, Wanted
from crdtsync.context.search.meaning import Meaning
from crdtsync.context.search.passages import Said
from crdtsync.context.view.aio import listed, whole
from crdtsync.errors import DamagedValue, InvalidEncoding, Refused, TooOld, UnknownSpace

_PAGE_KEYS = 100  # of 1 MiB each at most
_TOGETHER = 2_000  # short entries that go into the index at once
_LONG_CHARS = 10_000
_LOOK_AGAIN_S = 0.1
_LINES = "sessions.lines/"


class AsyncSearch:
    """Finds entries of a space by their words; with ``meaning`` also by what they mean, in English.

    ``folder`` is where indexes are kept, by default a cache of this user. The first search of a space reads all of it.
    ``meaning`` has an index of its own, and needs ``pip install 'crdtsync[meaning]'``. What the search reads does not
    count as read by the client's session.
    """

    def __init__(
        self, client: AsyncClient | AsyncSession, *, folder: str | os.PathLike[str] | None = None, meaning: bool = False
    ) -> None:
        expect(AsyncSession, client=client)
        expect(str | os.PathLike | None, folder=folder)
        self._session = client.session()
        self._folder = cache_folder() if folder is None else Path(folder)
        self._meaning = Meaning() if meaning else None
        self._index: Index | None = None
        self._rules: object = None

    async def search(
        self,
        query: str,
        *,
        prefix: str = "",
        agent: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        limit: int = 10,
    ) -> list[Found]:
        """The entries that speak of ``query``, the best first: at most ``limit``, each with its best passage.

        An entry that has one of the words is found; the more of them, and the rarer, the better it fits. English words
        are found in their other forms, too. ``agent`` and ``kind`` are of the entry, ``since`` is when it was written.
        All that this host holds when the search begins is looked through, also what was said in saved sessions, but
        for what is there for programs (``context.full/``, ``views/``, ``claims/`` and so on): there the ``prefix`` must
        begin so.

        :raises InvalidRequest: ``limit`` is not between 1 and 1,000, or something is of another type.
        :raises NotAllowed: no key with this ``prefix`` may be read.
        :raises CrdtSyncError: the folder of the indexes cannot be used.
        """
        wanted = Wanted(query, prefix, agent, kind, since, limit)
        try:
            found = await self._found(wanted)
        except sqlite3.DatabaseError:  # it was damaged, and has been forgotten
            found = await self._found(wanted)
        if not found and prefix:
            await self._session.keys(prefix, limit=1)  # refused, with the reason, if this agent may read none of it
        return found

    async def _found(self, wanted: Wanted) -> list[Found]:
        index = await self._opened()
        while True:
            if await self._catch_up(index):
                return await to_thread(index.search, wanted)
            await sleep(_LOOK_AGAIN_S)  # another process is at it

    async def _opened(self) -> Index:
        """The index of what this agent may read, which is another one when the rules have changed."""
        rules: object = None
        with suppress(UnknownSpace):  # it was dropped, and perhaps made anew
            rules = (await self._session.access_list())["rules"]
        if self._index is None or rules != self._rules:
            status = await self._session.status()
            reader = (self._session.agent, repr(rules)) if status.get("limited") else ("", "")
            names = (status["node"]["id"], self._session.space, *reader, *(["meaning"] if self._meaning else []))
            name = hashlib.sha256("\0".join(names).encode()).hexdigest()[:32]
            self._index, self._rules = Index(self._folder / f"{name}.db", self._meaning), rules
        return self._index

    async def _catch_up(self, index: Index) -> bool:
        """Bring the index up to date; False: somebody else is at it, or has done so meanwhile."""
        before, known = await to_thread(index.state)
        changes = await self._changes(before)
        if changes.token == before and not known.endswith(UNFINISHED):
            return True
        purged = await self._purged()
        if purged != known:
            changes = await self._changes(before)  # with all that these purges have removed
        elif changes.token == before:
            return True
        builder = await to_thread(index.begin, before, changes.gone, anew=changes.is_all)
        if builder is None:
            return False
        async for entries in self._pages(changes, index):
            if not await to_thread(index.add, builder, entries, anew=changes.is_all):
                return False
        return await to_thread(index.end, builder, changes.token, purged)

    async def _changes(self, before: str | None) -> Changes:
        try:
            return await self._session.changes(after=before)
        except (TooOld, UnknownSpace):  # the space was dropped, and perhaps made anew
            return await self._session.changes()

    async def _purged(self) -> str:
        """A name for the purges of the space, and for what this host has done of them; "": there are none."""
        try:
            purges = await self._session.purges()
        except Refused:  # by an older daemon
            return ""
        if not purges:
            return ""
        name = hashlib.sha256(repr([(one.dot, one.done) for one in purges]).encode()).hexdigest()
        return name if all(one.done for one in purges) else name + UNFINISHED

    async def _pages(self, changes: Changes, index: Index) -> AsyncIterator[list[Entry]]:
        """The changes, so much at a time as fits into memory whatever the space holds."""
        if len(changes.changed) < _PAGE_KEYS and not changes.is_all:
            for key in changes.changed:
                entry = await listed(self._session, key)
                if entry is not None:
                    yield [await self._whole(entry, index)]
            return
        wanted = set(changes.changed)
        start: str | None = None
        found: list[Entry] = []
        while True:
            page = await self._session.entries("", start=start, limit=_PAGE_KEYS)
            found += [await self._whole(entry, index) for entry in page if changes.is_all or entry.key in wanted]
            is_last = len(page) < _PAGE_KEYS
            if is_last or len(found) >= _TOGETHER or any(len(str(entry.value)) > _LONG_CHARS for entry in found):
                yield found
                found = []
            if is_last:
                return
            start = page[-1].key

    async def _whole(self, entry: Entry, index: Index) -> Entry:
        """``entry`` with its value, which a listing leaves out of what is large; of a saved session what was said."""
        if entry.kind == "log" and entry.key.startswith(_LINES):
            return replace(entry, value=await self._said(entry.key, index))
        return await whole(self._session, entry)

    async def _said(self, key: str, index: Index) -> Said:
        """The texts of a saved session since it was read last, or all of it."""
        from crdtsync.sessions.searching import header_of, said  # noqa: PLC0415  # a door: that stands above

        header, record, found = header_of(key), None, None
        with suppress(Refused):  # who may read the lines alone does not learn whose they are
            record = await self._session.get(header) if header else None
        mark = await to_thread(index.mark, key)
        if mark is not None:
            new = await self._session.log(key, start=mark[0] - 1)
            found = await to_thread(said, record, new, mark, await self._large(key, record, new[1:]))
        if found is None:
            every = await self._session.log(key)
            found = await to_thread(said, record, every, None, await self._large(key, record, every))
        return found or Said((), None)

    async def _large(self, key: str, record: object, elements: list[Any]) -> dict[bytes, Any]:
        """The texts of the large lines among ``elements`` of a session's log, by their digests."""
        from crdtsync.sessions.searching import LARGE_BYTES_MAX, blobs_of, said_in_large  # noqa: PLC0415  # a door, likewise

        found: dict[bytes, Any] = {}
        for place, element in blobs_of(key, elements).items():
            with suppress(Refused, DamagedValue, InvalidEncoding):  # anybody may write what is none
                blob = await self._session.get_blob(place)
                if blob is not None and blob.size <= LARGE_BYTES_MAX:
                    found[element[2]] = await to_thread(said_in_large, record, element, await blob.read())
        return found


def cache_folder() -> Path:
    """Where this user's indexes are."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crdtsync" / "search"
