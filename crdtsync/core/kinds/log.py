"""Log: elements in causal order. Everything that is appended stays until it is trimmed.

An element is an entry. Its place follows from hybrid time, writer and number, so that all hosts have one order; what
Ann appends after reading Bob's element stands after it.

A trim removes the oldest elements. It names them by a range, all up to a place in the log, and not one by one, since
they may be thousands. Where the key holds entries of other kinds too, a range would take them with it: then, and for
elements of the same batch, the trim names dots. To remove one element is an operation that names its dot.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from crdtsync.causality import Dot
from crdtsync.core.crdt.entries import Entries
from crdtsync.core.crdt.entry import Entry, order_of, reach_of
from crdtsync.core.crdt.read_context import NotYet, Removes
from crdtsync.core.kinds.arguments import Arguments, Result, attributes, packed_argument
from crdtsync.core.kinds.base import Paged, Part, Rules, Sibling, Touched, check_readable, packed_array, when_short
from crdtsync.core.kinds.operations import TRIMMED_ATTR, Operation, Tells
from crdtsync.errors import InvalidRequest
from crdtsync.wire.change import Op, RemoveRange, value_hash
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import NAMED_DOTS_MAX, check_key, shown
from crdtsync.wire.tokens import decode_dot

if TYPE_CHECKING:
    from crdtsync.core.kinds.draft import Draft
    from crdtsync.core.space import SpaceState

APPEND = Operation("append", Tells.ELEMENT)

_TRIMMED = {TRIMMED_ATTR: True}


def _append(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    value = packed_argument(args.get("value"), draft.parts_of_values)
    live = draft.check_write(key, args, Kind.LOG, "append")
    attrs = attributes(args, draft.parts_of_values)
    seen, behind = draft.seen(args)
    result: Result = {"length": len(_elements(draft, key, live)) + 1, "behind": behind}
    draft.add(Op(key, None, Kind.LOG, value, value_hash(value), (), attrs))
    if seen is not None:
        draft.promise_key_version(result, key, seen)
    return result


def _elements(draft: Draft, key: str, live: list[Entry]) -> list[Entry]:
    return [entry for entry in live if entry.kind == Kind.LOG] if draft.is_mixed(key) else live


def trim(draft: Draft, args: Arguments) -> Result:
    """The request ``trim``: keep the last elements."""
    key = check_key(args.get("key"))
    keep = args.get("keep")
    if type(keep) is not int or keep < 0:
        raise InvalidRequest("keep must be the number of elements to keep, 0 or more")
    live = draft.check_write(key, args, Kind.LOG, "trim")
    logged = _elements(draft, key, live)
    gone = logged[: max(0, len(logged) - keep)]
    remove_oldest(draft, key, gone, is_alone=len(logged) == len(draft.held(key)))
    return {"removed": len(gone), "length": len(logged) - len(gone)}


def remove_oldest(draft: Draft, key: str, gone: list[Entry], *, is_alone: bool) -> None:
    """Remove the first elements; ``is_alone``: nothing else is held under the key."""
    reach = draft.reach(key) if len(gone) > NAMED_DOTS_MAX else None  # names writers of what stays, too
    drafted: tuple[Dot, ...] = ()
    if reach is None:
        drafted = tuple(entry.dot for entry in gone if not entry.row)  # of this batch: their place is not known yet
        gone = [entry for entry in gone if entry.row]
    if gone:
        removes: Removes = RemoveRange(dict(reach or reach_of(gone)[0]), gone[-1].order)
        if not is_alone:
            removes = tuple(entry.dot for entry in gone)  # a range would take siblings of other kinds with it
        draft.add(Op(key, None, Kind.LOG, None, None, removes, None if isinstance(removes, RemoveRange) else _TRIMMED))
    if drafted:
        draft.add(Op(key, None, Kind.LOG, None, None, drafted, _TRIMMED))


def _remove(draft: Draft, args: Arguments) -> Result:
    """One element, wherever it is: the rest stays. One that is on its way here is waited for."""
    key = check_key(args.get("key"))
    dot = decode_dot(args.get("dot"))
    live = draft.check_write(key, args, Kind.LOG, "remove")
    logged = _elements(draft, key, live)
    element = draft.entry(key, dot)
    is_here = element is not None and element.kind == Kind.LOG and not element.is_expired(draft.now_ms)
    if is_here:
        draft.add(Op(key, None, Kind.LOG, None, None, (dot,), None))
    elif dot.seq > draft.space.vector.get(dot.writer, 0) and dot.writer != draft.own_dot().writer:
        unknown = InvalidRequest(f"{key!r} has no element {shown(args.get('dot'))}, and no node is known that has it")
        raise NotYet({dot.writer: dot.seq}, otherwise=unknown)
    return {"existed": is_here, "length": len(logged) - is_here}


def _read(space: SpaceState, group: Sibling) -> bytes:
    check_readable([entry.size_bytes for entry in group], "log", "log")
    space.values.fetch(group)
    return packed_array([entry.value or pack(None) for entry in group])


def _elements_of(group: Sibling) -> Sibling:
    return group


def _partial(entries: Entries, key: str, touched: Touched) -> Part | None:
    """New elements with their places, counted from the end; what is over the length at the beginning is gone."""
    held = entries.held(key)
    if entries.is_expiring(key):
        return None  # some of what is held may be shown to nobody any more, and places count what is shown
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
        "op": APPEND.name,
        "value": packed_array([entry.value or pack(None) for entry in new]),
        "places": None if in_order else places,
        "length": len(held),
    }


RULES: Rules = Rules(
    None,
    _read,
    is_inline=when_short,
    writes={"append": _append, "trim": trim, "remove": _remove},
    paged=Paged("log", _elements_of),
    written=APPEND,
    partial=_partial,
    is_accumulating=True,
)
