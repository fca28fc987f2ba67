"""The core's requests to the disk: reads of committed data, which are answered at once.

As in etcd's raft library, the core never writes. It hands what is to be written to its caller, as a
:class:`~crdtsync.core.storage.write_batch.WriteBatch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from crdtsync.causality import Dot, VersionVector, Writer
from crdtsync.core.crdt.entry import Entry, OnDisk
from crdtsync.core.storage.rows import (
    LAST_POSITION,
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
    ScannedRow,
    SnapshotPartRow,
    SpaceRow,
)
from crdtsync.wire.change import Order


class Storage(Protocol):
    """Reads of committed state."""

    def spaces(self) -> list[SpaceRow]:
        """Every space on this node."""

    def position_last(self) -> int:
        """The highest log position ever used."""

    def archives(self) -> list[ArchiveRow]:
        """Every space that was dropped and of which something is still stored."""

    def has_archived_log(self, space: int) -> bool:
        """Whether log or history are still stored of one of them."""

    def heads(self, space: int) -> Iterable[tuple[Writer, int, bytes]]:
        """For each writer: its highest change applied here, with that change's hash."""

    def origins(self, space: int) -> Iterable[tuple[Writer, str, str]]:
        """For each writer whose first change was applied here: id and name of its node."""

    def heads_after(self, space: int, position: int) -> Iterable[tuple[Writer, int]]:
        """Writers that have changes after ``position`` in the log, with their highest."""

    def entries(
        self, space: int, stand_in: Callable[[int], OnDisk] | None = None, rows: Sequence[int] | None = None
    ) -> Iterable[Entry]:
        """All live entries, or those in these rows. For a long value stands what ``stand_in`` gives for its length;
        without it, it is read.
        """

    def live_rows(self, space: int) -> list[int]:
        """The rows of all live entries."""

    def value(self, row: int) -> bytes | None:
        """The long value of a row, alive or dead; empty where its page cannot be read, something else where the disk
        has spoilt or lost it. None: there is no such row, or its value was purged.
        """

    def values(self, rows: list[int]) -> Iterable[tuple[int, bytes]]:
        """The long values of those of these rows that have theirs in its place: quicker than one by one."""

    def change_body(self, space: int, writer: int, seq: int) -> bytes | None:
        """One change, if the log still holds it."""

    def row_last(self) -> int:
        """The highest entry row ever used."""

    def log(self, space: int, after: int, bytes_max: int, rows_max: int) -> list[LogRow]:
        """Changes after position ``after``, in order: at least one if there is any, about ``bytes_max`` at most."""

    def change_hash(self, space: int, writer: int, seq: int) -> bytes | None:
        """Hash of one change, if it is still known: whole while the log holds the change, later its first 8 bytes."""

    def position_missing(self, space: int, vector: VersionVector, heads: VersionVector) -> int:
        """The position just before the first change that ``vector`` does not include."""

    def document(self, space: int, document: Dot) -> tuple[bytes | None, list[bytes]]:
        """The stored state of a document, if any, and the edits after it."""

    def document_as_of(self, space: int, document: Dot, position: int) -> tuple[bytes | None, list[bytes]]:
        """The same as it stood after the change at ``position`` of the log, which must be pinned or not yet trimmed."""

    def document_exists(self, space: int, document: Dot) -> bool:
        """Whether anything is stored of a document."""

    def documents(self, space: int) -> list[Dot]:
        """Every document of which something is stored."""

    def document_updates(
        self, space: int, document: Dot, after: int, rows_max: int, to: int = LAST_POSITION
    ) -> list[DocumentUpdate]:
        """Edits of a document after a log position, and not behind another one."""

    def snapshot_parts(self, space: int) -> Iterable[SnapshotPartRow]:
        """The parts of a snapshot that have been taken so far, in order."""

    def staged_rows(self, space: int) -> Iterable[tuple[int, Dot]]:
        """The rows of entries that came with those parts and are not live yet."""

    # -- for retention: what is oldest -------------------------------------------------------------------------

    def oldest_changes(self, space: int, rows_max: int) -> list[OldChange]:
        """The oldest changes in the log."""

    def oldest_change(self, space: int) -> OldChange | None:
        """The oldest in the log of a space that is small, however much others hold; None: there is none."""

    def oldest_dead(self, space: int, rows_max: int) -> list[OldDead]:
        """The dead entries that were removed first."""

    def dead_after(self, space: int, position: int, row: int, rows_max: int) -> list[DeadOfKey]:
        """Dead entries in the order of death, from after a place on: the log position and the row of one of them."""

    def oldest_removals(self, space: int, rows_max: int) -> list[OldRemoval]:
        """The oldest removals."""

    def document_spans(self, space: int, after: Dot | None, rows_max: int) -> list[DocumentSpan]:
        """Documents in order of their names, from after one of them on."""

    # -- for history -------------------------------------------------------------------------------------------

    def seen(self, row: int) -> bytes | None:
        """The values that the operation of a live entry replaced, as its row has it."""

    def dead(self, space: int, key: str, before: Order | None, *, is_lost: bool, rows_max: int) -> list[PastRow]:
        """The newest dead entries of a key, in order: of those before a place, if one is given; or only the lost.

        Fewer than ``rows_max`` where they are large; none: there are no more.
        """

    def dead_part(self, space: int, key: str, sub: str) -> PastRow | None:
        """The newest dead entry of a key with this ``sub``, with its value, if there is one."""

    def dead_under(self, space: int, prefix: str, position: int | None, rows_max: int) -> list[int]:
        """The rows of dead entries of keys that begin so: of those that died at this position or before."""

    def dead_by_id(self, ids: list[int], bytes_max: int) -> list[PastRow]:
        """Dead entries by the numbers of their rows, as far as they are still there, in this order. Once they have so
        many bytes of values, nil stands for each long one of the rest.
        """

    @property
    def has_backlog(self) -> bool:
        """Whether marks of what was removed are still on their way to their rows: those of a large commit take a
        while. Until then what reads dead entries does not find all of them.
        """

    @property
    def backlog_position(self) -> int | None:
        """The log position of the oldest change of which marks may still be on their way; None: :attr:`has_backlog` is
        false.
        """

    def scan_dead(self, space: int, after: DeadPlace, *, is_lost: bool, rows_max: int) -> list[ScannedRow]:
        """Dead entries of all keys after a place, by key and time of writing; or only the lost."""

    # -- for older cuts ----------------------------------------------------------------------------------------

    def dead_marks(
        self, space: int, after: DeadPlace, position: int, rows_max: int, key: str | None = None, recalled: int = 0
    ) -> tuple[list[DeadMark], DeadPlace | None]:
        """Those that died behind a position, of so many dead entries after a place, by key and time of writing; of all
        keys, or of one. And where the last of these stands, if there may be more.

        ``recalled``: and all that was recalled under this number.
        """

    def has_removals(self, position: int) -> bool:
        """Whether the change at a position is known to have removed something."""

    def removals(self, after: tuple[int, int], to: int, rows_max: int) -> list[PastRemoval]:
        """Removals of all spaces after a position and the number of an operation, up to a position, in this order."""

    def change(self, space: int, writer: int, seq: int) -> LogRow | None:
        """One change, if the log holds it."""

    def change_position(self, space: int, writer: int, seq: int) -> int:
        """Its position; 0 if the log does not hold it."""

    def changes_before(self, space: int, position: int, rows_max: int) -> list[LogRow]:
        """The changes before a position, the newest first."""

    def position_at(self, space: int, time_ms: int) -> int:
        """The position of the last change that was applied here by a time, of those in the log; 0: of none."""

    def vector_at(self, space: int, position: int, heads: VersionVector, floor: VersionVector) -> VersionVector:
        """The changes that had been applied here up to a position that the log reaches back to."""

    def outcome(self, client: bytes, number: int) -> bytes | None:
        """The stored reply to a client's write."""

    def outcomes_after(self, number: int, rows_max: int) -> list[tuple[int, bytes]]:
        """The stored replies to writes after one of them, each with its number, in order."""

    def peers(self) -> list[PeerRow]:
        """Every node ever met."""

    def meta(self, name: str) -> bytes | None:
        """The value that the node keeps for itself under a name."""

    def metas(self, prefix: str) -> list[bytes]:
        """All that it keeps under names that begin so, in order of name."""

    def stats(self) -> dict[str, object]:
        """The ``store`` object of the status."""

    def log_stats(self, space: int) -> dict[str, int]:
        """``log_changes``, ``log_bytes``, ``history_bytes`` and ``document_bytes`` of a space."""

    def dead_row(self, space: int, key: str, dot: Dot) -> int | None:
        """The row of a dead entry, if it is still there."""

    def dead_value(self, space: int, key: str, dot: Dot) -> tuple[str | None, bytes | None] | None:
        """The ``sub`` and the value of a dead entry of a key; None: history has it no longer."""

    def all_log_stats(self) -> dict[int, dict[str, int]]:
        """The same of every space, by number."""
