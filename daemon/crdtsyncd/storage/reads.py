"""Reads of committed state: the SQL behind :class:`crdtsync.core.storage.interface.Storage`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from crdtsyncd.storage.backlog import Backlog
from crdtsyncd.storage.log_values import whole
from crdtsyncd.storage.schema import INLINE_BYTES_MAX
from crdtsyncd.storage.typed_rows import is_of_page, typed
from crdtsyncd.storage.writes import CHANGE_BYTES, PURGED_FIRST

from crdtsync.causality import Dot, VersionVector, Writer
from crdtsync.core.crdt.entry import Entry, OnDisk
from crdtsync.core.storage.rows import (
    LAST_POSITION,
    ArchiveRow,
    DocumentSpan,
    DocumentUpdate,
    LogRow,
    OldChange,
    PeerRow,
    SnapshotPartRow,
    SpaceRow,
)
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import new_row, unpack
from crdtsync.wire.kinds import Kind

_DOCUMENT = "space = ? AND writer = ? AND seq = ? AND n = ?"

_LONG = "(SELECT CAST(v.value AS BLOB) FROM entry_values v WHERE v.row = e.row)"
VALUE = f"CASE WHEN e.value_bytes IS NULL THEN CAST(e.value AS BLOB) ELSE {_LONG} END"
"""Cast, for a flipped bit can make a text or a number of it."""
IDS_MAX = 500
"""So many rows are asked for by one statement at most."""
ENTRY = "e.row, e.space, e.writer, e.seq, e.n, e.key, e.sub, e.kind, e.hlc, e.agent, {value}, e.value_hash, e.attrs"
_IS_SHORT = f"e.value_bytes IS NULL AND IFNULL(LENGTH(e.value), 0) <= {INLINE_BYTES_MAX} OR e.kind = {int(Kind.TEXT)}"
_LIVE = ENTRY.format(value=f"CASE WHEN {_IS_SHORT} THEN {VALUE} END")
_LONG_BYTES = f"CASE WHEN {_IS_SHORT} THEN NULL ELSE IFNULL(e.value_bytes, LENGTH(e.value)) END"


_LOST = b"\xc1"
"""Stands for a value whose row is gone, and can be written anew: MessagePack never uses this byte."""


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


class StateReads:
    """Every method is described at :class:`crdtsync.core.storage.interface.Storage`."""

    _backlog: Backlog

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def _db(self) -> sqlite3.Connection:
        """The connection to read from."""
        return self._connection

    @property
    def _whole_db(self) -> sqlite3.Connection:
        """The same where every entry has to be in its place."""
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
                "SELECT CAST(v.value AS BLOB), CAST(e.value AS BLOB), e.value_bytes FROM entries e "
                "LEFT JOIN entry_values v ON v.row = e.row WHERE e.row = ?",
                (row,),
            ).fetchone()
        except sqlite3.DatabaseError as error:
            if not is_of_page(error):
                raise
            return b""
        if found is None:
            return self._pending_value(row)
        long, short, long_bytes = found
        value = short if long_bytes is None else long or _LOST
        return value if type(value) is bytes or value is None else b""

    def values(self, rows: list[int]) -> Iterator[tuple[int, bytes]]:
        try:
            for start in range(0, len(rows), IDS_MAX):
                some = rows[start : start + IDS_MAX]
                which = f"row IN ({', '.join('?' * len(some))})"
                yield from self._connection.execute(
                    f"SELECT row, CAST(value AS BLOB) FROM entry_values WHERE {which}", some
                )
        except sqlite3.DatabaseError as error:
            if not is_of_page(error):
                raise

    def _pending_value(self, row: int) -> bytes | None:
        """The value of a row that was committed and is not in its table yet."""
        raise NotImplementedError

    def row_last(self) -> int:
        # a value that the log alone has left has a row, too; those that came over from an older format are below
        last = "SELECT MAX(row) FROM entries UNION ALL SELECT MAX(row) FROM change_values"
        return max(0, *(row or 0 for (row,) in self._whole_db.execute(last).fetchall()))

    # -- the log -----------------------------------------------------------------------------------------------

    def log(self, space: int, after: int, bytes_max: int, rows_max: int) -> list[LogRow]:
        found: list[LogRow] = []
        size_bytes = 0
        rows = self._db.execute(
            "SELECT position, writer, seq, hash, body FROM changes INDEXED BY changes_by_space "
            "WHERE space = ? AND position > ? ORDER BY position LIMIT ?",
            (space, after, rows_max),
        )
        for row in rows:
            found += self._log_rows([row])
            size_bytes += len(found[-1].body)
            if size_bytes >= bytes_max:
                break
        rows.close()
        return found

    def change_body(self, space: int, writer: int, seq: int) -> bytes | None:
        found = self.change(space, writer, seq)
        return None if found is None else found.body

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
        return self.document_as_of(space, document, LAST_POSITION)

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

    def document_updates(
        self, space: int, document: Dot, after: int, rows_max: int, to: int = LAST_POSITION
    ) -> list[DocumentUpdate]:
        rows = self._db.execute(
            "SELECT position, by_writer, by_seq, by_n, agent, update_v1 FROM document_updates "
            f"WHERE {_DOCUMENT} AND position > ? AND position <= ? ORDER BY position, by_n LIMIT ?",
            (space, *document, after, to, rows_max),
        )
        return [
            new_row(DocumentUpdate, (at, new_row(Dot, (writer, seq, n)), agent, update))
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

    def live_rows(self, space: int) -> list[int]:
        found = self._whole_db.execute("SELECT row FROM entries WHERE space = ? AND position IS NULL", (space,))
        return [row for (row,) in found]

    # -- older cuts --------------------------------------------------------------------------------------------

    def change(self, space: int, writer: int, seq: int) -> LogRow | None:
        rows = self._db.execute(
            "SELECT position, writer, seq, hash, body FROM changes WHERE space = ? AND writer = ? AND seq = ?",
            (space, writer, seq),
        )
        return next(iter(self._log_rows(rows)), None)

    def _log_rows(self, rows: Iterable[tuple[Any, ...]]) -> list[LogRow]:
        return [row._replace(body=whole(self._connection, row.position, row.body)) for row in typed(LogRow, rows)]

    def change_position(self, space: int, writer: int, seq: int) -> int:
        row = self._one("SELECT position FROM changes WHERE space = ? AND writer = ? AND seq = ?", (space, writer, seq))
        return 0 if row is None else int(row[0])

    def changes_before(self, space: int, position: int, rows_max: int) -> list[LogRow]:
        rows = self._db.execute(
            "SELECT position, writer, seq, hash, body FROM changes INDEXED BY changes_by_space "
            "WHERE space = ? AND position < ? ORDER BY position DESC LIMIT ?",
            (space, position, rows_max),
        )
        return self._log_rows(rows)

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


_UNREAD = OnDisk(0, lambda _entry: None)


def _unread(_size_bytes: int) -> OnDisk:
    return _UNREAD


def _stats(row: Sequence[object]) -> dict[str, int]:
    (counted,) = typed(_Stats, [tuple(row)])
    return counted._asdict()


def _unflatten(packed: bytes | None) -> VersionVector:
    try:
        flat = [] if packed is None else unpack(packed)
        return dict(zip(flat[::2], flat[1::2], strict=True))
    except (TypeError, ValueError) as error:
        raise sqlite3.DatabaseError(f"a stored vector is damaged: {error}") from None
