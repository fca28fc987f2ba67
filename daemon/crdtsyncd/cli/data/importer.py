"""Writing the records of an import: in batches, and never over what came between reading a key and writing it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from crdtsyncd.cli.connect import whole_entry
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.data.export_records import TEXT_PART_CHARS, Record, Variant, contents, fingerprint

from crdtsync.errors import TooLarge, VersionMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from crdtsync.client import Client, Entry, Text

BATCH_WRITES_MAX = 500
BATCH_BYTES_MAX = 1024 * 1024  # of JSON, which is not much shorter than what is sent
PART_BYTES_MAX = 7 * 512 * 1024  # as it is sent, of a key that is alone in its batch; a change may have 4 MiB
ATTEMPTS_MAX = 8
STEP_MAX = 1 << 53  # of a counter
_WRITE_BYTES = 128  # of a change, beside key, value and meta

# Kinds of which a read policy says which of several values comes first.
_RANKED = ("register", "map")
# What a write has seen when it shall supersede nothing of what the key holds.
SEEN_NOTHING = "?"


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a batch: the method of the client's batch, and what with."""

    method: str
    arguments: dict[str, Any]  # Any: the arguments of that method


@dataclass(slots=True)
class Importer:
    """Writes records with one policy for keys that exist; ``counts`` says what became of them."""

    client: Client
    policy: str
    counts: Counter[str] = field(default_factory=Counter)

    def write(self, records: Iterable[Record]) -> Iterator[Record]:
        """Write all records in batches; yields the last record of each batch that is done."""
        for chunk in chunks(records):
            if chunk[0].kind == "text":
                self._write_text(chunk[0])
            else:
                self._write_chunk(chunk)
            yield chunk[-1]

    def _write_chunk(self, records: list[Record]) -> None:
        """One batch; planned anew when a key that was absent has come into being meanwhile."""
        for attempt in range(ATTEMPTS_MAX):
            counts: Counter[str] = Counter()
            writes = [write for record in records for write in self._plan(record, counts)]
            try:
                self._send(writes)
            except VersionMismatch:
                if attempt + 1 == ATTEMPTS_MAX:
                    raise
            else:
                self.counts += counts
                return

    def _send(self, writes: list[Write]) -> None:
        # More than one batch only for a key that holds more than fits into one.
        for part in parts(writes):
            with self.client.batch() as batch:
                for write in part:
                    getattr(batch, write.method)(**write.arguments)

    def _plan(self, record: Record, counts: Counter[str]) -> list[Write]:
        """The writes that a record takes, given what the key holds now."""
        held = whole_entry(self.client, record.key)
        outcome = outcome_of(record, held, self.policy)
        writes = _PLANS[outcome](self._in_order(record), held)
        counts[outcome if writes or outcome == "skipped" else "unchanged"] += 1
        return writes

    def _in_order(self, record: Record) -> Record:
        """The last write of several wins, so the winner is written last, unless the key is read by who was first."""
        places = {variant.field for variant in record.variants}
        if record.kind not in _RANKED or len(record.variants) == len(places):
            return record
        schema = self.client.schema(record.key)
        is_first = schema is not None and schema.policy == "first"
        return replace(record, variants=record.variants[::-1]) if is_first else record

    def _write_text(self, record: Record) -> None:
        held = whole_entry(self.client, record.key)
        outcome = outcome_of(record, held, self.policy)
        self.counts[outcome] += 1
        if outcome == "replaced" and held is not None and held.kind != "text":
            self.client.delete(record.key, seen=held.version)
        if outcome in ("created", "replaced"):
            _set_text(self.client.text(record.key), record.variants[0].value)


def _set_text(text: Text, whole: str) -> None:
    """Make a text ``whole``, in several edits where one would be too large."""
    try:
        text.set(whole)
    except TooLarge:
        text.set(whole[:TEXT_PART_CHARS])
        for start in range(TEXT_PART_CHARS, len(whole), TEXT_PART_CHARS):
            text.insert(start, whole[start : start + TEXT_PART_CHARS])


def outcome_of(record: Record, held: Entry | None, policy: str) -> str:
    """What becomes of a record: created, unchanged, skipped, replaced, or added (beside what there is)."""
    if held is None:
        return "created" if record.variants else "unchanged"
    if fingerprint(held.kind, contents(held)) == record.fingerprint:
        return "unchanged"
    if policy == "sibling" and held.kind == record.kind != "text":
        return "added"
    return "replaced" if policy == "set" else "skipped"


def _create(record: Record, _: Entry | None) -> list[Write]:
    return _CREATIONS[record.kind](record)


def _replace(record: Record, held: Entry | None) -> list[Write]:
    assert held is not None
    if all(one.kind == record.kind for one in (held, *held.siblings)) and record.kind in _CHANGES:
        return _CHANGES[record.kind](record, held)
    deletion = Write("delete", {"key": record.key, "seen": held.version})
    return [deletion, *_create(record, None)]


def _add(record: Record, held: Entry | None) -> list[Write]:
    assert held is not None
    if record.kind == "register":
        return _sets(record, {"seen": SEEN_NOTHING})
    if record.kind in ("set", "map"):  # nothing of them can be there twice
        there = fingerprints(held.kind, contents(held))
        new = tuple(v for v in record.variants if not there.issuperset(fingerprints(record.kind, [v.content])))
        record = replace(record, variants=new)
    return _create(record, None)


def _appends(record: Record) -> list[Write]:
    return [Write("append", {"key": record.key, "value": variant.value}) for variant in record.variants]


def _adds(record: Record) -> list[Write]:
    return [Write("add", {"key": record.key, "value": variant.value}) for variant in record.variants]


def _change_of_set(record: Record, held: Entry) -> list[Write]:
    """Add what is missing and discard what is too much."""
    wanted = fingerprints("set", [variant.value for variant in record.variants])
    gone = [element for element in held.value if not wanted.issuperset(fingerprints("set", [element]))]
    discards = [Write("discard", {"key": record.key, "value": element, "seen": held.version}) for element in gone]
    return [*discards, *_add(record, held)]


def _steps(key: str, difference: int) -> list[Write]:
    """A counter is changed by steps, of which one has a limit; an absent one also comes to be by a step of 0."""
    steps = [STEP_MAX if difference > 0 else -STEP_MAX] * (abs(difference) // STEP_MAX)
    rest = difference - sum(steps)
    return [Write("incr", {"key": key, "n": n}) for n in (*steps, *([rest] if rest or not steps else []))]


def _merges(record: Record, first: Mapping[str, str | None]) -> list[Write]:
    """Fields of a map, of several values of one the winner last; ``first`` is what the first write of a field has
    seen, if it is not nothing.
    """
    left = dict(first)
    return [
        Write("merge", {"key": record.key, "fields": {v.field: v.value}, "seen": left.pop(v.field or "", SEEN_NOTHING)})
        for v in reversed(record.variants)
    ]


def _change_of_map(record: Record, held: Entry) -> list[Write]:
    """Write the fields that differ, and drop what is too much."""
    there, wanted = _by_field(contents(held)), _by_field([variant.content for variant in record.variants])
    drops = [Write("drop", {"key": record.key, "field": f, "seen": held.version}) for f in there if f not in wanted]
    differing = {field for field in wanted if wanted[field] != there.get(field)}
    changed = replace(record, variants=tuple(v for v in record.variants if v.field in differing))
    return [*drops, *_merges(changed, dict.fromkeys(differing, held.version))]


def _by_field(contents: list[Any]) -> dict[str, list[str]]:
    """The values of each field of a map, in no order of their own."""
    fields: dict[str, list[str]] = {}
    for name, value in contents:
        fields.setdefault(name, []).append(json_values.dumps(value))
    return {name: sorted(found) for name, found in fields.items()}


def fingerprints(kind: str, contents: list[Any]) -> set[str]:
    """The distinct values among some."""
    return set(fingerprint(kind, contents)[1])


def _sets(record: Record, first: dict[str, Any]) -> list[Write]:
    """The register with its siblings: the winner is written last, for the latest write wins."""
    contexts = [first, *({"seen": SEEN_NOTHING} for _ in record.variants[1:])]
    return [
        Write("set", {"key": record.key, "value": variant.value, **variant.options, **context})
        for variant, context in zip(reversed(record.variants), contexts, strict=True)
    ]


# How a key comes to be, by its kind, and how one of the same kind is made what a record says by small changes.
_CREATIONS: dict[str, Callable[[Record], list[Write]]] = {
    "register": lambda record: _sets(record, {"if_absent": True}),
    "counter": lambda record: _steps(record.key, record.variants[0].value),
    "set": _adds,
    "map": lambda record: _merges(record, {}),
    "log": _appends,
}
_CHANGES: dict[str, Callable[[Record, Entry], list[Write]]] = {
    "register": lambda record, held: _sets(record, {"seen": held.version}),
    "counter": lambda record, held: _steps(record.key, record.variants[0].value - held.value),
    "set": _change_of_set,
    "map": _change_of_map,
}


def _nothing(_: Record, __: Entry | None) -> list[Write]:
    return []


_PLANS: dict[str, Callable[[Record, Entry | None], list[Write]]] = {
    "created": _create,
    "replaced": _replace,
    "added": _add,
    "unchanged": _nothing,
    "skipped": _nothing,
}


def chunks(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Records in groups that fit into one batch; a text, which is not written in batches, and a long log alone.

    No key is twice in a group: the second time it has to be looked at again.
    """
    group: list[Record] = []
    keys: set[str] = set()
    writes = size_bytes = 0
    for record in records:
        count, size = len(record.variants) + 1, sum(map(_size_bytes, record.variants))
        is_full = writes + count > BATCH_WRITES_MAX or size_bytes + size > BATCH_BYTES_MAX
        is_apart = record.kind == "text" or record.key in keys
        if group and (is_full or is_apart or group[-1].kind == "text"):
            yield group
            group, keys, writes, size_bytes = [], set(), 0, 0
        group.append(record)
        keys.add(record.key)
        writes, size_bytes = writes + count, size_bytes + size
    if group:
        yield group


def parts(writes: list[Write]) -> Iterator[list[Write]]:
    """Writes in runs that each fit into one batch.

    Siblings stay together as long as a change can hold them, so that all are there or none.
    """
    part: list[Write] = []
    size_bytes = 0
    for write in writes:
        size = _sent_bytes(write)
        if part and (len(part) == BATCH_WRITES_MAX or size_bytes + size > PART_BYTES_MAX):
            yield part
            part, size_bytes = [], 0
        part.append(write)
        size_bytes += size
    if part:
        yield part


def _sent_bytes(write: Write) -> int:
    from crdtsync.client.values.encoding import encode

    return _WRITE_BYTES + sum(len(encode(write.arguments.get(name))) for name in ("key", "value", "meta", "fields"))


def _size_bytes(variant: Variant) -> int:
    return len(json_values.dumps(variant.value)) + len(json_values.dumps(variant.options))
