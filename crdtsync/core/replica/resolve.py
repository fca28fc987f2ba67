"""Resolving a conflict: one value in place of all siblings that its author had seen.

The chosen value is *written anew*. If two hosts resolve one conflict at once, each for another value, neither has seen
what the other one writes, so both values survive as siblings: nothing is lost by resolving.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from crdtsync.causality import Dot
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.read_context import NOTHING, NotYet, Removes, removals
from crdtsync.core.kinds.arguments import Arguments, Result, attributes, packed_argument
from crdtsync.core.kinds.base import Copied, FieldSibling, Sibling
from crdtsync.core.kinds.operations import RESOLVED_ATTR
from crdtsync.core.kinds.registry import rules_of
from crdtsync.core.kinds.values import version_of
from crdtsync.errors import InvalidRequest, KindMismatch, TooLarge, TooManySiblings
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.kinds import Kind, kind_name
from crdtsync.wire.limits import CHANGE_OPS_MAX, KEY_SIBLINGS_MAX, check_key, shown
from crdtsync.wire.tokens import Version, decode_dot, encode_version

if TYPE_CHECKING:
    from crdtsync.core.kinds.draft import Draft


class KeyConflict:
    """The values of a key, the winner first, and those of its entries that the author of a resolution had seen."""

    def __init__(self, draft: Draft, key: str, seen: Version | None) -> None:
        self.draft = draft
        self.key = key
        self.seen = seen
        self.groups: list[Sibling] = draft.groups(draft.live(key))
        held = draft.held(key)
        self.covered: list[Entry] = [*held] if seen is None else draft.covered(held, seen, others=True)
        self.dots = {entry.dot for entry in self.covered}

    def is_seen(self, group: Sibling) -> bool:
        """Whether the author had seen all of a value."""
        return all(entry.dot in self.dots for entry in group)


def resolve(draft: Draft, args: Arguments) -> Result:
    """The request ``resolve``: puts one value in the place of several.

    A resolution takes one of three arguments. If the key has only one value, ``take`` and ``merge`` do nothing.

    - ``take``: the value that holds this dot. The losing value of a field becomes the field's value. Over 1,000 entries
      is ``too_large``. A dot that is gone, or that no known node has, is ``version_mismatch``; one that is on its way
      here is waited for.
    - ``value``: a new value, of a register, with the options of ``set``.
    - ``merge``: all values together; texts only, else ``kind_mismatch``.
    """
    key = check_key(args.get("key"))
    ways = [name for name in _WAYS if args.get(name) not in (None, False)]
    if len(ways) != 1:
        raise InvalidRequest("resolve takes exactly one of take (a sibling's dot), value and merge")
    live = draft.live(key)
    draft.check_conditions(key, live, args)
    seen, _ = draft.seen(args)
    if seen is NOTHING:
        raise InvalidRequest(f"the values of {key!r} were read too long ago: read it again, then resolve")
    base = version_of(live) if seen is None else seen
    ops_before = len(draft.ops)
    result: Result = {"resolved": _WAYS[ways[0]](KeyConflict(draft, key, seen), args)}
    if len(draft.ops) > ops_before:
        first = draft.ops[ops_before]
        draft.ops[ops_before] = first._replace(attrs={**(first.attrs or {}), RESOLVED_ATTR: True})
        draft.promise_key_version(result, key, base)
    else:
        result["version"] = encode_version(base)
    return result


def _value(conflict: KeyConflict, args: Arguments) -> int:
    """Write a new register in place of everything."""
    value = packed_argument(args.get("value"), conflict.draft.parts_of_values)
    kinds = {group[-1].kind for group in conflict.groups}
    if len(conflict.groups) == 1 and kinds != {Kind.REGISTER}:
        kind = kind_name(kinds.pop())
        raise KindMismatch(
            f"{conflict.key!r} is a {kind} without a conflict: there is nothing to resolve", key=conflict.key, kind=kind
        )
    resolved = sum(map(conflict.is_seen, conflict.groups))
    if not resolved and len(conflict.groups) >= KEY_SIBLINGS_MAX:
        raise TooManySiblings(f"{conflict.key!r} has too many siblings that were not read: read it, then resolve")
    gone = removals(conflict.covered, conflict.seen)
    _write(conflict, Kind.REGISTER, [Copied(None, value, attributes(args, conflict.draft.parts_of_values))], gone)
    return resolved


def _take(conflict: KeyConflict, args: Arguments) -> int:
    """Write one of the siblings anew, in place of everything."""
    dot = decode_dot(args.get("take"))
    taken = _sibling_of(conflict, dot)
    others = [group for group in conflict.groups if group is not taken]
    if isinstance(taken, FieldSibling) or (others and all(isinstance(group, FieldSibling) for group in others)):
        return _take_fields(conflict, taken, others)
    resolved = sum(map(conflict.is_seen, others))
    if not resolved:
        return 0
    seen = [entry for entry in taken if entry.dot in conflict.dots or entry.dot == dot]
    if taken[-1].kind == Kind.BLOB:  # its parts go with its entry: the others make room, and it stays
        gone_dots = tuple(entry.dot for entry in conflict.covered if entry.dot != dot)
        conflict.draft.add(Op(conflict.key, None, Kind.BLOB, None, None, gone_dots, None))
        return resolved
    copies = rules_of(taken[-1].kind).copy(seen)
    conflict.draft.space.values.check(seen)
    gone = removals(conflict.covered, conflict.seen)
    if dot not in conflict.dots:
        gone.append((dot,))
    _write(conflict, taken[-1].kind, copies, gone)
    return resolved


def _sibling_of(conflict: KeyConflict, dot: Dot) -> Sibling:
    for group in conflict.groups:
        if any(entry.dot == dot for entry in group):
            return group
    vector = conflict.draft.space.vector
    live = conflict.draft.live(conflict.key)
    if dot.seq > vector.get(dot.writer, 0):
        unknown = conflict.draft.mismatch(
            conflict.key,
            live,
            "holds no value of that dot, and no node is known that does: read it again, then resolve",
        )
        raise NotYet({dot.writer: dot.seq}, otherwise=unknown)
    raise conflict.draft.mismatch(
        conflict.key, live, "holds no value of that dot any more: read it again, then resolve"
    )


def _take_fields(conflict: KeyConflict, taken: Sibling, others: list[Sibling]) -> int:
    """Resolve fields of a map, each on its own: the one of which a losing value was taken, or, where the whole map was
    taken, all that have several values. The other fields stay as they are.
    """
    losing = [taken] if isinstance(taken, FieldSibling) else others
    fields = {group[-1].sub for group in losing}
    chosen = [entry for entry in taken if entry.sub in fields]
    named = {entry.dot for entry in chosen}
    gone = [entry for entry in conflict.covered if entry.sub in fields and entry.kind == Kind.MAP]
    conflict.draft.space.values.check(chosen)
    superseded = [entry for entry in gone if entry.dot not in named]
    if superseded:
        _write_fields(conflict, rules_of(Kind.MAP).copy(chosen), [*gone, *chosen])
    return len(superseded)


def _write_fields(conflict: KeyConflict, copies: list[Copied], gone: list[Entry]) -> None:
    """Write fields anew, each in place of its own values, so that history tells of each what it took the place of."""
    if not copies or len(conflict.draft.ops) + len(copies) > CHANGE_OPS_MAX:
        _write(conflict, Kind.MAP, copies, [])  # says why not
    first = copies[0].sub
    by_field: dict[str | None, list[Dot]] = {copy.sub: [] for copy in copies}
    for entry in gone:
        by_field.get(entry.sub, by_field[first]).append(entry.dot)  # of a purged value there is no copy
    for copy in copies:
        _write(conflict, Kind.MAP, [copy], [tuple(sorted({*by_field[copy.sub]}))])


def _merge(conflict: KeyConflict, _args: Arguments) -> int:
    """Join the siblings that were seen, where their kind can."""
    groups = [group for group in conflict.groups if conflict.is_seen(group)]
    kinds = {group[-1].kind for group in groups}
    merge = rules_of(kinds.pop()).merge if len(kinds) == 1 else None
    if merge is None and groups:
        found = " and ".join(sorted({kind_name(group[-1].kind) for group in groups}))
        raise KindMismatch(
            f"{conflict.key!r} is a {found}, and merge joins texts: take one of its values, or write a new one",
            key=conflict.key,
            kind=kind_name(groups[0][-1].kind),
        )
    if merge is None or len(groups) < 2:
        return 0
    merge(conflict.draft, conflict.key, groups)
    return len(groups) - 1


def _write(conflict: KeyConflict, kind: int, copies: list[Copied], gone: list[Removes]) -> None:
    """Write something in place of something else, in as few operations as there are."""
    draft, key = conflict.draft, conflict.key
    if not copies:
        raise InvalidRequest(f"that value of {key!r} was purged: take another one, or write one")
    *before, removes = gone or [()]
    if len(draft.ops) + len(before) + len(copies) > CHANGE_OPS_MAX:
        raise TooLarge(
            f"that {kind_name(kind)} has {len(copies):,} parts, which would all be written anew; at most "
            f"{CHANGE_OPS_MAX:,} fit into one change: take another value of {shown(key)}, or write one"
        )
    for earlier in before:  # a range covers this change too: what it removes goes first
        draft.add(Op(key, None, kind, None, None, earlier, None))
    for sub, value, attrs in copies:
        draft.add(Op(key, sub, kind, value, value_hash(value), removes, attrs))
        removes = ()


_WAYS: dict[str, Callable[[KeyConflict, Arguments], int]] = {"take": _take, "value": _value, "merge": _merge}
