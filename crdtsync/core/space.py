"""One space as it stands in memory: what its entries, its log and its texts are now.

The kinds read it, a draft builds on it, history and snapshots look at it. Nothing here changes what a space holds:
:class:`crdtsync.core.replica.replica.Replica` does, which is a space with all that happens to one.

Example: ``incr n 5``. The kind *counter* is given a draft, which asks its space for the entries of ``n``; the reader
that is answered with the sum is given the space alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.causality import WRITER_MAX, Dot, HybridClock, VersionVector, Writer
from crdtsync.named_tuple import NamedTuple

if TYPE_CHECKING:
    from random import Random

    from crdtsync.core.alarms import Alarms
    from crdtsync.core.crdt.entries import Entries
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.crdt.schemas import Schemas
    from crdtsync.core.crdt.uploads import Uploads
    from crdtsync.core.storage.interface import Storage
    from crdtsync.core.storage.long_values import LongValues
    from crdtsync.core.storage.rows import LogRow, SpaceRow
    from crdtsync.core.storage.write_batch import Ledger
    from crdtsync.core.text.document_cache import Documents
    from crdtsync.wire.change import Change, Op


class Effect(NamedTuple):
    """The effect of one operation: the entry that it added, if any, and those that it removed."""

    op: Op
    added: Entry | None
    removed: list[Entry]


class Applied(NamedTuple):
    """A change that has been applied in memory, at ``position`` of the log. It is on disk after the next commit."""

    space: str
    change: Change
    position: int
    own: bool
    effects: list[Effect]


class SpaceState:
    """See the module's description. Rows to be written go to ``ledger``."""

    __slots__ = (
        "_random", "alarms", "clock", "documents", "entries", "epoch", "floor", "id", "ledger", "name", "node",
        "origins", "pins", "position", "schemas", "spoilt_changes", "storage", "trimmed_position", "undurable",
        "uploads", "values", "vector", "writer",
    )  # fmt: skip

    entries: Entries
    schemas: Schemas
    uploads: Uploads
    values: LongValues
    documents: Documents
    pins: set[int]
    """Log positions of snapshots in transfer: what comes after is not trimmed."""

    def __init__(
        self, row: SpaceRow, storage: Storage, ledger: Ledger, random: Random, node: str, alarms: Alarms
    ) -> None:
        self.id = row.id
        self.name = row.name
        self.epoch = row.epoch
        self.node = node
        self.storage = storage
        self.ledger = ledger
        self.alarms = alarms
        self.writer = row.own_writer
        self.vector: VersionVector = {}
        self.undurable: VersionVector = {}
        """The heads on disk of writers who have others in memory."""
        self.spoilt_changes: dict[Dot, LogRow] = {}
        """The changes that the disk has spoilt in the log, as far as that is known."""
        self.origins: dict[Writer, tuple[str, str]] = {}
        self.clock = HybridClock()
        self.position = row.position
        self.floor = row.floor
        self.trimmed_position = row.trimmed_position
        self._random = random

    def durable_vector(self) -> VersionVector:
        """The version vector of what is on disk: all but what waits for the next commit."""
        return {**self.vector, **self.undurable}

    def is_own(self, writer: Writer) -> bool:
        """Whether a writer is, or was, this node's."""
        return self.origins.get(writer, ("",))[0] == self.node

    def node_of(self, writer: Writer) -> str:
        """The name of a writer's node."""
        origin = self.origins.get(writer)
        return origin[1] if origin else f"writer-{writer}"

    def next_dot(self) -> tuple[Writer, int]:
        """Writer and number of the next own change."""
        if self.writer is None:
            writer = Writer(self._random.randint(1, WRITER_MAX))
            while writer in self.vector:
                writer = Writer(self._random.randint(1, WRITER_MAX))
            self.writer = writer
            self.ledger.batch.writers.append((self.id, writer))
        return self.writer, self.vector.get(self.writer, 0) + 1

    def advance_position(self) -> int:
        """A place in the log at which no change stands."""
        self.ledger.position += 1
        self.position = self.ledger.position
        return self.position
