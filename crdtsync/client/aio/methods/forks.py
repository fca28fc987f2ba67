"""Forks in the asyncio client: a copy of a space to try something in, and the way back."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crdtsync.client.aio.methods.base import AsyncMethods
from crdtsync.client.protocol.steps import limit_s
from crdtsync.errors import InvalidRequest, Refused, TooLarge, VersionMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crdtsync.client.aio.blob import AsyncBlob
    from crdtsync.client.aio.client import AsyncSession
    from crdtsync.client.aio.text import AsyncText
    from crdtsync.client.operations.batch import Batch
    from crdtsync.client.operations.checkpoints import Checkpoint
    from crdtsync.client.operations.forks import Merged, Names, State
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.results import Entry, Field, LogItem


class AsyncForkMethods(AsyncMethods):
    """The part of a session that forks its space, and merges a fork back."""

    async def fork(
        self,
        name: str,
        *,
        at: str | None = None,
        prefix: str | Iterable[str] = "",
        timeout: Seconds | None = None,
    ) -> str:
        """Make the space ``name`` with what this one holds now, or held ``at`` a checkpoint (``"checkpoint:NAME"``).

        Each key is copied, so it takes as long as to write all of them. Values, siblings, ``meta`` and ``confidence``
        come along, and a ``ttl`` begins anew; authors, history, schemas, rights and claims stay behind. Returns a
        token: where it has arrived, the fork is whole, and can be merged. It needs the checkpoint that it was made at,
        which is ``fork-NAME`` if none is given, until it has been merged.

        :param prefix: only keys that begin so, or with one of these.
        :raises InvalidRequest: there is a space of that name. That of a fork that was cut off, too: drop it first.
        """
        from crdtsync.client.operations import forks

        prefixes = [prefix] if isinstance(prefix, str) else list(prefix)
        base: AsyncSession = self.session()  # type: ignore[attr-defined]  # this is a part of it
        if at is not None:
            at = at.removeprefix("checkpoint:")
            try:  # else there would be a space, and nothing for it
                await base.session(at=f"checkpoint:{at}").keys(limit=1)
            except InvalidRequest as error:
                raise InvalidRequest(
                    f"{error.message}; a fork is made of a checkpoint, or of what is there now"
                ) from None
        made = await base.create_space(name, timeout=timeout)
        if not made.created:
            raise InvalidRequest(f"there is a space {name} already: drop it first, or choose another name")
        if at is None:
            at = f"{forks.FORKED}-{name}"
            await base.checkpoint(at, prefix=prefixes, note=f"forked as {name}", timeout=timeout)
        fork, past = base.session(space=name), base.session(at=f"checkpoint:{at}")
        carrying = AsyncCarrying(fork, timeout)
        for one in prefixes:
            for entry in await past.entries(one, timeout=timeout):
                if forks.is_carried(entry.key):
                    state = await carrying.state(past, entry)
                    carried = await carrying.carry(entry.key, None, state, forks.UNSEEN, {})
                    await carrying.take_in(entry.key, carried, state, None)
        await carrying.flush()
        note = json.dumps({"space": base.space, "checkpoint": at})
        return await fork.checkpoint(forks.FORKED, prefix=prefixes, note=note, timeout=timeout)

    async def merge_space(
        self,
        name: str,
        *,
        prefix: str = "",
        dry_run: bool = False,
        progress: Callable[[int], object] | None = None,
        timeout: Seconds | None = None,
    ) -> Merged:
        """Bring into this space what has changed in its fork ``name`` since it was forked, or merged last.

        The merge writes each key as an author would who had seen this space at the fork: changes made here meanwhile
        become siblings. Additions to logs, sets, maps and counters are added here, and edits of texts are made here;
        what cannot be merged is ``left``. Merged again, a fork brings only what is new. Up to 200 operations are one
        change; if a merge is cut off, do it again, and it goes on. If somebody else merges the fork on this host at
        the same time, both go on where the other has come. On two hosts at once an element of a log may be there
        twice, and a value beside itself; all else is there once.

        :param prefix: only keys that begin so.
        :param dry_run: write nothing, and say what would be done.
        :param progress: is called after each change with the number of its keys.
        :raises InvalidRequest: it is no fork of this space, or not here as a whole.
        :raises VersionMismatch: others merge it all the time.
        """
        from crdtsync.client.operations import forks

        merged = forks.Merged()
        base: AsyncSession = self.session()  # type: ignore[attr-defined]  # this is a part of it
        for meetings in range(forks.MEETINGS_MAX + 1):
            carrying = AsyncCarrying(base, timeout, forks.RECORDS + name, is_dry=dry_run, progress=progress)
            try:
                await self._merge(base, base.session(space=name), carrying, merged, prefix, timeout)
                break
            except VersionMismatch as error:
                if meetings == forks.MEETINGS_MAX:
                    raise VersionMismatch(
                        f"others merge {name} all the time: run it again", error.code, **error.details
                    ) from None
            finally:
                merged.token = carrying.token or merged.token
        for keys in (merged.written, merged.removed):
            keys[:] = sorted({*keys} - merged.left.keys())
        return merged

    async def _merge(
        self,
        base: AsyncSession,
        fork: AsyncSession,
        carrying: AsyncCarrying,
        merged: Merged,
        prefix: str,
        timeout: Seconds | None,
    ) -> None:
        """Merge once; what it does is added to what is ``merged``.

        :raises VersionMismatch: somebody else has merged meanwhile.
        """
        from crdtsync.client.operations import forks

        began, cut = await self._points(base, fork)
        merged.left = carrying.left = {key: why for key, why in merged.left.items() if why == forks.STAYS}
        await carrying.begin()  # and then it reads what was noted
        noted = await base.fields(forks.RECORDS + fork.space, timeout=timeout)
        now = await fork.now(timeout=timeout)
        records = forks.of_this_making(noted, now, fork.space)
        then, today = fork.session(at=f"checkpoint:{forks.FORKED}"), fork.session(at=now)
        old = {entry.key: entry for entry in await then.entries(prefix, timeout=timeout)}
        new = {entry.key: entry for entry in await today.entries(prefix, timeout=timeout)}
        ends = await self._ends(fork, prefix, records, len(new), timeout)
        past = base.session(at=f"checkpoint:{began.name}")
        for key in sorted({*old, *new, *(each for each in records if each.startswith(prefix))}):
            record, began_as, after = records.get(key), old.get(key), new.get(key)
            earlier, before = ends.get(key, (then, began_as))
            if forks.is_same(before, after) or not forks.is_carried(key):
                continue
            try:
                was = await carrying.state(earlier, before) if before is not None else None
                state = await carrying.state(today, after) if after is not None else None
                elements: dict[str, str] = {}
                if before is not None and began_as is not None and before.kind == began_as.kind == "log":
                    pairs = zip(await then.log_items(key), await past.log_items(key), strict=False)
                    elements = {there.dot: here.dot for there, here in pairs}
                since, totals = forks.counted_since(record), None
                if after is not None and after.kind == "counter":
                    since, totals = await self._counted(base, fork, carrying, key, now, record)
                elif "counter" in [each.kind for each in (before, began_as) if each is not None]:
                    since = now
                has_more = record is not None and record.value.get("earlier")
                here = await _version_of(base, key, timeout) if after is None or has_more else None
                seen = forks.seen_with(cut, record, here if has_more else None)
                carried = await carrying.carry(key, was, state, seen, elements, totals)
            except Refused as error:
                merged.left[key] = error.message
            else:
                await carrying.take_in(key, carried, state, now, since, forks.changes_of(record))
                if after is None and here is not None and forks.is_beyond(here, seen):
                    merged.left[key] = forks.STAYS
                else:
                    (merged.removed if after is None else merged.written).append(key)
        await carrying.flush()

    async def _counted(
        self, base: AsyncSession, fork: AsyncSession, carrying: AsyncCarrying, key: str, now: str, record: Field | None
    ) -> tuple[str | None, list[tuple[str, int, int]]]:
        """The totals of a counter that are to be written, and since when they count."""
        from crdtsync.client.operations import forks

        since = forks.counted_since(record)
        first = await carrying.names(fork.session(at=since or f"checkpoint:{forks.FORKED}"), key)
        last, here = await carrying.names(fork.session(at=now), key), await carrying.names(base, key)
        begin = forks.under(now, fork.space, since)
        if record is not None and record.value["at"] and not any(name.startswith(begin) for name in here):
            merged = await carrying.names(fork.session(at=record.value["at"]), key)
            if forks.brought(begin, first, merged, {}):  # and it was deleted since then
                since, first = record.value["at"], merged
                begin = forks.under(now, fork.space, since)
        totals = forks.brought(begin, first, last, here)
        return since, totals or ([] if here else [(begin, 0, 0)])

    async def _ends(
        self, fork: AsyncSession, prefix: str, records: dict[str, Field], keys_count: int, timeout: Seconds | None
    ) -> dict[str, tuple[AsyncSession, Entry | None]]:
        """By key, how far it was merged and what it was then. If it takes less than to read them one by one, those that
        came equally far are read in pages of all keys, about ``keys_count``.
        """
        from crdtsync.client.operations import forks

        found: dict[str, tuple[AsyncSession, Entry | None]] = {}
        for at, keys in forks.by_end(records.values(), prefix).items():
            past = fork.session(at=at)
            if len(keys) < forks.READS_A_PAGE * (1 + keys_count // forks.PAGE_KEYS):
                found |= {key: (past, await past.entry(key, timeout=timeout)) for key in keys}
            else:
                listed = {entry.key: entry for entry in await past.entries(prefix, timeout=timeout)}
                found |= {key: (past, listed.get(key)) for key in keys}
        return found

    async def _points(self, base: AsyncSession, fork: AsyncSession) -> tuple[Checkpoint, Any]:
        """The checkpoint at which ``base`` was forked, and what had been seen then."""
        from crdtsync.client.operations import forks

        made = [each for each in await fork.checkpoints() if each.name == forks.FORKED]
        said = forks.origin(fork.space, base.space, made)
        found = [each for each in await base.checkpoints() if each.name == said]
        began = forks.the_one(fork.space, base.space, said, found)
        return began, forks.vector_seen(began.cut, base.space)


class AsyncCarrying:
    """Writes into ``target``, some operations a change.

    ``records``: the map in which it notes what it has written, if any. ``is_dry``: it writes nothing.
    """

    def __init__(
        self,
        target: AsyncSession,
        timeout: Seconds | None,
        records: str = "",
        *,
        is_dry: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> None:
        self.token: str | None = None
        self.left: dict[str, str] = {}
        self._is_dry = is_dry
        self._progress = progress
        self._target = target
        self._timeout_s = limit_s(timeout, target.timeout_s)
        self._records = records
        self._version: str | None = None
        self._seen: str | None = None
        self._batch = self._new_batch()
        self._size_bytes = 0

    def _new_batch(self) -> Batch:
        from crdtsync.client.operations.batch import Batch

        return Batch(self._target._operations, None)  # noqa: SLF001  # of the same client

    async def begin(self) -> None:
        """Look at what was noted; from now on nobody else may note anything."""
        from crdtsync.client.operations.forks import vector_seen
        from crdtsync.wire.tokens import encode_version

        if self._records:
            self._version = await _version_of(self._target, self._records, self._timeout_s)
            self._seen = encode_version(vector_seen(await self._target.now(), self._target.space))

    async def state(self, session: AsyncSession, entry: Entry) -> State:
        """The state that an entry, listed by ``session``, stands for."""
        from crdtsync.client.operations.forks import State

        value: Any = entry.value
        items: list[LogItem] = []
        if entry.kind == "log":
            items = await session.log_items(entry.key)
        elif value is None and entry.kind == "set":
            value = await session.members(entry.key)
        elif value is None and entry.kind == "map":
            value = {each.name: each.value for each in await session.fields(entry.key)}
        elif entry.kind == "text":
            value = await session.text(entry.key).state()
        elif entry.kind == "blob":
            value = await session.get_blob(entry.key)
        elif value is None and entry.kind != "register":
            value = await session.get(entry.key)
        return State(entry, value, items)

    async def names(self, session: AsyncSession, key: str) -> Names:
        """What a counter has counted under each name; nothing if the key is no counter."""

        def learn(reply: dict[str, Any] | None) -> Names:
            return reply.get("names", {}) if reply else {}

        operations = session._operations  # noqa: SLF001  # of the same client
        call = operations.read_call("get", {"key": key, "names": True}, None, self._timeout_s, learn)
        return await session.run(call, self._timeout_s)

    async def carry(
        self,
        key: str,
        before: State | None,
        after: State | None,
        seen: str,
        elements: dict[str, str],
        totals: list[tuple[str, int, int]] | None = None,
    ) -> tuple[Batch, str | None]:
        """What makes of ``before`` what ``after`` is, to be taken in; and what was written of it by a change of its
        own.
        """
        from crdtsync.client.operations import forks

        parts = self._new_batch()
        if after is not None and after.entry.kind == "text":
            return parts, await self._carry_text(key, before, after)
        if after is not None and after.entry.kind == "blob":
            return parts, await self._carry_blob(key, after, seen)
        forks.carry(parts, key, before, after, seen, elements, totals)
        return parts, None

    async def take_in(
        self,
        key: str,
        carried: tuple[Batch, str | None],
        after: State | None,
        point: str | None,
        since: str | None = None,
        earlier: list[list[int]] | None = None,
    ) -> None:
        """Write it, sooner or later; ``point`` is noted as how far this key has come, ``since`` when its counts are
        written, and which changes brought it ``earlier``.
        """
        from crdtsync.client.operations import forks

        parts, version = carried
        if len(self._batch) + len(parts) > forks.OPERATIONS_MAX or self._size_bytes > forks.BYTES_MAX:
            await self.flush()
        self._batch.take_in(parts.recorded)
        if self._records and point is not None:
            note: dict[str, Any] = {"at": point, "seen": version, "from": since} | (
                {"earlier": earlier} if earlier else {}
            )
            self._batch.merge(self._records, {key: note}, seen=self._seen, **self._condition())
        self._size_bytes += 0 if after is None else forks.size_of(after)

    def _condition(self) -> dict[str, Any]:
        """The condition of the first note of a change: nobody else has noted anything since."""
        if any(write.arguments["key"] == self._records for write in self._batch.recorded):
            return {}
        return {"if_absent": True} if self._version is None else {"if_version": self._version}

    async def _carry_text(self, key: str, before: State | None, after: State) -> str | None:
        from crdtsync.client.text import carrying

        text = self._target.text(key)
        was = before.value if before is not None and before.entry.kind == "text" else None
        held = await text.state(timeout=self._timeout_s)
        if carrying.is_one(was, after.value, held):
            for parts_max in carrying.PARTS_MAX:
                with suppress(TooLarge):
                    return await self._apply(text, carrying.lacking(after.value, held, parts_max))
                held = await text.state(timeout=self._timeout_s)
        content, earlier = carrying.plain(after.value), "" if was is None else carrying.plain(was)
        there = await text.read(timeout=self._timeout_s)
        if content not in (there, earlier) and there != earlier:
            raise InvalidRequest("its text was edited here too since then, and one of the two was made anew")
        if self._is_dry or content in (there, earlier):
            return None
        return (await text.set(content, timeout=self._timeout_s)).version

    async def _apply(self, text: AsyncText, updates: Iterable[bytes]) -> str | None:
        """Make edits under the ids that they have: each is there once, however often it is made."""
        version = None
        for update in [] if self._is_dry else updates:
            version = (await text.apply(update, timeout=self._timeout_s)).version
        return version

    async def _carry_blob(self, key: str, after: State, seen: str) -> str | None:
        source: AsyncBlob = after.value
        there = await self._target.entry(key)
        if there is not None and there.kind == "blob" and there.value["sha256"] == source.sha256:
            return there.version  # a merge that was cut off has brought it
        if self._is_dry:
            return None
        written = await self._target._copy_blob(source, seen, after.entry.ttl)  # noqa: SLF001  # of the same client
        return written.version

    async def flush(self) -> None:
        """Write what is collected; keys to which something is refused are ``left``.

        :raises VersionMismatch: somebody else has noted something since :meth:`begin`, or right after this change.
        """
        from crdtsync.client.operations import forks
        from crdtsync.client.operations.batch import tell_of_one

        batch, self._batch, self._size_bytes = self._batch, self._new_batch(), 0
        if self._is_dry:
            return
        try:
            token = await self._target.run(batch.commit(self._timeout_s), self._timeout_s)
        except Refused as refusal:
            index = tell_of_one(refusal)
            key = None if index is None else str(batch.recorded[index].arguments["key"])
            if key is None or self._records in ("", key):
                raise
            self.left[key] = refusal.message
            self._batch.take_in(forks.without(key, batch.recorded, self._records))
            await self.flush()
            return
        if token is not None:
            self.token, seen = token, self._seen
            if self._progress is not None:
                self._progress(sum(write.arguments["key"] == self._records for write in batch.recorded))
            await self.begin()
            if seen and self._version and forks.is_ahead(self._version, seen, token, self._target.space):
                raise VersionMismatch("somebody else has merged meanwhile")


async def _version_of(session: AsyncSession, key: str, timeout: Seconds | None) -> str | None:
    """That of a key, but not its value, which may be too long to be read, or damaged; None: the key is absent."""
    found = await session.entries(key, limit=1, values=False, timeout=timeout)
    return found[0].version if found and found[0].key == key else None
