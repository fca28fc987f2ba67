"""Reads of committed state: the SQL behind :class:`crdtsync.core.storage.interface.Storage`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge as merge_sorted
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

from crdtsyncd.storage.backlog import Backlog
from crdtsyncd.storage.old_history import DEAD_BYTES_TO_5, OLD_HISTORY, ROW_OFFSET
from crdtsyncd.storage.schema import INLINE_BYTES_MAX
from crdtsyncd.storage.typed_rows import is_of_page, typed
from crdtsyncd.storage.writes import CHANGE_BYTES, DEAD_BYTES, PURGED_FIRST, REMOVAL_BYTES

from crdtsync.causality import Dot, VersionVector, Writer
from crdtsync.core.crdt.entries import Entry, OnDisk
from crdtsync.core.kinds.registry import rules_of, writing_operation
from crdtsync.core.storage.interface import (
    ArchiveRow,
    DeadMark,
    DeadOfKey,
    DeadPlace,
    DocumentSpan,
    DocumentUpdate,
    LogRow,
    OldChange,
    OldDead,
    OldRemoval,
    PastRemoval,
    PastRow,
    PeerRow,
    Removal,
    ScannedRow,
    SnapshotPartRow,
    SpaceRow,
)
from crdtsync.wire.change import Order
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind

_DOCUMENT = "space = ? AND writer = ? AND seq = ? AND n = ?"

_LONG = "(SELECT v.value FROM entry_values v WHERE v.row = e.row)"
_VALUE = f"CASE WHEN e.value_bytes IS NULL THEN e.value ELSE {_LONG} END"
_ENTRY = "{row}, e.space, e.writer, e.seq, e.n, e.key, e.sub, e.kind, e.hlc, e.agent, {value}, e.value_hash, e.attrs"
_IS_SHORT = f"e.value_bytes IS NULL AND IFNULL(LENGTH(e.value), 0) <= {INLINE_BYTES_MAX} OR e.kind = {int(Kind.TEXT)}"
_LIVE = _ENTRY.format(row="e.row", value=f"CASE WHEN {_IS_SHORT} THEN {_VALUE} END")
_LONG_BYTES = f"CASE WHEN {_IS_SHORT} THEN NULL ELSE IFNULL(e.value_bytes, LENGTH(e.value)) END"


class _Dead(NamedTuple):
    """Where dead entries stand: ``table``, and there ``row`` and ``value`` of one, what it weighs, and indexes."""

    table: str
    row: str
    value: str
    size_bytes: str
    by_key: str
    lost: str
    short_value: str = f"CASE WHEN LENGTH(e.value) <= {INLINE_BYTES_MAX} THEN e.value END"


_DEAD = _Dead("entries", "e.row", _VALUE, DEAD_BYTES, "entries_dead_by_key", "entries_lost")
_OLD_DEAD = _Dead(OLD_HISTORY, f"e.id - {ROW_OFFSET}", "e.value", DEAD_BYTES_TO_5, "history_by_key", "history_lost")

PAST_BYTES = 1024 * 1024
"""With so many bytes of values a page of dead entries ends: whoever wants more asks again."""


class _Stats(NamedTuple):
    log_changes: int
    log_bytes: int
    history_bytes: int
    document_bytes: int


class _SpaceHead(NamedTuple):
    id: int
    name: str
    epoch: int
    hlc: bytes
    trimmed_position: int
    history_since_ms: int


class _Head(NamedTuple):
    writer: Writer
    seq: int
    hash: bytes


class _Origin(NamedTuple):
    writer: Writer
    node: str
    name: str


class Reads:
    """Every method is described at :class:`crdtsync.core.storage.interface.Storage`."""

    _backlog: Backlog

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._has_old_history = False  # whether what died in an older format has a table of its own yet

    @property
    def _db(self) -> sqlite3.Connection:
        """What to read from."""
        return self._connection

    @property
    def _whole_db(self) -> sqlite3.Connection:
        """The same where every entry has to be in its place."""
        return self._db

    @property
    def _dead_db(self) -> sqlite3.Connection:
        """The same for readers of what is dead."""
        return self._db

    def resumes(self, space: int, writer: int) -> bool:
        """Whether this process may go on writing as ``writer``."""
        raise NotImplementedError

    # -- spaces and their heads --------------------------------------------------------------------------------

    def spaces(self) -> list[SpaceRow]:
        rows = []
        for *head, floor, history_floor in self._db.execute(
            "SELECT id, name, epoch, hlc, trimmed_position, history_since_ms, floor, history_floor FROM spaces "
            "ORDER BY id"
        ).fetchall():
            ((space, name, epoch, hlc, trimmed, since_ms),) = typed(_SpaceHead, [tuple(head)])
            own = self._one(
                "SELECT h.writer, h.position FROM own_writers o JOIN heads h USING (space, writer) WHERE o.space = ? "
                "ORDER BY h.position DESC LIMIT 1",
                (space,),
            )
            writer, own_position = own if own is not None and self.resumes(space, own[0]) else (None, 0)
            rows.append(
                SpaceRow(
                    space,
                    name,
                    epoch,
                    writer,
                    own_position,
                    self._last_position(space),
                    int.from_bytes(hlc, "big"),
                    _unflatten(floor),
                    trimmed,
                    _unflatten(history_floor),
                    since_ms,
                )
            )
        return rows

    def position_last(self) -> int:
        row = self._one(
            "SELECT MAX((SELECT IFNULL(MAX(position), 0) FROM heads), (SELECT IFNULL(MAX(position), 0) FROM changes))",
            (),
        )
        return int(row[0])

    def archives(self) -> list[ArchiveRow]:
        rows = self._db.execute(
            "SELECT space, name, epoch, time_ms, entries, size_bytes, unseen FROM archives ORDER BY space"
        )
        return typed(ArchiveRow, rows)

    def has_archived_log(self, space: int) -> bool:
        return any(
            self._one(f"SELECT 1 FROM {table} WHERE space = ?{which and f' AND {which}'} LIMIT 1", (space,)) is not None
            for table, which in PURGED_FIRST
            if table != OLD_HISTORY or self._has_old_history
        )

    def _last_position(self, space: int) -> int:
        row = self._one("SELECT MAX(position) FROM heads WHERE space = ?", (space,))
        return (row and row[0]) or 0

    def heads(self, space: int) -> Iterable[tuple[Writer, int, bytes]]:
        return typed(_Head, self._db.execute("SELECT writer, seq, hash FROM heads WHERE space = ?", (space,)))

    def origins(self, space: int) -> Iterable[tuple[Writer, str, str]]:
        return typed(_Origin, self._db.execute("SELECT writer, node, name FROM origins WHERE space = ?", (space,)))

    def heads_after(self, space: int, position: int) -> Iterable[tuple[Writer, int]]:
        return self._db.execute(
            "SELECT writer, seq FROM heads WHERE space = ? AND position > ?", (space, position)
        ).fetchall()

    def log_stats(self, space: int) -> dict[str, int]:
        row = self._one(
            "SELECT log_changes, log_bytes, history_bytes, document_bytes FROM spaces WHERE id = ?", (space,)
        )
        return _stats(row or (0, 0, 0, 0))

    def all_log_stats(self) -> dict[int, dict[str, int]]:
        rows = self._db.execute("SELECT id, log_changes, log_bytes, history_bytes, document_bytes FROM spaces")
        return {space: _stats(row) for space, *row in rows}

    # -- live state --------------------------------------------------------------------------------------------

    def entries(
        self, space: int, stand_in: Callable[[int], OnDisk] | None = None, rows: Sequence[int] | None = None
    ) -> list[Entry]:
        which = "e.space = ?" if rows is None else f"+e.space = ? AND e.row IN ({', '.join(map(str, rows))})"
        found = self._whole_db.execute(
            f"SELECT {_LIVE}, {_LONG_BYTES} FROM entries e WHERE {which} AND e.position IS NULL ORDER BY e.row",
            (space,),
        )
        same: dict[Any, Any] = {}  # one string for all that an agent wrote, and one number for all of a writer
        of_length = stand_in or _unread
        one, make_dot, number_of = same.setdefault, Dot._make, int.from_bytes
        try:
            entries = [  # as `_entry`, in half the time: all that there is passes here while agents wait
                Entry(
                    number, make_dot((one(writer, writer), seq, n)), key, sub, kind, number_of(hlc, "big"),
                    one(agent, agent),
                    value if long_bytes is None else of_length(long_bytes), value_hash,
                    None if attrs is None else unpack(attrs),
                )
                for (
                    number, _, writer, seq, n, key, sub, kind, hlc, agent, value, value_hash, attrs, long_bytes
                ) in found
            ]  # fmt: skip
        except (TypeError, ValueError) as error:  # as a name above: a damaged page that hangs together all the same
            raise sqlite3.DatabaseError(f"an entry of space {space} is damaged: {error}") from None
        if stand_in is None:
            for entry in entries:
                if entry.is_on_disk:
                    entry.value = self.value(entry.row)
        return entries

    def value(self, row: int) -> bytes | None:
        try:
            found = self._connection.execute(
                "SELECT v.value, e.value, e.value_bytes FROM entries e LEFT JOIN entry_values v ON v.row = e.row "
                "WHERE e.row = ?",
                (row,),
            ).fetchone()
        except sqlite3.DatabaseError as error:
            if not is_of_page(error):
                raise
            return b""
        if found is None:
            return self._pending_value(row)
        long, short, long_bytes = found
        value = short if long_bytes is None else long or b""
        return value if type(value) is bytes or value is None else b""

    def values(self, rows: list[int]) -> Iterator[tuple[int, bytes]]:
        try:
            for start in range(0, len(rows), _IDS_MAX):
                some = rows[start : start + _IDS_MAX]
                which = f"row IN ({', '.join('?' * len(some))})"
                yield from self._connection.execute(f"SELECT row, value FROM entry_values WHERE {which}", some)
        except sqlite3.DatabaseError as error:
            if not is_of_page(error):
                raise

    def _pending_value(self, row: int) -> bytes | None:
        """Of a row that was committed and is not in its table yet."""
        raise NotImplementedError

    def row_last(self) -> int:
        row = self._whole_db.execute("SELECT MAX(row) FROM entries").fetchone()
        return max(0, int((row and row[0]) or 0))  # those that came over from an older format are below

    # -- the log -----------------------------------------------------------------------------------------------

    def log(self, space: int, after: int, bytes_max: int, rows_max: int) -> list[LogRow]:
        found: list[LogRow] = []
        size_bytes = 0
        rows = self._db.execute(
            "SELECT position, writer, seq, body FROM changes INDEXED BY changes_by_space "
            "WHERE space = ? AND position > ? ORDER BY position LIMIT ?",
            (space, after, rows_max),
        )
        for row in rows:
            found += typed(LogRow, [row])
            size_bytes += len(found[-1].body)
            if size_bytes >= bytes_max:
                break
        rows.close()
        return found

    def change_body(self, space: int, writer: int, seq: int) -> bytes | None:
        row = self._one("SELECT body FROM changes WHERE space = ? AND writer = ? AND seq = ?", (space, writer, seq))
        return None if row is None else bytes(row[0])

    def change_hash(self, space: int, writer: int, seq: int) -> bytes | None:
        for table in ("changes", "change_hashes"):
            row = self._one(
                f"SELECT hash FROM {table} WHERE space = ? AND writer = ? AND seq = ?", (space, writer, seq)
            )
            if row is not None:
                return bytes(row[0])
        return None

    def position_missing(self, space: int, vector: VersionVector, heads: VersionVector) -> int:
        position = self._last_position(space)
        for writer, seq in heads.items():
            held = vector.get(writer, 0)
            if held < seq:
                row = self._one(
                    "SELECT position FROM changes WHERE space = ? AND writer = ? AND seq = ?",
                    (space, writer, held + 1),
                )
                if row is not None:
                    position = min(position, row[0] - 1)
        return int(position)

    # -- documents ---------------------------------------------------------------------------------------------

    def document(self, space: int, document: Dot) -> tuple[bytes | None, list[bytes]]:
        return self.document_as_of(space, document, 2**62)

    def document_as_of(self, space: int, document: Dot, position: int) -> tuple[bytes | None, list[bytes]]:
        row = self._one(
            f"SELECT position, state FROM document_states WHERE {_DOCUMENT} AND position <= ? "
            "ORDER BY position DESC LIMIT 1",
            (space, *document, position),
        )
        after, state = row or (0, None)
        rows = self._db.execute(
            f"SELECT update_v1 FROM document_updates WHERE {_DOCUMENT} AND position > ? AND position <= ? "
            "ORDER BY position, by_n",
            (space, *document, after, position),
        )
        return state, [update for (update,) in rows.fetchall()]

    def document_exists(self, space: int, document: Dot) -> bool:
        return any(
            self._one(f"SELECT 1 FROM {table} WHERE {_DOCUMENT} LIMIT 1", (space, *document))
            for table in ("document_updates", "document_states")
        )

    def documents(self, space: int) -> list[Dot]:
        rows = self._db.execute(
            "SELECT writer, seq, n FROM document_updates WHERE space = ? "
            "UNION SELECT writer, seq, n FROM document_states WHERE space = ? ORDER BY 1, 2, 3",
            (space, space),
        )
        return [Dot(*row) for row in rows.fetchall()]

    def document_updates(self, space: int, document: Dot, after: int, rows_max: int) -> list[DocumentUpdate]:
        rows = self._db.execute(
            "SELECT position, by_writer, by_seq, by_n, agent, update_v1 FROM document_updates "
            f"WHERE {_DOCUMENT} AND position > ? ORDER BY position, by_n LIMIT ?",
            (space, *document, after, rows_max),
        )
        return [
            DocumentUpdate(at, Dot(writer, seq, n), agent, update)
            for at, writer, seq, n, agent, update in rows.fetchall()
        ]

    # -- snapshots ---------------------------------------------------------------------------------------------

    def snapshot_parts(self, space: int) -> Iterator[SnapshotPartRow]:
        rows = self._db.execute(
            "SELECT space, part, snapshot, data FROM snapshot_parts WHERE space = ? ORDER BY part", (space,)
        )
        for row in rows:
            yield from typed(SnapshotPartRow, [row])

    def staged_rows(self, space: int) -> Iterator[tuple[int, Dot]]:
        rows = self._whole_db.execute(
            "SELECT row, writer, seq, n FROM entries WHERE space = ? AND position IS NULL", (-space,)
        )
        for row, *dot in rows:
            yield row, Dot(*dot)

    # -- what is oldest ----------------------------------------------------------------------------------------

    def oldest_changes(self, space: int, rows_max: int) -> list[OldChange]:
        rows = self._db.execute(
            f"SELECT position, writer, seq, {CHANGE_BYTES}, time_ms FROM changes "
            "WHERE position > (SELECT trimmed_position FROM spaces WHERE id = ?) AND +space = ? "
            "ORDER BY position LIMIT ?",
            (space, space, rows_max),
        )
        return typed(OldChange, rows)

    def oldest_change(self, space: int) -> OldChange | None:
        # by the index of the space: in the order of positions the changes of all others are passed over
        rows = self._db.execute(
            f"SELECT position, writer, seq, {CHANGE_BYTES}, time_ms FROM changes WHERE position = "
            "(SELECT MIN(position) FROM changes INDEXED BY changes_by_number WHERE space = ? "
            "AND position > (SELECT trimmed_position FROM spaces WHERE id = ?))",
            (space, space),
        )
        return next(iter(typed(OldChange, rows)), None)

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

    def document_spans(self, space: int, after: Dot | None, rows_max: int) -> list[DocumentSpan]:
        found: list[DocumentSpan] = []
        last = after or Dot(Writer(0), 0, 0)
        while len(found) < rows_max:
            # from one name to the next by the index: the rows of a document may be many
            names = [
                row
                for table in ("document_updates", "document_states")
                if (
                    row := self._one(
                        f"SELECT writer, seq, n FROM {table} WHERE space = ? AND (writer, seq, n) > (?, ?, ?) "
                        "ORDER BY writer, seq, n LIMIT 1",
                        (space, *last),
                    )
                )
            ]
            if not names:
                break
            last = Dot(*min(names))
            states = self._db.execute(
                f"SELECT position FROM document_states WHERE {_DOCUMENT} ORDER BY position", (space, *last)
            ).fetchall()
            first, end = self._one(
                f"SELECT (SELECT MIN(position) FROM document_updates WHERE {_DOCUMENT}), "
                f"(SELECT MAX(position) FROM document_updates WHERE {_DOCUMENT})",
                (space, *last, space, *last),
            )
            positions = [position for (position,) in states]
            found.append(DocumentSpan(last, first, positions, max(end or 0, *positions[-1:], 0)))
        return found

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

    def live_rows(self, space: int) -> list[int]:
        found = self._whole_db.execute("SELECT row FROM entries WHERE space = ? AND position IS NULL", (space,))
        return [row for (row,) in found]

    def dead_by_id(self, ids: list[int], bytes_max: int) -> list[PastRow]:
        found: dict[int, PastRow] = {}
        for start in range(0, len(ids), _IDS_MAX):
            some = ids[start : start + _IDS_MAX]
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

    def change(self, space: int, writer: int, seq: int) -> LogRow | None:
        rows = self._db.execute(
            "SELECT position, writer, seq, body FROM changes WHERE space = ? AND writer = ? AND seq = ?",
            (space, writer, seq),
        )
        return next(iter(typed(LogRow, rows)), None)

    def change_position(self, space: int, writer: int, seq: int) -> int:
        row = self._one("SELECT position FROM changes WHERE space = ? AND writer = ? AND seq = ?", (space, writer, seq))
        return 0 if row is None else int(row[0])

    def changes_before(self, space: int, position: int, rows_max: int) -> list[LogRow]:
        rows = self._db.execute(
            "SELECT position, writer, seq, body FROM changes INDEXED BY changes_by_space "
            "WHERE space = ? AND position < ? ORDER BY position DESC LIMIT ?",
            (space, position, rows_max),
        )
        return typed(LogRow, rows)

    def position_at(self, space: int, time_ms: int) -> int:
        """By halves: times rise with positions, but for clocks that were set back."""
        first, end = 0, self._last_position(space) + 1
        while first < end:
            middle = (first + end) // 2
            row = self._one(
                "SELECT position, time_ms FROM changes INDEXED BY changes_by_space "
                "WHERE space = ? AND position >= ? ORDER BY position LIMIT 1",
                (space, middle),
            )
            if row is not None and row[1] <= time_ms:
                first = row[0] + 1
            else:
                end = middle
        row = self._one(
            "SELECT MAX(position) FROM changes INDEXED BY changes_by_space WHERE space = ? AND position < ?",
            (space, first),
        )
        return int(row[0] or 0)

    def vector_at(self, space: int, position: int, heads: VersionVector, floor: VersionVector) -> VersionVector:
        """By halves for each writer: its numbers rise with positions."""
        found: VersionVector = {}
        for writer, head in heads.items():
            first, end = floor.get(writer, 0), head + 1
            while end - first > 1:
                middle = (first + end) // 2
                row = self._one(
                    "SELECT position FROM changes WHERE space = ? AND writer = ? AND seq = ?", (space, writer, middle)
                )
                if row is not None and row[0] <= position:
                    first = middle
                else:
                    end = middle
            if first:
                found[writer] = first
        return found

    # -- the rest ----------------------------------------------------------------------------------------------

    def outcome(self, client: bytes, number: int) -> bytes | None:
        row = self._one(
            "SELECT reply FROM outcomes WHERE client = ? AND slot = ? AND number = ?", (client, number % 1024, number)
        )
        return row[0] if row else None

    def outcomes_after(self, number: int, rows_max: int) -> list[tuple[int, bytes]]:
        rows = self._db.execute("SELECT id, reply FROM outcomes WHERE id > ? ORDER BY id LIMIT ?", (number, rows_max))
        return [(int(row), bytes(reply)) for row, reply in rows.fetchall()]

    def peers(self) -> list[PeerRow]:
        return typed(PeerRow, self._db.execute("SELECT node, name, last_seen_ms FROM peers"))

    def meta(self, name: str) -> bytes | None:
        row = self._one("SELECT value FROM meta WHERE name = ?", (name,))
        return None if row is None else bytes(row[0])

    def metas(self, prefix: str) -> list[bytes]:
        found = self._db.execute(
            "SELECT value FROM meta WHERE SUBSTR(name, 1, ?) = ? ORDER BY name", (len(prefix), prefix)
        )
        return [bytes(row[0]) for row in found.fetchall()]

    def _one(self, statement: str, parameters: tuple[object, ...]) -> Any:  # a row, or None
        return self._db.execute(statement, parameters).fetchone()


def _entry(row: tuple[Any, ...]) -> Entry:
    """From the columns of ``_ENTRY``."""
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
        f"SELECT {_ENTRY.format(row=at.row, value=value)}, e.seen, e.position, e.fate, "
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


_IDS_MAX = 500
_UNREAD = OnDisk(0, lambda _entry: None)


def _unread(_size_bytes: int) -> OnDisk:
    return _UNREAD


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


def _stats(row: Sequence[object]) -> dict[str, int]:
    (counted,) = typed(_Stats, [tuple(row)])
    return counted._asdict()


def _unflatten(packed: bytes | None) -> VersionVector:
    try:
        flat = [] if packed is None else unpack(packed)
        return dict(zip(flat[::2], flat[1::2], strict=True))
    except (TypeError, ValueError) as error:
        raise sqlite3.DatabaseError(f"a stored vector is damaged: {error}") from None
