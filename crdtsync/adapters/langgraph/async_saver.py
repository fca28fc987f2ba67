"""The checkpointer for asyncio."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from langgraph.checkpoint.base import get_checkpoint_id

from crdtsync.adapters.async_attached import AsyncAttached
from crdtsync.adapters.langgraph.branching import MERGED, Branches, additions
from crdtsync.adapters.langgraph.checkpoints import (
    CHECKPOINTS,
    KINDS,
    PARTS,
    VALUES,
    WRITES,
    Histories,
    Layout,
    Record,
    Stored,
    Values,
    config_of,
    next_version,
    place_of,
)
from crdtsync.adapters.langgraph.in_threads import CallsInThreads
from crdtsync.adapters.langgraph.records import DamagedCheckpoint, Write, changes
from crdtsync.client import AsyncSession
from crdtsync.errors import VersionMismatch

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.pregel import Pregel

log = logging.getLogger(__name__)

TOLD_MAX = 1_000  # damages of which one saver remembers that the log has a warning
PAGE = 256  # keys that are fetched at once


class AsyncCrdtSaver(CallsInThreads, AsyncAttached):
    """Keeps the checkpoints of a graph on this host's disk and on every other host.

    Arguments are those of :class:`~crdtsync.adapters.async_attached.AsyncAttached`.

    A checkpoint of which something is missing, or is not what was written there, is skipped, with a warning in the log:
    the one before it is used. To ask for just that one gets :class:`DamagedCheckpoint`.

    A value of a channel has at most 64 MiB. One of a class of your own is read back as a dict, unless ``serde`` allows
    the class, as ``JsonPlusSerializer(allowed_msgpack_modules=[YourClass])`` does, or ``LANGGRAPH_STRICT_MSGPACK=true``
    those of the graph's state: what other agents write calls nothing else.

    The rule ``redact`` is applied to each text in the channels, in what tasks write, and in the metadata. A run
    that goes on keeps its texts until it is loaded.

    Under asyncio, use it as ``async with AsyncCrdtSaver() as saver``, or close a client of your own.
    """

    def __init__(
        self,
        client: AsyncSession | str | os.PathLike[str] | None = None,
        *,
        prefix: str = "langgraph",
        w: int | str | None = None,
        serde: SerializerProtocol | None = None,
        redact: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__(serde=serde)  # type: ignore[call-arg]  # of a class that mypy does not see
        AsyncAttached.__init__(self, client, prefix=prefix, w=w, redact=redact)
        self._layout = Layout(prefix, redact)

    async def setup(self) -> None:
        """Nothing is to be made first; programs call it, since other savers ask for it."""

    def at(self, point: str | datetime | timedelta) -> Self:
        """This saver as of a token, a time, so long ago, or ``checkpoint:NAME``. It reads, and writes nothing."""
        past = copy(self)
        past.__dict__.update(_client=self._client.session(at=point), _owned=None)
        return past

    def get_next_version(self, current: str | float | None, channel: None) -> str:
        """The version of a channel after ``current``."""
        return next_version(current)

    # -- reads --------------------------------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that ``config`` names, else the newest one of its thread and namespace; None if there is none.

        :raises DamagedCheckpoint: the one that it names is not whole.
        """
        place = place_of(config)
        wanted = get_checkpoint_id(config)
        if wanted is None:
            newest = None
            async for newest in self.alist(config_of(*place, ""), limit=1):  # noqa: B007  # it ends after one
                pass
            return newest
        for key, stored in (await self._one(*place, wanted)).items():
            record = self._layout.record(self.serde, key, await self._with_parts(stored))
            values = Values(self._layout, self.serde)
            await self._fill(values, [record])
            return await self._load(record, values)
        return None

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The history to rebuild delta channels from, of the checkpoints on the way to that of ``config``."""
        histories = Histories(channels)
        after = await self.aget_tuple(config)
        while after is not None and after.parent_config is not None and histories.left:
            before = await self.aget_tuple(after.parent_config)
            if before is not None:
                histories.add(self.serde, after, before)
            after = before
        return histories.found()

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, newest first: of the thread and namespace that ``config`` names, whose metadata has what
        ``filter`` says, older than ``before``, at most ``limit``.
        """
        left = limit
        if limit is not None and limit <= 0:
            return
        values = Values(self._layout, self.serde)
        async for page in self._pages(config, before, limit):
            records = await self._records(page, filter or {})
            await self._fill(values, records)
            for record in records:
                try:
                    found = await self._load(record, values)
                except DamagedCheckpoint as damage:
                    await self._skip(record.key, damage)
                    continue
                yield found
                left = None if left is None else left - 1
                if left == 0:
                    return

    async def _pages(
        self, config: RunnableConfig | None, before: RunnableConfig | None, limit: int | None
    ) -> AsyncIterator[Stored]:
        """Checkpoints as they are stored, newest first."""
        configurable = config["configurable"] if config else {}
        thread, namespace = configurable.get("thread_id"), configurable.get("checkpoint_ns")
        names = [] if thread is None else [str(thread)] if namespace is None else [str(thread), namespace]
        until = get_checkpoint_id(before) if before else None
        size = PAGE if limit is None else min(limit, PAGE)
        if wanted := configurable.get("checkpoint_id"):
            if until is None or wanted < until:
                yield await self._one(str(thread), namespace or "", wanted)
            return
        if len(names) == 1:
            below = await self._client.keys(self._layout.below(CHECKPOINTS, *names), delimiter="/")
            if len(below.prefixes) == 1:
                names = self._layout.names(below.prefixes[0])[:2]
        if len(names) == 2:
            start = end = None if until is None else self._layout.key(CHECKPOINTS, *names, until)
            size = min(size * self._layout.keys_of_one, PAGE)
            prefix = self._layout.below(CHECKPOINTS, *names)
            left: Stored = {}
            while page := await self._client.items(prefix, start=start, limit=size, reverse=True):
                found, left = self._layout.grouped(page, left)
                for key in [key for key in found if end is not None and end.startswith(key)]:
                    found |= await self._one(*self._layout.names(key))  # what its tasks have written stands after `end`
                yield found
                start, size = page[-1][0], min(2 * size, PAGE)
        else:
            found_keys = await self._client.keys(self._layout.below(CHECKPOINTS, *names), reverse=True)
            keys, _ = self._layout.grouped(((key, None) for key in found_keys), {})
            by_id = sorted(((each[2], key) for key in keys if len(each := self._layout.names(key)) == 3), reverse=True)
            chosen = [key for name, key in by_id if until is None or name < until]
            while chosen:
                part, chosen = chosen[:size], chosen[size:]
                held = await self._client.get_many([key for head in part for key in keys[head]])
                yield {head: {key: held[key] for key in keys[head] if key in held} for head in part if head in held}
                size = min(2 * size, PAGE)

    async def _one(self, thread: str, namespace: str, checkpoint_id: str) -> Stored:
        """The checkpoint with an id, as it is stored, if there is one."""
        key = self._layout.key(CHECKPOINTS, thread, namespace, checkpoint_id)
        found, _ = self._layout.grouped(await self._client.items(key, reverse=True), {})
        return {key: found[key]} if key in found else {}

    async def _with_parts(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """The stored value, with the parts of it that have keys of their own."""
        parts = self._layout.part_keys(stored)
        return {**stored, **(await self._client.get_many(parts))} if parts else dict(stored)

    async def _records(self, page: Stored, wanted: Mapping[str, Any]) -> Sequence[Record]:
        """The checkpoints of a page whose metadata has what is wanted."""
        records = []
        for key, stored in page.items():
            try:
                record = self._layout.record(self.serde, key, await self._with_parts(stored))
            except DamagedCheckpoint as damage:
                await self._skip(key, damage)
            else:
                if all(record.metadata.get(name) == value for name, value in wanted.items()):
                    records.append(record)
        return records

    async def _skip(self, key: str, damage: DamagedCheckpoint) -> None:
        told, why = self._layout.told, str(damage)
        if why not in told and await self._client.get(key) is not None:  # else somebody has removed it just now
            if len(told) >= TOLD_MAX:
                told.clear()
            told.add(why)
            log.warning("a checkpoint is not whole, the one before it is used: %s", why)

    async def _fill(self, values: Values, records: Sequence[Record]) -> None:
        """Read what these checkpoints have of their channels, but what the page before has brought."""
        if lacking := values.lacking(records):
            values.take(await self._with_parts(await self._client.get_many(lacking)))

    async def _load(self, record: Record, values: Values) -> CheckpointTuple:
        """A checkpoint with the values of its channels and what tasks have written since."""
        self._layout.keys_of_one = len(record.stored)
        if not record.has_writes_beside:
            below = self._layout.below(WRITES, record.thread, record.namespace, record.id)
            more = await self._with_parts(dict(await self._client.items(below)))
            record = record._replace(stored={**record.stored, **more})
        return self._layout.tuple_of(record, values.of(record), self._layout.pending(self.serde, record))

    # -- writes -------------------------------------------------------------------------------------------------

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, on disk on return; the configuration that names it."""
        await self._write(self._layout.put(self.serde, config, checkpoint, metadata, new_versions))
        thread, namespace = place_of(config)
        return config_of(thread, namespace, checkpoint["id"])

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task has written after a checkpoint; what it has stored there before stays."""
        wanted = [*self._layout.put_writes(self.serde, config, writes, task_id, task_path)]
        while True:
            try:
                await self._write(wanted)
            except VersionMismatch:
                there = await self._client.get_many([write.key for write in wanted if write.if_absent])
                wanted = [write for write in wanted if not write.if_absent or write.key not in there]
            else:
                return

    async def _write(self, writes: Iterable[Write]) -> None:
        for change in changes(writes):
            async with self._client.batch(w=self._w) as batch:
                for write in change:
                    batch.set(write.key, write.value, meta=write.meta, if_absent=write.if_absent)

    # -- branches -----------------------------------------------------------------------------------------------

    async def abranches(self, config: RunnableConfig) -> Sequence[RunnableConfig]:
        """The checkpoints of a thread and namespace that no other goes on from, newest first: one for each branch."""
        place = place_of(config)
        return [config_of(*place, each) for each in (await self._branches(*place)).heads()]

    async def amerge_branch(
        self,
        graph: Pregel[Any, Any, Any, Any],
        branch: RunnableConfig,
        values: Mapping[str, Any] | None = None,
        as_node: str | None = None,
    ) -> RunnableConfig:
        """Bring what a branch has added into the newest one of its thread; the configuration of the new checkpoint.

        A channel with a reducer gets, through that, what the branch has added since it left the other. A channel
        without one gets the branch's value, if it has not changed in the other. ``values`` says for some channels what
        they get. LangGraph's ``update_state`` writes all this, as if ``as_node`` had returned it.

        :raises ValueError: nobody can tell what was added to a channel, or what both have in common was pruned.
        """
        place = place_of(branch)
        known = await self._branches(*place)
        wanted = branch["configurable"]["checkpoint_id"]
        newest = known.heads()[0]
        if known.has(newest, wanted):
            return config_of(*place, newest)
        said = dict(values or {})
        held: dict[str, dict[str, Any]] = {}
        for each in sorted({newest, wanted} | known.needed(newest, wanted)):
            found = (await graph.aget_state(config_of(*place, each))).values
            held[each] = {name: value for name, value in found.items() if name not in said}
        before = known.base(graph.channels, held, (newest,), wanted)
        update = {**additions(graph.channels, before, held[wanted], held[newest]), **said}
        target: RunnableConfig = {**config_of(*place, newest), "metadata": {MERGED: wanted}}
        return await graph.aupdate_state(target, update, as_node)

    async def _branches(self, thread: str, namespace: str) -> Branches:
        found: list[Record] = []
        async for page in self._pages(config_of(thread, namespace, ""), None, None):
            found += await self._records(page, {})
        return Branches(found)

    # -- whole threads ------------------------------------------------------------------------------------------

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove all checkpoints of a thread, and all that belongs to them."""
        for kind in KINDS:
            await self._client.delete_prefix(self._layout.below(kind, str(thread_id)), w=self._w)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread, after all that belongs to them: so where one is there, all of it is."""
        for kind, is_head in [*((kind, False) for kind in reversed(KINDS)), (CHECKPOINTS, True)]:
            source = self._layout.below(kind, str(source_thread_id))
            target = self._layout.below(kind, str(target_thread_id))
            start = None
            while page := await self._client.entries(source, start=start, limit=PAGE):
                await self._write(
                    Write(target + entry.key[len(source) :], entry.value, entry.meta)
                    for entry in page
                    if (kind == CHECKPOINTS and len(self._layout.names(entry.key)) == 3) == is_head
                )
                start = page[-1].key

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of some runs, of all threads, with what nobody else needs of them."""
        doomed: dict[tuple[str, str], set[str]] = {}
        for run_id in run_ids:
            for key in await self._client.keys(self._layout.below(CHECKPOINTS), where_meta={"run_id": run_id}):
                names = self._layout.names(key)
                if len(names) == 3:
                    doomed.setdefault((names[0], names[1]), set()).add(names[2])
        for (thread, namespace), ids in sorted(doomed.items()):
            await self._remove(thread, namespace, ids)

    async def aprune(
        self, thread_ids: Sequence[str] | None, *, strategy: str = "keep_latest", older_than: timedelta | None = None
    ) -> None:
        """Remove all checkpoints of some threads (None: of all) but the newest whole one of each namespace, or with
        ``strategy="delete"`` all of them. With ``older_than`` those alone that were stored longer ago.

        What delta channels of those that stay stand on stays too. Prune threads that nobody runs meanwhile: a branch
        that another host begins at an older checkpoint at this moment would lose what it stands on.
        """
        if strategy not in ("keep_latest", "delete") or (strategy == "delete" and older_than is not None):
            message = f"strategy is {strategy!r}, not 'keep_latest' or 'delete'; older_than goes with 'keep_latest'"
            raise ValueError(message)
        if isinstance(thread_ids, str):
            message = f"thread_ids is the string {thread_ids!r}: give a list of threads"
            raise TypeError(message)
        if not issubclass(type(older_than), timedelta | None) or (older_than or timedelta(0)) < timedelta(0):
            message = f"older_than is {older_than!r}: give a timedelta that is not negative, such as timedelta(days=30)"
            raise ValueError(message)
        since = None if older_than is None else datetime.now(UTC) - older_than
        if thread_ids is None:
            threads = await self._client.keys(self._layout.below(CHECKPOINTS), delimiter="/")
            thread_ids = [self._layout.names(prefix)[0] for prefix in threads.prefixes]
        for thread_id in map(str, thread_ids):
            if strategy == "delete":
                await self.adelete_thread(thread_id)
                continue
            below = await self._client.keys(self._layout.below(CHECKPOINTS, thread_id), delimiter="/")
            for prefix in below.prefixes:
                await self._prune(thread_id, self._layout.names(prefix)[1], since)

    async def _prune(self, thread: str, namespace: str, since: datetime | None) -> None:
        """Remove what is not needed of a namespace, and was stored before a time."""
        self._layout.kept.forget()
        found = await self._client.entries(self._layout.below(CHECKPOINTS, thread, namespace), values=False)
        newest = await self.aget_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": namespace}})
        if newest is None:
            return  # none of them is whole
        ids: dict[str, datetime | None] = {}
        for entry in found:  # a checkpoint before what tasks have written after it, of which it may be gone
            ids.setdefault(self._layout.names(entry.key)[2], entry.time)
        young = {each for each, time in ids.items() if since is not None and (time is None or time >= since)}
        kept = {*young}
        for each in sorted({newest.checkpoint["id"], *young}):
            kept |= await self._ground(thread, namespace, each)
        older = {each for each in ids if each < newest.checkpoint["id"]}  # newer ones may be whole to somebody else
        if doomed := older - kept:
            await self._remove(thread, namespace, doomed)

    async def _ground(self, thread: str, namespace: str, checkpoint_id: str) -> set[str]:
        """A checkpoint, and those before it that its delta channels stand on."""
        kept: set[str] = set()
        needed: set[str] = set()
        each: str | None = checkpoint_id
        while each is not None:
            key = self._layout.key(CHECKPOINTS, thread, namespace, each)
            stored = await self._client.get_many([key])
            if key not in stored:
                break
            kept.add(each)
            try:
                record = self._layout.record(self.serde, key, await self._with_parts(stored))
            except DamagedCheckpoint:
                break
            if each == checkpoint_id:
                needed = set(record.metadata.get("counters_since_delta_snapshot") or ())
            needed -= record.value_keys.keys()
            each = record.parent if needed else None
        return kept

    async def _remove(self, thread: str, namespace: str, doomed: set[str]) -> None:
        """Remove some checkpoints of a namespace, and the values that no other one has."""
        place = thread, namespace
        values = await self._client.keys(self._layout.below(VALUES, *place))
        parts = await self._client.keys(self._layout.below(PARTS, *place))
        needed: set[str] = set()
        is_known = True  # which values those have that are left
        async for page in self._pages(config_of(*place, ""), None, None):
            for key, stored in page.items():
                if self._layout.names(key)[2] not in doomed:
                    try:
                        record = self._layout.record(self.serde, key, await self._with_parts(stored))
                        needed.update(record.value_keys.values())
                    except DamagedCheckpoint as damage:
                        await self._skip(key, damage)
                        is_known = False
        for kind in (CHECKPOINTS, WRITES):
            stored_keys = await self._client.keys(self._layout.below(kind, *place))
            await self._delete(key for key in stored_keys if self._layout.names(key)[2] in doomed)
        if not is_known:
            return
        await self._delete(key for key in values if key not in needed)
        if parts:
            held: set[str] = set()
            for kind in (CHECKPOINTS, WRITES, VALUES):
                heads = await self._client.entries(self._layout.below(kind, *place), values=False)
                held.update(head.meta["parts"] for head in heads if head.meta and "parts" in head.meta)
            await self._delete(key for key in parts if self._layout.names(key)[2].partition(".")[0] not in held)

    async def _delete(self, keys: Iterable[str]) -> None:
        for change in changes(Write(key, b"") for key in keys):
            async with self._client.batch(w=self._w) as batch:
                for write in change:
                    batch.delete(write.key)
