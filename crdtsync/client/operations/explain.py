"""Why a node has of a key what it has: the request, and the answer as callers get it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.values.encoding import plain
from crdtsync.client.values.results import moment

if TYPE_CHECKING:
    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.protocol.steps import Plan
    from crdtsync.client.session.request_context import Arguments

_TIMES = frozenset({"time", "received", "expires", "since", "last_seen"})
_PACKED = frozenset({"value", "meta"})


def explain(operations: Operations, key: str, space: str | None) -> Plan[dict[str, Any]]:
    """Ask for one key."""
    arguments: Arguments = {"key": key}
    if space is not None:
        arguments["space"] = space
    reply = yield operations.call("explain", arguments)
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
