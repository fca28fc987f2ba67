"""LangGraph's long-term store: what agents remember across threads, on every host."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from langgraph.store.base import BaseStore

from crdtsync.adapters.langgraph.async_store_calls import AsyncStoreCalls
from crdtsync.adapters.langgraph.store_calls import StoreCalls
from crdtsync.adapters.redaction import Rule
from crdtsync.client import AsyncSession
from crdtsync.errors import InvalidRequest

if TYPE_CHECKING:
    from langgraph.store.base import IndexConfig, Op, Result, TTLConfig


class CrdtStore(StoreCalls, BaseStore):
    """Keeps the items of a store in the shared state. Under asyncio its calls run in threads.

    Arguments are those of :class:`~crdtsync.adapters.attached.Attached`; ``ttl`` and ``index`` are LangGraph's.
    A value has at most 1 MiB, with its vectors. Where two hosts put one item at once, the newer one is read; the next
    put or delete settles it.

    A search reads all items below its namespace; with ``query`` it ranks them by words, or, if ``index`` says how to
    embed a text, by meaning, as LangGraph's other stores do. Items that were put without a vector, or with another
    model's, come last then until they are put again; 2,000 items with vectors of 1,536 numbers take 0.2 s. A
    function that embeds asynchronously is for :class:`AsyncCrdtStore`.

    Times to live are minutes, as LangGraph has them, and begin anew when an item is read, unless it was written in the
    last tenth of its time; ``ttl`` has LangGraph's defaults.

    Use it as ``with CrdtStore() as store``, or close a client of your own.
    """

    supports_ttl = True

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations; reads show what was there before the writes."""
        return self.run(ops)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations in a thread."""
        return await asyncio.to_thread(self.run, list(ops))


class AsyncCrdtStore(AsyncStoreCalls, BaseStore):
    """The twin of :class:`CrdtStore` for asyncio, with the same arguments.

    It belongs to the event loop in which it is made. Nodes of a graph that are no coroutines may call it too: LangGraph
    runs them in threads.
    """

    supports_ttl = True

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
        super().__init__(client, prefix=prefix, ttl=ttl, index=index, w=w, redact=redact)
        self._loop = asyncio.get_running_loop()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations; reads show what was there before the writes."""
        return await self.run(ops)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations from a thread that is not the event loop's.

        :raises InvalidRequest: in the event loop's own thread, which cannot wait for itself.
        """
        try:
            is_own = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_own = False
        if is_own:
            raise InvalidRequest("this is the thread of the store's event loop: await aget, aput, asearch instead")
        return asyncio.run_coroutine_threadsafe(self.run(ops), self._loop).result()
