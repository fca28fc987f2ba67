"""CrewAI: the states of its flows, and its memory, on the shared state.

- ``flows``: where ``@persist`` keeps the states of flows, and what a flow that waits for a person needs to go on
- ``memory``: where ``Memory`` keeps its records, and which of them are near a query

May import: the public client, ``crdtsync.adapters.attached``, ``crdtsync.adapters.keys``, ``crewai`` and numpy, which
CrewAI brings. It is an extra: ``pip install 'crdtsync[crewai]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crdtsync.adapters.crewai.flows import CrdtFlowPersistence
    from crdtsync.adapters.crewai.memory import CrdtMemoryStorage

_MODULES = {"CrdtFlowPersistence": "flows", "CrdtMemoryStorage": "memory"}

__all__ = ["CrdtFlowPersistence", "CrdtMemoryStorage"]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return found
