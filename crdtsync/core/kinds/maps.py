"""Map: per field a register. Values that were written to one field at once are siblings of that field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.arguments import Arguments, Result, packed_argument
from crdtsync.core.entries import Entry
from crdtsync.core.kinds.rules import FieldSibling, Rules, Sibling, check_readable, intact, when_short
from crdtsync.errors import InvalidRequest, TooLarge, TooManySiblings
from crdtsync.wire.change import Kind, Op, value_hash
from crdtsync.wire.codec import pack
from crdtsync.wire.limits import CHANGE_OPS_MAX, KEY_SIBLINGS_MAX, check_key, key_fault, shown

if TYPE_CHECKING:
    from crdtsync.core.draft import Draft
    from crdtsync.core.replica import Replica


def _merge(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    fields = _fields(args.get("fields"))
    live = draft.live(key)
    draft.check_conditions(key, live, args)
    draft.check_kind(key, live, Kind.MAP, "merge")
    seen, behind = draft.seen(args)
    result: Result = {"siblings": 0, "replaced": None, "behind": behind}
    replaced: dict[str, Result] = {}
    ops: list[Op] = []
    for field, value in fields.items():
        held = draft.part(key, Kind.MAP, field)
        current = draft.shown(held)
        if seen is not None:
            gone = draft.covered(held, seen, others=False)
        else:
            gone = current[-1:]
            if gone:
                replaced[field] = draft.describe_replaced(FieldSibling(gone))
        removes = tuple(entry.dot for entry in gone)
        others = sum(entry.dot not in removes for entry in current)
        if others >= KEY_SIBLINGS_MAX:
            raise TooManySiblings(
                f"field {shown(field)} of {key!r} has {others} siblings already, the most that it may have: "
                "read it, then write"
            )
        result["siblings"] += others
        ops.append(Op(key, field, Kind.MAP, value, value_hash(value), removes, None))
    for op in ops:
        draft.add(op)
    result["replaced"] = replaced or None
    if seen is not None:
        draft.promise_key_version(result, key, seen)
    return result


def _fields(plain: object) -> dict[str, bytes]:
    if type(plain) is not dict or not plain:
        raise InvalidRequest("fields must be a map of field names to values, with one field at least")
    if len(plain) > CHANGE_OPS_MAX:
        raise TooLarge(f"a merge of {len(plain):,} fields; at most {CHANGE_OPS_MAX:,} fit into one")
    return {_field(name): packed_argument(value, f"field {shown(name)}") for name, value in plain.items()}


def _field(name: object) -> str:
    fault = key_fault(name)
    if fault is not None:
        raise InvalidRequest(f"the field {shown(name)} {fault}")
    assert isinstance(name, str)
    return name


def _drop(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    field = _field(args.get("field"))
    live = draft.live(key)
    draft.check_conditions(key, live, args)
    draft.check_kind(key, live, Kind.MAP, "drop")
    seen, behind = draft.seen(args)
    held = draft.part(key, Kind.MAP, field)
    gone = held if seen is None else draft.covered(held, seen, others=True)
    if gone:
        draft.add(Op(key, field, Kind.MAP, None, None, tuple(entry.dot for entry in gone), None))
    return {"existed": bool(draft.shown(gone)), "behind": behind}


def _split(live: list[Entry]) -> list[Sibling]:
    """The map of the newest value of each field, and each other value alone."""
    newest: dict[str | None, Entry] = {}
    losers: list[Sibling] = []
    for entry in live:
        lost = newest.pop(entry.sub, None)
        if lost is not None:
            losers.append(FieldSibling([lost]))
        newest[entry.sub] = entry
    return [[*newest.values()], *losers] if losers else [live]


def _read(_replica: Replica, group: Sibling) -> bytes | None:
    if isinstance(group, FieldSibling):
        return group[-1].value
    fields = {entry.sub: intact(entry.value) for entry in group if entry.sub is not None}
    items = [pack(field) + fields[field] for field in sorted(fields)]
    check_readable(items, "map", "fields")
    count = len(items)
    head = bytes([0x80 | count]) if count < 16 else b"\xdf" + count.to_bytes(4, "big")
    return head + b"".join(items)


RULES = Rules(_split, _read, is_inline=when_short, writes={"merge": _merge, "drop": _drop})
