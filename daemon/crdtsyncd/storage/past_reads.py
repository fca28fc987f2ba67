"""Reads of what is dead: values that were overwritten or deleted, for history, for older cuts, and for trimming."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from heapq import merge as merge_sorted
from itertools import islice
from operator import attrgetter
from typing import Any

from crdtsyncd.storage.old_history import DEAD_BYTES_TO_5, OLD_HISTORY, ROW_OFFSET
from crdtsyncd.storage.reads import ENTRY, IDS_MAX, VALUE, StateReads
from crdtsyncd.storage.schema import INLINE_BYTES_MAX
from crdtsyncd.storage.typed_rows import typed
from crdtsyncd.storage.writes import DEAD_BYTES, REMOVAL_BYTES

from crdtsync.causality import Dot
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.kinds.registry import rules_of, writing_operation
from crdtsync.core.storage.rows import (
    DeadMark,
    DeadOfKey,
    DeadPlace,
    OldDead,
    OldRemoval,
    PastRemoval,
    PastRow,
    Removal,
    ScannedRow,
)
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import Order
from crdtsync.wire.codec import pack, unpack


class _Dead(NamedTuple):
    """Where dead entries stand: ``table``, and there ``row`` and ``value`` of one, what it weighs, and indexes."""

    table: str
    row: str
    value: str
    size_bytes: str
    by_key: str
    lost: str
    short_value: str = f"CASE WHEN LENGTH(e.value) <= {INLINE_BYTES_MAX} THEN e.value END"


_DEAD = _Dead("entries", "e.row", VALUE, DEAD_BYTES, "entries_dead_by_key", "entries_lost")
_OLD_DEAD = _Dead(OLD_HISTORY, f"e.id - {ROW_OFFSET}", "e.value", DEAD_BYTES_TO_5, "history_by_key", "history_lost")

PAST_BYTES = 1024 * 1024
"""With so many bytes of values a page of dead entries ends: whoever wants more asks again."""


class PastReads(StateReads):
    """Every method is described at :class:`crdtsync.core.storage.interface.Storage`."""

    @property
    def _dead_db(self) -> sqlite3.Connection:
        """As :attr:`_db`, for readers of what is dead."""
        return self._db

    # -- what is oldest ----------------------------------------------------------------------------------------

    def oldest_dead(self, space: int, rows_max: int) -> list[OldDead]:
        found = []
        for table, row, _, size, *_ in self._all_dead():
            rows = self._dead_db.execute(
                f"SELECT {row}, e.position, {size}, e.time_ms, e.key FROM {table} e "
                f"WHERE e.space = ? AND e.position IS NOT NULL ORDER BY e.position, 1 LIMIT ?",
                (space, rows_max),
            )
            found.append(typed(OldDead, rows))
        return [*islice(merge_sorted(*found, key=_trim_place), rows_max)]

    def dead_after(self, space: int, position: int, row: int, rows_max: int) -> list[DeadOfKey]:
        found: list[DeadOfKey] = []
        # in two steps, each by the index: of those that one change removed there may be a million
        for where, place in (("position = ? AND row > ?", (position, row)), ("position > ?", (position,))):
            rows = self._dead_db.execute(
                f"SELECT position, row, key, {DEAD_BYTES}, time_ms, IFNULL(by_n, -1), {_REMOVER.format('writer')}, "
                f"{_REMOVER.format('seq')} FROM entries e INDEXED BY entries_dead "
                f"WHERE space = ? AND position IS NOT NULL AND {where} ORDER BY position, row LIMIT ?",
                (space, *place, rows_max - len(found)),
            )
            found += typed(DeadOfKey, rows)
        return found

    def oldest_removals(self, space: int, rows_max: int) -> list[OldRemoval]:
        rows = self._db.execute(
            f"SELECT id, position, writer, seq, {REMOVAL_BYTES}, time_ms FROM removals WHERE space = ? "
            "ORDER BY id LIMIT ?",
            (space, rows_max),
        )
        return typed(OldRemoval, rows)

    # -- history -----------------------------------------------------------------------------------------------

    def _all_dead(self) -> list[_Dead]:
        return [_OLD_DEAD, _DEAD] if self._has_old_history else [_DEAD]

    def seen(self, row: int) -> bytes | None:
        found = self._one("SELECT seen FROM entries WHERE row = ?", (row,))
        return self._backlog.seen(row) if found is None else found[0]

    def dead(self, space: int, key: str, before: Order | None, *, is_lost: bool, rows_max: int) -> list[PastRow]:
        where, parameters = _place(before)
        found = []
        for at in self._all_dead():
            rows = self._dead_db.execute(
                f"{_past(at, at.value)} INDEXED BY {at.lost if is_lost else at.by_key} {_REMOVERS} WHERE e.space = ? "
                f"AND e.key = ? AND e.position IS NOT NULL{' AND e.fate = 2' if is_lost else ''}{where} "
                "ORDER BY e.hlc DESC, e.writer DESC, e.seq DESC, e.n DESC LIMIT ?",
                (space, key, *parameters, rows_max),
            )
            found.append(_past_rows(rows))
            rows.close()
        if any(len(some) < rows_max and _weight(some) > PAST_BYTES for some in found):  # cut: what is older is unknown
            last = max(some[-1].entry.order for some in found if some)
            found = [[row for row in some if row.entry.order >= last] for some in found]
        return [*islice(merge_sorted(*found, key=attrgetter("entry.order"), reverse=True), rows_max)]

    def dead_part(self, space: int, key: str, sub: str) -> PastRow | None:
        row = self._dead_db.execute(
            "SELECT row FROM entries INDEXED BY entries_dead_by_key "
            "WHERE space = ? AND key = ? AND position IS NOT NULL AND sub = ? ORDER BY hlc DESC LIMIT 1",
            (space, key, sub),
        ).fetchone()
        return None if row is None else next(iter(self.dead_by_id([row[0]], 1)), None)

    def dead_under(self, space: int, prefix: str, position: int | None, rows_max: int) -> list[int]:
        rows = self._dead_db.execute(
            "SELECT row FROM entries INDEXED BY entries_dead_by_key WHERE space = ? AND key >= ? AND key < ? "
            "AND position IS NOT NULL AND position <= ? LIMIT ?",
            (
                space,
                prefix,
                prefix[:-1] + chr(ord(prefix[-1]) + 1),
                (1 << 62) if position is None else position,
                rows_max,
            ),
        )
        return [row for (row,) in rows]

    def dead_by_id(self, ids: list[int], bytes_max: int) -> list[PastRow]:
        found: dict[int, PastRow] = {}
        for start in range(0, len(ids), IDS_MAX):
            some = ids[start : start + IDS_MAX]
            for at in self._all_dead():
                numbers = [number + ROW_OFFSET for number in some] if at is _OLD_DEAD else some
                where = f"e.{'id' if at is _OLD_DEAD else 'row'} IN ({', '.join('?' * len(some))})"
                rows = self._dead_db.execute(
                    f"{_past(at, 'e.value')} {_REMOVERS} WHERE {where} AND e.position IS NOT NULL", numbers
                )
                found |= {row[0]: _past_row(row) for row in rows.fetchall()}
        past = [found[number] for number in ids if number in found]
        for row in past:
            if row.entry.value is None:  # it has none, or a long one
                row.entry.value = self._long_value(row.entry.row) if bytes_max > 0 else _NIL
            bytes_max -= len(row.entry.value or b"")
        return past

    def _long_value(self, row: int) -> bytes | None:
        found = self._one("SELECT value FROM entry_values WHERE row = ?", (row,))
        return None if found is None else bytes(found[0])

    def dead_row(self, space: int, key: str, dot: Dot) -> int | None:
        row = self._dead_db.execute(
            "SELECT row FROM entries INDEXED BY entries_dead_by_key WHERE space = ? AND key = ? "
            "AND writer = ? AND seq = ? AND n = ? AND position IS NOT NULL LIMIT 1",
            (space, key, *dot),
        ).fetchone()
        return None if row is None else int(row[0])

    def dead_value(self, space: int, key: str, dot: Dot) -> tuple[str | None, bytes | None] | None:
        row = self._dead_db.execute(
            "SELECT sub, value FROM entries INDEXED BY entries_dead_by_key WHERE space = ? AND key = ? "
            "AND writer = ? AND seq = ? AND n = ? AND position IS NOT NULL LIMIT 1",
            (space, key, *dot),
        ).fetchone()
        return None if row is None else (row[0], row[1])

    def is_removal_known(self, space: int, key: str, dot: Dot) -> bool:
        return any(
            self._dead_db.execute(
                f"SELECT 1 FROM {at.table} INDEXED BY {at.by_key} WHERE space = ? AND key = ? "
                "AND writer = ? AND seq = ? AND n = ? AND position IS NOT NULL LIMIT 1",
                (space, key, *dot),
            ).fetchone()
            for at in self._all_dead()
        )

    @property
    def has_old_rows(self) -> bool:
        return self._has_old_history

    def scan_dead(self, space: int, after: DeadPlace, *, is_lost: bool, rows_max: int) -> list[ScannedRow]:
        found = []
        for at in self._all_dead():
            rows = self._dead_db.execute(
                f"SELECT {at.row} AS id, e.key, e.hlc, e.writer, e.seq, e.n, e.kind, e.sub, e.attrs, e.agent, e.fate, "
                f"{at.short_value}, e.seen, {at.size_bytes} "
                f"FROM {at.table} e INDEXED BY {at.lost if is_lost else at.by_key} "
                f"WHERE e.space = ? AND e.position IS NOT NULL {'AND e.fate = 2 ' if is_lost else ''}"
                f"AND (e.key, e.hlc, {at.row}) > (?, ?, ?) ORDER BY e.key, e.hlc, id LIMIT ?",
                (space, *after, rows_max),
            )
            found.append([_scanned_row(row) for row in rows])
        return [*islice(merge_sorted(*found, key=_scan_place), rows_max)]

    # -- older cuts --------------------------------------------------------------------------------------------

    def dead_marks(
        self, space: int, after: DeadPlace, position: int, rows_max: int, key: str | None = None
    ) -> tuple[list[DeadMark], DeadPlace | None]:
        found = []
        for at in self._all_dead():
            rows = self._dead_db.execute(
                f"SELECT e.key, e.hlc, {at.row} AS id, e.writer, e.seq, e.n, e.position "
                f"FROM {at.table} e INDEXED BY {at.by_key} WHERE e.space = ? AND e.position IS NOT NULL "
                f"{'' if key is None else 'AND e.key = ? '}AND (e.key, e.hlc, {at.row}) > (?, ?, ?) "
                "ORDER BY e.key, e.hlc, id LIMIT ?",
                (space, *(() if key is None else (key,)), *after, rows_max),
            )
            found.append(rows.fetchall())
        looked_at = found[0] if len(found) == 1 else [*islice(merge_sorted(*found), rows_max)]
        marks = [DeadMark(number, key, *dot) for key, _, number, *dot, died in looked_at if died > position]
        return marks, DeadPlace(*looked_at[-1][:3]) if len(looked_at) == rows_max else None

    def has_removals(self, position: int) -> bool:
        return self._one("SELECT 1 FROM removals WHERE position = ? LIMIT 1", (position,)) is not None

    def removals(self, after: tuple[int, int], to: int, rows_max: int) -> list[PastRemoval]:
        rows = self._dead_db.execute(
            "SELECT position, n, space, key, writer, seq, removes FROM removals INDEXED BY removals_by_position "
            "WHERE (position, n) > (?, ?) AND position <= ? ORDER BY position, n LIMIT ?",
            (*after, to, rows_max),
        )
        return typed(PastRemoval, rows)


def _entry(row: tuple[Any, ...]) -> Entry:
    """From the columns of ``ENTRY``."""
    number, _, writer, seq, n, key, sub, kind, hlc, agent, value, value_hash, attrs = row
    return Entry(
        number,
        Dot(writer, seq, n),
        key,
        sub,
        kind,
        int.from_bytes(hlc, "big"),
        agent,
        value,
        value_hash,
        None if attrs is None else unpack(attrs),
    )


def _past(at: _Dead, value: str) -> str:
    return (
        f"SELECT {ENTRY.format(row=at.row, value=value)}, e.seen, e.position, e.fate, "
        f"r.writer, r.seq, r.n, r.hlc, r.agent, r.operation FROM {at.table} e"
    )


_REMOVER = "IFNULL((SELECT r.{} FROM removals r WHERE r.position = e.position LIMIT 1), 0)"
"""The change at a position of the log is one, whatever its operations removed."""
_REMOVERS = "LEFT JOIN removals r ON r.position = e.position AND r.n = e.by_n"


def _trim_place(row: OldDead) -> tuple[int, int]:
    return row.position, row.id


def _scan_place(row: ScannedRow) -> tuple[str, int, int]:
    return row.key, row.order[0], row.id


def _past_rows(rows: Iterable[tuple[Any, ...]]) -> list[PastRow]:
    """As many as there are, but no more once they are large."""
    found: list[PastRow] = []
    size_bytes = 0
    for row in rows:
        found.append(_past_row(row))
        size_bytes += len(found[-1].entry.value or b"")
        if size_bytes > PAST_BYTES:
            break
    return found


def _weight(rows: Iterable[PastRow]) -> int:
    return sum(len(row.entry.value or b"") for row in rows)


def _past_row(row: tuple[Any, ...]) -> PastRow:
    *entry, seen, position, fate, writer, seq, n, hlc, agent, operation = row
    removal = None
    if hlc is not None:
        removal = Removal(Dot(writer, seq, n), int.from_bytes(hlc, "big"), agent, operation)
    return PastRow(_entry(tuple(entry)), seen, position, fate, removal)


_NIL = pack(None)


def _scanned_row(row: tuple[Any, ...]) -> ScannedRow:
    number, key, hlc, writer, seq, n, kind, sub, attrs, agent, fate, value, seen, size_bytes = row
    order = (int.from_bytes(hlc, "big"), writer, seq, n)
    is_edit = rules_of(kind).written.is_edit and writing_operation(kind, sub, unpack(attrs) if attrs else None).is_edit
    if not is_edit:
        return ScannedRow(number, key, order, is_edit=False, size_bytes=size_bytes)
    return ScannedRow(number, key, order, True, agent, fate, value, seen, size_bytes)


def _place(before: Order | None) -> tuple[str, tuple[object, ...]]:
    """The condition on rows that stand before a place."""
    if before is None:
        return "", ()
    hlc, *dot = before
    return " AND (e.hlc, e.writer, e.seq, e.n) < (?, ?, ?, ?)", (hlc.to_bytes(8, "big"), *dot)
