"""Writing the records of an import: in batches, and never over what came between reading a key and writing it."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any, cast

from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.data.export_records import TEXT_PART_CHARS, ExportRecord, Variant
from crdtsyncd.cli.data.kinds import (
    BLOB_PART,
    KINDS,
    SEEN_NOTHING,
    KindWrite,
    Shape,
    contents,
    fingerprint,
    whole_entry,
    without_what_is_there,
)

from crdtsync.errors import TooLarge, VersionMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from crdtsync.client import Client, Entry, Text

BATCH_WRITES_MAX = 500
BATCH_BYTES_MAX = 1024 * 1024  # of JSON, which is not much shorter than what is sent
PART_BYTES_MAX = 7 * 512 * 1024  # as it is sent, of a key that is alone in its batch; a change may have 4 MiB
ATTEMPTS_MAX = 8
_WRITE_BYTES = 128  # of a change, beside key, value and meta


@dataclass(slots=True)
class Importer:
    """Writes records with one policy for keys that exist; ``counts`` says what became of them."""

    client: Client
    policy: str
    counts: Counter[str] = field(default_factory=Counter)

    def write(self, records: Iterable[ExportRecord]) -> Iterator[ExportRecord]:
        """Write all records in batches; yields the last record of each batch that is done."""
        left = iter(records)
        for chunk in chunks(left):
            if chunk[0].kind == "blob":
                self._write_blob(chunk[0], left)
            elif KINDS[chunk[0].kind].is_batched:
                self._write_chunk(chunk)
            else:
                self._write_text(chunk[0])
            yield chunk[-1]

    def foretell(self, records: Iterable[ExportRecord]) -> Iterator[ExportRecord]:
        """Count what would become of all records, and write nothing; yields each record of a key."""
        for chunk in chunks(record for record in records if record.kind != BLOB_PART):
            held = self._held(chunk)
            for record in chunk:
                self.counts[outcome_of(record, held.get(record.key), self.policy)] += 1
                yield record

    def _write_chunk(self, records: list[ExportRecord]) -> None:
        """One batch; planned anew when a key that was absent has come into being meanwhile."""
        for attempt in range(ATTEMPTS_MAX):
            counts: Counter[str] = Counter()
            held = self._held(records)
            writes = [write for record in records for write in self._plan(record, held.get(record.key), counts)]
            try:
                self._send(writes)
            except VersionMismatch:
                if attempt + 1 == ATTEMPTS_MAX:
                    raise
            else:
                self.counts += counts
                return

    def _send(self, writes: list[KindWrite]) -> None:
        # More than one batch only for a key that holds more than fits into one.
        for part in parts(writes):
            with self.client.batch() as batch:
                for write in part:
                    getattr(batch, write.method)(**write.arguments)

    def _held(self, records: list[ExportRecord]) -> dict[str, Entry | None]:
        """What the keys of records hold, of those that one request has found to be there: often it is none."""
        keys = [record.key for record in records]
        there = keys if len(keys) == 1 else self.client.get_many(keys)
        return {key: whole_entry(self.client, key) for key in there}

    def _plan(self, record: ExportRecord, held: Entry | None, counts: Counter[str]) -> list[KindWrite]:
        """The writes that a record takes, given what the key holds now."""
        rest = rest_of(record, held)
        if rest:
            counts["created"] += 1
            return rest
        outcome = outcome_of(record, held, self.policy)
        writes = _PLANS[outcome](self._in_order(record), held)
        counts[outcome if writes or outcome == "skipped" else "unchanged"] += 1
        return writes

    def _in_order(self, record: ExportRecord) -> ExportRecord:
        """The last write of several wins, so the winner is written last, unless the key is read by who was first."""
        places = {variant.field for variant in record.variants}
        if not KINDS[record.kind].is_ranked or len(record.variants) == len(places):
            return record
        schema = self.client.schema(record.key)
        is_first = schema is not None and schema.policy == "first"
        return replace(record, variants=record.variants[::-1]) if is_first else record

    def _write_text(self, record: ExportRecord) -> None:
        held = whole_entry(self.client, record.key)
        start = cut_off_at(record, held)
        if start:
            self.counts["created"] += 1
            _insert_from(self.client.text(record.key), record.variants[0].value, start)
            return
        outcome = outcome_of(record, held, self.policy)
        self.counts[outcome] += 1
        if outcome == "replaced" and held is not None and held.kind != "text":
            self.client.delete(record.key, seen=held.version)
        if outcome in ("created", "replaced"):
            _set_text(self.client.text(record.key), record.variants[0].value)

    def _write_blob(self, record: ExportRecord, left: Iterator[ExportRecord]) -> None:
        """Put a blob; its parts are the next of the records that are ``left``."""
        (variant,), held = record.variants, whole_entry(self.client, record.key)
        parts = _Parts(left, variant.value)
        outcome = outcome_of(record, held, self.policy)
        context: dict[str, Any] = {"seen": SEEN_NOTHING} if outcome == "added" else {"if_absent": True}
        if outcome == "replaced" and held is not None:
            context = {"seen": held.version}
            if held.kind != "blob":
                self.client.delete(record.key, **context)
                context = {"if_absent": True}
        if outcome in ("created", "replaced", "added"):
            source, media_type = cast("IO[bytes]", parts), variant.value["media_type"]
            self.client.put_blob(record.key, source, media_type=media_type, **variant.options, **context)
        while parts.read(PART_BYTES_MAX):
            pass
        self.counts[outcome] += 1


class _Parts(io.RawIOBase):
    """The bytes of a blob, from the records behind it: as a file that can be read once.

    :raises CommandFailed: they are not those that its line says.
    """

    def __init__(self, records: Iterator[ExportRecord], blob: dict[str, Any]) -> None:
        self._records = records
        self._left_bytes: int = blob["size"]
        self._expected: str = blob["sha256"]
        self._hash = sha256()
        self._data = b""

    def read(self, size: int = -1) -> bytes:
        """The next bytes, ``size`` of them at most, and of one record."""
        if not self._data and self._left_bytes:
            record = next(self._records)
            self._data = record.variants[0].value
            self._left_bytes -= len(self._data)
            self._hash.update(self._data)
            if not self._left_bytes and self._hash.hexdigest() != self._expected:
                raise record.line.wrong("the bytes of this blob are not those of its sha256")
        found, self._data = self._data[:size], self._data[size:]
        return found


def _set_text(text: Text, whole: str) -> None:
    """Make a text ``whole``, in several edits where one would be too large."""
    try:
        text.set(whole)
    except TooLarge:
        text.set(whole[:TEXT_PART_CHARS])
        _insert_from(text, whole, TEXT_PART_CHARS)


def _insert_from(text: Text, whole: str, first: int) -> None:
    for start in range(first, len(whole), TEXT_PART_CHARS):
        text.insert(start, whole[start : start + TEXT_PART_CHARS])


def rest_of(record: ExportRecord, held: Entry | None) -> list[KindWrite]:
    """The writes that are left of a record whose import was cut off: the key holds exactly its first batches."""
    if held is None or held.siblings or held.kind != record.kind or KINDS[record.kind].shape is Shape.ONE:
        return []
    there = contents(held)
    writes = _create(record, None)
    done = 0
    for part in parts(writes):
        done += len(part)
        if done >= len(there):
            break
    is_cut_off = done == len(there) < len(writes)
    written = [_content(write) for write in writes[:done]] if is_cut_off else []
    return writes[done:] if is_cut_off and fingerprint(held.kind, written) == fingerprint(held.kind, there) else []


def _content(write: KindWrite) -> Any:
    """The content that one write of a log, a set or a map leaves in it."""
    fields = write.arguments.get("fields")
    return write.arguments["value"] if fields is None else [*next(iter(fields.items()))]


def cut_off_at(record: ExportRecord, held: Entry | None) -> int:
    """The same of a text that is written in several edits: how much of it is there; 0: it is another one."""
    if held is None or held.siblings or held.kind != "text" or record.kind != "text":
        return 0
    whole, there = record.variants[0].value, held.value
    is_part = len(there) % TEXT_PART_CHARS == 0 and len(there) < len(whole) and whole.startswith(there)
    return len(there) if is_part else 0


def outcome_of(record: ExportRecord, held: Entry | None, policy: str) -> str:
    """The outcome of a record: created, unchanged, skipped, replaced, or added (beside what there is)."""
    if held is None:
        return "created" if record.variants else "unchanged"
    if fingerprint(held.kind, contents(held)) == record.fingerprint:
        return "unchanged"
    if policy == "sibling" and held.kind == record.kind != "text":
        return "added"
    return "replaced" if policy == "set" else "skipped"


def _create(record: ExportRecord, _: Entry | None) -> list[KindWrite]:
    create = KINDS[record.kind].create
    assert create is not None
    return create(record)


def _replace(record: ExportRecord, held: Entry | None) -> list[KindWrite]:
    assert held is not None
    change = KINDS[record.kind].change
    if change is not None and all(one.kind == record.kind for one in (held, *held.siblings)):
        return change(record, held)
    deletion = KindWrite("delete", {"key": record.key, "seen": held.version})
    return [deletion, *_create(record, None)]


def _add(record: ExportRecord, held: Entry | None) -> list[KindWrite]:
    assert held is not None
    kind = KINDS[record.kind]
    if kind.add is not None:
        return kind.add(record)
    return _create(without_what_is_there(record, held) if kind.is_unique else record, None)


def _nothing(_: ExportRecord, __: Entry | None) -> list[KindWrite]:
    return []


_PLANS: dict[str, Callable[[ExportRecord, Entry | None], list[KindWrite]]] = {
    "created": _create,
    "replaced": _replace,
    "added": _add,
    "unchanged": _nothing,
    "skipped": _nothing,
}


def chunks(records: Iterable[ExportRecord]) -> Iterator[list[ExportRecord]]:
    """Records in groups that fit into one batch; a text, which is not written in batches, and a long log alone.

    No key is twice in a group: the second time it has to be looked at again.
    """
    group: list[ExportRecord] = []
    keys: set[str] = set()
    writes = size_bytes = 0
    for record in records:
        if record.kind == "blob":  # whoever takes it goes on with its parts
            if group:
                yield group
            yield [record]
            group, keys, writes, size_bytes = [], set(), 0, 0
            continue
        count, size = len(record.variants) + 1, sum(map(_size_bytes, record.variants))
        is_full = writes + count > BATCH_WRITES_MAX or size_bytes + size > BATCH_BYTES_MAX
        is_apart = not KINDS[record.kind].is_batched or record.key in keys
        if group and (is_full or is_apart or not KINDS[group[-1].kind].is_batched):
            yield group
            group, keys, writes, size_bytes = [], set(), 0, 0
        group.append(record)
        keys.add(record.key)
        writes, size_bytes = writes + count, size_bytes + size
    if group:
        yield group


def parts(writes: list[KindWrite]) -> Iterator[list[KindWrite]]:
    """Writes in runs that each fit into one batch.

    Siblings stay together as long as a change can hold them, so that all are there or none.
    """
    part: list[KindWrite] = []
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


def _sent_bytes(write: KindWrite) -> int:
    from crdtsync.client.values.encoding import encode

    return _WRITE_BYTES + sum(len(encode(write.arguments.get(name))) for name in ("key", "value", "meta", "fields"))


def _size_bytes(variant: Variant) -> int:
    return len(json_values.dumps(variant.value)) + len(json_values.dumps(variant.options))
