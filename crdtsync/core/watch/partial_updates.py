"""What a commit did to a key that holds many parts, told as the parts alone: to watchers that hold the rest.

A copy of the key as it was before the commit becomes exactly what the key is after it. Where that takes more than a
few parts to say, nothing is said, and the whole is told instead.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from crdtsync.core.crdt.entries import Entries, Entry, order_of
from crdtsync.core.kinds.base import intact, packed_array
from crdtsync.core.kinds.values import is_conflict
from crdtsync.wire.change import Kind
from crdtsync.wire.codec import pack

if TYPE_CHECKING:
    from crdtsync.causality import Dot
    from crdtsync.core.replica.replica import Effect

WHOLE_ENTRIES_MAX = 8
"""A key with so few entries is told as a whole."""

Part = dict[str, Any]


class _Touched(NamedTuple):
    """The entries of a key that a commit added and that are still there, and those that it removed, in any order."""

    added: dict[Dot, Entry]
    removed: list[Entry]

    def subs(self) -> dict[str | None, None]:
        """What their entries are parts of."""
        return dict.fromkeys(entry.sub for entry in (*self.removed, *self.added.values()))


def part_of(entries: Entries, key: str, effects: Sequence[Effect]) -> Part | None:
    """What all these effects on ``key`` came to, as fields of an event; None: the whole must be told."""
    held = entries.held(key)
    if len(held) <= WHOLE_ENTRIES_MAX or key in entries.mixed or entries.is_expiring(key):
        return None
    kind = held[-1].kind
    make = _PARTS.get(kind)
    if make is None:
        return None
    touched = _touched(effects)
    if any(entry.kind != kind for entry in (*touched.removed, *touched.added.values())):
        return None
    if 2 * (len(touched.added) + len(touched.removed)) > len(held) and kind != Kind.LOG:
        return None
    return make(entries, key, touched)


def _touched(effects: Iterable[Effect]) -> _Touched:
    added: dict[Dot, Entry] = {}
    removed: list[Entry] = []
    for effect in effects:
        removed += [entry for entry in effect.removed if added.pop(entry.dot, None) is None]
        if effect.added is not None:
            added[effect.added.dot] = effect.added
    return _Touched(added, removed)


def _log(entries: Entries, key: str, touched: _Touched) -> Part | None:
    """New elements with their places, counted from the end; what is over the length at the beginning is gone."""
    held = entries.held(key)
    new = sorted(touched.added.values(), key=order_of)
    if 2 * len(new) > len(held):
        return None
    if touched.removed:
        oldest_left = next(entry for entry in held if entry.dot not in touched.added)
        if max(map(order_of, touched.removed)) > oldest_left.order:
            return None  # from the middle
    last = len(held) - 1
    places = [last - bisect_left(held, entry.order, key=order_of) for entry in new]
    in_order = places == [*range(len(new) - 1, -1, -1)]
    return {
        "op": "append",
        "value": packed_array([entry.value or pack(None) for entry in new]),
        "places": None if in_order else places,
        "length": len(held),
    }


def _set(entries: Entries, key: str, touched: _Touched) -> Part | None:
    """Elements that are the last ones now, in their order, and those that are gone."""
    subs = touched.subs()
    newest: dict[str | None, Entry] = {}
    for entry in reversed(entries.held(key)):
        if entry.sub not in subs:
            break
        newest.setdefault(entry.sub, entry)
    gone: dict[str | None, bytes] = {}
    for sub in subs:
        if sub is None or (entries.of_sub(key, sub) and sub not in newest):
            return None  # changed, and not among the last ones
        if sub not in newest:
            value = next((entry.value for entry in touched.removed if entry.sub == sub), None)
            if value is None:
                continue  # it came and went, or was purged: nobody holds it by its value
            gone[sub] = intact(value)
    added = [intact(entry.value) for entry in reversed(newest.values())]
    return {"op": "add", "value": packed_array(added), "gone": packed_array([*gone.values()])}


def _map(entries: Entries, key: str, touched: _Touched) -> Part | None:
    """The fields that were written, and the names of those that are gone."""
    if is_conflict(entries, entries.held(key)):
        return None
    fields: dict[str, bytes] = {}
    gone: list[str] = []
    for sub in touched.subs():
        if sub is None:
            return None
        of_field = entries.of_sub(key, sub)
        if of_field:
            fields[sub] = intact(of_field[-1].value)
        else:
            gone.append(sub)
    count = len(fields)
    head = bytes([0x80 | count]) if count < 16 else b"\xdf" + count.to_bytes(4, "big")
    value = head + b"".join(pack(name) + fields[name] for name in sorted(fields))
    return {"op": "merge", "value": value, "gone": packed_array([pack(name) for name in sorted(gone)])}


_PARTS: Mapping[int, Callable[[Entries, str, _Touched], Part | None]] = {
    Kind.LOG: _log,
    Kind.SET: _set,
    Kind.MAP: _map,
}
