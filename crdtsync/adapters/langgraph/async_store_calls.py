"""The calls of LangGraph's store, for asyncio: operations one by one, and writes together."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp, validate_op_namespace

from crdtsync.adapters.async_attached import AsyncAttached, check_each, in_changes
from crdtsync.adapters.langgraph.items import Items, checked, chosen, is_stale, matches, namespaces, plain, stored_item
from crdtsync.adapters.langgraph.vectors import Vectors, queries
from crdtsync.adapters.redaction import Rule
from crdtsync.client import AsyncSession

if TYPE_CHECKING:
    from langgraph.store.base import IndexConfig, Item, Op, Result, SearchItem, TTLConfig

    from crdtsync.client import Entry

PAGE = 500


class AsyncStoreCalls(AsyncAttached):
    """The calls of a store, on a client or the path of a daemon's socket."""

    def __init__(
        self,
        client: AsyncSession | str | os.PathLike[str] | None = None,
        *,
        prefix: str = "langgraph",
        ttl: TTLConfig | None = None,
        index: IndexConfig | None = None,
        w: int | str | None = None,
        redact: Rule | None = None,
    ) -> None:
        self._vectors = None if index is None else Vectors(index)
        self.ttl_config = checked(ttl)
        super().__init__(client, prefix=prefix, w=w, redact=redact)
        self._items = Items(prefix, redact)

    async def run(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations. Reads show what was there before; then all writes are one change, where they fit into one."""
        ops = [*ops]
        asked = {} if self._vectors is None else {each: await self._asked(each) for each in queries(ops)}
        results: list[Result] = []
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for op in ops:
            validate_op_namespace(op)
            if isinstance(op, GetOp):
                results.append(await self._get(op))
            elif isinstance(op, SearchOp):
                results.append(await self._search(op, asked.get(op.query)))
            elif isinstance(op, ListNamespacesOp):
                keys = await self._client.keys(self._items.below(()))
                results.append(namespaces(op, map(self._items.namespace, keys)))
            elif isinstance(op, PutOp):
                puts[op.namespace, op.key] = self._items.put(op)
                results.append(None)
            else:
                message = f"a store cannot do {type(op).__name__}"
                raise ValueError(message)  # noqa: TRY004  # as LangGraph's own stores
        vectors = await self._embedded(puts.values())
        check_each(
            (self._items.key(*name), stored_item(op, None, self._made(op, vectors)))
            for name, op in puts.items()
            if op.value is not None
        )
        await in_changes(partial(self._put, vectors), [*puts.values()])
        return results

    async def _asked(self, query: str) -> bytes | None:
        """The meaning of a query, as a vector; None if only its words count."""
        return (
            None if self._vectors is None else self._vectors.packed(await self._vectors.embeddings.aembed_query(query))
        )

    async def _embedded(self, puts: Collection[PutOp]) -> dict[str, bytes]:
        """The vectors of the texts that are looked at in what is put."""
        if self._vectors is None or not (texts := self._vectors.wanted(puts)):
            return {}
        made = await self._vectors.embeddings.aembed_documents(texts)
        return dict(zip(texts, map(self._vectors.packed, made), strict=True))

    def _made(self, op: PutOp, vectors: Mapping[str, bytes]) -> list[bytes]:
        """The vectors of what is put, of all that were made."""
        return [] if self._vectors is None else [vectors[text] for text in self._vectors.texts(op)]

    async def _get(self, op: GetOp) -> Item | None:
        entry = await self._client.entry(self._items.key(op.namespace, op.key))
        item = self._items.item(entry)
        if entry is not None and item is not None and op.refresh_ttl:
            await self._refresh([entry])
        return None if item is None else plain(item)

    async def _search(self, op: SearchOp, asked: bytes | None) -> list[SearchItem]:
        found: dict[str, tuple[Entry, SearchItem]] = {}
        wanted = (op.filter or {}).items()
        start = None
        prefix = self._items.below(op.namespace_prefix)
        while page := await self._client.entries(prefix, start=start, limit=PAGE):
            for entry in page:
                item = self._items.item(entry)
                if item is not None and all(matches(item.value.get(name), said) for name, said in wanted):
                    found[entry.key] = entry, item
            start = page[-1].key
        shown = chosen(op, [(item, entry.value) for entry, item in found.values()], asked)
        if op.refresh_ttl:
            await self._refresh([found[self._items.key(item.namespace, item.key)][0] for item in shown])
        return shown

    async def _refresh(self, entries: Sequence[Entry]) -> None:
        """Let items that were read live on."""
        async with self._client.batch() as batch:
            for entry in entries:
                if is_stale(entry):
                    batch.touch(entry.key, entry.ttl)

    async def _put(self, vectors: Mapping[str, bytes], ops: Sequence[PutOp]) -> None:
        """Write items as one change."""
        async with self._client.batch(w=self._w) as batch:
            for op in ops:
                key = self._items.key(op.namespace, op.key)
                held = await self._client.entry(key)
                seen = None if held is None else held.version  # with what others wrote meanwhile
                if op.value is not None:
                    ttl = None if op.ttl is None else op.ttl * 60
                    batch.set(key, stored_item(op, held, self._made(op, vectors)), ttl=ttl, seen=seen)
                elif held is not None:
                    batch.delete(key, seen=seen)
