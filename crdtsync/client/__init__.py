"""The library that agents import: :class:`Client` for threads and scripts, :class:`AsyncClient` for asyncio.

Both speak docs/reference/agent-protocol.md to the daemon of this host, over a unix socket. What they share is pure:
no socket, no thread, no event loop. ``blocking`` and ``aio`` only move bytes.

Open first: ``blocking.client``, whose docstrings say what every method does and promises; ``aio`` has the same
methods as coroutines. Then ``operations.keys`` for what a method sends, and ``protocol.steps`` for how both clients
run it.

How ``state.update("plan", change)`` goes: the method asks ``operations.keys`` for a *plan*, a generator. The plan
yields a ``Call`` (read the key), a ``Compute`` (run the caller's function), a ``Call`` (write, if the key is still
at that version), and a ``Pause`` before it tries again. The blocking client runs the plan with a socket and its
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

if TYPE_CHECKING:
    from crdtsync.client.aio.blob import AsyncBlob
    from crdtsync.client.aio.client import AsyncClient, AsyncSession
    from crdtsync.client.aio.document import AsyncDocument
    from crdtsync.client.aio.editor import AsyncEditor
    from crdtsync.client.aio.mirror import AsyncMirror
    from crdtsync.client.aio.resolver import AsyncResolver
    from crdtsync.client.aio.text import AsyncText
    from crdtsync.client.aio.watch import AsyncWatch
    from crdtsync.client.blocking.blob import Blob
    from crdtsync.client.blocking.client import Client, Session
    from crdtsync.client.blocking.document import Document
    from crdtsync.client.blocking.editor import Editor
    from crdtsync.client.blocking.mirror import Mirror
    from crdtsync.client.blocking.resolver import Resolver
    from crdtsync.client.blocking.text import Text
    from crdtsync.client.blocking.watch import Watch
    from crdtsync.client.mirror.view import View
    from crdtsync.client.operations.batch import Batch
    from crdtsync.client.operations.checkpoints import Checkpoint, CheckpointPolicy, Verified
    from crdtsync.client.operations.forks import Merged
    from crdtsync.client.operations.history import History, PastValue, Removal
    from crdtsync.client.operations.restore import Difference, Restored
    from crdtsync.client.operations.spaces import Archive, Dropped, Space
    from crdtsync.client.streams.changes_state import Changes
    from crdtsync.client.streams.resolver_state import Conflict
    from crdtsync.client.values.listing import Listing
    from crdtsync.client.values.results import Entry, Event, Field, LogItem, Member, Purge, Schema, TextUpdate
    from crdtsync.client.values.write_result import Written

_MODULES = {
    "Archive": "operations.spaces",
    "AsyncClient": "aio.client",
    "AsyncDocument": "aio.document",
    "AsyncEditor": "aio.editor",
    "AsyncMirror": "aio.mirror",
    "AsyncResolver": "aio.resolver",
    "AsyncSession": "aio.client",
    "AsyncText": "aio.text",
    "AsyncWatch": "aio.watch",
    "Batch": "operations.batch",
    "Changes": "streams.changes_state",
    "AsyncBlob": "aio.blob",
    "Blob": "blocking.blob",
    "Checkpoint": "operations.checkpoints",
    "CheckpointPolicy": "operations.checkpoints",
    "Client": "blocking.client",
    "Conflict": "streams.resolver_state",
    "Difference": "operations.restore",
    "Document": "blocking.document",
    "Dropped": "operations.spaces",
    "Editor": "blocking.editor",
    "Entry": "values.results",
    "Event": "values.results",
    "Field": "values.results",
    "History": "operations.history",
    "Listing": "values.listing",
    "LogItem": "values.results",
    "Member": "values.results",
    "Mirror": "blocking.mirror",
    "PastValue": "operations.history",
    "Removal": "operations.history",
    "Resolver": "blocking.resolver",
    "Purge": "values.results",
    "Merged": "operations.forks",
    "Verified": "operations.checkpoints",
    "Restored": "operations.restore",
    "Schema": "values.results",
    "Session": "blocking.client",
    "Space": "operations.spaces",
    "Text": "blocking.text",
    "TextUpdate": "values.results",
    "View": "mirror.view",
    "Watch": "blocking.watch",
    "Written": "values.write_result",
}

__all__ = [
    "Archive",
    "AsyncBlob",
    "AsyncClient",
    "AsyncDocument",
    "AsyncEditor",
    "AsyncMirror",
    "AsyncResolver",
    "AsyncSession",
    "AsyncText",
    "AsyncWatch",
    "Batch",
    "Blob",
    "Changes",
    "Checkpoint",
    "CheckpointPolicy",
    "Client",
    "Conflict",
    "Difference",
    "Document",
    "Dropped",
    "Editor",
    "Entry",
    "Event",
    "Field",
    "History",
    "Listing",
    "LogItem",
    "Member",
    "Merged",
    "Mirror",
    "PastValue",
    "Purge",
    "Removal",
    "Resolver",
    "Restored",
    "Schema",
    "Session",
    "Space",
    "Text",
    "TextUpdate",
    "Verified",
    "View",
    "Watch",
    "Written",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
