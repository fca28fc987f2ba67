"""Set: an entry per element. Adding wins over discarding what the discarder had not seen.

Ann adds ``{"a": 1, "b": 2}``, and Bob adds ``{"b": 2, "a": 1}`` on another host: that is one element, in two entries.
Carol, who has read Ann's alone, discards it: Ann's entry goes, Bob's stays, and so the element is still there.

An element's identity is its value as canonical msgpack, with the keys of maps in order. The entry has it in its
``sub``; of a long element it has the hash.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from crdtsync.core.crdt.entries import Entries
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.kinds.arguments import Arguments, Result, attributes, packed_argument
from crdtsync.core.kinds.base import (
    Paged,
    Part,
    Rules,
    Sibling,
    Touched,
    check_readable,
    intact,
    packed_array,
    when_short,
)
from crdtsync.core.kinds.operations import Operation, Tells
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import check_key

if TYPE_CHECKING:
    from crdtsync.core.kinds.draft import Draft
    from crdtsync.core.space import SpaceState

NAMED_BYTES_MAX = 192
"""So long an element may be for its identity to be its own bytes. Longer ones are known by their hash."""
NAMING_TIMES = 3
"""So many times each part of an element counts: its maps are brought in order, too."""


def identity_of(value: bytes) -> str:
    """The ``sub`` of an element, given as the msgpack of a storable value."""
    canonical = pack(unpack(value, map_hook=_in_order))
    if len(canonical) <= NAMED_BYTES_MAX:
        return "=" + urlsafe_b64encode(canonical).rstrip(b"=").decode("ascii")
    return "#" + blake2b(canonical, digest_size=16).hexdigest()


def element_of(sub: str | None) -> bytes | None:
    """The element, as msgpack, that a ``sub`` spells out; None: it does not."""
    if sub is None or not sub.startswith("="):
        return None
    try:
        return urlsafe_b64decode(sub[1:] + "=" * (-len(sub[1:]) % 4))
    except (NotBase64, ValueError):
        return None


def _in_order(plain: dict[str, Any]) -> dict[str, Any]:
    """The same map with its keys sorted."""
    return dict(sorted(plain.items())) if len(plain) > 1 else plain


def members(group: Sibling) -> Sibling:
    """The newest entry of each element, in causal order."""
    if len({entry.sub for entry in group}) == len(group):
        return group
    newest: dict[str | None, Entry] = {}
    for entry in group:
        newest.pop(entry.sub, None)
        newest[entry.sub] = entry
    return [*newest.values()]


def _add(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    value = packed_argument(args.get("value"), draft.parts_of_values, times=NAMING_TIMES)
    draft.check_write(key, args, Kind.SET, "add")
    seen, behind = draft.seen(args)
    sub = identity_of(value)
    held = draft.part(key, Kind.SET, sub)
    is_new = not draft.shown(held)
    result: Result = {"added": is_new, "length": draft.parts(key, Kind.SET) + is_new, "behind": behind}
    attrs = attributes({"meta": args.get("meta")}, draft.parts_of_values)
    draft.add(Op(key, sub, Kind.SET, value, value_hash(value), tuple(entry.dot for entry in held), attrs))
    if seen is not None:
        draft.promise_key_version(result, key, seen)
    return result


def _discard(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    sub = identity_of(packed_argument(args.get("value"), draft.parts_of_values, times=NAMING_TIMES))
    draft.check_write(key, args, Kind.SET, "discard")
    seen, behind = draft.seen(args)
    held = draft.part(key, Kind.SET, sub)
    gone = held if seen is None else draft.covered(held, seen, others=True)
    was, left = len(draft.shown(held)), len(draft.shown(held)) - len(draft.shown(gone))
    length = draft.parts(key, Kind.SET) - (was > 0 and left == 0)
    attrs = attributes({"meta": args.get("meta")}, draft.parts_of_values)
    if gone:
        draft.add(Op(key, sub, Kind.SET, None, None, tuple(entry.dot for entry in gone), attrs))
    return {"existed": left < was, "length": length, "behind": behind}


def _read(space: SpaceState, group: Sibling) -> bytes:
    shown = members(group)
    check_readable([entry.size_bytes for entry in shown], "set", "members")
    space.values.fetch(shown)
    return packed_array([intact(entry.value) for entry in shown])


# -- what is told --------------------------------------------------------------------------------------------


def _discarded(ops: Sequence[Op]) -> bytes | None:
    """None for a long element, whose name is but a hash."""
    element = element_of(ops[-1].sub)
    return None if element is None else intact(element)


ADD = Operation("add", Tells.PART)
DISCARD = Operation("discard", Tells.PART_GONE, _discarded)


def _partial(entries: Entries, key: str, touched: Touched) -> Part | None:
    """Elements that are the last ones now, in their order, and those that are gone."""
    held = entries.held(key)
    if touched.is_most_of(held):
        return None
    subs = touched.subs()
    newest: dict[str | None, Entry] = {}
    for entry in reversed(held):
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
    return {"op": ADD.name, "value": packed_array(added), "gone": packed_array([*gone.values()])}


RULES: Rules = Rules(
    None,
    _read,
    is_inline=when_short,
    writes={"add": _add, "discard": _discard},
    paged=Paged("members", members),
    written=ADD,
    removed=DISCARD,
    partial=_partial,
    is_accumulating=True,
    is_by_sub=True,
)
