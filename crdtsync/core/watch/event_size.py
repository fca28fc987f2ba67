"""The values of a key as one event tells them: as many as fit into a frame, and a version of those alone.

A batch, a snapshot of siblings, or one key with many siblings of a megabyte each would not fit whole. The event then
says that there are more values, and the agent reads them with ``entry`` or ``conflicts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from crdtsync.core.kinds.base import Sibling
from crdtsync.core.kinds.operations import Tells
from crdtsync.core.kinds.registry import OPERATIONS
from crdtsync.core.kinds.seen import describe_seen, seen_of
from crdtsync.core.kinds.values import describe, packed_value, version_of
from crdtsync.errors import CrdtSyncError
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack, unpack

if TYPE_CHECKING:
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.replica.replica import Replica
    from crdtsync.wire.tokens import Version

CONFLICT_BYTES_MAX = 5 * 1024 * 1024
"""All values of one key in one event. Beyond that, a value is left out."""
BATCH_BYTES_MAX = 6 * 1024 * 1024
"""The events of one batch. Beyond that, events that show states come without them."""

_SHOWS_STATE = (Tells.GONE, Tells.RESULT, Tells.REWRITE)
_STATES = {"state", *(name for name, operation in OPERATIONS.items() if operation.tells in _SHOWS_STATE)}
"""Operations whose events show what the key holds, and not only what the change has written."""

_WITHOUT = {"value": None, "meta": None, "seen": None, "cut": True}


class ToldValues(NamedTuple):
    """``parts``: the values as agents see them, the winner first; of ``more`` siblings there is nothing.

    ``version`` covers those that are there with their value.
    """

    parts: list[dict[str, Any]]
    more: int
    version: Version


def told_values(replica: Replica, groups: Sequence[Sibling]) -> ToldValues:
    """The values of a key in conflict, each with what its author had seen."""
    parts: list[dict[str, Any]] = []
    shown: list[Entry] = []
    unshown: list[Entry] = []
    left_bytes = CONFLICT_BYTES_MAX
    for number, group in enumerate(groups):
        part = _described(replica, group)
        size_bytes = len(pack(part))
        if size_bytes > left_bytes:
            part = {name: field for name, field in part.items() if name not in ("blind", "seen_all")} | _WITHOUT
            size_bytes = len(pack(part))
        if size_bytes > left_bytes:
            unshown += _flat(groups[number:])
            break
        left_bytes -= size_bytes
        parts.append(part)
        (unshown if "cut" in part else shown).extend(group)
    return ToldValues(parts, len(groups) - len(parts), version_of(_in_order(shown), _in_order(unshown)))


def _described(replica: Replica, group: Sibling) -> dict[str, Any]:
    value, cut = told_value(replica, group)
    seen = describe_seen(replica, seen_of(replica, group[-1]))
    return describe(replica, group, replica.node_of, lambda _replica, _group: value) | seen | cut


def told_value(replica: Replica, group: Sibling) -> tuple[bytes | None, dict[str, bool]]:
    """One value; None, marked as cut, if it is too large for an event."""
    try:
        value = packed_value(replica, group)
    except CrdtSyncError:
        return None, {"cut": True}
    return (value, {}) if value is None or len(value) <= CONFLICT_BYTES_MAX else (None, {"cut": True})


def _flat(groups: Iterable[Sibling]) -> list[Entry]:
    return [entry for group in groups for entry in group]


def _in_order(entries: list[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: entry.order)


def fitting(events: list[bytes]) -> list[bytes]:
    """The events of a batch, without the values of as many as it takes to fit into a frame: first of those that show
    the state of a key, the largest first. The values that the change itself has written always fit.
    """
    size_bytes = sum(map(len, events))
    if size_bytes <= BATCH_BYTES_MAX:
        return events
    plain = [unpack(event) for event in events]
    if sum(len(event["token"] or "") for event in plain) > BATCH_BYTES_MAX // 4:
        plain = [event | {"token": None} for event in plain]  # long where nodes are many; the batch has one of its own
    events = [pack(event) for event in plain]
    size_bytes = sum(map(len, events))
    if size_bytes <= BATCH_BYTES_MAX:
        return events
    is_state = [event["event"] == "conflict" or event["op"] in _STATES for event in plain]
    for number in sorted(range(len(events)), key=lambda number: (not is_state[number], -len(events[number]))):
        slim = plain[number] | _WITHOUT | {"version": None}
        if "siblings" in slim:
            slim |= {"siblings": [], "more": len(slim["siblings"]) + slim.get("more", 0)}
        size_bytes -= len(events[number])
        events[number] = pack(slim)
        size_bytes += len(events[number])
        if size_bytes <= BATCH_BYTES_MAX:
            break
    return events


def slim(event: bytes) -> bytes:
    """An event without any value, and what else may be long: for one that would fit into no frame."""
    return pack(_slim(unpack(event)))


def _slim(event: dict[str, Any]) -> dict[str, Any]:
    if event["event"] == "batch":
        return event | {"events": [_slim(one) | {"token": None} for one in event["events"]]}
    less = event | _WITHOUT | {"version": None, "too_large": True}
    less.pop("shown", None)
    return less | {"siblings": [], "more": len(event["siblings"])} if "siblings" in event else less
