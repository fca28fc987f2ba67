"""Kinds, for export, import and batch: the one table. A new kind is one more line of it.

A counter, for example: an export writes its number; an import checks that it is one, makes a new key by an ``incr`` of
it, and an old one what it should be by an ``incr`` of the difference; a line of a batch may say ``incr`` or ``reset``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.data.fields import (
    CONDITIONS,
    FLAG,
    IF_VERSION,
    KEY,
    OF_ANY_KIND,
    OPTIONAL,
    RANK,
    REMOVAL,
    REQUIRED,
    TTL,
    VALUE,
    VERSION,
    LineField,
    Operations,
    is_count,
    is_object,
    is_str,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crdtsyncd.cli.data.export_records import ExportRecord
    from crdtsyncd.cli.data.json_values import Value

    from crdtsync.client import Entry, Session

KEY_BYTES_MAX = 1024
STEP_MAX = 1 << 53  # of a counter
SEEN_NOTHING = "?"
"""The ``seen`` of a write that shall supersede nothing of what the key holds."""
OPTIONS = ("confidence", "meta", "ttl")
INFORMATION = ("agent", "node", "time")
ELEMENTS = "elements"
"""The field with the attributes of each element of a log."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class KindWrite:
    """One write of a batch: the method of the client's batch, and what with."""

    method: str
    arguments: dict[str, Any]  # Any: the arguments of that method


class Shape(Enum):
    """How the value of a key is made up."""

    ONE = auto()
    """One value, and perhaps siblings of it."""
    LIST = auto()
    """Elements."""
    FIELDS = auto()
    """Fields with a value each, and perhaps siblings in some of them."""


@dataclass(frozen=True, slots=True)
class DataKind:
    """One kind."""

    wanted: str
    """The form of the value in a line of an export."""
    fits: Callable[[Value], bool]
    """Whether it is."""
    fields: tuple[str, ...] = INFORMATION
    """Which fields such a line may have beside key, kind and value."""
    shape: Shape = Shape.ONE
    is_ordered: bool = False
    """Whether the order of the elements is part of the value."""
    is_unique: bool = False
    """Whether nothing can be there twice."""
    is_ranked: bool = False
    """Whether a read policy says which of several values comes first."""
    create: Callable[[ExportRecord], list[KindWrite]] | None = None
    """The writes that make an absent key; None: it is a text or a blob, which are not written in batches."""
    change: Callable[[ExportRecord, Entry], list[KindWrite]] | None = None
    """The writes that make of a key of this kind what a record says; None: it is deleted and made anew."""
    add: Callable[[ExportRecord], list[KindWrite]] | None = None
    """The writes that put a record beside what the key holds, if others than those that make it."""
    read_parts: Callable[[Session, str], Value] | None = None
    """Reads a value that is too long for one reply."""
    operations: Operations = field(default_factory=dict)
    """The operations of a line of a batch."""

    @property
    def is_batched(self) -> bool:
        """Whether an import writes it in batches, with others."""
        return self.create is not None

    @property
    def has_siblings(self) -> bool:
        """Whether a line has a place for siblings."""
        return "siblings" in self.fields


def is_field(text: str) -> bool:
    """Whether the name of a field is one that can be stored."""
    return 0 < len(_utf8(text)) <= KEY_BYTES_MAX and _CONTROL.search(text) is None


def _utf8(text: str) -> bytes:
    """Nothing for what JSON can write and UTF-8 cannot: half of a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return b""


# -- what a key holds ----------------------------------------------------------------------------------------


def fingerprint(kind: str, contents: list[Value]) -> tuple[str, list[str]]:
    """Kind and values so that 1, 1.0 and True differ, in order where that is part of the value."""
    rules = KINDS.get(kind, UNKNOWN)
    is_sorted = rules.is_unique and rules.shape is Shape.LIST  # elements are equal however their keys are ordered
    shown = [json_values.dumps(content, sort_keys=is_sorted) for content in contents]
    return kind, shown if rules.is_ordered else sorted(shown)


def fingerprints(kind: str, contents: list[Value]) -> set[str]:
    """The distinct values among some."""
    return set(fingerprint(kind, contents)[1])


def contents(entry: Entry) -> list[Value]:
    """The values of a key, as the variants of a record are counted."""
    if entry.kind == "blob":
        return [shown_of_blob(one.value) for one in (entry, *entry.siblings)]
    siblings = [one.value if one.field is None else [one.field, one.value] for one in entry.siblings]
    shape = KINDS.get(entry.kind, UNKNOWN).shape
    if shape is Shape.LIST:
        return [*entry.value, *siblings]
    if shape is Shape.FIELDS:
        return [*(list(pair) for pair in entry.value.items()), *siblings]
    return [entry.value, *siblings]


def whole_entry(client: Session, key: str) -> Entry | None:
    """The entry of a key, also of one that is too long for one reply; that one has no version then, and no siblings."""
    from crdtsync.errors import TooLarge

    try:
        return client.entry(key)
    except TooLarge:
        listed = next(iter(client.entries(key, limit=1, values=False)), None)
        if listed is None or listed.key != key:
            return None  # deleted meanwhile
        read_parts = KINDS.get(listed.kind, UNKNOWN).read_parts
        if read_parts is None:
            raise
        return replace(listed, value=read_parts(client, key), version=None, siblings=[])


# -- registers -----------------------------------------------------------------------------------------------


def _sets(record: ExportRecord, first: dict[str, Any]) -> list[KindWrite]:
    """The register with its siblings: the winner is written last, for the latest write wins."""
    contexts = [first, *({"seen": SEEN_NOTHING} for _ in record.variants[1:])]
    return [
        KindWrite("set", {"key": record.key, "value": variant.value, **variant.options, **context})
        for variant, context in zip(reversed(record.variants), contexts, strict=True)
    ]


_REGISTER = DataKind(
    "any value",
    lambda _: True,
    (*OPTIONS, *INFORMATION, "siblings"),
    is_ranked=True,
    create=lambda record: _sets(record, {"if_absent": True}),
    change=lambda record, held: _sets(record, {"seen": held.version}),
    add=lambda record: _sets(record, {"seen": SEEN_NOTHING}),
    operations={
        "set": ("set", {"key": KEY, "value": VALUE, "ttl": TTL, **RANK, **CONDITIONS, "seen": VERSION}),
        "touch": ("touch", {"key": KEY, "ttl": replace(TTL, required=REQUIRED), **IF_VERSION}),
    },
)

# -- counters ------------------------------------------------------------------------------------------------


def _steps(key: str, difference: int) -> list[KindWrite]:
    """A counter is changed by steps, of which one has a limit; an absent one also comes to be by a step of 0."""
    steps = [STEP_MAX if difference > 0 else -STEP_MAX] * (abs(difference) // STEP_MAX)
    rest = difference - sum(steps)
    return [KindWrite("incr", {"key": key, "n": n}) for n in (*steps, *([rest] if rest or not steps else []))]


def _is_step(value: Value) -> bool:
    return type(value) is int and abs(value) <= STEP_MAX


_STEP = LineField(OPTIONAL, "a whole number from -2^53 to 2^53", _is_step)


_COUNTER = DataKind(
    "a whole number of 64 bits",
    lambda value: type(value) is int,
    create=lambda record: _steps(record.key, record.variants[0].value),
    change=lambda record, held: _steps(record.key, record.variants[0].value - held.value),
    operations={
        "incr": (
            "incr",
            {"key": KEY, "n": _STEP, **CONDITIONS},
        ),
        "reset": ("reset", {"key": KEY, **IF_VERSION}),
    },
)

# -- sets ----------------------------------------------------------------------------------------------------


def _adds(record: ExportRecord) -> list[KindWrite]:
    return [KindWrite("add", {"key": record.key, "value": variant.value}) for variant in record.variants]


def _change_of_set(record: ExportRecord, held: Entry) -> list[KindWrite]:
    """Add what is missing and discard what is too much."""
    wanted = fingerprints("set", [variant.value for variant in record.variants])
    gone = [element for element in held.value if not wanted.issuperset(fingerprints("set", [element]))]
    discards = [KindWrite("discard", {"key": record.key, "value": element, "seen": held.version}) for element in gone]
    return [*discards, *_adds(without_what_is_there(record, held))]


_SET = DataKind(
    "a list",
    lambda value: isinstance(value, list),
    shape=Shape.LIST,
    is_unique=True,
    create=_adds,
    change=_change_of_set,
    read_parts=lambda client, key: client.members(key),
    operations={
        "add": ("add", {"key": KEY, "value": VALUE, **CONDITIONS}),
        "discard": ("discard", {"key": KEY, "value": VALUE, **REMOVAL}),
    },
)

# -- maps ----------------------------------------------------------------------------------------------------


def _merges(record: ExportRecord, first: Mapping[str, str | None]) -> list[KindWrite]:
    """Fields of a map, of several values of one the winner last; ``first`` is what the first write of a field has
    seen, if it is not nothing.
    """
    left = dict(first)
    return [
        KindWrite(
            "merge", {"key": record.key, "fields": {v.field: v.value}, "seen": left.pop(v.field or "", SEEN_NOTHING)}
        )
        for v in reversed(record.variants)
    ]


def _change_of_map(record: ExportRecord, held: Entry) -> list[KindWrite]:
    """Write the fields that differ, and drop what is too much."""
    there, wanted = _by_field(contents(held)), _by_field([variant.content for variant in record.variants])
    drops = [KindWrite("drop", {"key": record.key, "field": f, "seen": held.version}) for f in there if f not in wanted]
    differing = {field for field in wanted if wanted[field] != there.get(field)}
    changed = replace(record, variants=tuple(v for v in record.variants if v.field in differing))
    return [*drops, *_merges(changed, dict.fromkeys(differing, held.version))]


def _by_field(contents: list[Any]) -> dict[str, list[str]]:
    """The values of each field of a map, in no order of their own."""
    fields: dict[str, list[str]] = {}
    for name, value in contents:
        fields.setdefault(name, []).append(json_values.dumps(value))
    return {name: sorted(found) for name, found in fields.items()}


_MAP = DataKind(
    f"an object whose names have 1 to {KEY_BYTES_MAX} bytes and no control characters",
    lambda value: isinstance(value, dict) and all(map(is_field, value)),
    (*INFORMATION, "siblings"),
    shape=Shape.FIELDS,
    is_unique=True,
    is_ranked=True,
    create=lambda record: _merges(record, {}),
    change=_change_of_map,
    read_parts=lambda client, key: {field.name: field.value for field in client.fields(key)},
    operations={
        "merge": (
            "merge",
            {
                "key": KEY,
                "fields": LineField(REQUIRED, "an object", is_object),
                **CONDITIONS,
                "if_field_absent": FLAG,
                "seen": VERSION,
                **RANK,
            },
        ),
        "drop": ("drop", {"key": KEY, "field": LineField(REQUIRED, "the name of a field", is_str), **REMOVAL}),
    },
)

# -- logs and texts ------------------------------------------------------------------------------------------


def _appends(record: ExportRecord) -> list[KindWrite]:
    return [KindWrite("append", {"key": record.key, "value": v.value, **v.options}) for v in record.variants]


_LOG = DataKind(
    "a list",
    lambda value: isinstance(value, list),
    (*INFORMATION, ELEMENTS),
    shape=Shape.LIST,
    is_ordered=True,
    create=_appends,
    read_parts=lambda client, key: client.log(key),
    operations={
        "append": ("append", {"key": KEY, "value": VALUE, "ttl": TTL, **RANK, **CONDITIONS}),
        "remove": ("remove", {"key": KEY, "dot": LineField(REQUIRED, "the dot of an element", is_str), **IF_VERSION}),
        "trim": (
            "trim",
            {"key": KEY, "keep": LineField(REQUIRED, "a number of elements from 0 on", is_count), **IF_VERSION},
        ),
    },
)

_TEXT = DataKind("a string", lambda value: isinstance(value, str))

# -- blobs ---------------------------------------------------------------------------------------------------

BLOB_PART = "blob part"
"""The kind of the lines behind that of a blob, which have its bytes."""
_OF_BLOB = ("size", "sha256", "media_type")


def shown_of_blob(manifest: Any) -> dict[str, Value]:  # Any: what the entry says
    """The part of a blob's entry that is the same wherever the blob is stored."""
    return {name: manifest.get(name) for name in _OF_BLOB} if isinstance(manifest, dict) else {}


def _is_blob(value: Value) -> bool:
    from crdtsync.errors import InvalidRequest
    from crdtsync.wire.blobs import checked

    try:
        return {*value} == {*_OF_BLOB} and checked(
            value["size"], value["sha256"], value["media_type"], "0" * 24
        ) is not None
    except (InvalidRequest, TypeError):
        return False


_BLOB = DataKind("an object with size, sha256 and media_type", _is_blob, (*OPTIONS, *INFORMATION))

# -- all of them ---------------------------------------------------------------------------------------------

KINDS: Mapping[str, DataKind] = {
    "register": _REGISTER,
    "counter": _COUNTER,
    "set": _SET,
    "map": _MAP,
    "log": _LOG,
    "text": _TEXT,
    "blob": _BLOB,
}

UNKNOWN = DataKind("of a kind that this version does not know", lambda _: False)

OPERATIONS: Mapping[str, tuple[str, Mapping[str, LineField]]] = {
    **{name: operation for kind in KINDS.values() for name, operation in kind.operations.items()},
    **OF_ANY_KIND,
}
"""The operations that a line of a batch may have."""


def without_what_is_there(record: ExportRecord, held: Entry) -> ExportRecord:
    """A record without the values that a key of its kind holds already."""
    there = fingerprints(held.kind, contents(held))
    new = tuple(v for v in record.variants if not there.issuperset(fingerprints(record.kind, [v.content])))
    return replace(record, variants=new)
