"""Google ADK: its sessions, memory and artifacts on the shared state.

A session is a log with an element for each event, and a map with a field for each key of its state. So what two hosts
add at once to a session, or to the states of an app and its users, is all kept. While the hosts are linked, a session
that was read before another one added to it is refused, as ADK asks for.

- ``sessions``: the session service
- ``memory``: the memory service
- ``artifacts``: the artifact service

May import: the public client, ``crdtsync.context``, ``crdtsync.errors`` and what ``google.adk`` has for services. It is
an extra: ``pip install 'crdtsync[google-adk]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.lazy import lazy

if TYPE_CHECKING:
    from crdtsync.adapters.google_adk.artifacts import CrdtArtifactService as CrdtArtifactService
    from crdtsync.adapters.google_adk.memory import CrdtMemoryService as CrdtMemoryService
    from crdtsync.adapters.google_adk.sessions import CrdtSessionService as CrdtSessionService

__getattr__ = lazy(
    globals(),
    {"artifacts": ("CrdtArtifactService",), "memory": ("CrdtMemoryService",), "sessions": ("CrdtSessionService",)},
)
