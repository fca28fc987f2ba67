"""The table of all kinds. The core asks it by the kind of a key, and by an operation of a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crdtsync.core.crdt.expiry import EXPIRED_ATTR
from crdtsync.core.kinds import blob, counter, log, maps, register, sets, text
from crdtsync.core.kinds.base import Rules, never_conflicting
from crdtsync.core.kinds.operations import DELETE, EXPIRED, RESOLVE, RESOLVED_ATTR, SET, TRIM, Operation
from crdtsync.wire.change import Op, RemoveRange
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.stored_values import is_storable

KINDS: Mapping[int, Rules] = {
    Kind.REGISTER: register.RULES,
    Kind.COUNTER: counter.RULES,
    Kind.SET: sets.RULES,
    Kind.MAP: maps.RULES,
    Kind.LOG: log.RULES,
    Kind.TEXT: text.RULES,
    Kind.BLOB: blob.RULES,
}


def _shown(value: bytes | None) -> bytes | None:
    return value if value is None or is_storable(value) else pack(value)


UNKNOWN = register.RULES._replace(
    read=lambda _space, group: _shown(group[-1].value),
    history_value=lambda entry: _shown(entry.value),
    writes={},
    ranked=None,
    is_conflicting=never_conflicting,
)
"""A kind that only newer versions know: kept, passed on, and shown as its bytes."""

OPERATIONS: Mapping[str, Operation] = {
    operation.name: operation
    for operation in (
        *(SET, DELETE, EXPIRED, TRIM, RESOLVE),
        *(one for rules in KINDS.values() for one in (rules.written, *rules.written_to.values(), rules.removed)),
    )
}
"""All operations, by name."""


def rules_of(kind: int) -> Rules:
    """The rules of a kind, also of one that is not known here."""
    return KINDS.get(kind, UNKNOWN)


def operation_of(op: Op) -> Operation:
    """The record of a change's operation, as agents call it."""
    if op.value_hash is not None:
        return writing_operation(op.kind, op.sub, op.attrs)
    if op.attrs:
        if op.attrs.get(RESOLVED_ATTR):
            return RESOLVE
        if op.attrs.get(EXPIRED_ATTR):
            return EXPIRED
    if isinstance(op.removes, RemoveRange) and op.removes.bound is not None:
        return TRIM
    return DELETE if op.sub is None else rules_of(op.kind).removed


def writing_operation(kind: int, sub: str | None, attrs: Mapping[str, Any] | None) -> Operation:
    """The same of one that writes a value, as it can be told from the entry that it left."""
    if attrs and attrs.get(RESOLVED_ATTR):
        return RESOLVE
    rules = KINDS.get(kind, UNKNOWN)
    return rules.written if sub is None else rules.written_to.get(sub, rules.written)
