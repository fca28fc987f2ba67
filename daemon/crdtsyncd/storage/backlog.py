"""Rows of large commits on their way into their tables: a slice at a time, between the turns of others.

An agent deletes a log of 20,000 elements: one change, one commit, and 20,000 rows to be marked. All at once that would
take longer than others may wait. So the commit writes the change, and a list of what is to be done with the rows: a
record for each slice of it. Each slice is one transaction that does what the record says and deletes it. After a kill
the start finds the records that are left, and brings them in before anything else.

Records are brought in in their order. So while some are there, the rows of later commits come behind them; else a
mark could come before its row. Readers that need every row in its place ask for :attr:`Backlog.count` first.

A long value is not written for that once more: its record says where in its change it stands.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import msgpack
from crdtsyncd.storage.schema import INLINE_BYTES_MAX

from crdtsync.core.storage.rows import ChangeRow, EntryRow, RemovalRow, RemovedRow
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.wire.codec import pack

SLICE_ROWS = 256
"""So many rows a record: to bring them in takes 2 to 8 ms, measured."""
SLICE_BYTES = 256 * 1024
"""So many bytes of values and the like, or one row alone."""

_ROWS: tuple[tuple[str, Any], ...] = (
    ("entries", EntryRow), ("removed_rows", RemovedRow), ("removals", RemovalRow),
)  # fmt: skip
"""In the order in which they are brought in: a removal is not to be there before the marks that it made."""
_ENTRIES, _MARKS = 0, 1
_VALUE = EntryRow._fields.index("value")
PREFIX_BYTES = 32
"""Bytes of a long value by which it is found in its change."""
_IN_CHANGE = 1


@dataclass(frozen=True, slots=True)
class InChange:
    """Where a value stands: in the change at ``position`` of the log, so many bytes from its beginning."""

    position: int
    start: int
    size_bytes: int


class Backlog:
    """The table of records. ``count``: how many there are, with those of a transaction under way."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.count = 0
        self._seen: dict[int, bytes | None] = {}
        self._records: dict[int, int] = {}  # in which one an entry is
        self._taken: list[int] = []  # entries of which nothing need be remembered once the transaction is over
        self._commits: deque[tuple[int, int]] = deque()  # the last record of each, and where it begins in the log
        self.look()

    def look(self) -> None:
        """Count anew what is on disk: it was opened, or a transaction was rolled back."""
        self.count, last = self._db.execute("SELECT COUNT(*), MAX(id) FROM backlog WHERE id > 0").fetchone()
        self._commits = deque([(last, 0)] if self.count else [])
        self._taken.clear()

    @property
    def position(self) -> int:
        """The log position of the oldest change of which there are records; 0: it is not known."""
        return self._commits[0][1] if self._commits else 0

    def put(self, batch: WriteBatch) -> None:
        """Behind what is there, the rows of a batch that are about entries. In the caller's transaction."""
        last = 0
        if not self.count:
            self._commits.clear()
        bodies = {(row.space, row.writer, row.seq): row for row in batch.changes}
        marks = (
            _marks(batch.removed_rows[at : at + SLICE_ROWS]) for at in range(0, len(batch.removed_rows), SLICE_ROWS)
        )
        many = (  # as :func:`_marks`
            [(of[1:], of.rows[at : at + SLICE_ROWS])]
            for of in batch.removed_many
            for at in range(0, len(of.rows), SLICE_ROWS)
        )
        tables = (_records([*_without_values(batch.entries, bodies)]), chain(marks, many), _records(batch.removals))
        for at, records in enumerate(tables):
            for record in records:
                put = self._db.execute("INSERT INTO backlog (rows) VALUES (?)", (_packed(at, record),))
                self.count += 1
                if at == _ENTRIES:
                    self._records.update((row[0], put.lastrowid or 0) for row in record)
                last = put.lastrowid or 0
        self._seen.update((row.row, row.seen) for row in batch.entries)
        if last:
            self._commits.append((last, batch.first_position()))

    def take(self) -> tuple[int, WriteBatch]:
        """The oldest record, and its number. It goes with the caller's transaction."""
        number, packed = self._db.execute("SELECT id, rows FROM backlog WHERE id > 0 ORDER BY id LIMIT 1").fetchone()
        at, rows = _unpacked(packed)
        name, make = _ROWS[at]
        while self._commits and self._commits[0][0] < number:
            self._commits.popleft()
        batch = WriteBatch()
        if at == _MARKS:
            batch.removed_rows = [RemovedRow(row, *death) for death, some in rows for row in some]
        else:
            bodies = dict[int, bytes]()
            setattr(batch, name, [make(*self._with_value(row, bodies)) for row in rows])
        self._taken += [row.row for row in batch.entries]
        self._db.execute("DELETE FROM backlog WHERE id = ?", (number,))
        self.count -= 1
        return number, batch

    def let_go(self) -> None:
        """Forget what was remembered of entries that are in their tables: the transaction is over."""
        for row in self._taken:
            self._seen.pop(row, None)
            self._records.pop(row, None)
        self._taken.clear()

    def put_back(self, number: int, marks: list[RemovedRow]) -> None:
        """Leave some of the marks of a record that was taken for the next time."""
        self._db.execute("INSERT INTO backlog VALUES (?, ?)", (number, _packed(_MARKS, _marks(marks))))
        self.count += 1

    def put_aside(self) -> None:
        """Keep the oldest record as it is, and do not take it again: no table takes its rows. A bug."""
        self._db.execute("UPDATE backlog SET id = -id WHERE id = (SELECT MIN(id) FROM backlog WHERE id > 0)")
        self.look()

    def seen(self, row: int) -> bytes | None:
        """The values that one of these entries had seen."""
        return self._seen.get(row)

    def value(self, row: int) -> bytes | None:
        """The value of an entry that is among them; None: it is not."""
        found = self._db.execute("SELECT rows FROM backlog WHERE id = ?", (self._records.get(row, 0),)).fetchone()
        _, rows = (_ENTRIES, ()) if found is None else _unpacked(found[0])
        return next((self._with_value(each, {})[_VALUE] for each in rows if each[0] == row), None)

    def _with_value(self, row: tuple[Any, ...], bodies: dict[int, bytes]) -> tuple[Any, ...]:
        places = [at for at, field in enumerate(row) if type(field) is InChange]
        if not places:
            return row
        value = row[places[0]]
        position, start, end = value.position, value.start, value.start + value.size_bytes
        if position not in bodies:
            found = self._db.execute("SELECT body FROM changes WHERE position = ?", (position,))
            bodies[position] = found.fetchone()[0]
        return (*row[: places[0]], bodies[position][start:end], *row[places[0] + 1 :])


def _without_values(
    entries: list[EntryRow], bodies: Mapping[tuple[int, int, int], ChangeRow]
) -> Iterator[tuple[Any, ...]]:
    """With the place of each long value instead of it, where it stands in a change of the same commit."""
    position = place = -1
    for row in entries:
        value = row.value
        change = bodies.get((row.space, row.writer, row.seq)) if value and len(value) > INLINE_BYTES_MAX else None
        if change is None or value is None:
            yield row
            continue
        if change.position != position:
            position, place = change.position, 0
        place = find_value(change.body, value, place)  # they stand there in the order of the operations
        if place < 0:
            yield row
            continue
        yield (*row[:_VALUE], InChange(position, place, len(value)), *row[_VALUE + 1 :])
        place += len(value)


def find_value(body: bytes, value: bytes, start: int) -> int:
    """As ``body.find(value, start)``, which takes 13 µs for a value of 4 KB that is there at once: a tenth of that."""
    place = body.find(value[:PREFIX_BYTES], start)
    return place if place < 0 or body.startswith(value, place) else body.find(value, start)


def _records(rows: list[Any]) -> Iterator[list[Any]]:
    record: list[Any] = []
    size_bytes = 0
    for row in rows:
        row_bytes = 0
        for field in row:
            if type(field) is bytes:
                row_bytes += len(field)
            elif type(field) is InChange:
                row_bytes += field.size_bytes
        if record and (len(record) == SLICE_ROWS or size_bytes + row_bytes > SLICE_BYTES):
            yield record
            record, size_bytes = [], 0
        record.append(row)
        size_bytes += row_bytes
    if record:
        yield record


def _marks(rows: list[RemovedRow]) -> list[Any]:
    """Entries that one operation removed are packed together, with a list of rows."""
    return [(death, [row[0] for row in some]) for death, some in groupby(rows, itemgetter(slice(1, None)))]


def _packed(at: int, rows: list[Any]) -> bytes:
    packed: bytes = msgpack.packb((at, rows), default=_packed_place)
    return packed


def _unpacked(packed: bytes) -> Any:  # which table, and its rows
    return msgpack.unpackb(packed, use_list=False, ext_hook=_unpacked_place)


def _packed_place(value: InChange) -> msgpack.ExtType:
    return msgpack.ExtType(_IN_CHANGE, pack([value.position, value.start, value.size_bytes]))


def _unpacked_place(code: int, data: bytes) -> object:
    assert code == _IN_CHANGE
    return InChange(*msgpack.unpackb(data))
