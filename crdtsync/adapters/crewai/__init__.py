"""CrewAI: the states of its flows, and its memory, on the shared state.

- ``flows``: where ``@persist`` keeps the states of flows, and what a flow that waits for a person needs to go on
- ``memory``: where ``Memory`` keeps its records, and which of them are near a query

May import: the public client, ``crdtsync.adapters.attached``, ``crdtsync.adapters.keys``, ``crewai`` and numpy, which
CrewAI brings. It is an extra: ``pip install 'crdtsync[crewai]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.lazy import lazy

if TYPE_CHECKING:
    from crdtsync.adapters.crewai.flows import CrdtFlowPersistence as CrdtFlowPersistence
    from crdtsync.adapters.crewai.memory import CrdtMemoryStorage as CrdtMemoryStorage

__getattr__ = lazy(globals(), {"flows": ("CrdtFlowPersistence",), "memory": ("CrdtMemoryStorage",)})
