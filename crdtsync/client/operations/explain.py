"""Why a node has of a key what it has: the answer as callers get it."""

from __future__ import annotations

from typing import Any

from crdtsync.client.values.encoding import plain
from crdtsync.client.values.results import moment

_TIMES = frozenset({"time", "received", "expires", "since", "last_seen"})
_PACKED = frozenset({"value", "meta"})


def explanation(reply: Any) -> dict[str, Any]:
    """The answer of one key."""
    return {name: _part(field) for name, field in reply.items()}


def _part(part: Any) -> Any:  # Any: whatever the answer is made of
    """The same with times and values as Python has them, however deep."""
    if isinstance(part, dict):
        return {name: _field(name, field) for name, field in part.items()}
    return [_part(item) for item in part] if isinstance(part, list) else part


def _field(name: str, field: Any) -> Any:  # Any: as above
    if name in _TIMES and (field is None or isinstance(field, int)):
        return moment(field)
    return plain(field) if name in _PACKED and isinstance(field, bytes) else _part(field)
