"""From an agent's write requests to the operations of one change: the table of all write operations."""

from __future__ import annotations

from crdtsync.core.arguments import Arguments, Result
from crdtsync.core.draft import Draft
from crdtsync.core.kinds.rules import Write
from crdtsync.core.kinds.table import KINDS
from crdtsync.core.resolve import resolve
from crdtsync.core.seen import removals
from crdtsync.errors import InvalidRequest, TooLarge
from crdtsync.wire.change import Op
from crdtsync.wire.limits import CHANGE_OPS_MAX, check_key


def _delete(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    draft.check_conditions(key, draft.live(key), args)
    held = draft.held(key)
    seen, behind = draft.seen(args)
    gone = held if seen is None else draft.covered(held, seen, others=True)
    for removes in removals(gone, seen):
        draft.add(Op(key, None, gone[-1].kind, None, None, removes, None))
    return {"existed": any(not entry.is_expired(draft.now_ms) for entry in gone), "behind": behind}


def _batch(draft: Draft, args: Arguments) -> Result:
    ops = args.get("ops")
    if type(ops) is not list or not ops:
        raise InvalidRequest("ops must be a list of [operation, arguments], with one at least")
    if len(ops) > CHANGE_OPS_MAX:
        raise TooLarge(f"a batch of {len(ops):,} operations; at most {CHANGE_OPS_MAX:,} fit into one")
    results = [_batched(draft, item) for item in ops]
    if len(draft.ops) > CHANGE_OPS_MAX:  # a trim may take two, a merge one a field
        raise TooLarge(f"a batch of {len(draft.ops):,} operations; at most {CHANGE_OPS_MAX:,} fit into one")
    return {"results": results}


def _batched(draft: Draft, item: object) -> Result:
    match item:
        case [str(name), dict(arguments)] if name != "batch" and name in WRITES:
            return WRITES[name](draft, arguments)
    raise InvalidRequest(
        "each item of a batch is [operation, arguments], "
        f"the operation one of {', '.join(sorted(WRITES))} but not batch"
    )


WRITES: dict[str, Write] = {
    "delete": _delete,
    "resolve": resolve,
    "batch": _batch,
    **{name: write for rules in KINDS.values() for name, write in rules.writes.items()},
}
