"""Requests that make and delete the checkpoints of a space, and declare when nodes make some by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.history.checkpoint_policies import (
    POLICIES_MAX,
    POLICY_PREFIX,
    PREFIXES_MAX,
    check_policy_name,
    packed_policy,
)
from crdtsync.core.history.checkpoints import (
    CHECKPOINT_PREFIX,
    CHECKPOINTS_MAX,
    check_name,
    check_new_name,
    packed_record,
)
from crdtsync.core.kinds.arguments import Arguments, Result, attributes
from crdtsync.errors import InvalidRequest, QuotaExceeded, VersionMismatch
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import check_prefix

if TYPE_CHECKING:
    from crdtsync.core.replica.space_draft import SpaceDraft

NOTE_CHARS_MAX = 1000


def checkpoint_set(draft: SpaceDraft, args: Arguments) -> Result:
    """The request ``checkpoint_set``: make a checkpoint of what this node holds, or, with ``remove``, delete one.

    It does not have what the same batch has written before.

    :raises VersionMismatch: there is one of that name.
    :raises NotAllowed: another has made what is to be deleted.
    :raises QuotaExceeded: there are as many as may be, or what they hold back is as much as may be.
    """
    name = (check_name if args.get("remove") else check_new_name)(args.get("name"))
    key = CHECKPOINT_PREFIX + name
    held = draft.held(key)
    if args.get("remove"):
        if held:
            draft.check_made(f"the checkpoint {name} of another", (entry.agent for entry in held))
            draft.add(Op(key, None, Kind.REGISTER, None, None, tuple(entry.dot for entry in held), None))
        return {"existed": bool(held)}
    if held:
        raise VersionMismatch(f"there is a checkpoint {name} already: delete it first, or choose another name", key=key)
    checkpoints = draft.replica.checkpoints
    if len(checkpoints.all()) >= CHECKPOINTS_MAX:
        raise QuotaExceeded(f"the space has {CHECKPOINTS_MAX} checkpoints already: delete some first")
    if checkpoints.held_bytes >= checkpoints.bytes_max:
        raise QuotaExceeded(
            f"the past of the space takes {checkpoints.held_bytes:,} bytes on this node, and its checkpoints may hold "
            f"back {checkpoints.bytes_max:,}: delete old ones first"
        )
    value = packed_record(draft.replica, *_said(args))
    draft.add(
        Op(
            key,
            None,
            Kind.REGISTER,
            value,
            value_hash(value),
            (),
            attributes({"ttl": args.get("ttl")}, draft.parts_of_values),
        )
    )
    return {"existed": False}


def checkpoint_policy(draft: SpaceDraft, args: Arguments) -> Result:
    """The request ``checkpoint_policy``: declare how often nodes make a checkpoint, or, with ``remove``, no more.

    :raises QuotaExceeded: there are as many as may be.
    """
    name = check_policy_name(args.get("name"))
    key = POLICY_PREFIX + name
    held = draft.held(key)
    gone = tuple(entry.dot for entry in held)
    if args.get("remove"):
        if held:
            draft.add(Op(key, None, Kind.REGISTER, None, None, gone, None))
        return {"existed": bool(held)}
    if not held and len(draft.replica.checkpoints.policies()) >= POLICIES_MAX:
        raise QuotaExceeded(f"the space has {POLICIES_MAX} policies of checkpoints already: delete some first")
    _, prefixes = _said(args)
    value = packed_policy(prefixes, args.get("every"), args.get("keep"), args.get("age"))
    draft.add(Op(key, None, Kind.REGISTER, value, value_hash(value), gone, None))
    return {"existed": bool(held)}


def _said(args: Arguments) -> tuple[str, list[str]]:
    note, prefixes = args.get("note", ""), args.get("prefixes", [])
    if type(note) is not str or len(note) > NOTE_CHARS_MAX:
        raise InvalidRequest(f"note must be a string of at most {NOTE_CHARS_MAX:,} characters")
    if type(prefixes) is not list or len(prefixes) > PREFIXES_MAX:
        raise InvalidRequest(f"prefixes must be a list of at most {PREFIXES_MAX} prefixes")
    return note, [check_prefix(prefix) for prefix in prefixes]
