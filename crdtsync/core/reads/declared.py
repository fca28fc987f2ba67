"""The requests that show what is declared in the reserved keys of a space: schemas, checkpoints, purges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.causality import hlc_ms
from crdtsync.core.crdt.schemas import SCHEMA_PREFIX, Schema
from crdtsync.core.history.checkpoint_policies import CheckpointPolicy
from crdtsync.core.history.checkpoints import Checkpoint, check_name
from crdtsync.core.kinds.arguments import Arguments, Result
from crdtsync.core.replica.purges import PURGE_PREFIX, Purge, outcome_of
from crdtsync.core.storage.rows import purge_done_name
from crdtsync.errors import InvalidRequest
from crdtsync.wire.codec import pack
from crdtsync.wire.limits import key_fault, shown
from crdtsync.wire.patterns import check_pattern
from crdtsync.wire.tokens import encode_dot, encode_token

if TYPE_CHECKING:
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.reads.operations import Reader


def schemas(reader: Reader, args: Arguments) -> object:
    """The request ``schemas``: all of them, that of a ``pattern``, or the one that applies to a ``key``."""
    known = reader.replica.schemas
    pattern, key = args.get("pattern"), args.get("key")
    if pattern is not None and key is not None:
        raise InvalidRequest("schemas takes a pattern or a key, not both")
    found = [schema for schema in known.all() if reader.may_read(SCHEMA_PREFIX + schema.pattern)]
    if pattern is not None:
        text = check_pattern(pattern).text
        found = [schema for schema in found if schema.pattern == text]
    elif key is not None:
        fault = key_fault(key)
        if fault is not None:
            raise InvalidRequest(f"the key {shown(key)} {fault}")
        found = [schema] if reader.may_read(str(key)) and (schema := known.of(str(key))).pattern else []
    return {"items": [_schema(reader, schema) for schema in found], "token": reader.token()}


def _schema(reader: Reader, schema: Schema) -> Result:
    held = reader.replica.entries.held(SCHEMA_PREFIX + schema.pattern)
    return {
        "pattern": schema.pattern,
        "policy": schema.policy.name,
        "refuse_lower": schema.refuse_lower,
        "history": schema.plain.get("history", True) if schema.history is not None else True,
        "schema": pack(schema.plain),
        "siblings": len(held) - 1,
        **_written(reader, held[-1]),
    }


def checkpoints(reader: Reader, args: Arguments) -> object:
    """The request ``checkpoints``: all of them, the oldest first, or that of a ``name``."""
    name = args.get("name")
    known = reader.replica.checkpoints
    found = known.all() if name is None else [known.get(check_name(name))]
    return {
        "items": [_checkpoint(reader, record) for record in found if not record.entry.is_expired(reader.now_ms)],
        "policies": [_policy(reader, policy) for policy in known.policies()],
        "held_bytes": known.past_bytes() if found else 0,
        "bytes_max": known.bytes_max if known.bytes_max > 1 else None,  # nobody has looked yet
        "token": reader.token(),
    }


def _checkpoint(reader: Reader, record: Checkpoint) -> Result:
    replica = reader.replica
    return {
        "name": record.name,
        "note": record.note,
        "prefixes": list(record.prefixes),
        "keys": record.keys,
        "cut": encode_token([(replica.name, replica.epoch, record.vector)]),
        "whole": replica.checkpoints.is_whole(record),
        **_written(reader, record.entry),
        "ttl": (record.entry.attrs or {}).get("ttl"),
        "versions": dict(record.versions),
    }


def _policy(reader: Reader, policy: CheckpointPolicy) -> Result:
    made = [record.time_ms for record in reader.replica.checkpoints.all() if record.policy == policy.name]
    return {
        "name": policy.name,
        "prefixes": list(policy.prefixes),
        "every": policy.every_ms,
        "keep": policy.keep,
        "age": policy.age_ms,
        "last": max(made, default=None),
        "count": len(made),
        "agent": policy.entry.agent,
        "node": reader.node_of(policy.entry.writer),
    }


def purges(reader: Reader, args: Arguments) -> object:
    """The request ``purges``: all of them, or that of a ``pattern``, and what became of them on this node."""
    wanted = args.get("pattern")
    replica = reader.replica
    found = [one for one in replica.purges.all() if reader.may_read(PURGE_PREFIX + one.pattern.text)]
    if wanted is not None:
        found = [one for one in found if one.pattern.text == check_pattern(wanted).text]
    return {"items": [_purge(reader, one) for one in found], "token": reader.token()}


def _purge(reader: Reader, one: Purge) -> Result:
    done = outcome_of(reader.storage.meta(purge_done_name(reader.replica.id, one.pattern.text)), one)
    return {
        "pattern": one.pattern.text,
        **_written(reader, one.entry),
        "done": done is not None,
        "values": None if done is None else done[0],
        "changes": None if done is None else done[1],
        "texts": None if done is None else done[2],
    }


def _written(reader: Reader, entry: Entry) -> Result:
    return {
        "dot": encode_dot(entry.dot),
        "agent": entry.agent,
        "node": reader.node_of(entry.writer),
        "time": hlc_ms(entry.hlc),
    }
