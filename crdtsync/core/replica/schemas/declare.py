"""The request that sets the schemas of a space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.causality import hlc_ms
from crdtsync.core.crdt.json_schema import compiled
from crdtsync.core.crdt.read_policies import POLICIES
from crdtsync.core.crdt.schemas import MARK, SCHEMA_PREFIX, SINCE, Schema, history_cap, schema_of, since_ms
from crdtsync.core.kinds.arguments import Arguments, Parts, Result, attributes
from crdtsync.core.kinds.schema_check import schema_version
from crdtsync.core.replica.schemas.caps import KEYS_MAX
from crdtsync.errors import InvalidRequest, QuotaExceeded
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import CAP_KINDS, JSON_KINDS, SLIDING_KINDS, TTL_KINDS, Kind, kind_name
from crdtsync.wire.limits import KEY_BYTES_MAX, check_agent_name, key_fault, shown
from crdtsync.wire.patterns import check_new_pattern, check_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.kinds.draft import Draft

JSON_BYTES_MAX = 1024 * 1024
"""JSON Schemas of a space, all together, when one more is set"""
REFUSE = "refuse"
WRITERS_MAX = 64
"""Writers that a schema may name"""
SCHEMAS_MAX = 1000
"""Schemas of a space when one more is set; merging takes what others have set."""


def schema_set(draft: Draft, args: Arguments) -> Result:
    """The request ``schema_set``: declare what holds for the keys of a pattern, or, with ``remove``, nothing any more.

    [Model your data](../how-to/model-data.md#which-read-policy) says what a schema declares; ``remove`` takes it back.
    ``history`` is true, as of all other keys; false, none; ``{"bytes": N}``; or ``{"age_ms": N}``: the values that
    ended within that time.

    A schema is a register with the map ``{"policy", "refuse_lower"}``, and ``history`` unless that is true, under the
    reserved key ``_schema/PATTERN``, where only ``schema_set`` writes. Fields and policies of newer versions are kept;
    an unknown policy counts as ``lww``.

    The other fields are [rules](../how-to/model-data.md#what-may-be-written), each unless it is null: ``kind``,
    ``json`` (a JSON Schema as msgpack, a bin), ``ttl`` in milliseconds, ``sliding``, ``writers``, ``version``,
    ``older`` (``refuse`` or ``mark``), ``max_entries`` and ``max_bytes``. With ``sliding``, a value has ``slides``, and
    each ``get``, ``entry``, ``get_many`` or ``blob_read`` that gives it its ``ttl`` again writes a register
    ``_kept/KEY`` without a value that lives that long. The error is ``schema_mismatch`` with ``key``, ``pattern``,
    ``rule`` and ``path``. A schema whose ``version`` was declared more than once has ``since``: that version, and when
    it was declared first. A write with ``schema_version`` says which version its author knows.
    """
    pattern = _pattern(args.get("pattern"))
    key = SCHEMA_PREFIX + pattern
    held = draft.held(key)
    before = schema_of(pattern, held)
    result: Result = {"replaced": None if before is None else pack(before.plain), "existed": bool(held)}
    if args.get("remove"):
        if held:
            draft.add(Op(key, None, Kind.REGISTER, None, None, tuple(entry.dot for entry in held), None))
        return result
    if before is None and len(draft.space.schemas) >= SCHEMAS_MAX:
        raise QuotaExceeded(f"the space has {SCHEMAS_MAX:,} schemas already: use patterns that match more keys")
    check_new_pattern(pattern)
    there = {} if before is None else {name: said for name, said in before.plain.items() if name != SINCE}
    plain = {name: said for name, said in {**there, **_declared(args), **_rules(args)}.items() if said is not None}
    _check_version(before, plain)
    others = sum(len(schema.rules.json or b"") for schema in draft.space.schemas.all() if schema.rules is not None)
    if "json" in plain and others + len(plain["json"]) > JSON_BYTES_MAX:
        raise QuotaExceeded(f"the JSON Schemas of the space have {JSON_BYTES_MAX:,} bytes already")
    if plain != there or len(held) > 1:
        if before is not None and "version" in plain and plain["version"] == there.get("version"):
            plain[SINCE] = [plain["version"], _declared_ms(held, before)]
        value = pack(plain)
        gone = tuple(entry.dot for entry in held)
        draft.add(Op(key, None, Kind.REGISTER, value, value_hash(value), gone, None))
    return result


def _pattern(text: object) -> str:
    pattern = check_pattern(text).text
    if key_fault(SCHEMA_PREFIX + pattern) is not None:
        raise InvalidRequest(
            f"the pattern {shown(pattern)} is too long: with {SCHEMA_PREFIX!r} before it, it may have "
            f"{KEY_BYTES_MAX:,} bytes"
        )
    return pattern


def _declared(args: Arguments) -> dict[str, Any]:
    name, refuse_lower = args.get("policy"), args.get("refuse_lower", False)
    policy = POLICIES.get(name) if isinstance(name, str) else None
    if policy is None:
        raise InvalidRequest(f"policy must be one of {', '.join(POLICIES)}, not {shown(name)}")
    if type(refuse_lower) is not bool:
        raise InvalidRequest("refuse_lower must be true or false")
    if refuse_lower and not policy.can_refuse:
        able = ", ".join(name for name, policy in POLICIES.items() if policy.can_refuse)
        raise InvalidRequest(f"the policy {policy.name} refuses no write: refuse_lower goes with {able}")
    history = args.get("history", True)
    if history is not True and history_cap(history) is None:
        raise InvalidRequest(
            'history must be true, false, {"bytes": so many} or {"age_ms": so many}, with a number above 0'
        )
    return {"policy": policy.name, "refuse_lower": refuse_lower, "history": None if history is True else history}


def _rules(args: Arguments) -> dict[str, Any]:
    """The fields of :class:`~crdtsync.core.crdt.schemas.WriteRules`, checked; None where there is none."""
    kind, json, ttl, writers = (args.get(name) for name in ("kind", "json", "ttl", "writers"))
    words = [known.word for known in Kind]
    if kind is not None and kind not in words:
        raise InvalidRequest(f"kind must be one of {', '.join(words)}, not {shown(kind)}")
    if json is not None:
        found = compiled(json) if type(json) is bytes else InvalidRequest("json must be the msgpack of a JSON Schema")
        if isinstance(found, InvalidRequest):
            raise found
        _check_goes_with(kind, "a JSON Schema", JSON_KINDS)
    if ttl is not None:
        attributes({"ttl": ttl}, Parts())
        _check_goes_with(kind, "ttl", TTL_KINDS)
    sliding = args.get("sliding")
    if sliding is not None and (type(sliding) is not bool or ttl is None):
        raise InvalidRequest("sliding must be true or false, and goes with a ttl")
    if sliding:
        _check_goes_with(kind, "sliding", SLIDING_KINDS)
    if writers is not None:
        if type(writers) is not list or not 0 < len(writers) <= WRITERS_MAX:
            raise InvalidRequest(f"writers must be a list of 1 to {WRITERS_MAX} names of agents")
        writers = sorted({check_agent_name(name) for name in writers})
    version = schema_version({"schema_version": args.get("version")})
    rules = {"kind": kind, "json": json, "ttl": ttl, "sliding": sliding or None, "writers": writers, "version": version}
    return rules | _older(args) | _caps(args)


def _older(args: Arguments) -> dict[str, Any]:
    older = args.get("older", REFUSE)
    if older not in (REFUSE, MARK):
        raise InvalidRequest(f"older must be {REFUSE} or {MARK}, not {shown(older)}")
    return {"older": None if older == REFUSE else older}


def _caps(args: Arguments) -> dict[str, Any]:
    caps = {name: args.get(name) for name in ("max_entries", "max_bytes")}
    for name, cap in caps.items():
        if cap is None:
            continue
        if type(cap) is not int or cap < 1:
            raise InvalidRequest(f"{name} must be a whole number above 0")
        if args.get("kind") not in _words(CAP_KINDS):
            raise InvalidRequest(f"{name} goes with a kind: {' or '.join(_words(CAP_KINDS))}")
        if name == "max_entries" and args.get("kind") != kind_name(Kind.LOG) and cap > KEYS_MAX:
            raise InvalidRequest(f"{name} of a pattern of registers is {KEYS_MAX:,} keys at most")
    return caps


def _check_goes_with(kind: object, what: str, kinds: frozenset[Kind]) -> None:
    able = _words(kinds)
    if kind is not None and kind not in able:
        raise InvalidRequest(f"{what} goes with {', '.join(able)}, not with {kind}")


def _words(kinds: Iterable[Kind]) -> list[str]:
    return sorted(kind.word for kind in kinds)


def _check_version(before: Schema | None, plain: dict[str, Any]) -> None:
    """Refuse to take a version back: writers that know the newer one would break the older one's rules."""
    now = None if before is None or before.rules is None else before.rules.version
    if now is not None and plain.get("version", 0) < now:
        raise InvalidRequest(f"the schema has version {now}: give that, or a higher one; or remove the schema first")


def _declared_ms(held: Sequence[Entry], newest: Schema) -> int:
    """When the version was declared first; of siblings, on any of the hosts that declared it."""
    times = []
    for entry in held:
        schema = schema_of(newest.pattern, [entry])
        if schema is not None and schema.plain.get("version") == newest.plain["version"]:
            since = since_ms(schema.plain)
            times += [hlc_ms(entry.hlc)] if since is None else [hlc_ms(entry.hlc), since]
    return min(times)
