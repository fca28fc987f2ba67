"""A snapshot that is being taken, on disk: its parts, and its entries in their place but not live yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.causality import Dot
from crdtsync.core.entries import Entry
from crdtsync.core.ledger import Ledger
from crdtsync.core.snapshot import Taking
from crdtsync.core.storage import Adoption, EntryRow, SnapshotPartRow
from crdtsync.wire.codec import pack

if TYPE_CHECKING:
    from crdtsync.core.replica import Replica


class Staging:
    """What one replica has staged. Staged entries are rows of no space: of the number ``-space``.

    Writing 100,000 entries takes half a second, and making as many written ones live a tenth: so they are written as
    they come.
    """

    def __init__(self, replica: Replica, ledger: Ledger) -> None:
        self._replica = replica
        self._ledger = ledger

    def stage(self, row: SnapshotPartRow, entries: list[Entry]) -> None:
        """Keep a part until all have come, and of its entries those that may become live."""
        vector = self._replica.vector
        self._ledger.batch.snapshot_parts.append(row)
        self._write([entry for entry in entries if entry.dot.seq > vector.get(entry.dot.writer, 0)], is_live=False)

    def rows(self) -> dict[Dot, int]:
        """Where the entries are that were staged before a restart."""
        replica = self._replica
        return {dot: row for row, dot in replica.storage.staged_rows(replica.id)}

    def drop(self) -> None:
        """Forget all that is staged."""
        batch, space = self._ledger.batch, self._replica.id
        batch.snapshot_parts = [row for row in batch.snapshot_parts if row.space != space]
        batch.entries = [row for row in batch.entries if row.space != -space]
        batch.snapshot_drops.append(space)

    def adopt(self, taken: Taking, come: list[Entry]) -> None:
        """Make these entries of the snapshot live, and no others."""
        batch, space = self._ledger.batch, self._replica.id
        batch.entries = [row._replace(space=space) if row.space == -space else row for row in batch.entries]
        staged = [entry.row for entry in come if entry.row]
        if staged:
            batch.adoptions.append(Adoption(space, min(staged), max(staged)))
        if len(come) < len(taken.entries):
            coming = {entry.dot for entry in come}
            unwanted = {entry.row for dot, entry in taken.entries.items() if entry.row and dot not in coming}
            batch.entries = [row for row in batch.entries if row.row not in unwanted]
            batch.staged_drops.extend(sorted(unwanted))
        self._write([entry for entry in come if not entry.row], is_live=True)

    def _write(self, entries: list[Entry], is_live: bool) -> None:
        row, space = self._ledger.row, self._replica.id if is_live else -self._replica.id
        append = self._ledger.batch.entries.append
        for entry in entries:
            row += 1
            entry.row = row
            attrs = None if entry.attrs is None else pack(entry.attrs)
            append(
                EntryRow(
                    row, space, *entry.dot, entry.key, entry.sub, entry.kind, entry.hlc, entry.agent, entry.value,
                    entry.value_hash, attrs,
                )
            )  # fmt: skip
        self._ledger.row = row
