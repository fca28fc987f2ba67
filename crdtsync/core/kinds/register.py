"""Register: one value. Values that were written at once are siblings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.causality import Dot
from crdtsync.core.crdt.entries import Entries, Entry, covered_by
from crdtsync.core.crdt.read_context import NOTHING
from crdtsync.core.crdt.read_policies import Rank
from crdtsync.core.kinds.arguments import Arguments, Result, attributes, packed_argument
from crdtsync.core.kinds.base import Ranked, Rules, Sibling, always, check_readable, intact, packed_array
from crdtsync.core.kinds.rank_check import check_rank
from crdtsync.errors import TooManySiblings
from crdtsync.wire.change import Kind, Op, value_hash
from crdtsync.wire.limits import KEY_SIBLINGS_MAX, check_key
from crdtsync.wire.tokens import Version

if TYPE_CHECKING:
    from crdtsync.core.replica.change_draft import Draft
    from crdtsync.core.replica.replica import Replica


def _set(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    value = packed_argument(args.get("value"))
    live = draft.live(key)
    draft.check_conditions(key, live, args)
    draft.check_kind(key, live, Kind.REGISTER, "set")
    attrs = attributes(args)
    check_rank(draft, key, [entry for entry in live if entry.kind == Kind.REGISTER], value, attrs)
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
    others = len(live) - len(covered_by(live, removes))
    if others >= KEY_SIBLINGS_MAX:
        raise TooManySiblings(
            f"{key!r} has {others} siblings already, the most that a key may have: read it, then write"
        )
    removes += draft.expired(key)
    blind = seen is None and bool(live)
    draft.add(Op(key, None, Kind.REGISTER, value, value_hash(value), removes, attrs, blind))
    result["siblings"] = others
    draft.promise_version(result, beside)
    return result


def _split(live: list[Entry]) -> list[Sibling]:
    return [[entry] for entry in live]


def read(_replica: Replica, group: Sibling) -> bytes | None:
    """Also for kinds that only newer versions know."""
    return group[-1].value


def _ranked(live: list[Entry], rank: Rank) -> list[Sibling]:
    return [[entry] for entry in rank(live)]


def _read_all(groups: list[Sibling]) -> bytes:
    items = [intact(group[-1].value) for group in groups]
    check_readable(items, "list of all values", "conflicts")
    return packed_array(items)


def _is_conflicting(_entries: Entries, _entry: Entry) -> bool:
    """Who asks has looked whether there are others: each of them is a value of its own."""
    return True


RULES = Rules(
    _split,
    read,
    is_inline=always,
    writes={"set": _set},
    ranked=Ranked(_ranked, _read_all),
    is_conflicting=_is_conflicting,
)
