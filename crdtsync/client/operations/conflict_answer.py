"""A resolver's answer, as the write that settles the conflict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.operations import writes
from crdtsync.client.streams.resolver_state import Merge, Take
from crdtsync.client.values.encoding import encode
from crdtsync.errors import InvalidValue

if TYPE_CHECKING:
    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.session.request_context import Write
    from crdtsync.client.streams.resolver_state import Conflict
    from crdtsync.client.values.write_result import Written


def answering(operations: Operations, conflict: Conflict, answer: object, timeout_s: float) -> Write[Written]:
    """Settle a conflict: a write that supersedes exactly what the resolver was shown.

    A value of a map with fields in conflict writes these fields, and others in which it differs.
    """
    key, seen = conflict.key, conflict.version
    if isinstance(answer, Take):
        write = writes.resolve(operations, key, answer.dot, ..., False, seen)
    elif isinstance(answer, Merge):
        write = writes.resolve(operations, key, None, ..., True, seen)
    elif conflict.fields and all(entry.field is not None for entry in conflict.entries[1:]):
        write = writes.merge(operations, key, _fields(conflict, answer), seen)
    elif all(entry.kind == "text" for entry in conflict.entries):
        raise InvalidValue(
            f"the texts at {key!r} are settled by conflict.merge() or by conflict.take() of one of them, not by a "
            "value, which would be no text",
            path="$",
        )
    else:
        write = writes.resolve(operations, key, None, answer, False, seen)
    return operations.send(write, None, timeout_s)


def _fields(conflict: Conflict, answer: object) -> dict[str, Any]:
    if not isinstance(answer, dict) or not conflict.fields <= answer.keys():
        needed = ", ".join(sorted(conflict.fields))
        raise InvalidValue(f"{conflict.key!r} is a map: answer with a dict that has {needed}", path="$")
    winner = conflict.entries[0].value
    was = winner if isinstance(winner, dict) else {}
    return {
        name: value
        for name, value in answer.items()
        if name in conflict.fields or name not in was or encode(was[name]) != encode(value)
    }
