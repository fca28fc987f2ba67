"""Names of a room that are imported when somebody first asks for them: only then its framework must be there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazily(room: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a room; ``modules`` says in which module each name is."""

    def find(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        found: object = getattr(import_module(f"{room}.{modules[name]}"), name)
        setattr(sys.modules[room], name, found)
        return found

    return find
