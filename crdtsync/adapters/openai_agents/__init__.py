"""OpenAI Agents SDK: its sessions on the shared state.

A session is a log of the state, an element for each item of the conversation. So items that two hosts add at once are
all kept, in one order everywhere, and the last one is taken by whoever comes first.

- ``session``: the session
- ``branches``: one with branches, and with what its turns have used

May import: the public client, ``crdtsync.errors`` and ``agents.memory``. It is an extra:
``pip install 'crdtsync[openai-agents]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.lazy import lazy

if TYPE_CHECKING:
    from crdtsync.adapters.openai_agents.branches import AdvancedCrdtSession as AdvancedCrdtSession
    from crdtsync.adapters.openai_agents.session import CrdtSession as CrdtSession

__getattr__ = lazy(globals(), {"branches": ("AdvancedCrdtSession",), "session": ("CrdtSession",)})
