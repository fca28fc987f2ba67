"""What an agent calls the operations of a change: in events, and in history."""

from __future__ import annotations

from collections.abc import Mapping

from crdtsync.core.crdt.expiry import EXPIRE, EXPIRED_ATTR
from crdtsync.core.crdt.op_attributes import RESOLVED_ATTR
from crdtsync.core.kinds.counter import RESET
from crdtsync.core.text.lineage import LINEAGE
from crdtsync.wire.change import Kind, Op, RemoveRange

WRITTEN: Mapping[int, str] = {
    Kind.COUNTER: "incr", Kind.SET: "add", Kind.MAP: "merge", Kind.LOG: "append", Kind.TEXT: "text"
}  # fmt: skip
"""What writes a part of a kind; ``set`` writes the others."""
_REMOVED: Mapping[int, str] = {Kind.SET: "discard", Kind.MAP: "drop"}


def operation_of(op: Op) -> str:
    """What an agent calls an operation."""
    attrs = op.attrs or {}
    if op.value_hash is not None:
        return writing_operation(op.kind, op.sub, attrs)
    if attrs.get(RESOLVED_ATTR):
        return "resolve"
    if attrs.get(EXPIRED_ATTR):
        return EXPIRE
    if isinstance(op.removes, RemoveRange) and op.removes.bound is not None:
        return "trim"
    return "delete" if op.sub is None else _REMOVED.get(op.kind, "delete")


def writing_operation(kind: int, sub: str | None, attrs: Mapping[str, object]) -> str:
    """The same of one that writes a value, as it can be told from the entry that it left."""
    if attrs.get(RESOLVED_ATTR):
        return "resolve"
    if kind == Kind.TEXT and sub == LINEAGE:
        return "compact"
    if kind == Kind.COUNTER and sub == RESET:
        return "reset"
    return WRITTEN.get(kind, "set")
