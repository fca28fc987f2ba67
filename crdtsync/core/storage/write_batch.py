"""What the next commit must write."""

from __future__ import annotations

from crdtsync.core.storage.interface import NOTHING, Batch


class Ledger:
    """Shared by all spaces of a node.

    The last log position and entry row in use, and the rows that the next commit must write.
    """

    def __init__(self, position: int, row: int) -> None:
        self.position = position
        self.row = row
        self.batch = Batch()

    def take(self) -> Batch:
        """The rows collected since the last call."""
        batch = self.batch
        if not batch and not batch.clocks:
            return NOTHING
        self.batch = Batch()
        return batch
