"""What becomes of a value that something removes: replaced, lost, deleted, expired or trimmed.

A value is *lost* when it goes without having become part of what came after it: somebody wrote over it who had not
read it, or of several values at once another one was chosen. Nothing here touches the live state: it is what history
says of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import IntEnum

from crdtsync.causality import Dot, hlc_ms
from crdtsync.core.crdt.entries import Entry, order_of
from crdtsync.core.crdt.expiry import EXPIRED_ATTR
from crdtsync.core.crdt.op_attributes import RESOLVED_ATTR, TRIMMED_ATTR
from crdtsync.core.crdt.read_policies import Policy
from crdtsync.core.kinds.values import grouped
from crdtsync.core.text.lineage import document_of, lineage_of
from crdtsync.core.text.marker import check_marker
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.change import Change, Kind, Op, RemoveRange
from crdtsync.wire.codec import unpack


class Fate(IntEnum):
    """How a value ended. The numbers are in databases."""

    REPLACED = 1
    LOST = 2
    DELETED = 3
    EXPIRED = 4
    TRIMMED = 5


_REPLACED, _LOST = Fate.REPLACED, Fate.LOST

IsOwn = Callable[[Entry], bool]
"""Whether an entry was written by the author of the change in question, who then knew it."""

PolicyOf = Callable[[str], Policy]

_ACCUMULATING = frozenset({Kind.SET, Kind.COUNTER, Kind.LOG})
"""Kinds of which a new entry holds what the one before it held."""


def fates_of(change: Change, n: int, removed: Sequence[Entry], is_own: IsOwn, policy_of: PolicyOf) -> list[Fate]:
    """What becomes of the entries that operation ``n`` of a change has removed; ``policy_of``: a key's read policy."""
    op = change.ops[n]
    if n == 0 and op.attrs is None and op.value_hash is not None and len(removed) == 1 and removed[0].attrs is None:
        return [_LOST if op.blind and not is_own(removed[0]) else _REPLACED]  # as below, and nearly always
    is_resolution = _is_resolution(change, n)
    if op.value_hash is None and not is_resolution:
        return [_removal(op)] * len(removed)
    now_ms = hlc_ms(change.hlc)
    values = [entry for entry in removed if not entry.is_expired(now_ms)]
    if len(values) == 1 and not is_resolution:
        kept: Collection[Dot] = () if op.blind and not is_own(values[0]) else (values[0].dot,)
    else:
        kept = _kept(change, op, is_resolution, values, policy_of)
    return [
        Fate.EXPIRED if entry.is_expired(now_ms) else Fate.REPLACED if entry.dot in kept else Fate.LOST
        for entry in removed
    ]


def _removal(op: Op) -> Fate:
    attrs = op.attrs or {}
    if attrs.get(EXPIRED_ATTR):
        return Fate.EXPIRED
    if attrs.get(TRIMMED_ATTR) or (isinstance(op.removes, RemoveRange) and op.removes.bound is not None):
        return Fate.TRIMMED
    return Fate.DELETED


def _is_resolution(change: Change, n: int) -> bool:
    """Whether an operation is part of a resolution: of one that begins with it, or with removals just before it."""
    key = change.ops[n].key
    while n >= 0 and change.ops[n].key == key:
        if (change.ops[n].attrs or {}).get(RESOLVED_ATTR):
            return True
        n -= 1
        if n >= 0 and change.ops[n].value_hash is not None:
            return False
    return False


def _kept(change: Change, op: Op, is_resolution: bool, values: list[Entry], policy_of: PolicyOf) -> Collection[Dot]:
    """Those of several values that live on in what the change writes; if none does, the one that readers were shown."""
    if not values:
        return ()
    written = [other for other in change.ops if other.key == op.key and other.value_hash is not None]
    if op.kind == Kind.TEXT:
        documents = _documents(change, written)
        return {e.dot for e in values if e.kind == Kind.TEXT and document_of(e) in documents}
    if op.kind in _ACCUMULATING and not is_resolution:
        return {entry.dot for entry in values}
    names = {(other.kind, _slot(other.kind, other.sub), other.value_hash) for other in written}
    kept = {e.dot for e in values if (e.kind, _slot(e.kind, e.sub), e.value_hash) in names}
    return kept or _shown(values, policy_of(op.key))


def _slot(kind: int, sub: str | None) -> str | None:
    return sub if kind in (Kind.MAP, Kind.SET) else None


def _documents(change: Change, written: Sequence[Op]) -> set[Dot]:
    """The documents that a change writes of a text, and those that they take in."""
    found: set[Dot] = set()
    for n, op in enumerate(change.ops):
        if op.kind != Kind.TEXT or not any(op is other for other in written):
            continue
        try:
            named, _ = check_marker(unpack(op.value or b""))
        except InvalidEncoding:
            continue
        dot = Dot(change.writer, change.seq, n)
        found.add(dot if named is None else named)
        marker = Entry(0, dot, op.key, op.sub, int(op.kind), 0, "", None, b"", op.attrs)
        found.update(lineage_of([marker]))
    return found


def _shown(values: Sequence[Entry], policy: Policy) -> Collection[Dot]:
    """The entries of the value that readers were shown."""
    winner = grouped(sorted(values, key=order_of), policy)[0]
    return {entry.dot for entry in winner}
