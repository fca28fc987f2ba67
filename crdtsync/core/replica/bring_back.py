"""The request ``bring_back``: write anew what a snapshot took away, a part at a time.

A value that comes back stands beside the values that have been written since, as a sibling: the next reader of the key
gets both. Three sorts do not come back: a text, since its document went with it; a value that an agent has written
again meanwhile; and one that has expired. See :mod:`crdtsync.core.history.taken_away`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from crdtsync.core.kinds.registry import rules_of
from crdtsync.core.storage.rows import DeadPlace
from crdtsync.errors import InvalidRequest, Timeout
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import KEY_SIBLINGS_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.history.taken_away import Pin
    from crdtsync.core.kinds.arguments import Arguments, Result
    from crdtsync.core.replica.space_draft import SpaceDraft
    from crdtsync.core.storage.rows import PastRow, ScannedRow

ROWS_MAX = 500
"""Rows of history that are looked at in one turn."""
BYTES_MAX = 2 * 1024 * 1024
"""Values that are written in one change."""


def bring_back(draft: SpaceDraft, _args: Arguments) -> Result:
    """Write the next part of it. The result says how many values were ``written``, how many were ``left``, and
    whether there is ``more``.

    :raises Timeout: what died in a large commit is not in its place yet.
    """
    replica, pins = draft.replica, draft.replica.past.taken_away
    if draft.ops:
        raise InvalidRequest("bring_back is no part of a batch")
    pin = pins.oldest()
    if pin is None:
        return {"written": 0, "left": 0, "more": False}
    if replica.storage.has_backlog:
        raise Timeout("the daemon is still putting in order what was taken away: try again in a moment", held_by=[])
    rows, end = _next_rows(draft, pin)
    written = left = 0
    for row in rows:
        if _comes_back(draft, row.entry):
            _write(draft, row.entry)
            written += 1
        else:
            left += not replica.entries.holds_dot(row.entry.key, row.entry.dot)
    if end is None:
        pins.let_go(pin.position)
    else:
        pins.advance(pin, end)
    return {"written": written, "left": left, "more": pins.oldest() is not None}


def _next_rows(draft: SpaceDraft, pin: Pin) -> tuple[list[PastRow], DeadPlace | None]:
    """Some of what died there, and the place up to which they go; None: there are no more."""
    storage = draft.replica.storage
    scanned = storage.scan_dead(draft.replica.id, pin.place, is_lost=False, rows_max=ROWS_MAX)
    past = {row.entry.order: row for row in storage.dead_by_id([row.id for row in scanned], 2 * BYTES_MAX)}
    found: list[PastRow] = []
    size_bytes = 0
    for before, one in pairwise((None, *scanned)):
        row = None if one is None else past.get(one.order)
        if row is None or row.position != pin.position:
            continue
        size_bytes += len(row.entry.value or b"")
        if before is not None and found and size_bytes > BYTES_MAX:
            return found, _place(before)
        found.append(row)
    return found, _place(scanned[-1]) if len(scanned) == ROWS_MAX else None


def _place(row: ScannedRow) -> DeadPlace:
    return DeadPlace(row.key, row.order[0].to_bytes(8, "big"), row.id)


def _comes_back(draft: SpaceDraft, entry: Entry) -> bool:
    """Whether it can be written, and says something that the key does not say without it."""
    if entry.value is None or entry.kind == Kind.TEXT or entry.is_expired(draft.now_ms):
        return False
    if draft.entry(entry.key, entry.dot) is not None:
        return False  # another node still had it
    if entry.kind in (Kind.LOG, Kind.COUNTER):
        return True
    held = [one for one in _beside(draft, entry) if one.kind == entry.kind]
    return len(held) < KEY_SIBLINGS_MAX and all(one.value_hash != entry.value_hash for one in held)


def _beside(draft: SpaceDraft, entry: Entry) -> Sequence[Entry]:
    """The present values of the same element or field, or of the whole key if it is a register."""
    return draft.held(entry.key) if entry.sub is None else draft.part(entry.key, Kind(entry.kind), entry.sub)


def _write(draft: SpaceDraft, entry: Entry) -> None:
    for sub, value, attrs in rules_of(entry.kind).copy([entry]):
        draft.add(Op(entry.key, sub, entry.kind, value, value_hash(value), (), attrs))
