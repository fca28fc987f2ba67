"""The rows that the next commit must write, and the ledger in which all spaces of a node collect them."""

from __future__ import annotations

from operator import attrgetter

from crdtsync.core.crdt.entry import Entry
from crdtsync.core.storage.long_values import LongValues
from crdtsync.core.storage.rows import (
    Adoption,
    ArchivePurge,
    ArchiveRow,
    ChangeRow,
    DocumentDrop,
    DocumentStateRow,
    DocumentTrim,
    DocumentUpdateRow,
    EntryRow,
    HeadRow,
    HistoryDrop,
    HistoryTrim,
    LogTrim,
    MendedValue,
    OutcomeRow,
    PeerRow,
    Redaction,
    RemovalRow,
    RemovedRow,
    RemovedRows,
    Rewind,
    SnapshotPartRow,
)
from crdtsync.wire.change import Change


class WriteBatch:
    """Everything that one commit must make durable, as rows by table."""

    __slots__ = (
        "adoptions", "archive_purges", "archives", "changes", "clocks", "document_drops", "document_states",
        "document_trims", "document_updates", "entries", "floors", "heads", "history_drops", "history_floors",
        "history_trims", "log_trims", "mended_values", "metas", "origins", "outcomes", "own_changes", "peers",
        "redactions", "removals", "removed_many", "removed_rows", "reply_redactions", "retired_writers", "rewinds",
        "scrubs", "snapshot_drops", "snapshot_parts", "spaces", "staged_drops", "writers",
    )  # fmt: skip

    def __init__(self) -> None:
        self.archives: list[ArchiveRow] = []  # spaces that are spaces no longer
        self.archive_purges: list[ArchivePurge] = []
        self.spaces: list[tuple[int, str, int]] = []
        self.writers: list[tuple[int, int]] = []
        self.retired_writers: list[tuple[int, int]] = []
        self.rewinds: list[Rewind] = []
        self.clocks: list[tuple[int, int]] = []
        self.changes: list[ChangeRow] = []
        self.heads: list[HeadRow] = []
        self.entries: list[EntryRow] = []
        self.removed_rows: list[RemovedRow] = []
        self.removed_many: list[RemovedRows] = []
        self.removals: list[RemovalRow] = []
        self.document_updates: list[DocumentUpdateRow] = []
        self.document_states: list[DocumentStateRow] = []
        self.document_trims: list[DocumentTrim] = []
        self.document_drops: list[DocumentDrop] = []
        self.origins: list[tuple[int, int, str, str]] = []
        self.floors: list[tuple[bytes, int]] = []  # a packed vector, of a space
        self.history_floors: list[tuple[bytes, int, int]] = []  # likewise; and since when history tells all
        self.log_trims: list[LogTrim] = []
        self.history_trims: list[HistoryTrim] = []
        self.history_drops: list[HistoryDrop] = []
        self.redactions: list[Redaction] = []
        self.reply_redactions: list[tuple[int, bytes]] = []  # replies kept for retries: by number, without a value
        self.scrubs: list[int] = []  # spaces of which something was purged: the files are to tell nothing of it
        self.snapshot_parts: list[SnapshotPartRow] = []
        self.snapshot_drops: list[int] = []  # spaces whose parts go, with all entries of them that are still staged
        self.staged_drops: list[int] = []  # rows of staged entries that are not to become live
        self.adoptions: list[Adoption] = []
        self.outcomes: list[OutcomeRow] = []
        self.peers: list[PeerRow] = []
        self.mended_values: list[MendedValue] = []
        self.metas: list[tuple[str, bytes | None]] = []  # what the node keeps for itself, by name; None: no longer
        self.own_changes = 0

    def first_position(self) -> int:
        """The log position of the first change that it writes, or of what first removed something; 0: neither."""
        positions = [rows[0].position for rows in (self.changes, self.removed_rows, self.removed_many) if rows]
        return min(positions, default=0)

    @property
    def is_purge(self) -> bool:
        """Whether what it deletes must not be found in what the files have left of it."""
        is_purge = any(drop.is_purge for drop in self.history_drops)
        return is_purge or bool(self.redactions or self.reply_redactions or self.scrubs)

    def entry_rows(self) -> int:
        """How many rows there are of entries, of marks on them, and of who removed them."""
        return len(self.entries) + self.removed_count + len(self.removals)

    @property
    def removed_count(self) -> int:
        """How many rows are marked."""
        return len(self.removed_rows) + sum([len(many.rows) for many in self.removed_many])

    def marks(self) -> list[RemovedRow]:
        """Every mark by itself."""
        return [*self.removed_rows, *(RemovedRow(row, *many[1:]) for many in self.removed_many for row in many.rows)]

    def __bool__(self) -> bool:
        return bool(self.changes) or any(_reasons(self))


_reasons = attrgetter(*(name for name in WriteBatch.__slots__ if name not in ("clocks", "own_changes")))
NOTHING = WriteBatch()
"""For a turn that writes nothing, as most do that only read. Nobody adds to it."""


class Ledger:
    """Shared by all spaces of a node.

    The last log position and entry row in use, and the rows that the next commit must write.
    """

    def __init__(self, position: int, row: int) -> None:
        self.position = position
        self.row = row
        self.batch = WriteBatch()
        self.late: dict[str, list[Change | bytes]] = {}
        """By space, changes that have waited and may be taken in, but not in the same turn as so many others."""
        self._long: list[tuple[LongValues, Entry]] = []

    def note_long(self, values: LongValues, entry: Entry) -> None:
        """The batch writes an entry: if its value is long, memory lets go of it once it is committed."""
        if entry.size_bytes > values.memory_bytes_max:
            self._long.append((values, entry))

    def committed(self) -> None:
        """All that was collected up to now is on disk."""
        if self._long:
            for values, entry in self._long:
                values.let_go(entry)
            self._long.clear()

    def take(self) -> WriteBatch:
        """The rows collected since the last call."""
        batch = self.batch
        if not batch and not batch.clocks:
            return NOTHING
        self.batch = WriteBatch()
        return batch
