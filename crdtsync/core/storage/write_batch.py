"""What the next commit must write."""

from __future__ import annotations

from crdtsync.core.crdt.entries import Entry
from crdtsync.core.storage.interface import NOTHING, Batch
from crdtsync.core.storage.long_values import LongValues
from crdtsync.wire.change import Change


class Ledger:
    """Shared by all spaces of a node.

    The last log position and entry row in use, and the rows that the next commit must write.
    """

    def __init__(self, position: int, row: int) -> None:
        self.position = position
        self.row = row
        self.batch = Batch()
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

    def take(self) -> Batch:
        """The rows collected since the last call."""
        batch = self.batch
        if not batch and not batch.clocks:
            return NOTHING
        self.batch = Batch()
        return batch
