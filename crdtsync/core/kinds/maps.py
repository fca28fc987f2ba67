"""Map: per field a register. Values that were written to one field at once are siblings of that field.

Ann merges ``{"goal": 1, "by": "ann"}`` and Bob ``{"goal": 2}`` at once. The map has three entries, whose ``sub`` is the
field. Nobody contradicts Ann about ``by``; ``goal`` has two values, of which the newest (or the one that the key's read
policy puts first) is shown in the map, and the other is a sibling: a :class:`~.base.FieldSibling`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from crdtsync.core.crdt.entries import Entries
from crdtsync.core.crdt.entry import Entry, order_of
from crdtsync.core.crdt.read_policies import Rank, first_of
from crdtsync.core.kinds.arguments import Arguments, Parts, Result, attributes, packed_argument
from crdtsync.core.kinds.base import (
    NULL,
    FieldSibling,
    Paged,
    Part,
    Ranked,
    Rules,
    Sibling,
    Touched,
    check_readable,
    intact,
    packed_array,
    packed_map,
    when_short,
)
from crdtsync.core.kinds.crowding import crowded_out
from crdtsync.core.kinds.operations import Fields, Operation, Tells
from crdtsync.core.kinds.schema_check import check_rank
from crdtsync.errors import InvalidRequest, TooLarge
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import CHANGE_OPS_MAX, check_key, key_fault, shown

if TYPE_CHECKING:
    from crdtsync.core.kinds.draft import Draft
    from crdtsync.core.space import SpaceState


def _merge(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    fields = _fields(args.get("fields"), draft.parts_of_values)
    live = draft.check_write(key, args, Kind.MAP, "merge")
    if args.get("if_field_absent"):
        _check_absent(draft, key, fields, live)
    attrs = attributes({name: args.get(name) for name in ("confidence", "meta")}, draft.parts_of_values)
    policy = draft.policy(key)
    seen, behind = draft.seen(args)
    result: Result = {"siblings": 0, "replaced": None, "behind": behind}
    replaced: dict[str, Result] = {}
    lost: list[Result] = []
    ops: list[Op] = []
    for field, value in fields.items():
        held = draft.part(key, Kind.MAP, field)
        current = draft.shown(held)
        check_rank(draft, key, current, value, attrs, field)
        if seen is not None:
            gone = draft.covered(held, seen, others=False)
        else:
            gone = [first_of(policy, current)] if current else []
            if gone:
                replaced[field] = draft.describe_replaced(FieldSibling(gone))
        removes = tuple(entry.dot for entry in gone)
        crowded = crowded_out(draft, key, current, removes, field)
        lost += [draft.describe_replaced(FieldSibling([entry])) for entry in crowded]
        result["siblings"] += sum(entry.dot not in removes for entry in current) - len(crowded)
        blind = seen is None and bool(gone)
        removes += tuple(entry.dot for entry in crowded)
        ops.append(Op(key, field, Kind.MAP, value, value_hash(value), removes, attrs, blind, crowded=len(crowded)))
    for op in ops:
        draft.add(op)
    result["replaced"] = replaced or None
    if lost:
        result["lost"] = lost
    if seen is not None:
        draft.promise_key_version(result, key, seen)
    return result


def _check_absent(draft: Draft, key: str, fields: Iterable[str], live: list[Entry]) -> None:
    """Refuse a merge of which the map holds a field already."""
    for field in fields:
        if draft.shown(draft.part(key, Kind.MAP, field)):
            refusal = draft.mismatch(key, live, f"has the field {shown(field)} already")
            refusal.details["field"] = field
            raise refusal


def _fields(plain: object, parts: Parts) -> dict[str, bytes]:
    if type(plain) is not dict or not plain:
        raise InvalidRequest("fields must be a map of field names to values, with one field at least")
    if len(plain) > CHANGE_OPS_MAX:
        raise TooLarge(f"a merge of {len(plain):,} fields; at most {CHANGE_OPS_MAX:,} fit into one")
    return {_field(name): packed_argument(value, parts, f"field {shown(name)}") for name, value in plain.items()}


def _field(name: object) -> str:
    fault = key_fault(name)
    if fault is not None:
        raise InvalidRequest(f"the field {shown(name)} {fault}")
    assert isinstance(name, str)
    return name


def _drop(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    field = _field(args.get("field"))
    draft.check_write(key, args, Kind.MAP, "drop")
    seen, behind = draft.seen(args)
    held = draft.part(key, Kind.MAP, field)
    gone = held if seen is None else draft.covered(held, seen, others=True)
    attrs = attributes({"meta": args.get("meta")}, draft.parts_of_values)
    if gone:
        draft.add(Op(key, field, Kind.MAP, None, None, tuple(entry.dot for entry in gone), attrs))
    return {"existed": bool(draft.shown(gone)), "behind": behind}


def _split(live: list[Entry]) -> list[Sibling]:
    """The map of the newest value of each field, and each other value alone."""
    if len({entry.sub for entry in live}) == len(live):
        return [live]
    newest: dict[str | None, Entry] = {}
    losers: list[Sibling] = []
    for entry in live:
        lost = newest.pop(entry.sub, None)
        if lost is not None:
            losers.append(FieldSibling([lost]))
        newest[entry.sub] = entry
    return [[*newest.values()], *losers]


def _ranked(live: list[Entry], rank: Rank) -> list[Sibling]:
    """The same where a policy says which value of a field is shown."""
    fields: dict[str | None, list[Entry]] = {}
    for entry in live:
        fields.setdefault(entry.sub, []).append(entry)
    if len(fields) == len(live):
        return [live]
    winners: list[Entry] = []
    losers: list[Entry] = []
    for values in fields.values():
        first, *others = rank(values)
        winners.append(first)
        losers += others
    return [sorted(winners, key=order_of), *(FieldSibling([entry]) for entry in rank(losers))]


def _read(space: SpaceState, group: Sibling) -> bytes | None:
    if isinstance(group, FieldSibling):
        return group[-1].value
    _check_readable(group)
    space.values.fetch(group)
    shown = sorted([entry for entry in group if entry.sub is not None], key=attrgetter("sub"))
    return packed_map([pack(entry.sub) + (entry.value or NULL) for entry in shown])


def _check_readable(shown: Sequence[Entry]) -> None:
    check_readable([len(entry.sub or "") + entry.size_bytes for entry in shown], "map", "fields")


def _read_all(groups: list[Sibling]) -> bytes:
    """For each field the list of its values."""
    _check_readable([entry for group in groups for entry in group])
    fields: dict[str, list[bytes]] = {}
    for group in groups:
        for entry in group:
            if entry.sub is not None:
                fields.setdefault(entry.sub, []).append(intact(entry.value))
    return packed_map([pack(field) + packed_array(fields[field]) for field in sorted(fields)])


def _fields_of(group: Sibling) -> Sibling:
    return group


# -- what is told --------------------------------------------------------------------------------------------


def _merged(ops: Sequence[Op]) -> bytes:
    return packed_map([pack(op.sub) + intact(op.value) for op in ops if op.sub is not None])


def _dropped(ops: Sequence[Op]) -> bytes:
    return pack(ops[-1].sub)


MERGE = Operation("merge", Tells.PART, _merged, is_joined=True)
DROP = Operation("drop", Tells.PART_GONE, _dropped)


def _partial(entries: Entries, key: str, touched: Touched) -> Part | None:
    """The fields that were written, and the names of those that are gone."""
    held = entries.held(key)
    if touched.is_most_of(held) or len(_split(held)) > 1:
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
    value = packed_map([pack(name) + fields[name] for name in sorted(fields)])
    return {"op": MERGE.name, "value": value, "gone": packed_array([pack(name) for name in sorted(gone)])}


def _history_fields(entry: Entry) -> Fields:
    return {"field": entry.sub}


def _is_conflicting(entries: Entries, entry: Entry) -> bool:
    return entry.sub is not None and len(entries.of_sub(entry.key, entry.sub)) > 1


RULES: Rules = Rules(
    _split,
    _read,
    is_inline=when_short,
    writes={"merge": _merge, "drop": _drop},
    ranked=Ranked(_ranked, _read_all),
    paged=Paged("fields", _fields_of, is_by_name=True),
    written=MERGE,
    removed=DROP,
    partial=_partial,
    is_by_sub=True,
    history_fields=_history_fields,
    is_conflicting=_is_conflicting,
)
