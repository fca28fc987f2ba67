"""The library that agents import: :class:`Client` for threads and scripts, :class:`AsyncClient` for asyncio.

Both speak docs/agent-protocol.md to the daemon of this host. What they share is pure: ``operations`` builds every
request and reads every reply, ``inflight`` numbers and repeats requests, ``memory`` knows what was read; ``blocking``
and ``aio`` only move bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crdtsync.client.aio.editor import AsyncEditor
    from crdtsync.client.aio.mirror import AsyncMirror
    from crdtsync.client.aio.resolver import AsyncResolver
    from crdtsync.client.aio.session import AsyncClient, AsyncSession
    from crdtsync.client.aio.text import AsyncText
    from crdtsync.client.aio.watch import AsyncWatch
    from crdtsync.client.batch import Batch
    from crdtsync.client.blocking.editor import Editor
    from crdtsync.client.blocking.mirror import Mirror
    from crdtsync.client.blocking.resolver import Resolver
    from crdtsync.client.blocking.session import Client, Session
    from crdtsync.client.blocking.text import Text
    from crdtsync.client.blocking.watch import Watch
    from crdtsync.client.forms import Entry, Event, Field, LogItem, Member, Schema, TextUpdate
    from crdtsync.client.history import History, PastValue, Removal
    from crdtsync.client.listing import Listing
    from crdtsync.client.mirror.view import View
    from crdtsync.client.resolving import Conflict
    from crdtsync.client.spaces import Archive, Dropped, Space
    from crdtsync.client.written import Written

_MODULES = {
    "Archive": "spaces",
    "AsyncClient": "aio.session",
    "AsyncEditor": "aio.editor",
    "AsyncMirror": "aio.mirror",
    "AsyncResolver": "aio.resolver",
    "AsyncSession": "aio.session",
    "AsyncText": "aio.text",
    "AsyncWatch": "aio.watch",
    "Batch": "batch",
    "Client": "blocking.session",
    "Dropped": "spaces",
    "Editor": "blocking.editor",
    "Conflict": "resolving",
    "Entry": "forms",
    "Event": "forms",
    "Field": "forms",
    "History": "history",
    "Listing": "listing",
    "LogItem": "forms",
    "Member": "forms",
    "PastValue": "history",
    "Removal": "history",
    "Schema": "forms",
    "Mirror": "blocking.mirror",
    "Resolver": "blocking.resolver",
    "Session": "blocking.session",
    "Space": "spaces",
    "Text": "blocking.text",
    "TextUpdate": "forms",
    "View": "mirror.view",
    "Watch": "blocking.watch",
    "Written": "written",
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
