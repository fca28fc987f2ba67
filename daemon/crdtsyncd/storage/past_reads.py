"""Reads of what is dead: values that were overwritten or deleted, for history, for older cuts, and for trimming."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

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
from crdtsync.wire.change import Order
from crdtsync.wire.codec import pack, unpack

_BEHIND_ALL = (1 << 63) - 1
"""Behind all positions of the log."""
_SHORT_VALUE = f"CASE WHEN LENGTH(e.value) <= {INLINE_BYTES_MAX} THEN CAST(e.value AS BLOB) END"
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
        rows = self._dead_db.execute(
            f"SELECT row, position, {DEAD_BYTES}, time_ms, key FROM entries WHERE space = ? AND position IS NOT NULL "
            "ORDER BY position, row LIMIT ?",
            (space, rows_max),
        )
        return typed(OldDead, rows)

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

    def seen(self, row: int) -> bytes | None:
        found = self._one("SELECT seen FROM entries WHERE row = ?", (row,))
        return self._backlog.seen(row) if found is None else found[0]

    def dead(self, space: int, key: str, before: Order | None, *, is_lost: bool, rows_max: int) -> list[PastRow]:
        where, parameters = _place(before)
        rows = self._dead_db.execute(
            f"{_past(VALUE)} INDEXED BY {_index(is_lost)} {_REMOVERS} WHERE e.space = ? "
            f"AND e.key = ? AND e.position IS NOT NULL{' AND e.fate = 2' if is_lost else ''}{where} "
            "ORDER BY e.hlc DESC, e.writer DESC, e.seq DESC, e.n DESC LIMIT ?",
            (space, key, *parameters, rows_max),
        )
        found = _past_rows(rows)
        rows.close()
        return found

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
            where = f"e.row IN ({', '.join('?' * len(some))})"
            rows = self._dead_db.execute(
                f"{_past('CAST(e.value AS BLOB)')} {_REMOVERS} WHERE {where} AND e.position IS NOT NULL", some
            )
            found |= {row[0]: _past_row(row) for row in rows.fetchall()}
        past = [found[number] for number in ids if number in found]
        for row in past:
            if row.entry.value is None:  # it has none, or a long one
                row.entry.value = self._long_value(row.entry.row) if bytes_max > 0 else _NIL
            bytes_max -= len(row.entry.value or b"")
        return past

    def _long_value(self, row: int) -> bytes | None:
        found = self._one("SELECT CAST(value AS BLOB) FROM entry_values WHERE row = ?", (row,))
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
            "SELECT sub, CAST(value AS BLOB) FROM entries INDEXED BY entries_dead_by_key WHERE space = ? AND key = ? "
            "AND writer = ? AND seq = ? AND n = ? AND position IS NOT NULL LIMIT 1",
            (space, key, *dot),
        ).fetchone()
        return None if row is None else (row[0], row[1])

    def scan_dead(self, space: int, after: DeadPlace, *, is_lost: bool, rows_max: int) -> list[ScannedRow]:
        rows = self._dead_db.execute(
            "SELECT e.row, e.key, e.hlc, e.writer, e.seq, e.n, e.kind, e.sub, e.attrs, e.agent, e.fate, "
            f"{_SHORT_VALUE}, e.seen, {DEAD_BYTES} FROM entries e INDEXED BY {_index(is_lost)} "
            f"WHERE e.space = ? AND e.position IS NOT NULL {'AND e.fate = 2 ' if is_lost else ''}"
            "AND (e.key, e.hlc, e.row) > (?, ?, ?) ORDER BY e.key, e.hlc, e.row LIMIT ?",
            (space, *after, rows_max),
        )
        return [_scanned_row(row) for row in rows]

    # -- older cuts --------------------------------------------------------------------------------------------

    def dead_marks(
        self, space: int, after: DeadPlace, position: int, rows_max: int, key: str | None = None, recalled: int = 0
    ) -> tuple[list[DeadMark], DeadPlace | None]:
        place, order, beyond = "(key, hlc, row) > (?, ?, ?)", "key, hlc, row", tuple(after)
        if key is not None:  # so that the index ends with the key, and no row is sorted
            place, order, beyond = "key = ? AND (hlc, row) > (?, ?)", "hlc, row", (key, *after[1:])
        of_one = (
            "SELECT key, hlc, row, writer, seq, n, {} FROM entries INDEXED BY entries_dead_by_key "
            f"WHERE space = ? AND position IS NOT NULL AND {place}"
        )
        spaces = {space: "position"} | ({recalled: str(_BEHIND_ALL)} if recalled else {})
        looked_at = self._dead_db.execute(
            f"{' UNION ALL '.join(map(of_one.format, spaces.values()))} ORDER BY {order} LIMIT ?",
            (*(part for one in spaces for part in (one, *beyond)), rows_max),
        ).fetchall()
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


def _past(value: str) -> str:
    return (
        f"SELECT {ENTRY.format(value=value)}, e.seen, e.position, e.fate, "
        "r.writer, r.seq, r.n, r.hlc, r.agent, r.operation FROM entries e"
    )


def _index(is_lost: bool) -> str:
    return "entries_lost" if is_lost else "entries_dead_by_key"


_REMOVER = "IFNULL((SELECT r.{} FROM removals r WHERE r.position = e.position LIMIT 1), 0)"
"""The change at a position of the log is one, whatever its operations removed."""
_REMOVERS = "LEFT JOIN removals r ON r.position = e.position AND r.n = e.by_n"


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
