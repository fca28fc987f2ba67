"""Google ADK: its sessions on the shared state.

A session is a log with an element for each event, and a map with a field for each key of its state. So what two hosts
add at once to a session, or to the states of an app and its users, is all kept. While the hosts are linked, a session
that was read before another one added to it is refused, as ADK asks for.

- ``sessions``: the session service

May import: the public client, ``crdtsync.errors`` and what ``google.adk`` has for services. It is an extra:
``pip install 'crdtsync[google-adk]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crdtsync.adapters.google_adk.sessions import CrdtSessionService

_MODULES = {"CrdtSessionService": "sessions"}

__all__ = ["CrdtSessionService"]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
