"""Long values of the log, which stand once on disk: where the entry has them.

A part of a blob is 512 KiB, which its change writes and its entry holds. Stored with both, and each time in SQLite's
write-ahead log first, it would be written four times. So the log has a *cut* body, without the bytes of such values,
and a row of ``change_values`` for each says in which row of ``entry_values`` they stand, and where they belong.

A row of ``entry_values`` goes with the last of both: :data:`NOT_IN_LOG` keeps it when history lets go of its entry, and
:func:`let_go` takes it along when the log lets go of its change.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from crdtsyncd.storage.backlog import find_value
from crdtsyncd.storage.typed_rows import is_of_page, typed

from crdtsync.core.storage.rows import ChangeRow, EntryRow
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.limits import CHANGE_BYTES_MAX

CUT_BYTES_MIN = 64 * 1024
"""So long a value is cut out of the log. For one of 50 kB that spares a twelfth of the daemon's processor time."""
_CUT = b"\xc1"
"""How a cut body begins, as no whole one does: MessagePack never uses this byte."""
INSERT = "INSERT INTO change_values VALUES (?, ?, ?, ?)"
NOT_IN_LOG = "row NOT IN (SELECT row FROM change_values)"
CUT_BYTES = "IFNULL((SELECT SUM(c.size_bytes) FROM change_values c WHERE c.position = changes.position), 0)"
"""Bytes that were cut out of a change: they count as its own."""


class CutValue(NamedTuple):
    """The value of an entry, by row, that belongs into the body at a position of the log, so far from its beginning."""

    row: int
    position: int
    place: int
    size_bytes: int


def cut(changes: Sequence[ChangeRow], entries: Sequence[EntryRow]) -> tuple[Sequence[ChangeRow], list[CutValue]]:
    """The changes as the log stores them, next to these entries, and what was cut out of them."""
    long: defaultdict[tuple[int, int, int], list[EntryRow]] = defaultdict(list)
    for entry in entries:
        if entry.value is not None and len(entry.value) >= CUT_BYTES_MIN:
            long[entry.space, entry.writer, entry.seq].append(entry)
    if not long:
        return changes, []
    found: list[CutValue] = []
    stored = []
    for change in changes:
        pieces, end, body = [_CUT], 0, change.body
        for entry in long.get((change.space, change.writer, change.seq), ()):
            value = entry.value or b""
            place = find_value(body, value, end)  # they stand there in the order of the operations
            if place >= 0:
                pieces.append(body[end:place])
                end = place + len(value)
                found.append(CutValue(entry.row, change.position, place, len(value)))
        stored.append(change._replace(body=b"".join((*pieces, body[end:]))) if end else change)
    return stored, found


def whole(db: sqlite3.Connection, position: int, body: bytes) -> bytes:
    """The body of a change at a position of the log, from what the log stores.

    A value that the disk has lost, or spoilt so that its length is another one, is zeros there: the change does not
    have its hash then, and what else it wrote stands in its place.
    """
    if not body.startswith(_CUT):
        return body
    cuts = db.execute(
        f"SELECT {', '.join(CutValue._fields)} FROM change_values WHERE position = ? ORDER BY place", (position,)
    )
    pieces, start, end = [], len(_CUT), 0
    for row, _, place, size_bytes in typed(CutValue, cuts):
        value = _value(db, row)
        is_spoilt = type(value) is not bytes or len(value) != size_bytes
        pieces += [body[start : start + place - end], bytes(CHANGE_BYTES_MAX)[:size_bytes] if is_spoilt else value]
        start += place - end
        end = place + size_bytes
    return b"".join((*pieces, body[start:]))


def _value(db: sqlite3.Connection, row: int) -> Any:  # what the disk has made of it
    try:
        found = db.execute("SELECT CAST(value AS BLOB) FROM entry_values WHERE row = ?", (row,)).fetchone()
    except sqlite3.DatabaseError as error:
        if not is_of_page(error):
            raise
        return None
    return found and found[0]


def let_go(db: sqlite3.Connection, which: str, parameters: tuple[object, ...]) -> None:
    """Forget what was cut out of changes, which are to go or are whole from now on, with values that no entry has."""
    cut_out = f"FROM change_values WHERE position IN (SELECT position FROM changes WHERE {which})"
    if rows := db.execute(f"SELECT row {cut_out}", parameters).fetchall():
        db.execute(f"DELETE {cut_out}", parameters)
        unheld = "row = ? AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.row = entry_values.row)"
        db.executemany(f"DELETE FROM entry_values WHERE {unheld}", rows)
