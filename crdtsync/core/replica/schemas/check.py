"""Holds each operation of an author against the schema of its key, before anything is written.

What was written before, comes from another host, or is brought back is not looked at: every node must take in whatever
is a valid change. ``crdtsync schema check`` finds what does not fit.

A JSON Schema describes a register's value, an element of a log or set, and of a map the fields that one merge writes,
each as a map of its own: ``{"status": "done"}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.core.crdt.sliding import SLIDES
from crdtsync.core.kinds.json_schema import STEPS_A_BYTE, WORK_MAX, compiled, path_text
from crdtsync.core.kinds.values import kind_name
from crdtsync.errors import InvalidRequest, SchemaMismatch, TooLarge
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import JSON_KINDS, META_KINDS, SLIDING_KINDS, TTL_KINDS, Kind
from crdtsync.wire.limits import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crdtsync.core.crdt.schemas import Schema
    from crdtsync.core.kinds.arguments import Arguments
    from crdtsync.core.replica.change_draft import Draft
    from crdtsync.wire.change import Op

VERSION = "schema_version"
"""In ``meta``: the version of the schema by which a value was made."""


def schema_version(args: Arguments) -> int | None:
    """The version of the schemas that a write's author knows; None: it says nothing.

    :raises InvalidRequest: it is no number above 0.
    """
    version = args.get("schema_version")
    if version is not None and (type(version) is not int or version < 1):
        raise InvalidRequest("schema_version must be a whole number above 0")
    return version


def by_schema(draft: Draft, op: Op) -> Op:
    """The operation as its key's schema would have it.

    :raises SchemaMismatch: the schema does not allow it.
    :raises TooLarge: to find that out takes too long.
    """
    schema = draft.replica.schemas.of(op.key)
    rules = schema.rules
    if rules is None:
        return op
    if rules.writers and draft.author not in rules.writers:
        names = ", ".join(sorted(rules.writers)[:5])
        raise _refusal(op.key, schema, "writers", f"may be written by {names} alone, not by {draft.author}")
    is_older = rules.version is not None and draft.schema_version is not None and draft.schema_version < rules.version
    if is_older and not rules.marks_older:
        why = f"has a schema of version {rules.version}, and its author knows version {draft.schema_version}: upgrade"
        raise _refusal(op.key, schema, "version", why)
    if op.value_hash is None:
        return op
    kind = kind_name(op.kind)
    if rules.kind is not None and kind != rules.kind:
        raise _refusal(op.key, schema, "kind", f"is to be a {rules.kind}, and this writes a {kind}")
    if rules.marks_older and draft.schema_version is not None and op.kind in META_KINDS:
        op = op._replace(attrs={**(op.attrs or {}), "meta": _marked(op.attrs, draft.schema_version)})
    if rules.json is not None and not is_older and op.kind in JSON_KINDS and op.value is not None:
        _check_value(draft, op, schema, rules.json)
    if rules.ttl_ms is not None and op.kind in TTL_KINDS and "ttl" not in (op.attrs or {}):
        sliding = {SLIDES: True} if rules.slides and op.kind in SLIDING_KINDS else {}
        op = op._replace(attrs={**(op.attrs or {}), "ttl": rules.ttl_ms, **sliding})
    return op


def _check_value(draft: Draft, op: Op, schema: Schema, json: bytes) -> None:
    assert op.value is not None
    misses = compiled.cache_info().misses
    found = compiled(json)
    draft.checked_steps += STEPS_A_BYTE * len(json) * (compiled.cache_info().misses - misses)
    if isinstance(found, InvalidRequest):
        return  # a newer version's, or a careless author's
    draft.checked_steps += found.steps * len(op.value)
    if draft.checked_steps > WORK_MAX:
        raise TooLarge(
            f"to hold this against the schema of {schema.pattern!r} takes over {WORK_MAX:,} steps: "
            f"values there may have {WORK_MAX // found.steps:,} bytes, of one batch all together",
            key=op.key,
        )
    value: Any = unpack(op.value)
    misfit = found.misfit({op.sub: value} if op.kind == Kind.MAP else value)
    if misfit is not None:
        path = path_text(misfit.path)
        raise _refusal(op.key, schema, misfit.rule, f"does not take this value: {path} {misfit.why}", path)


def _marked(attrs: Mapping[str, Any] | None, version: int) -> bytes:
    said = unpack(attrs["meta"]) if attrs and "meta" in attrs else {}
    return pack({**said, VERSION: version} if isinstance(said, dict) else {VERSION: version})


def _refusal(key: str, schema: Schema, rule: str, why: str, path: str = "$") -> SchemaMismatch:
    return SchemaMismatch(
        f"{key!r} {why} (rule {shown(rule)} of the schema of {schema.pattern!r})",
        key=key,
        pattern=schema.pattern,
        rule=rule,
        path=path,
    )
