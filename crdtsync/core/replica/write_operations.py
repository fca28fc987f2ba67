"""From an agent's write requests to the operations of one change: the table of all write operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from crdtsync.causality import covers
from crdtsync.core.crdt.read_context import NotYet, removals
from crdtsync.core.kinds.arguments import Arguments, Result, attributes
from crdtsync.core.kinds.registry import KINDS
from crdtsync.core.replica.bring_back import bring_back
from crdtsync.core.replica.checkpoint_operations import checkpoint_policy, checkpoint_set
from crdtsync.core.replica.purges import purge
from crdtsync.core.replica.resolve import resolve
from crdtsync.core.replica.restore import restore
from crdtsync.core.replica.schemas.declare import schema_set
from crdtsync.core.replica.space_draft import SpaceDraft
from crdtsync.errors import CrdtSyncError, InvalidRequest, TooLarge
from crdtsync.wire.change import Op
from crdtsync.wire.limits import CHANGE_OPS_MAX, check_key, shown


def _delete(draft: SpaceDraft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    draft.check_conditions(key, draft.live(key), args)
    held = draft.held(key)
    seen, behind = draft.seen(args)
    reach = draft.reach(key)
    if reach is not None and (seen is None or covers(seen.vector or {}, reach)):
        gone = held
    else:
        gone, reach = held if seen is None else draft.covered(held, seen, others=True), None
    attrs = attributes({"meta": args.get("meta")}, draft.parts_of_values)
    for removes in removals(gone, seen, reach):
        draft.add(Op(key, None, gone[-1].kind, None, None, removes, attrs))
    return {"existed": any(not entry.is_expired(draft.now_ms) for entry in gone), "behind": behind}


def _batch(draft: SpaceDraft, args: Arguments) -> Result:
    ops = args.get("ops")
    if type(ops) is not list or not ops:
        raise InvalidRequest("ops must be a list of [operation, arguments], with one at least")
    if len(ops) > CHANGE_OPS_MAX:
        raise TooLarge(f"a batch of {len(ops):,} operations; at most {CHANGE_OPS_MAX:,} fit into one")
    of_batch = {"space": draft.replica.name, "agent": args.get("agent")}
    results = [_batched(draft, item, index, of_batch) for index, item in enumerate(ops)]
    if len(draft.ops) > CHANGE_OPS_MAX:  # a trim may take two, a merge one a field
        raise TooLarge(f"a batch of {len(draft.ops):,} operations; at most {CHANGE_OPS_MAX:,} fit into one")
    return {"results": results}


def _batched(draft: SpaceDraft, item: object, index: int, of_batch: Mapping[str, object]) -> Result:
    """Do one operation of a batch. If it is refused, so are all, and the error says which one it was.

    ``of_batch``: what the whole batch has one of, as its rights were checked by. A part that says otherwise would be
    done where its author did not mean it.
    """
    name, arguments = item if type(item) is list and len(item) == 2 else ("", None)
    if type(name) is str and type(arguments) is dict and name in WRITES and name not in ALONE:
        try:
            for what, wanted in of_batch.items():
                if what in arguments and arguments[what] != wanted:
                    raise InvalidRequest(f"it names a {what} of its own; a batch has one {what} as a whole")
            return WRITES[name](draft, arguments)
        except CrdtSyncError as error:
            raise _of_batch(error, index, name) from None
        except NotYet as not_yet:
            if not_yet.otherwise is not None:
                _of_batch(not_yet.otherwise, index, name)
            raise
    raise _of_batch(
        InvalidRequest(
            "each item of a batch is [operation, arguments], "
            f"the operation one of {', '.join(sorted({*WRITES} - ALONE))}"
        ),
        index,
        shown(item[0]) if isinstance(item, list) and item else "",
    )


def _of_batch(error: CrdtSyncError, index: int, name: str) -> CrdtSyncError:
    error.details |= {"index": index, "op": name}
    error.message = f"operation {index} of the batch ({name}): {error.message}; nothing of the batch was done"
    error.args = (error.message,)
    return error


WRITES: dict[str, Callable[[SpaceDraft, Arguments], Result]] = {
    "delete": _delete,
    "resolve": resolve,
    "schema_set": schema_set,
    "restore": restore,
    "checkpoint_set": checkpoint_set,
    "checkpoint_policy": checkpoint_policy,
    "purge": purge,
    "batch": _batch,
    "bring_back": bring_back,
    **{name: write for rules in KINDS.values() for name, write in rules.writes.items()},
}

ALONE = frozenset({"batch", "bring_back"})
"""Those that are no part of a batch."""
