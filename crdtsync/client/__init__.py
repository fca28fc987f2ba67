"""The library that agents import: :class:`Client` for threads and scripts, :class:`AsyncClient` for asyncio.

Both speak docs/reference/agent-protocol.md to the daemon of this host, over a unix socket. Their common part is pure:
no socket, no thread, no event loop. ``blocking`` and ``aio`` only move bytes.

Open first: ``blocking.client``, whose docstrings say what every method does and promises; ``aio`` has the same
methods as coroutines. Then ``operations.keys`` for what a method sends, and ``protocol.steps`` for how both clients
run it.

How ``state.update("plan", change)`` goes: the method asks ``operations.keys`` for a *plan*, a generator. The plan
yields an ``Exchange`` (read the key), a ``Compute`` (run the caller's function), an ``Exchange`` (write, if the key is
still at that version), and a ``Pause`` before it tries again. The blocking client runs the plan with a socket and its
caller's thread, the asyncio client with tasks. ``protocol.in_flight`` numbers the requests and repeats them on a
new connection; ``session.read_memory`` remembers which version was read, so that the next write supersedes exactly
that.

Rooms, top to bottom; each may import the rooms below it (``pyproject.toml`` holds the order):

- ``blocking``: :class:`Client`: sockets and threads; ``blocking.methods``: its public methods
- ``aio``: :class:`AsyncClient`: sockets and tasks; ``aio.methods``: the same methods as coroutines
- ``mirror``: a copy of keys, without a socket
- ``text``: a text's replica and an editor, without a socket
- ``operations``: every operation as a plan
- ``streams``: watches and resolvers, without a socket
- ``session``: what a session has read, and how its requests carry it
- ``protocol``: frames, requests in flight, causal points
- ``values``: what callers hand in and get back

May import: ``crdtsync.wire``, ``crdtsync.causality``, ``crdtsync.differences``, ``crdtsync.errors``. Neither the
core nor the daemon: an agent's import stays light. Every name here is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.lazy import lazy

if TYPE_CHECKING:
    from crdtsync.client.aio.blob import AsyncBlob as AsyncBlob
    from crdtsync.client.aio.client import AsyncClient as AsyncClient
    from crdtsync.client.aio.client import AsyncSession as AsyncSession
    from crdtsync.client.aio.document import AsyncDocument as AsyncDocument
    from crdtsync.client.aio.editor import AsyncEditor as AsyncEditor
    from crdtsync.client.aio.mirror import AsyncMirror as AsyncMirror
    from crdtsync.client.aio.resolver import AsyncResolver as AsyncResolver
    from crdtsync.client.aio.text import AsyncText as AsyncText
    from crdtsync.client.aio.watch import AsyncWatch as AsyncWatch
    from crdtsync.client.blocking.blob import Blob as Blob
    from crdtsync.client.blocking.client import Client as Client
    from crdtsync.client.blocking.client import Session as Session
    from crdtsync.client.blocking.document import Document as Document
    from crdtsync.client.blocking.editor import Editor as Editor
    from crdtsync.client.blocking.mirror import Mirror as Mirror
    from crdtsync.client.blocking.resolver import Resolver as Resolver
    from crdtsync.client.blocking.text import Text as Text
    from crdtsync.client.blocking.watch import Watch as Watch
    from crdtsync.client.mirror.view import MirrorView as MirrorView
    from crdtsync.client.operations.batch import Batch as Batch
    from crdtsync.client.operations.checkpoints import Checkpoint as Checkpoint
    from crdtsync.client.operations.checkpoints import CheckpointPolicy as CheckpointPolicy
    from crdtsync.client.operations.checkpoints import Checkpoints as Checkpoints
    from crdtsync.client.operations.checkpoints import Verified as Verified
    from crdtsync.client.operations.forks import Merged as Merged
    from crdtsync.client.operations.history import History as History
    from crdtsync.client.operations.history import PastValue as PastValue
    from crdtsync.client.operations.history import Removal as Removal
    from crdtsync.client.operations.restore import Difference as Difference
    from crdtsync.client.operations.restore import Restored as Restored
    from crdtsync.client.operations.spaces import Archive as Archive
    from crdtsync.client.operations.spaces import Dropped as Dropped
    from crdtsync.client.operations.spaces import Space as Space
    from crdtsync.client.streams.changes_state import Changes as Changes
    from crdtsync.client.streams.resolver_state import Conflict as Conflict
    from crdtsync.client.values.listing import Listing as Listing
    from crdtsync.client.values.results import Entry as Entry
    from crdtsync.client.values.results import Event as Event
    from crdtsync.client.values.results import Field as Field
    from crdtsync.client.values.results import LogItem as LogItem
    from crdtsync.client.values.results import Member as Member
    from crdtsync.client.values.results import Purge as Purge
    from crdtsync.client.values.results import Schema as Schema
    from crdtsync.client.values.results import TextUpdate as TextUpdate
    from crdtsync.client.values.write_result import Written as Written

__getattr__ = lazy(
    globals(),
    {
        "aio.blob": ("AsyncBlob",),
        "aio.client": ("AsyncClient", "AsyncSession"),
        "aio.document": ("AsyncDocument",),
        "aio.editor": ("AsyncEditor",),
        "aio.mirror": ("AsyncMirror",),
        "aio.resolver": ("AsyncResolver",),
        "aio.text": ("AsyncText",),
        "aio.watch": ("AsyncWatch",),
        "blocking.blob": ("Blob",),
        "blocking.client": ("Client", "Session"),
        "blocking.document": ("Document",),
        "blocking.editor": ("Editor",),
        "blocking.mirror": ("Mirror",),
        "blocking.resolver": ("Resolver",),
        "blocking.text": ("Text",),
        "blocking.watch": ("Watch",),
        "mirror.view": ("MirrorView",),
        "operations.batch": ("Batch",),
        "operations.checkpoints": ("Checkpoint", "CheckpointPolicy", "Checkpoints", "Verified"),
        "operations.forks": ("Merged",),
        "operations.history": ("History", "PastValue", "Removal"),
        "operations.restore": ("Difference", "Restored"),
        "operations.spaces": ("Archive", "Dropped", "Space"),
        "streams.changes_state": ("Changes",),
        "streams.resolver_state": ("Conflict",),
        "values.listing": ("Listing",),
        "values.results": ("Entry", "Event", "Field", "LogItem", "Member", "Purge", "Schema", "TextUpdate"),
        "values.write_result": ("Written",),
    },
)
