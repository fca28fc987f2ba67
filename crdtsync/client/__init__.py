"""The library that agents import: :class:`Client` for threads and scripts, :class:`AsyncClient` for asyncio.

Both speak docs/agent-protocol.md to the daemon of this host. What they share is pure: ``operations`` builds every
request and reads every reply, ``inflight`` numbers and repeats requests, ``memory`` knows what was read; ``blocking``
and ``aio`` only move bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crdtsync.client.aio.session import AsyncClient, AsyncSession
    from crdtsync.client.aio.text import AsyncText
    from crdtsync.client.aio.watch import AsyncWatch
    from crdtsync.client.batch import Batch
    from crdtsync.client.blocking.session import Client, Session
    from crdtsync.client.blocking.text import Text
    from crdtsync.client.blocking.watch import Watch
    from crdtsync.client.forms import Entry, Event, Field, LogItem, Member, TextUpdate
    from crdtsync.client.listing import Listing
    from crdtsync.client.written import Written

_MODULES = {
    "AsyncClient": "aio.session",
    "AsyncSession": "aio.session",
    "AsyncText": "aio.text",
    "AsyncWatch": "aio.watch",
    "Batch": "batch",
    "Client": "blocking.session",
    "Entry": "forms",
    "Event": "forms",
    "Field": "forms",
    "Listing": "listing",
    "LogItem": "forms",
    "Member": "forms",
    "Session": "blocking.session",
    "Text": "blocking.text",
    "TextUpdate": "forms",
    "Watch": "blocking.watch",
    "Written": "written",
}

__all__ = [
    "AsyncClient",
    "AsyncSession",
    "AsyncText",
    "AsyncWatch",
    "Batch",
    "Client",
    "Entry",
    "Event",
    "Field",
    "Listing",
    "LogItem",
    "Member",
    "Session",
    "Text",
    "TextUpdate",
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
