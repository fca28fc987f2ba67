"""One key as one line of an export: what is written, and what is accepted of it.

``{"key", "kind": "register", "value", "confidence", "meta", "ttl", "siblings"}``; the value of a counter is a number,
of a set and of a log a list, of a map an object, of a text a string. A map's siblings name their ``field``. The
attributes of a log's elements stand in ``elements``, an object for each. Fields that an import cannot set, such as
author and time, are there for people to read.

The line of a blob says size and hash; lines of the kind ``blob part`` follow it, with its bytes in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crdtsyncd.cli.data.kinds import (
    BLOB_PART,
    ELEMENTS,
    INFORMATION,
    KEY_BYTES_MAX,
    KINDS,
    OPTIONS,
    Shape,
    fingerprint,
    is_field,
    shown_of_blob,
    whole_entry,
)
from crdtsyncd.cli.show import output
from crdtsyncd.wording import rfc3339

from crdtsync.errors import Refused

if TYPE_CHECKING:
    from crdtsyncd.cli.data.json_values import Value
    from crdtsyncd.cli.data.ndjson import Line

    from crdtsync.client import Entry, LogItem, Session

VERSION = "schema_version"
"""The version that the schema of the key had: for people, and for a migration after the import."""
TEXT_PART_CHARS = 128 * 1024
"""Characters of a text that are written at a time, if it is too long for one edit: a text as a whole has no limit."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the values of a register or of a map's ``field``, with the options it was set with."""

    value: Value
    options: dict[str, Value] = field(default_factory=dict)
    field: str | None = None

    @property
    def content(self) -> Value:
        """The part of it that makes two keys the same."""
        return self.value if self.field is None else [self.field, self.value]


@dataclass(frozen=True, slots=True)
class ExportRecord:
    """One key: the values of a register or of a map's fields, highest first, the elements of a log or set, or the one
    number of a counter or string of a text.
    """

    line: Line
    key: str
    kind: str
    variants: tuple[Variant, ...]

    @property
    def fingerprint(self) -> tuple[str, list[str]]:
        """Equal for two states of a key that hold the same."""
        return fingerprint(self.kind, [variant.content for variant in self.variants])


def exported(entry: Entry, elements: Iterable[LogItem] = (), version: int | None = None) -> str:
    """The line for a key; ``elements``: those of a log, in the place of what the entry shows of them; ``version``: of
    its schema.
    """
    fields: dict[str, object] = {"key": entry.key, "kind": entry.kind, **_details(entry)}
    if entry.kind == "log":
        fields |= _elements(elements)
    siblings = [sibling for sibling in entry.siblings if sibling.kind == entry.kind]
    if siblings and KINDS[entry.kind].has_siblings:
        fields["siblings"] = [_details(sibling) for sibling in siblings]
    if version is not None:
        fields[VERSION] = version
    return output.record(fields)


def _elements(items: Iterable[LogItem]) -> dict[str, object]:
    values: list[Value] = []
    said: list[Value] = []
    for item in items:
        values.append(item.value)
        given = {name: getattr(item, name) for name in OPTIONS}
        said.append({name: option for name, option in given.items() if option is not None})
    return {"value": values, ELEMENTS: said} if any(said) else {"value": values}


def left_out(entry: Entry) -> list[Entry]:
    """Siblings that no import could write: of other kinds than the winner, and texts."""
    has_place = KINDS[entry.kind].has_siblings
    return [sibling for sibling in entry.siblings if sibling.kind != entry.kind or not has_place]


def _details(entry: Entry) -> dict[str, object]:
    options = OPTIONS if entry.kind in ("register", "blob") else ()  # of others they are of one part, the newest
    given = {name: getattr(entry, name) for name in (*options, *INFORMATION)}
    present = {name: option for name, option in given.items() if option is not None}
    if entry.time is not None:
        present["time"] = rfc3339(entry.time)
    of_map = {} if entry.field is None else {"field": entry.field}
    return {**of_map, "value": shown_of_blob(entry.value) if entry.kind == "blob" else entry.value, **present}


def _is_key(text: str) -> bool:
    return is_field(text) and text[0] != "_"


def _is_number(value: Value) -> bool:
    return type(value) in (int, float)


_CHECKS: Mapping[str, tuple[str, Callable[[Value], bool]]] = {
    "confidence": ("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1),
    "meta": ("an object", lambda value: isinstance(value, dict)),
    "ttl": ("seconds, more than 0", lambda value: _is_number(value) and value > 0),
    "siblings": ("a list of objects", lambda value: isinstance(value, list) and all(type(v) is dict for v in value)),
    ELEMENTS: ("a list of objects", lambda value: isinstance(value, list) and all(type(v) is dict for v in value)),
    "field": (
        f"a string of 1 to {KEY_BYTES_MAX} bytes without control characters",
        lambda value: isinstance(value, str) and is_field(value),
    ),
    "key": (
        f"a string of 1 to {KEY_BYTES_MAX} bytes without control characters that does not begin with _",
        lambda value: isinstance(value, str) and _is_key(value),
    ),
}


def records_of(lines: Iterable[Line]) -> Iterator[ExportRecord]:
    """The records that the lines describe, in order; otherwise an error that names the line and says what is wrong with
    it.
    """
    blob: ExportRecord | None = None
    left_bytes = 0
    for line in lines:
        record = record_of(line)
        is_part = record.kind == BLOB_PART
        if left_bytes and not (is_part and blob is not None and record.key == blob.key):
            raise line.wrong(f"{left_bytes:,} bytes of the blob before it are missing")
        if is_part:
            left_bytes -= len(record.variants[0].value)
            if left_bytes < 0:
                raise line.wrong("it has bytes of a blob that is not before it, or is whole")
        elif record.kind == "blob":
            blob, left_bytes = record, record.variants[0].value["size"]
        yield record
    if left_bytes and blob is not None:
        raise blob.line.wrong(f"the last {left_bytes:,} bytes of it are missing")


def record_of(line: Line) -> ExportRecord:
    """The key, or the part of a blob, that a line describes."""
    fields = line.fields
    _require(line, fields, "key")
    kind = fields.get("kind")
    if kind == BLOB_PART:
        _check_fields(line, fields, ("key", "kind", "value"))
        if not isinstance(fields["value"], bytes) or not fields["value"]:
            raise line.wrong(f'the "value" of a {BLOB_PART} must be bytes')
        return ExportRecord(line, fields["key"], BLOB_PART, (Variant(fields["value"]),))
    if not isinstance(kind, str) or kind not in KINDS:
        raise line.wrong(f'"kind" must be one of {", ".join(KINDS)}')
    _check_fields(line, fields, ("key", "kind", "value", VERSION, *KINDS[kind].fields))
    if not KINDS[kind].fits(fields["value"]):
        raise line.wrong(f'the "value" of a {kind} must be {KINDS[kind].wanted}')
    record = ExportRecord(line, fields["key"], kind, _variants(line, kind, fields))
    for variant in record.variants:
        for part in _parts(variant.value) if kind == "text" else [variant.value]:
            _check_storable(line, part)
    return record


def _variants(line: Line, kind: str, fields: dict[str, Value]) -> tuple[Variant, ...]:
    shape = KINDS[kind].shape
    if shape is Shape.LIST:
        said = fields.get(ELEMENTS) or [{}] * len(fields["value"])
        if len(said) != len(fields["value"]):
            raise line.wrong(f'"{ELEMENTS}" must have as many objects as "value" has elements')
        for options in said:
            _check_fields(line, {"value": None, **options}, ("value", *OPTIONS))
        return tuple(Variant(value, dict(options)) for value, options in zip(fields["value"], said, strict=True))
    siblings = fields.get("siblings", [])
    if shape is Shape.FIELDS:
        for sibling in siblings:
            _check_fields(line, sibling, ("field", "value", *INFORMATION))
            _require(line, sibling, "field")
        winners = [Variant(value, field=name) for name, value in fields["value"].items()]
        return (*winners, *(Variant(one["value"], field=one["field"]) for one in siblings))
    for sibling in siblings:
        _check_fields(line, sibling, ("value", *OPTIONS, *INFORMATION))
    return tuple(
        Variant(one["value"], {name: one[name] for name in OPTIONS if name in one}) for one in (fields, *siblings)
    )


def _parts(text: str) -> list[str]:
    return [text[start : start + TEXT_PART_CHARS] for start in range(0, len(text), TEXT_PART_CHARS)]


def _check_storable(line: Line, value: Value) -> None:
    from crdtsync.client.values.encoding import encode

    try:
        encode(value)
    except Refused as error:
        raise line.wrong(error.message) from None


def _check_fields(line: Line, fields: dict[str, Value], known: tuple[str, ...]) -> None:
    if "value" not in fields:
        raise line.wrong('"value" is missing')
    for name in fields:
        if name not in known:
            raise line.wrong(f'"{name}" is not a field here; there are {", ".join(known)}')
        if name in _CHECKS:
            _require(line, fields, name)


def _require(line: Line, fields: dict[str, Value], name: str) -> None:
    wanted, fits = _CHECKS[name]
    if name not in fields or not fits(fields[name]):
        raise line.wrong(f'"{name}" must be {wanted}')


def lines_of(client: Session, listed: Entry, version: int | None = None) -> Iterator[str]:
    """The lines of a key, whose schema has ``version``; none if it has gone meanwhile.

    :raises DamagedValue: the disk has spoilt it: a listing shows null then, as for what is null.
    """
    is_whole = listed.kind == "register" and None not in (listed.value, *(one.value for one in listed.siblings))
    entry = listed if is_whole else whole_entry(client, listed.key)
    if entry is None:
        return  # deleted since it was listed
    if entry.kind not in KINDS:
        output.warning(f"{entry.key} was left out, a {entry.kind}: this version does not know the kind")
        return
    if entry.kind == "text" and client.doc(entry.key).get():
        what = "the document of " if entry.value else ""
        output.warning(f"{what}{entry.key} was left out: crdtsync doc shows it")
        if not entry.value:
            return
    for sibling in left_out(entry):
        why = f"it is a {sibling.kind}, and the winner a {entry.kind}"
        if sibling.kind == entry.kind:
            why = "resolve it first" if entry.kind == "blob" else "resolve it with --merge first to have both"
        output.warning(f"a sibling of {entry.key} was left out: {why}")
    if entry.kind == "blob":
        yield from _lines_of_blob(client, entry, version)
    else:
        yield exported(entry, client.log_items(entry.key) if entry.kind == "log" else (), version)


def _lines_of_blob(client: Session, entry: Entry, version: int | None) -> Iterator[str]:
    from crdtsync.wire.blobs import PART_BYTES

    blob = client.get_blob(entry.key)
    if blob is None:
        return  # deleted since it was listed
    yield exported(blob.entry, version=version)
    while data := blob.read(PART_BYTES):
        yield output.record({"key": entry.key, "kind": BLOB_PART, "value": data})
