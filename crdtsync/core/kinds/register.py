"""Register: one value. Values that were written at once are siblings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.causality import Dot
from crdtsync.core.crdt.entries import Entries
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.key_entries import covered_by
from crdtsync.core.crdt.read_context import NOTHING
from crdtsync.core.crdt.read_policies import Rank
from crdtsync.core.kinds.arguments import Arguments, Result, attributes, packed_argument
from crdtsync.core.kinds.base import Ranked, Rules, Sibling, always, check_readable, intact, packed_array
from crdtsync.core.kinds.crowding import crowded_out
from crdtsync.core.kinds.schema_check import check_rank
from crdtsync.errors import InvalidRequest
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import check_key
from crdtsync.wire.tokens import Version

if TYPE_CHECKING:
    from crdtsync.core.kinds.draft import Draft
    from crdtsync.core.space import SpaceState


_SAID_OF_VALUES = ("confidence", "meta")
"""Attributes that belong to a value, whoever writes it."""


def _set(draft: Draft, args: Arguments) -> Result:
    return write(draft, args, Kind.REGISTER, packed_argument(args.get("value"), draft.parts_of_values), "set")


def write(draft: Draft, args: Arguments, kind: Kind, value: bytes, operation: str) -> Result:
    """Put a value in the place of what its author had seen of its key, as its only entry: for all kinds that hold one
    value.
    """
    key = check_key(args.get("key"))
    live = draft.check_write(key, args, kind, operation)
    attrs = attributes(args, draft.parts_of_values)
    of_kind = [entry for entry in live if entry.kind == kind]
    if kind == Kind.REGISTER:
        check_rank(draft, key, of_kind, value, attrs)
    seen, behind = draft.seen(args)
    result: Result = {"behind": behind, "replaced": None}
    beside = NOTHING
    removes: tuple[Dot, ...] = ()
    if seen is not None:
        removes = tuple(entry.dot for entry in draft.covered(draft.held(key), seen, others=False))
        beside = Version(others=tuple(dot for dot in seen.others if dot not in removes))
    elif live:
        winner = draft.winner(live)
        removes = (winner[-1].dot,)
        result["replaced"] = draft.describe_replaced(winner)
    lost = crowded_out(draft, key, of_kind, removes)
    result["siblings"] = len(live) - len(covered_by(live, removes)) - len(lost)
    if lost:
        result["lost"] = [draft.describe_replaced([entry]) for entry in lost]
    removes += (*draft.expired(key), *(entry.dot for entry in lost))
    blind = seen is None and bool(live)
    draft.add(Op(key, None, kind, value, value_hash(value), removes, attrs, blind, crowded=len(lost)))
    draft.promise_version(result, beside)
    return result


def _touch(draft: Draft, args: Arguments) -> Result:
    """Write the winner anew, with another time to live and all else as it is. Siblings stay beside it.

    If the author would have to read something again before it may replace the value, this must not make it known: only
    an author that had read the winner is told ``version``.
    """
    key = check_key(args.get("key"))
    ttl = attributes({"ttl": args.get("ttl")}, draft.parts_of_values)
    live = draft.check_write(key, args, Kind.REGISTER, "touch")
    seen, behind = draft.seen(args)
    result: Result = {"existed": bool(live), "behind": behind}
    if not live:
        return result
    entry = draft.winner(live)[-1]
    value = entry.value
    draft.space.values.check([entry])
    if value is None or entry.value_hash is None:
        raise InvalidRequest(f"the value of {key!r} was purged: there is nothing left to keep", key=key)
    attrs = {name: value for name, value in (entry.attrs or {}).items() if name in _SAID_OF_VALUES} | (ttl or {})
    draft.add(Op(key, None, Kind.REGISTER, value, entry.value_hash, (entry.dot,), attrs or None))
    if seen is not None and entry in draft.covered([entry], seen, others=False):
        draft.promise_key_version(result, key, seen)
    return result


def _split(live: list[Entry]) -> list[Sibling]:
    return [[entry] for entry in live]


def read(_space: SpaceState, group: Sibling) -> bytes | None:
    """Also for kinds that only newer versions know."""
    return group[-1].value


def _ranked(live: list[Entry], rank: Rank) -> list[Sibling]:
    return [[entry] for entry in rank(live)]


def _read_all(groups: list[Sibling]) -> bytes:
    check_readable([group[-1].size_bytes for group in groups], "list of all values", "conflicts")
    return packed_array([intact(group[-1].value) for group in groups])


def _is_conflicting(_entries: Entries, _entry: Entry) -> bool:
    """The caller has looked whether there are others: each of them is a value of its own."""
    return True


RULES: Rules = Rules(
    _split,
    read,
    is_inline=always,
    writes={"set": _set, "touch": _touch},
    ranked=Ranked(_ranked, _read_all),
    is_conflicting=_is_conflicting,
)
