"""Events for watchers: those of a change as it is applied, from the log alone, and of a key's newest state.

An event is ``{"event", "key", "kind", "value", "op", "version", "dot", "token", "agent", "node", "time"}``; ``dot``
names the entry that ``value`` is of. If the author said something about the value, it has ``meta``.

- ``snapshot``: without ``after``: one for each key that lives, then one with ``key`` null.
- ``set``: a change of a key that exists after it.
- ``delete``: the key is gone; ``op`` is ``delete``, or the ``discard``, ``drop`` or ``trim`` of its last part.
- ``expired``: the key's time is over by this host's clock; ``time`` says when. The deletion that follows is not told.
- ``conflict``: as ``set``, and the key now has ``siblings``; ``version`` covers all; ``policy`` orders them.
- ``batch``: a change of several parts, whole, in ``events``. The fields of one merge are one event.
- ``lagged``: the newest state of each key that this watcher missed follows.
- ``reset``: forget all that you hold; a snapshot follows.

The ``op`` of a ``set`` says what ``value`` is:

- ``set``, ``resolve``, ``compact``, ``state``: the whole value of the key. ``state`` is the newest state, not one
  operation; a text's document may be another one from here on.
- ``incr``, ``reset``: what the counter is now.
- ``add``, ``discard``: the element. From the log, null for a discarded one of over 192 bytes.
- ``merge``: a map of the fields that were written; ``version`` covers them.
- ``drop``: the name of the field.
- ``append``: the element.
- ``trim``: null.
- ``text``: the Yjs update, of ``document``.
- ``delete``, ``expire``: one of several values is gone: the value that is left.

[Follow changes](../how-to/follow-changes.md#watch) says what a watch promises.

- **Tokens.** A watch with ``after`` set to an event's ``token`` goes on with the next event. Events without one come
  again, so a client hands them out with the next token only.
- **Never backwards.** If an event shows what later changes of the same turn did to its key, the events of those changes
  show it too, as ``state``, and it may be ahead of a batch that follows at once. Appended elements are told each.
- **Cut.** 5 MiB for a key with its siblings, or one text, and 6 MiB for a batch fit into an event. Beyond that,
  ``value`` is null with ``"cut": true``, and ``more`` counts siblings that are not listed.
- **Schemas.** If a schema comes, changes or goes, the keys whose ``get`` now differs come as ``conflict`` with ``op``
  ``state``.
- **Reserved keys** are told if the prefix begins with ``_``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

from crdtsync.causality import Dot, hlc_ms
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.kinds.base import Sibling
from crdtsync.core.kinds.operations import DELETE, EXPIRED, Operation, Tells
from crdtsync.core.kinds.registry import operation_of
from crdtsync.core.kinds.values import is_conflict, policy_of, siblings, version_of
from crdtsync.core.replica.replica import Replica
from crdtsync.core.space import Applied
from crdtsync.core.watch.event_size import slim, told_value, told_values
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import Change, Op
from crdtsync.wire.codec import pack
from crdtsync.wire.framing import frame
from crdtsync.wire.kinds import Kind, kind_name
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX
from crdtsync.wire.stored_values import attributes_of
from crdtsync.wire.tokens import Version, encode_dot, encode_version, version_text

Event = dict[str, Any]

_GONE, _PART, _ELEMENT, _PART_GONE = Tells.GONE, Tells.PART, Tells.ELEMENT, Tells.PART_GONE
_WHOLE, _RESULT, _REWRITE = Tells.WHOLE, Tells.RESULT, Tells.REWRITE

FRAME_BYTES_MAX = 1024 * 1024
"""One frame with several events."""
EVENT_BYTES_MAX = AGENT_FRAME_BYTES_MAX - 1024
"""One event: beyond that it comes without what may be long, whatever made it so."""

_FIELDS = ("event", "key", "kind", "value", "op", "version", "dot", "token", "agent", "node", "time")


_REGISTER = int(Kind.REGISTER)
_REGISTER_NAME = kind_name(_REGISTER)


class Unit(NamedTuple):
    """The operations of a change that make one event: ``ops``, the first of which is number ``first`` of the change."""

    key: str
    operation: Operation
    first: int
    ops: Sequence[Op]


def units_of(change: Change) -> list[Unit]:
    """The units as which a change is told, in order."""
    if len(change.ops) == 1:
        op = change.ops[0]
        return [Unit(op.key, operation_of(op), 0, change.ops)]
    found: list[Unit] = []
    ops: list[Op] = []
    for number, op in enumerate(change.ops):
        operation = operation_of(op)
        if found and found[-1].key == op.key and found[-1].operation.goes_on_with(operation):
            ops.append(op)
        else:
            ops = [op]
            found.append(Unit(op.key, operation, number, ops))
    return found


# -- events --------------------------------------------------------------------------------------------------


def _event(replica: Replica, change: Change, name: str, unit: Unit) -> Event:
    key, operation, first, ops = unit
    event: Event = {
        "event": name,
        "key": key,
        "kind": kind_name(ops[-1].kind),
        "value": operation.value(ops),
        "op": operation.name,
        "agent": change.agent,
        "node": replica.node_of(change.writer),
        "time": hlc_ms(change.hlc),
    }
    meta = attributes_of(ops[-1].attrs).meta
    if meta is not None:
        event["meta"] = meta
    return event if operation.beside is None else {**event, **operation.beside(change, first, ops)}


def live_event(replica: Replica, applied: Applied, unit: Unit, now_ms: int, ahead: set[str]) -> Event | None:
    """The event of a change that has just been applied, for one key; None: nothing that a reader could see.

    ``ahead``: keys whose state with all changes of this turn has been told. Later events of such a key must not be
    older than that. (Elements of logs are told in any case.)
    """
    effects = applied.effects[unit.first : unit.first + len(unit.ops)]
    added = [effect.added for effect in effects if effect.added is not None]
    shown = [entry for entry in added if not entry.is_expired(now_ms)]
    removed = [entry for effect in effects for entry in effect.removed if not entry.hidden]
    if not shown and not removed:
        return None
    operation = unit.operation if shown or not added else EXPIRED
    tells = operation.tells
    live = replica.entries.live(unit.key, now_ms)
    groups = siblings(replica.entries, live)
    event = _event(replica, applied.change, "set", unit) | {"op": operation.name}
    if not live and operation is EXPIRED:
        return event | {"event": EXPIRED.event, "value": None}
    if not live:
        return event | {"event": DELETE.event}
    is_ahead = unit.key in ahead and tells is not _ELEMENT
    if is_ahead or not _follows(replica, unit, operation, groups[0], now_ms):
        ahead.add(unit.key)
        has_part = tells is _PART_GONE or (is_ahead and tells is _PART)
        event |= _newest(replica, groups) | {"op": "state" if has_part else operation.name}
    elif tells is _RESULT:
        event |= _state_value(replica, groups[0])
    elif tells is _PART_GONE and event["value"] is None and removed:
        event["value"] = removed[-1].value
    if len(groups) > 1:
        ahead.add(unit.key)
        return event | _conflict(replica, groups)
    if shown and tells is not _REWRITE and not is_ahead:
        event |= _handed_over([entry.dot for entry in shown], applied.change.hlc)
    return event


def plain_live_event(replica: Replica, applied: Applied, token: str) -> bytes | None:
    """The event of a change that set one register to the only value that it holds, packed: what comes of
    :func:`live_event` and :func:`pack_event` for it. None: it is another one.
    """
    if len(applied.effects) != 1:
        return None
    op, added, _ = applied.effects[0]
    if added is None or added.kind != _REGISTER or added.attrs is not None or added.sub is not None:
        return None
    held = replica.entries.held(op.key)
    if len(held) != 1 or held[0] is not added:
        return None
    change, (writer, seq, n) = applied.change, added.dot
    return pack(
        {
            "event": "set", "key": op.key, "kind": _REGISTER_NAME, "value": op.value, "op": "set",
            "version": version_text(change.hlc, writer, seq, n), "dot": f"{writer}.{seq}.{n}", "token": token,
            "agent": change.agent, "node": replica.node_of(writer), "time": hlc_ms(change.hlc),
        }
    )  # fmt: skip


def _follows(replica: Replica, unit: Unit, operation: Operation, winner: Sibling, now_ms: int) -> bool:
    """Whether a key's value follows from its value before and the operation."""
    last = unit.ops[-1]
    if operation.tells in (_GONE, _REWRITE) or winner[-1].kind != last.kind:
        return False
    if operation.tells is not _PART_GONE:
        return True
    parts = replica.entries.of_sub(unit.key, last.sub or "")
    return not any(entry.kind == last.kind and not entry.is_expired(now_ms) for entry in parts)


def past_event(replica: Replica, change: Change, unit: Unit) -> Event | None:
    """An event told from the log alone: what happened, without what it did to siblings. None: the log does not say."""
    if unit.operation.tells in (_RESULT, _REWRITE):
        return None
    event = _event(replica, change, unit.operation.event, unit)
    dots = [Dot(change.writer, change.seq, n) for n, op in enumerate(unit.ops, unit.first) if op.value_hash is not None]
    return event | _handed_over(dots, change.hlc) if dots else event


class Upshot(Enum):
    """The knowledge of a key of a watcher that was told of its operations one by one, from the log."""

    WHOLE = auto()
    """All, by the last operation alone."""
    FOLLOWS = auto()
    """The value follows from the one before."""
    UNKNOWN = auto()
    """Not what the key holds now: it must be told anew."""


def upshot(replica: Replica, unit: Unit, now_ms: int) -> Upshot:
    """The knowledge after ``unit``, as far as the key has not changed since.

    The log alone tells neither what survived a removal, nor which of several values wins, nor a counter's value.
    """
    entries = replica.entries
    live = entries.live(unit.key, now_ms)
    tells = unit.operation.tells
    if not live:
        return Upshot.WHOLE if tells is _GONE else Upshot.UNKNOWN
    if tells is _RESULT or is_conflict(entries, live):
        return Upshot.UNKNOWN
    if not _follows(replica, unit, unit.operation, live, now_ms):
        return Upshot.UNKNOWN
    return Upshot.WHOLE if tells is _WHOLE else Upshot.FOLLOWS


def hidden_event(replica: Replica, entry: Entry, now_ms: int) -> Event:
    """An entry has expired: its key is gone, or shows what is left of it."""
    live = replica.entries.live(entry.key, now_ms)
    groups = siblings(replica.entries, live)
    if groups:
        event = {"event": "set", "key": entry.key, **_newest(replica, groups), "op": EXPIRED.name}
        return event | _conflict(replica, groups) if len(groups) > 1 else event
    return {
        "event": EXPIRED.event,
        "key": entry.key,
        "kind": kind_name(entry.kind),
        "value": None,
        "op": EXPIRED.name,
        "agent": entry.agent,
        "node": replica.node_of(entry.writer),
        "time": entry.expires_ms(),
    }


def state_event(replica: Replica, key: str, now_ms: int, snapshot: bool) -> Event:
    """The newest state of a key."""
    entries = replica.entries
    live = entries.live(key, now_ms)
    groups = siblings(entries, live)
    if not groups:
        operation = EXPIRED if entries.held(key) else DELETE
        return {"event": operation.event, "key": key, "kind": None, "value": None, "op": operation.name}
    event = {"event": "snapshot" if snapshot else "set", "key": key, **_newest(replica, groups), "op": "state"}
    if len(groups) == 1:
        return event
    conflict = _conflict(replica, groups)
    return event | conflict | ({"event": "snapshot"} if snapshot else {})


def _newest(replica: Replica, groups: list[Sibling]) -> Event:
    newest = groups[0][-1]
    return {
        "kind": kind_name(newest.kind),
        **_state_value(replica, groups[0]),
        "version": encode_version(version_of(groups[0])),
        "dot": encode_dot(newest.dot),
        "agent": newest.agent,
        "node": replica.node_of(newest.writer),
        "time": hlc_ms(newest.hlc),
    }


def _conflict(replica: Replica, groups: list[Sibling]) -> Event:
    told = told_values(replica, groups)
    winner, *others = told.parts
    event = {
        **{name: winner[name] for name in ("kind", "value", "dot", "agent", "node", "time", "seen")},
        "event": "conflict",
        "version": encode_version(told.version),
        "siblings": others,
        "policy": policy_of(replica.entries, groups).name,
    }
    if "cut" in winner:
        event["cut"] = True
    if told.more:
        event["more"] = told.more
    return event


def _handed_over(dots: list[Dot], hlc: int) -> Event:
    return {"version": encode_version(Version(dots=tuple(dots), hlc=hlc)), "dot": encode_dot(dots[-1])}


def _state_value(replica: Replica, group: Sibling) -> Event:
    """``value``: null, with ``cut``, if it is too large for an event; the watcher reads it in parts."""
    value, cut = told_value(replica, group)
    return {"value": value, **cut}


# -- as bytes ------------------------------------------------------------------------------------------------


def plain_event(name: str, token: str | None) -> bytes:
    """An event that concerns no key."""
    return pack_event({"event": name, "key": None}, token)


def pack_event(event: Event, token: str | None) -> bytes:
    """An event as msgpack, with all the fields that every event has."""
    return pack({**dict.fromkeys(_FIELDS), **event, "token": token})


def pack_batch(change: Change, replica: Replica, events: Sequence[bytes], token: str | None) -> bytes:
    """One event that holds several."""
    plain = {
        **dict.fromkeys(_FIELDS),
        "event": "batch",
        "op": "batch",
        "token": token,
        "agent": change.agent,
        "node": replica.node_of(change.writer),
        "time": hlc_ms(change.hlc),
    }
    head = pack(plain)
    # a map of one more item: the events, which are packed already
    return bytes([0x80 | (len(plain) + 1)]) + head[1:] + pack("events") + array_header(len(events)) + b"".join(events)


def array_header(count: int) -> bytes:
    """The start of a msgpack array."""
    return bytes([0x90 | count]) if count < 16 else b"\xdd" + count.to_bytes(4, "big")


def event_frames(request: int, events: Sequence[bytes]) -> list[bytes]:
    """Events of a watch as frames, in order: as many in each as fit."""
    head = b"\x93" + pack(request) + b"\x02"
    frames: list[bytes] = []
    start = 0
    while start < len(events):
        end, size_bytes = start, 0
        while end < len(events) and (end == start or size_bytes + len(events[end]) <= FRAME_BYTES_MAX):
            size_bytes += len(events[end])
            end += 1
        told = events[start:end] if size_bytes <= EVENT_BYTES_MAX else [slim(events[start])]  # which is alone then
        frames.append(frame(b"".join((head, array_header(end - start), *told))))
        start = end
    return frames
