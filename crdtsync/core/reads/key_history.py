"""The request ``history`` for one key: its values, newest first, page by page.

Each line says what was written, by whom, having seen what, and what became of it. The live entries come from memory,
the dead ones from disk, and those that were removed in this turn from what is about to go to disk. So a page costs what
is on it, however much history there is. Edits of a text that one author made in a row are one line.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import merge as merge_sorted
from itertools import islice
from typing import TYPE_CHECKING, Any

from crdtsync.causality import VersionVector, Writer, hlc_ms
from crdtsync.core.crdt.entry import order_of
from crdtsync.core.history.removal_reason import RemovalReason
from crdtsync.core.kinds.registry import rules_of, writing_operation
from crdtsync.core.kinds.seen import describe_seen, seen_of
from crdtsync.core.storage.rows import PastRow
from crdtsync.errors import InvalidRequest
from crdtsync.wire.change import Order
from crdtsync.wire.kinds import kind_name
from crdtsync.wire.limits import shown
from crdtsync.wire.stored_values import attributes_of
from crdtsync.wire.tokens import decode_dot, encode_dot, encode_token

if TYPE_CHECKING:
    from crdtsync.core.reads.operations import Reader
    from crdtsync.core.replica.replica import Replica

HISTORY_ROWS_MAX = 500
"""Rows looked at for one page of history."""
HISTORY_BYTES_MAX = 1024 * 1024
"""One page of history."""

Item = dict[str, Any]
LIVE = "live"
_REASONS = {reason.value: reason.name.lower() for reason in RemovalReason}


def history_of_key(reader: Reader, key: str, before: Order | None, limit: int, *, is_lost: bool) -> Item:
    """One page of a key's history.

    ``history`` of a ``key`` answers ``{"items", "before", "complete", "since", "token"}``: the values that were written
    to it, the newest first. ``before`` is where the next page begins, or null; a page has at most 500 values. With
    ``lost`` it tells only values that were lost. ``complete`` and ``since`` say how far
    [history](../explanation/consistency.md#history) reaches back.

    With ``prefix`` it answers the newest ``limit`` values of all those keys at once, and ``more``. Values beyond 4 MiB
    are null, with ``"cut": true``. A connection may have 8 such requests under way.
    """
    rows = islice(rows_of_key(reader, key, before, is_lost=is_lost), HISTORY_ROWS_MAX + 1)
    items: list[Item] = []
    more, size_bytes, place = False, 0, before
    for looked_at, row in enumerate(rows):
        joins = bool(items) and is_same_edit(items[-1], row, reader.node_of)
        full = not joins and (len(items) == limit or (bool(items) and size_bytes >= HISTORY_BYTES_MAX))
        more = full or looked_at == HISTORY_ROWS_MAX
        if more:
            break
        place = row.entry.order
        if joins:
            join_edits(items[-1], describe_past(reader, row))
        else:
            items.append(describe_past(reader, row))
            size_bytes += len(row.entry.value or b"") + 200
    return page(reader.replica, items, place if more else None, reader.replica.past.floors(key))


def page(replica: Replica, items: list[Item], place: Order | None, floors: Sequence[tuple[VersionVector, int]]) -> Item:
    """The answer. ``before`` is where the next page begins, if there is one; ``complete`` and ``since`` say how far
    back history reaches here, by the ``floors`` of these keys.
    """
    return {
        "items": items,
        "before": None if place is None else encode_order(place),
        "complete": not floors,
        "since": max((since_ms for _, since_ms in floors), default=0) or None,
        "token": encode_token([(replica.name, replica.epoch, replica.vector)]),
    }


def rows_of_key(reader: Reader, key: str, before: Order | None, *, is_lost: bool) -> Iterator[PastRow]:
    """All that is known of ``key``, newest first; dead rows are read from disk as they are needed."""
    past = reader.replica.past
    unsaved = [
        row
        for row in past.unsaved_of(key)
        if (before is None or row.entry.order < before) and (not is_lost or row.fate == RemovalReason.LOST)
    ]
    recent = [iter(sorted(unsaved, key=_order, reverse=True))]
    if not is_lost:
        recent.append(_living(reader, key, before))
    known = (
        row._replace(seen=seen_of(reader.replica, row.entry)) for row in merge_sorted(*recent, key=_order, reverse=True)
    )
    dead = _dead(partial(reader.storage.dead, reader.replica.id, key, is_lost=is_lost), before)
    return _once(merge_sorted(known, dead, key=_order, reverse=True))


def _once(rows: Iterable[PastRow]) -> Iterator[PastRow]:
    """A row may be in its place by now and be remembered all the same."""
    last: Order | None = None
    for row in rows:
        if row.entry.order != last:
            last = row.entry.order
            yield row


def _living(reader: Reader, key: str, before: Order | None) -> Iterator[PastRow]:
    held = reader.replica.entries.held(key)
    end = len(held) if before is None else bisect_left(held, before, key=order_of)
    return (PastRow(held[at], None) for at in range(end - 1, -1, -1))


def _order(row: PastRow) -> Order:
    return row.entry.order


def _dead(read: Callable[..., Sequence[PastRow]], before: Order | None) -> Iterator[PastRow]:
    """Dead rows in small portions: most readers want few."""
    portion = 32
    while True:
        rows = read(before, rows_max=portion)
        yield from rows
        if not rows:
            return
        before = rows[-1].entry.order
        portion = min(2 * portion, HISTORY_ROWS_MAX)


# -- one value -----------------------------------------------------------------------------------------------


def describe_past(reader: Reader, row: PastRow, *, is_cut: bool = False) -> Item:
    """One value as agents see it; ``is_cut``: it is too much to be read.

    A value has these fields:

    - ``key, kind, value, dot, agent, node, time, confidence, meta, ttl``: as of an entry. Of a map the value is one
      ``field``, of a set or log one element, of a counter what the author's node had counted. It is null for a reset
      and for edits of a text.
    - ``op``: ``set, merge, add, append, incr, reset, text, compact`` or ``resolve``.
    - ``token``: names the write, with all that its node had applied before.
    - ``seen``: the dots that it replaced and its author had read (of a counter, set or text: its node held); null: not
      known here.
    - ``blind``: the dots that it replaced unread; ``seen`` is then empty.
    - ``seen_all``: a token in place of too many dots.
    - ``fate``: as [``history``](command-line.md#history) shows it; null: not known here.
    - ``removed_by``: null, or ``{"op", "dot", "agent", "node", "time"}`` of the write that removed it; of several, the
      first that this node applied.
    - ``document, edits, began``: of a text: how many edits by one author are told as one value, the first at ``began``.
      ``dot``, ``token`` and ``time`` are the last one's, ``seen`` is the first one's.
    """
    replica, entry = reader.replica, row.entry
    if row.position and not entry.is_on_disk:
        replica.values.doubt(entry)
    said, rules = attributes_of(entry.attrs), rules_of(entry.kind)
    point = {entry.writer: entry.dot.seq}
    return {
        "key": entry.key,
        "kind": kind_name(entry.kind),
        "op": writing_operation(entry.kind, entry.sub, entry.attrs).name,
        "value": None if is_cut else rules.history_value(entry),
        "dot": encode_dot(entry.dot),
        "agent": entry.agent,
        "node": reader.node_of(entry.writer),
        "time": hlc_ms(entry.hlc),
        "confidence": said.confidence,
        "meta": said.meta,
        "ttl": said.ttl,
        "token": encode_token([(replica.name, replica.epoch, point)]),
        **describe_seen(replica, row.seen),
        "fate": _fate(reader, row),
        "removed_by": _describe_removal(reader, row),
        **rules.history_fields(entry),
        **({"cut": True} if is_cut else {}),
    }


def _fate(reader: Reader, row: PastRow) -> str | None:
    if row.position == 0:
        entry = reader.replica.entries.find(row.entry.key, row.entry.dot) or row.entry
        return "expired" if entry.is_expired(reader.now_ms) else LIVE
    return None if row.fate is None else _REASONS.get(row.fate)


def _describe_removal(reader: Reader, row: PastRow) -> Item | None:
    if row.removal is None:
        return None
    dot, hlc, agent, operation = row.removal
    return {
        "op": operation,
        "dot": encode_dot(dot),
        "agent": agent,
        "node": reader.node_of(dot.writer),
        "time": hlc_ms(hlc),
    }


# -- edits of a text by one author ---------------------------------------------------------------------------


def is_same_edit(item: Item, row: PastRow, node_of: Callable[[Writer], str]) -> bool:
    """Whether an older row is an edit of the same text by the same author, with no other between, that went on."""
    entry = row.entry
    operation = writing_operation(entry.kind, entry.sub, entry.attrs)
    return (
        operation.is_edit
        and item["op"] == operation.name
        and row.fate == RemovalReason.REPLACED
        and item["key"] == entry.key
        and item["agent"] == entry.agent
        and item.get("document") == rules_of(entry.kind).history_fields(entry).get("document")
        and item["node"] == node_of(entry.writer)
    )


def join_edits(item: Item, older: Item) -> None:
    """Count older edits into an item."""
    item["edits"] += older["edits"]
    item["began"], item["seen"] = older["began"], older["seen"]


# -- places ----------------------------------------------------------------------------------------------------


def encode_order(order: Order) -> str:
    """A place among the values of a key, as a request names it."""
    hlc, *dot = order
    return f"{hlc}.{'.'.join(map(str, dot))}"


def decode_order(text: object) -> Order:
    """:raises InvalidRequest: not a place."""
    hlc, _, dot = text.partition(".") if isinstance(text, str) and len(text) <= 80 else ("", "", "")
    if not (hlc.isascii() and hlc.isdigit()) or int(hlc) >= 1 << 64:
        raise InvalidRequest(f"{shown(text)} is not a place in history: it comes from the page before, as its before")
    return (int(hlc), *decode_dot(dot))
