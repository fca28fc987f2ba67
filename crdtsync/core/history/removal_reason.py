"""Why a value was removed: replaced, lost, deleted, expired or trimmed.

Ann and Bob both read the key ``goal``. Ann sets it to 1; Bob, who has not seen that, sets it to 2 over it. Nobody chose
to drop Ann's 1, so its reason is *lost*, and people can find it under that name. Had Bob read the 1 before, the reason
would be *replaced*.

A value is lost when nobody chose to drop it. There are four cases:

- another author overwrote it blindly, that is without having read it;
- a write kept another one of several siblings;
- a write kept none of the siblings, and by the key's read policy readers had not been shown this one;
- a write found the key full, and took it along.

Where several values go at once, what is lost follows from what lived then and from the read policy then. Both are
known for certain to the author's node alone: elsewhere some may have been removed already by somebody else. So the
author's node decides, and the change says it (:func:`with_lost`). Changes of older versions do not; what they removed
may be called lost on one node and replaced on another.

Nothing here touches the live state: this is what history says of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import IntEnum

from crdtsync.causality import Dot, hlc_ms
from crdtsync.core.crdt.entry import Entry, order_of
from crdtsync.core.crdt.expiry import EXPIRED_ATTR
from crdtsync.core.crdt.read_policies import Policy
from crdtsync.core.kinds.operations import RESOLVED_ATTR, TRIMMED_ATTR
from crdtsync.core.kinds.registry import rules_of
from crdtsync.core.kinds.values import grouped
from crdtsync.wire.change import Change, Op, RemoveRange


class RemovalReason(IntEnum):
    """How a value ended. The numbers are in databases."""

    REPLACED = 1
    LOST = 2
    DELETED = 3
    EXPIRED = 4
    TRIMMED = 5


_REPLACED, _LOST = RemovalReason.REPLACED, RemovalReason.LOST

IsOwn = Callable[[Entry], bool]
"""Whether an entry was written by the author of the change in question, who then knew it."""

PolicyOf = Callable[[str], Policy]


def removal_reasons(
    change: Change, n: int, removed: Sequence[Entry], is_own: IsOwn, policy_of: PolicyOf, resolves: bool = True
) -> list[RemovalReason]:
    """Why operation ``n`` of a change has removed these entries; ``policy_of``: a key's read policy; ``resolves``:
    whether an operation of the change may be a resolution.
    """
    op = change.ops[n]
    if op.lost is not None:
        return _as_said(op, removed, hlc_ms(change.hlc))
    return _reasons(change, n, removed, is_own, policy_of, resolves)


def _reasons(
    change: Change, n: int, removed: Sequence[Entry], is_own: IsOwn, policy_of: PolicyOf, resolves: bool
) -> list[RemovalReason]:
    """The same, where the operation does not say it: from what lives here."""
    op = change.ops[n]
    is_plain = len(removed) == 1 and removed[0].attrs is None and op.attrs is None and op.value_hash is not None
    if is_plain and (n == 0 or not resolves or change.ops[n - 1].key != op.key):
        return [_LOST if op.blind and not is_own(removed[0]) else _REPLACED]  # as below, and nearly always
    is_resolution = resolves and _is_resolution(change, n)
    if op.value_hash is None and not is_resolution:
        return [_removal(op)] * len(removed)
    now_ms = hlc_ms(change.hlc)
    values = [entry for entry in removed if not entry.is_expired(now_ms)]
    if len(values) == 1 and not is_resolution:
        kept: Collection[Dot] = () if op.blind and not is_own(values[0]) else (values[0].dot,)
    else:
        kept = _kept(change, op, is_resolution, values, policy_of)
    alive = [_REPLACED if entry.dot in kept else _LOST for entry in removed]
    return [
        RemovalReason.EXPIRED if entry.is_expired(now_ms) else reason
        for entry, reason in zip(removed, alive, strict=True)
    ]


def _as_said(op: Op, removed: Sequence[Entry], now_ms: int) -> list[RemovalReason]:
    assert op.lost is not None
    assert not isinstance(op.removes, RemoveRange)
    lost = {*op.removes[len(op.removes) - op.lost :]}
    return [
        RemovalReason.EXPIRED if entry.is_expired(now_ms) else _LOST if entry.dot in lost else _REPLACED
        for entry in removed
    ]


def with_lost(change: Change, n: int, removed: Sequence[Entry], is_own: IsOwn, policy_of: PolicyOf) -> Op:
    """Operation ``n`` of a change in the making, which says what is lost of ``removed``: all that it removes."""
    op = change.ops[n]
    assert not isinstance(op.removes, RemoveRange)
    crowded = op.removes[len(op.removes) - op.crowded :]
    chosen = [entry for entry in removed if entry.dot not in crowded]
    reasons = _reasons(change, n, chosen, is_own, policy_of, resolves=True) if chosen else []
    lost = {entry.dot for entry, reason in zip(chosen, reasons, strict=True) if reason == _LOST}
    named = [dot for dot in op.removes if dot not in crowded]
    kept = [dot for dot in named if dot not in lost]
    removes = (*kept, *(dot for dot in named if dot in lost), *crowded)
    return op._replace(removes=removes, lost=len(removes) - len(kept))


def has_resolution(change: Change) -> bool:
    """Whether a change resolves anything."""
    return any((op.attrs or {}).get(RESOLVED_ATTR) for op in change.ops)


def _removal(op: Op) -> RemovalReason:
    attrs = op.attrs or {}
    if attrs.get(EXPIRED_ATTR):
        return RemovalReason.EXPIRED
    if attrs.get(TRIMMED_ATTR) or (isinstance(op.removes, RemoveRange) and op.removes.bound is not None):
        return RemovalReason.TRIMMED
    return RemovalReason.DELETED


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
    rules = rules_of(op.kind)
    if rules.kept is not None:
        return rules.kept(change, op, values)
    if rules.is_accumulating and not is_resolution:
        return {entry.dot for entry in values}
    written = {_content(other) for other in change.ops if other.key == op.key and other.value_hash is not None}
    return {entry.dot for entry in values if _content(entry) in written} or _shown(values, policy_of(op.key))


def _content(written: Op | Entry) -> tuple[int, str | None, bytes | None]:
    """Equal for two writes that say the same."""
    return written.kind, written.sub if rules_of(written.kind).is_by_sub else None, written.value_hash


def _shown(values: Sequence[Entry], policy: Policy) -> Collection[Dot]:
    """The entries of the value that readers were shown."""
    winner = grouped(sorted(values, key=order_of), policy)[0]
    return {entry.dot for entry in winner}
