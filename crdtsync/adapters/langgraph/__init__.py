"""LangGraph: its checkpoints and its long-term store on the shared state.

Open first: ``async_saver``, a checkpointer as LangGraph asks for it. ``saver`` is its blocking twin.

How a step is saved: LangGraph hands ``put`` a checkpoint with the values of all channels, and says which of them are
new. ``checkpoints`` makes keys of these: one for each new value, named by channel and version, and last one for the
checkpoint, which names versions. So a step costs what it has changed. All of it is one change, so other hosts see it
whole or not at all. A value under a version never changes, so a checkpointer keeps the last ones and does not ask for
them again. A value that is longer than a key may hold is split into parts by ``records``.

The store is likewise a page of calls, ``async_store_calls``, with its blocking twin; ``items`` says what is where, and
what a search finds. ``store`` gives both the face that LangGraph asks for.

Two hosts that run one thread at once write checkpoints with ids of their own, so both branches stay, until somebody
merges them.

Modules:

- ``async_saver``, ``saver``: the checkpointer
- ``in_threads``: the coroutines of the blocking one
- ``checkpoints``: which keys a checkpoint is made of
- ``written``: what tasks have written lately, and which run or update did
- ``branching``: which branches a thread has, and what one of them has added
- ``redaction``: a rule for texts, such as one against secrets, in what LangGraph has encoded
- ``records``: bytes of any length as keys, and whether they are whole
- ``other_savers``: checkpoints of other checkpointers
- ``store``: the store
- ``async_store_calls``, ``store_calls``: what it does
- ``items``: its items as keys, and which of them a search finds
- ``vectors``: what the texts of items mean

May import: the public client, ``crdtsync.context``, ``crdtsync.errors``, ``langgraph.checkpoint``, ``langgraph.store``
and ormsgpack, which LangGraph brings; ``branching`` LangGraph's channels, once it is given a graph. It is an extra:
``pip install 'crdtsync[langgraph]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.lazy import lazy

if TYPE_CHECKING:
    from crdtsync.adapters.langgraph.async_saver import AsyncCrdtSaver as AsyncCrdtSaver
    from crdtsync.adapters.langgraph.other_savers import bring_over as bring_over
    from crdtsync.adapters.langgraph.records import DamagedCheckpoint as DamagedCheckpoint
    from crdtsync.adapters.langgraph.saver import CrdtSaver as CrdtSaver
    from crdtsync.adapters.langgraph.store import AsyncCrdtStore as AsyncCrdtStore
    from crdtsync.adapters.langgraph.store import CrdtStore as CrdtStore

__getattr__ = lazy(
    globals(),
    {
        "async_saver": ("AsyncCrdtSaver",),
        "other_savers": ("bring_over",),
        "records": ("DamagedCheckpoint",),
        "saver": ("CrdtSaver",),
        "store": ("AsyncCrdtStore", "CrdtStore"),
    },
)
