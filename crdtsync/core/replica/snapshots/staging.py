"""A snapshot that is being taken: its parts, and its entries in their place but not live yet, on disk from the moment
on when that spares more than it costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from crdtsync.causality import Dot
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.replica.snapshots.snapshot import Taking
from crdtsync.core.storage.rows import Adoption, EntryRow, SnapshotPartRow
from crdtsync.core.storage.write_batch import Ledger
from crdtsync.wire.codec import new_row, pack
from crdtsync.wire.peer.snapshot import LOST

if TYPE_CHECKING:
    from crdtsync.core.replica.replica import Replica


HELD_BYTES_MAX = 512 * 1024
"""Parts of a snapshot that are in memory alone, until it is whole or more come: after a restart they come anew."""


class Staging:
    """The parts and entries that one replica has staged. Staged entries are rows of no space: of the number ``-space``.

    Writing 100,000 entries takes half a second, and making as many written ones live a tenth: so they are written as
    they come. The first ones are not: a snapshot of few is written once, in the commit that makes it live.
    """

    __slots__ = ("_held", "_held_bytes", "_is_stored", "_ledger", "_replica")

    def __init__(self, replica: Replica, ledger: Ledger) -> None:
        self._replica = replica
        self._ledger = ledger
        self._held: list[tuple[SnapshotPartRow, list[Entry]]] = []
        self._held_bytes = 0
        self._is_stored = False  # whether something of it is, or may be, on disk

    @property
    def is_under_way(self) -> bool:
        """Whether something is staged."""
        return self._is_stored or bool(self._held)

    def stage(self, row: SnapshotPartRow, entries: list[Entry]) -> None:
        """Keep a part until all have come, and of its entries those that may become live."""
        self._held.append((row, entries))
        self._held_bytes += len(row.data)
        if self._is_stored or self._held_bytes > HELD_BYTES_MAX:
            for held in self._held:
                self._store(*held)
            self._forget_held()

    def _store(self, row: SnapshotPartRow, entries: list[Entry]) -> None:
        self._is_stored = True
        vector, held = self._replica.vector, self._replica.entries
        self._ledger.batch.snapshot_parts.append(row)
        missing = []
        for entry in entries:
            if not entry.is_in(vector) or not held.holds_dot(entry.key, entry.dot):
                missing.append(entry)
            else:
                entry.value = None  # it is here already, and nobody takes it from there
        self._write(missing, is_live=False)

    def _forget_held(self) -> None:
        self._held, self._held_bytes = [], 0

    def rows(self) -> dict[Dot, int]:
        """Where the entries are that were staged before a restart."""
        replica = self._replica
        return {dot: row for row, dot in replica.storage.staged_rows(replica.id)}

    def parts(self) -> Iterator[SnapshotPartRow]:
        """The parts that were staged before a restart."""
        for row in self._replica.storage.snapshot_parts(self._replica.id):
            self._is_stored = True
            yield row

    def drop(self) -> None:
        """Forget all that is staged."""
        self._forget_held()
        if not self._is_stored:
            return
        self._is_stored = False
        batch, space = self._ledger.batch, self._replica.id
        batch.snapshot_parts = [row for row in batch.snapshot_parts if row.space != space]
        batch.entries = [row for row in batch.entries if row.space != -space]
        batch.snapshot_drops.append(space)

    def adopt(self, taken: Taking, come: list[Entry]) -> None:
        """Make these entries of the snapshot live, and no others: those that are not on disk yet are written now."""
        self._forget_held()
        self._write(self._adopt_stored(taken, come) if self._is_stored else come, is_live=True)
        for entry in come:
            if entry.held == LOST:
                self._replica.values.lacks(entry)

    def _adopt_stored(self, taken: Taking, come: list[Entry]) -> list[Entry]:
        """The same of what is on disk, or in the batch; the entries that are not."""
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
        return [entry for entry in come if not entry.row]

    def _write(self, entries: list[Entry], is_live: bool) -> None:
        row, space = self._ledger.row, self._replica.id if is_live else -self._replica.id
        append, note_long, values = self._ledger.batch.entries.append, self._ledger.note_long, self._replica.values
        for entry in entries:
            row += 1
            entry.row = row
            hlc, *dot = entry.order
            attrs = None if entry.attrs is None else pack(entry.attrs)
            fields = (
                row, space, *dot, entry.key, entry.sub, entry.kind, hlc, entry.agent, entry.value, entry.value_hash,
                attrs, None,
            )  # fmt: skip
            append(new_row(EntryRow, fields))
            if entry.size_bytes > values.memory_bytes_max:
                note_long(values, entry)
        self._ledger.row = row
