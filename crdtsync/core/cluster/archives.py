"""Dropped spaces stay for a while: the archives of a node, how long and how large they may be, and their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.alarm_catalogue import ARCHIVED_WRITES
from crdtsync.core.storage.rows import ArchivePurge, ArchiveRow, SpaceRow
from crdtsync.wire.limits import archive_of

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.replica.replica import Replica

ARCHIVE_AGE_MS_MAX = 7 * 24 * 3600 * 1000
"""How long what was dropped is kept."""
ARCHIVE_BYTES_MAX = 256 * 1024 * 1024
"""All archives of a node; the oldest go first. The newest stays whatever its size."""
ARCHIVES_MAX = 1000
"""The archives of a node."""
PURGE_ROWS_MAX = 512
"""Rows that go in one commit: a few ms."""
PURGE_INTERVAL_S = 0.02
LOOK_INTERVAL_S = 60.0
OPEN_S = 60.0
"""How long an archive that was read stays in memory; one at a time."""
_ENTRY_BYTES = 128  # of a row beside its key and value, about


class Archives:
    """All archives of a node. :meth:`run` is called in every turn, and when ``due_s`` has come."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self.due_s = 0.0
        self.rows: dict[int, ArchiveRow] = {}
        self._stored: set[int] = set()
        self._opened: Replica | None = None
        self._opened_until_s = 0.0

    def reload(self) -> None:
        """Read them from disk, in place of what memory holds."""
        self.rows = {row.space: row for row in self._node.storage.archives()}
        self._stored = set(self.rows)
        self._opened = None
        self.due_s = self._node.now_s

    def numbers(self) -> set[int]:
        """The numbers of spaces that are in use by archives."""
        return set(self.rows)

    def add(self, replica: Replica, unseen: int | None) -> None:
        """Move a replica into the archive with the commit under way."""
        node = self._node
        size_bytes = node.storage.log_stats(replica.id)["document_bytes"]
        for entry in replica.entries.all():
            size_bytes += _ENTRY_BYTES + len(entry.key) + entry.size_bytes
        row = ArchiveRow(
            replica.id, replica.name, replica.epoch, node.now_ms, replica.entries.count, size_bytes, unseen or 0
        )
        replica.staging.drop()
        node.ledger.batch.archives.append(row)
        self.rows[row.space] = row
        self.due_s = node.now_s

    def report_unseen(self, replica: Replica, unseen: int) -> None:
        """Writes that who dropped a space had not seen: their authors must learn where they are."""
        self._node.alarms.raise_once(
            ARCHIVED_WRITES,
            f"{replica.name}@{replica.epoch}",
            f"space {replica.name}: it was dropped by a node that had not seen {unseen:,} of the changes held here; "
            f"they are in this node's archive {replica.name}@{replica.epoch} for "
            f"{ARCHIVE_AGE_MS_MAX // 86_400_000} days",
        )

    def open(self, name: str) -> Replica | None:
        """An archive to be read, by the name that users give it; None: there is none. Nothing may be written to it."""
        wanted = archive_of(name)
        row = None if wanted is None else self.find(*wanted)
        if row is None or not self._is_stored(row):
            return None
        if self._opened is None or self._opened.id != row.space:
            self._opened = self._node.read_archive(SpaceRow(row.space, name, row.epoch, None, 0, 0, 0, {}, 0, {}))
        self._opened_until_s = self._node.now_s + OPEN_S
        self.due_s = min(self.due_s, self._opened_until_s)
        return self._opened

    def _is_stored(self, row: ArchiveRow) -> bool:
        """Not while the commit that makes it is under way."""
        if row.space not in self._stored:
            self._stored = {stored.space for stored in self._node.storage.archives()}
        return row.space in self._stored

    def until_ms(self, row: ArchiveRow) -> int:
        """When an archive goes at the latest."""
        return row.time_ms + ARCHIVE_AGE_MS_MAX

    def find(self, name: str, epoch: int) -> ArchiveRow | None:
        """The archive of one epoch of a space."""
        return next((row for row in self.rows.values() if (row.name, row.epoch) == (name, epoch)), None)

    def run(self) -> None:
        """Let go of a slice of what is due: all of an archive, or only the log and history, which no archive keeps."""
        node = self._node
        if node.now_s < self.due_s or node.read_only:
            return
        self.due_s = node.now_s + LOOK_INTERVAL_S
        if self._opened is not None and node.now_s >= self._opened_until_s:
            self._opened = None
        elif self._opened is not None:
            self.due_s = min(self.due_s, self._opened_until_s)
        stored = self._stored = {row.space for row in node.storage.archives()}
        over = self._over()
        for number, row in sorted(self.rows.items()):
            if number not in stored:
                if number not in {added.space for added in node.ledger.batch.archives}:
                    self._forget(row)
                    continue
                self.due_s = node.now_s + PURGE_INTERVAL_S  # it is being written just now
            elif number in over or node.storage.has_archived_log(number):
                node.ledger.batch.archive_purges.append(ArchivePurge(number, PURGE_ROWS_MAX, number in over))
                self.due_s = node.now_s + PURGE_INTERVAL_S
                return

    def _forget(self, row: ArchiveRow) -> None:
        if self._opened is not None and self._opened.id == row.space:
            self._opened = None
        del self.rows[row.space]
        self._node.alarms.clear(ARCHIVED_WRITES, f"{row.name}@{row.epoch}")

    def _over(self) -> set[int]:
        """Those that are too old, or too much, the oldest first."""
        over: set[int] = set()
        size_bytes = 0
        for count, row in enumerate(sorted(self.rows.values(), key=lambda row: (-row.time_ms, -row.space))):
            size_bytes += row.size_bytes
            is_old = row.time_ms + ARCHIVE_AGE_MS_MAX <= self._node.now_ms
            if is_old or count >= ARCHIVES_MAX or (count and size_bytes > ARCHIVE_BYTES_MAX):
                over.add(row.space)
        return over
