"""Microsoft Agent Framework: histories of sessions, and checkpoints of workflows, on the shared state.

A history is a log, an element for each message; a checkpoint is a blob, which is there whole or not at all.

- ``history``: what was said in a session
- ``checkpoints``: where a workflow goes on
- ``decoding``: what was encoded of a checkpoint, back as objects
- ``pickled``: a rule for texts, such as one against secrets, in what was encoded

May import: the public client, ``crdtsync.errors``, ``crdtsync.adapters.attached``, ``crdtsync.adapters.keys``,
``agent_framework`` and pydantic, which it brings. It is an extra: ``pip install 'crdtsync[agent-framework]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.lazy import lazy

if TYPE_CHECKING:
    from crdtsync.adapters.agent_framework.checkpoints import CrdtCheckpointStorage as CrdtCheckpointStorage
    from crdtsync.adapters.agent_framework.history import CrdtHistoryProvider as CrdtHistoryProvider

__getattr__ = lazy(globals(), {"checkpoints": ("CrdtCheckpointStorage",), "history": ("CrdtHistoryProvider",)})
