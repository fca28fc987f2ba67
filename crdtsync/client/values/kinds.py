"""What the client knows of each kind beside its methods: the one table.

A kind that is not in it, as one of a newer daemon, is read and shown like any other. What a watch tells of it counts as
not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Kind(NamedTuple):
    """One kind."""

    parts: tuple[str, ...] = ()
    """The operations whose events tell one part of the value, and have a version that covers that part alone."""
    is_read_by_events: bool = True
    """Whether who is told of each change holds the value by that, and so has read it."""
    read_in_parts: str | None = None
    """The method that reads a long value in parts."""


KINDS: Mapping[str, Kind] = {
    "register": Kind(),
    "counter": Kind(parts=("incr", "reset")),
    "set": Kind(parts=("add",), read_in_parts="members"),
    "map": Kind(parts=("merge",), read_in_parts="fields"),
    "log": Kind(is_read_by_events=False, read_in_parts="log"),
    "text": Kind(is_read_by_events=False),
    "blob": Kind(),
}

UNKNOWN = Kind(is_read_by_events=False)

PARTS = frozenset(operation for kind in KINDS.values() for operation in kind.parts)
"""All operations that tell a part."""
