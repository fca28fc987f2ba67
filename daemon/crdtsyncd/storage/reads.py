"""Reads of committed state: the SQL behind :class:`crdtsync.core.storage.interface.Storage`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from crdtsyncd.storage.writes import CHANGE_BYTES, DEAD_BYTES, ENTRY_COLUMNS, PURGED_FIRST, REMOVAL_BYTES

from crdtsync.causality import Dot, VersionVector, Writer
from crdtsync.core.crdt.entries import Entry
from crdtsync.core.kinds.registry import rules_of, writing_operation
from crdtsync.core.storage.interface import (
    ArchiveRow,
    DeadPlace,
    DocumentSpan,
    DocumentUpdate,
    LogRow,
    OldChange,
    OldDead,
    OldRemoval,
    PastRow,
    PeerRow,
    Removal,
    ScannedRow,
    SnapshotPartRow,
    SpaceRow,
)
from crdtsync.wire.change import Order
from crdtsync.wire.codec import unpack

_DOCUMENT = "space = ? AND writer = ? AND seq = ? AND n = ?"

_STATS = ("log_changes", "log_bytes", "history_bytes", "document_bytes")


class Reads:
    """Every method is described at :class:`crdtsync.core.storage.interface.Storage`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def _db(self) -> sqlite3.Connection:
        """What to read from."""
        return self._connection

    def resumes(self, space: int, writer: int) -> bool:
        """Whether this process may go on writing as ``writer``."""
        raise NotImplementedError

    # -- spaces and their heads --------------------------------------------------------------------------------

    def spaces(self) -> list[SpaceRow]:
        rows = []
        for space, name, epoch, hlc, floor, trimmed, history_floor, since_ms in self._db.execute(
            "SELECT id, name, epoch, hlc, floor, trimmed_position, history_floor, history_since_ms FROM spaces "
            "ORDER BY id"
        ).fetchall():
            if type(name) is not str:  # a page that is damaged and hangs together all the same
                raise sqlite3.DatabaseError(f"space {space} has no name")
            own = self._one(
                "SELECT h.writer, h.position FROM own_writers o JOIN heads h USING (space, writer) WHERE o.space = ? "
                "ORDER BY h.position DESC LIMIT 1",
                (space,),
            )
            writer, own_position = own if own is not None and self.resumes(space, own[0]) else (None, 0)
            clock = int.from_bytes(hlc, "big")
            rows.append(
                SpaceRow(
                    space,
                    name,
                    epoch,
                    writer,
                    own_position,
                    self._last_position(space),
                    clock,
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
        return [ArchiveRow(*row) for row in rows.fetchall()]

    def has_archived_log(self, space: int) -> bool:
        return any(
            self._one(f"SELECT 1 FROM {table} WHERE space = ? LIMIT 1", (space,)) is not None for table in PURGED_FIRST
        )

    def _last_position(self, space: int) -> int:
        row = self._one("SELECT MAX(position) FROM heads WHERE space = ?", (space,))
        return (row and row[0]) or 0

    def heads(self, space: int) -> Iterable[tuple[Writer, int, bytes]]:
        return self._db.execute("SELECT writer, seq, hash FROM heads WHERE space = ?", (space,)).fetchall()

    def origins(self, space: int) -> Iterable[tuple[Writer, str, str]]:
        return self._db.execute("SELECT writer, node, name FROM origins WHERE space = ?", (space,)).fetchall()

    def heads_after(self, space: int, position: int) -> Iterable[tuple[Writer, int]]:
        return self._db.execute(
            "SELECT writer, seq FROM heads WHERE space = ? AND position > ?", (space, position)
        ).fetchall()

    def log_stats(self, space: int) -> dict[str, int]:
        row = self._one(
            "SELECT log_changes, log_bytes, history_bytes, document_bytes FROM spaces WHERE id = ?", (space,)
        )
        return dict(zip(_STATS, row or (0, 0, 0, 0), strict=True))

    def all_log_stats(self) -> dict[int, dict[str, int]]:
        rows = self._db.execute("SELECT id, log_changes, log_bytes, history_bytes, document_bytes FROM spaces")
        return {space: dict(zip(_STATS, row, strict=True)) for space, *row in rows}

    # -- live state --------------------------------------------------------------------------------------------

    def entries(self, space: int) -> list[Entry]:
        rows = self._db.execute(f"SELECT {ENTRY_COLUMNS} FROM entries WHERE space = ? ORDER BY row", (space,))
        agents: dict[str, str] = {}  # one string for all that an agent wrote
        named, make_dot, number_of = agents.setdefault, Dot._make, int.from_bytes
        try:
            return [  # as `_entry`, in half the time: all that there is passes here while agents wait
                Entry(
                    number, make_dot((writer, seq, n)), key, sub, kind, number_of(hlc, "big"), named(agent, agent),
                    value, value_hash, None if attrs is None else unpack(attrs),
                )
                for number, _, writer, seq, n, key, sub, kind, hlc, agent, value, value_hash, attrs in rows
            ]  # fmt: skip
        except (TypeError, ValueError) as error:  # as a name above: a damaged page that hangs together all the same
            raise sqlite3.DatabaseError(f"an entry of space {space} is damaged: {error}") from None

    def row_last(self) -> int:
        row = self._one("SELECT MAX(row) FROM entries", ())
        return int((row and row[0]) or 0)

    # -- the log -----------------------------------------------------------------------------------------------

    def log(self, space: int, after: int, bytes_max: int, rows_max: int) -> list[LogRow]:
        found: list[LogRow] = []
        size_bytes = 0
        rows = self._db.execute(
            "SELECT position, writer, seq, body FROM changes INDEXED BY changes_by_space "
            "WHERE space = ? AND position > ? ORDER BY position LIMIT ?",
            (space, after, rows_max),
        )
        for position, writer, seq, body in rows:
            found.append(LogRow(position, writer, seq, body))
            size_bytes += len(body)
            if size_bytes >= bytes_max:
                break
        rows.close()
        return found

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

    def has_state(self, space: int, document: Dot, position: int) -> bool:
        return bool(
            self._one(
                f"SELECT 1 FROM document_states WHERE {_DOCUMENT} AND position <= ? LIMIT 1",
                (space, *document, position),
            )
        )

    def document_edits(self, space: int, document: Dot) -> VersionVector:
        rows = self._db.execute(
            f"SELECT by_writer, MAX(by_seq) FROM document_updates WHERE {_DOCUMENT} "
            "AND (update_v1 != x'0000' OR by_writer = 0) GROUP BY by_writer",
            (space, *document),
        )
        return {Writer(writer): seq for writer, seq in rows.fetchall()}

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
            yield SnapshotPartRow(*row)

    def staged_rows(self, space: int) -> Iterator[tuple[int, Dot]]:
        for row, *dot in self._db.execute("SELECT row, writer, seq, n FROM entries WHERE space = ?", (-space,)):
            yield row, Dot(*dot)

    # -- what is oldest ----------------------------------------------------------------------------------------

    def oldest_changes(self, space: int, rows_max: int) -> list[OldChange]:
        rows = self._db.execute(
            f"SELECT position, writer, seq, {CHANGE_BYTES}, time_ms FROM changes "
            "WHERE position > (SELECT trimmed_position FROM spaces WHERE id = ?) AND +space = ? "
            "ORDER BY position LIMIT ?",
            (space, space, rows_max),
        )
        return [OldChange(*row) for row in rows.fetchall()]

    def oldest_dead(self, space: int, rows_max: int) -> list[OldDead]:
        rows = self._db.execute(
            f"SELECT id, position, {DEAD_BYTES}, time_ms FROM history WHERE space = ? ORDER BY id LIMIT ?",
            (space, rows_max),
        )
        return [OldDead(*row) for row in rows.fetchall()]

    def oldest_removals(self, space: int, rows_max: int) -> list[OldRemoval]:
        rows = self._db.execute(
            f"SELECT id, position, writer, seq, {REMOVAL_BYTES}, time_ms FROM removals WHERE space = ? "
            "ORDER BY id LIMIT ?",
            (space, rows_max),
        )
        return [OldRemoval(*row) for row in rows.fetchall()]

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

    def seen(self, row: int) -> bytes | None:
        found = self._one("SELECT seen FROM entries WHERE row = ?", (row,))
        return None if found is None else found[0]

    def dead(self, space: int, key: str, before: Order | None, *, is_lost: bool, rows_max: int) -> list[PastRow]:
        where, parameters = _place(before)
        rows = self._db.execute(
            f"{_PAST} INDEXED BY {'history_lost' if is_lost else 'history_by_key'} {_REMOVERS} "
            f"WHERE h.space = ? AND h.key = ?{' AND h.fate = 2' if is_lost else ''}{where} "
            "ORDER BY h.hlc DESC, h.writer DESC, h.seq DESC, h.n DESC LIMIT ?",
            (space, key, *parameters, rows_max),
        )
        return [_past_row(row) for row in rows.fetchall()]

    def dead_by_id(self, ids: list[int]) -> list[PastRow]:
        found: list[PastRow] = []
        for start in range(0, len(ids), _IDS_MAX):
            some = ids[start : start + _IDS_MAX]
            rows = self._db.execute(f"{_PAST} {_REMOVERS} WHERE h.id IN ({', '.join('?' * len(some))})", some)
            found += [_past_row(row) for row in rows.fetchall()]
        return found

    def is_removal_known(self, space: int, key: str, dot: Dot) -> bool:
        found = self._one(
            "SELECT 1 FROM history INDEXED BY history_by_key WHERE space = ? AND key = ? "
            "AND writer = ? AND seq = ? AND n = ? LIMIT 1",
            (space, key, *dot),
        )
        return found is not None

    def scan_dead(self, space: int, after: DeadPlace, *, is_lost: bool, rows_max: int) -> list[ScannedRow]:
        rows = self._db.execute(
            "SELECT id, key, hlc, writer, seq, n, kind, sub, attrs, agent, fate, value, seen FROM history "
            f"INDEXED BY {'history_lost' if is_lost else 'history_by_key'} WHERE space = ? "
            f"{'AND fate = 2 ' if is_lost else ''}AND (key, hlc, id) > (?, ?, ?) ORDER BY key, hlc, id LIMIT ?",
            (space, *after, rows_max),
        )
        return [_scanned_row(row) for row in rows]

    # -- the rest ----------------------------------------------------------------------------------------------

    def outcome(self, client: bytes, number: int) -> bytes | None:
        row = self._one(
            "SELECT reply FROM outcomes WHERE client = ? AND slot = ? AND number = ?", (client, number % 1024, number)
        )
        return row[0] if row else None

    def peers(self) -> list[PeerRow]:
        return [PeerRow(*row) for row in self._db.execute("SELECT node, name, last_seen_ms FROM peers").fetchall()]

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
    """From the columns of ``ENTRY_COLUMNS``."""
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


_PAST = (
    f"SELECT {', '.join(f'h.{name}' for name in ENTRY_COLUMNS.split(', '))}, h.seen, h.position, h.fate, "
    "r.writer, r.seq, r.n, r.hlc, r.agent, r.operation FROM history h"
)
_REMOVERS = "LEFT JOIN removals r ON r.position = h.position AND r.n = h.by_n"


def _past_row(row: tuple[Any, ...]) -> PastRow:
    *entry, seen, position, fate, writer, seq, n, hlc, agent, operation = row
    removal = None
    if hlc is not None:
        removal = Removal(Dot(writer, seq, n), int.from_bytes(hlc, "big"), agent, operation)
    return PastRow(_entry(tuple(entry)), seen, position, fate, removal)


_IDS_MAX = 500


def _scanned_row(row: tuple[Any, ...]) -> ScannedRow:
    number, key, hlc, writer, seq, n, kind, sub, attrs, agent, fate, value, seen = row
    order = (int.from_bytes(hlc, "big"), writer, seq, n)
    is_edit = rules_of(kind).written.is_edit and writing_operation(kind, sub, unpack(attrs) if attrs else None).is_edit
    if not is_edit:
        return ScannedRow(number, key, order, is_edit=False)
    return ScannedRow(number, key, order, True, agent, fate, value, seen)


def _place(before: Order | None) -> tuple[str, tuple[object, ...]]:
    """The condition on rows that stand before a place."""
    if before is None:
        return "", ()
    hlc, *dot = before
    return " AND (h.hlc, h.writer, h.seq, h.n) < (?, ?, ?, ?)", (hlc.to_bytes(8, "big"), *dot)


def _unflatten(packed: bytes | None) -> VersionVector:
    flat = [] if packed is None else unpack(packed)
    return dict(zip(flat[::2], flat[1::2], strict=True))
