"""The library that agents import: :class:`Client` for threads and scripts, :class:`AsyncClient` for asyncio.

Both speak docs/agent-protocol.md to the daemon of this host. What they share is pure: ``operations`` builds every
request and reads every reply, ``inflight`` numbers and repeats requests, ``memory`` knows what was read; ``blocking``
and ``aio`` only move bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crdtsync.client.aio.client import AsyncClient, AsyncSession
    from crdtsync.client.aio.editor import AsyncEditor
    from crdtsync.client.aio.mirror import AsyncMirror
    from crdtsync.client.aio.resolver import AsyncResolver
    from crdtsync.client.aio.text import AsyncText
    from crdtsync.client.aio.watch import AsyncWatch
    from crdtsync.client.blocking.client import Client, Session
    from crdtsync.client.blocking.editor import Editor
    from crdtsync.client.blocking.mirror import Mirror
    from crdtsync.client.blocking.resolver import Resolver
    from crdtsync.client.blocking.text import Text
    from crdtsync.client.blocking.watch import Watch
    from crdtsync.client.mirror.view import View
    from crdtsync.client.operations.batch import Batch
    from crdtsync.client.operations.history import History, PastValue, Removal
    from crdtsync.client.operations.spaces import Archive, Dropped, Space
    from crdtsync.client.streams.resolver_state import Conflict
    from crdtsync.client.values.listing import Listing
    from crdtsync.client.values.results import Entry, Event, Field, LogItem, Member, Schema, TextUpdate
    from crdtsync.client.values.write_result import Written

_MODULES = {
    "Archive": "operations.spaces",
    "AsyncClient": "aio.client",
    "AsyncEditor": "aio.editor",
    "AsyncMirror": "aio.mirror",
    "AsyncResolver": "aio.resolver",
    "AsyncSession": "aio.client",
    "AsyncText": "aio.text",
    "AsyncWatch": "aio.watch",
    "Batch": "operations.batch",
    "Client": "blocking.client",
    "Conflict": "streams.resolver_state",
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
    "AsyncClient",
    "AsyncEditor",
    "AsyncMirror",
    "AsyncResolver",
    "AsyncSession",
    "AsyncText",
    "AsyncWatch",
    "Batch",
    "Client",
    "Conflict",
    "Dropped",
    "Editor",
    "Entry",
    "Event",
    "Field",
    "History",
    "Listing",
    "LogItem",
    "Member",
    "Mirror",
    "PastValue",
    "Removal",
    "Resolver",
    "Schema",
    "Session",
    "Space",
    "Text",
    "TextUpdate",
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
