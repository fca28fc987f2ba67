"""Holds each operation of an author against the schema of its key, before anything is written.

Example: the schema of ``best/*`` has the read policy ``max`` and ``refuse_lower``. A key there holds 7. A ``set`` of 5
would lie beside it, unseen; so it is refused, and its author is shown the 7.

A node does not check values that were there before, that come from another host, or that are brought back: every node
must take in every valid change. ``crdtsync schema check`` finds values that do not fit.

A JSON Schema describes a register's value, an element of a log or set, and of a map the fields that one merge writes,
each as a map of its own: ``{"status": "done"}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.causality import HLC_MAX, WRITER_MAX, Dot, Writer
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.json_schema import STEPS_A_BYTE, WORK_MAX, compiled, path_text
from crdtsync.core.crdt.read_policies import first_of, ranks_lower
from crdtsync.core.crdt.sliding import SLIDES
from crdtsync.errors import InvalidEncoding, InvalidRequest, RanksLower, SchemaMismatch, TooLarge
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import JSON_KINDS, META_KINDS, SLIDING_KINDS, TTL_KINDS, Kind, kind_name
from crdtsync.wire.limits import shown
from crdtsync.wire.stored_values import attributes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crdtsync.core.crdt.read_policies import Policy
    from crdtsync.core.crdt.schemas import Schema
    from crdtsync.core.kinds.arguments import Arguments
    from crdtsync.core.kinds.draft import Draft
    from crdtsync.wire.change import Op

VERSION = "schema_version"
"""In ``meta``: the version of the schema by which a value was made."""


LATER_HLC = HLC_MAX
"""After every hybrid time of a clock that goes: the write will be later than whatever its author's node holds."""


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
    schema = draft.space.schemas.of(op.key)
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


# -- ranks ---------------------------------------------------------------------------------------------------------


def check_rank(
    draft: Draft, key: str, live: list[Entry], value: bytes, attrs: dict[str, Any] | None, field: str | None = None
) -> None:
    """Refuse to write ``value`` where it would rank lower than what readers are shown of ``live``, the values of
    ``key`` or of its ``field``, and the key's schema says so.

    Decided here and now: what others write at once is not known, and merging never refuses.

    :raises RanksLower: with what the key holds.
    """
    schema = draft.space.schemas.of(key)
    if not schema.refuse_lower or not live:
        return
    first = first_of(schema.policy, live)
    dot = Dot(Writer(WRITER_MAX), 0, 0)
    later = Entry(0, dot, key, field, first.kind, LATER_HLC, "", value, b"", attrs)
    if ranks_lower(schema.policy, first, later):
        where = repr(key) if field is None else f"the field {shown(field)} of {key!r}"
        raise RanksLower(
            f"{where} keeps its value, which ranks higher under the read policy {schema.policy.name}"
            f"{_compared(schema.policy, first, later)}: to put a lower one in its place use resolve, or delete it",
            key=key,
            current=draft.describe_current(key),
            policy=schema.policy.name,
            pattern=schema.pattern,
        )


def _compared(policy: Policy, first: Entry, later: Entry) -> str:
    """Both sides of the comparison where they are short."""
    if policy.name == "confidence":
        have, want = (attributes_of(entry.attrs).confidence for entry in (first, later))
        return f" (confidence {_or_none(have)} against {_or_none(want)})"
    if policy.name in ("max", "min"):
        try:
            plain = [unpack(entry.value or b"") for entry in (first, later)]
        except InvalidEncoding:
            return ""
        return " ({} against {})".format(*map(shown, plain))
    return ""


def _or_none(confidence: object) -> str:
    return "none" if confidence is None else str(confidence)
