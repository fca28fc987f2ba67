"""Checks of a checkpoint, a slice at a time: the digest of all entries of a space, before it is made, and afterwards
whether they are what its record says.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from crdtsync.causality import covers
from crdtsync.core.crdt.entries import DIGEST_MODULUS
from crdtsync.core.reads.as_of import Collecting, KeySelection
from crdtsync.core.reads.cuts import Cut, cut_of_checkpoint, is_told
from crdtsync.errors import InvalidEncoding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crdtsync.core.access.rules import Grant
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.history.checkpoints import Checkpoint
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.storage.interface import Storage

SLICE_KEYS = 500
SLICE_ENTRIES = 2000
"""Entries of a key that has many, or of several keys: hashed in one turn."""
SLICE_VALUES = 8
"""Values that are read in one turn: each may be 1 MiB, and those that were written lately are in memory."""


class Summing:
    """Sums up what a space holds on disk since the daemon's start, then goes on with ``then``: of 100,000 entries that
    takes half a second.
    """

    rights: Grant | None = None

    def __init__(self, replica: Replica, then: Callable[[], object]) -> None:
        self.begin(replica)
        self._then = then

    def begin(self, replica: Replica) -> None:
        """Begin, or begin again with a replica that was read anew."""
        self.replica = replica

    def advance(self) -> bool:
        """Sum up one slice more; True: that was all."""
        self.replica.entries.sum_up(SLICE_ENTRIES)
        return self.replica.entries.is_summed

    def answer(self, _now_ms: int) -> object:
        """Go on."""
        return self._then()


class CheckpointCheck:
    """The check of one checkpoint: the digest of all entries, and the values of those that are not in the one
    ``before``.
    """

    def __init__(self, replica: Replica, storage: Storage, record: Checkpoint, before: Checkpoint | None) -> None:
        self.replica = replica
        self._storage = storage
        self._record = record
        self._before = {} if before is None else before.vector
        self._cut: Cut | None = None
        self._page: Collecting | None = None
        self._start: str | None = ""
        self._digest = 0
        self._found: Iterator[Entry] | None = None
        self._values: list[Entry] = []

    def advance(self) -> bool:
        """Look at one slice more; True: that was all.

        :raises DamagedValue: a value cannot be read.
        :raises InvalidEncoding: its entries do not add up to its digest.
        """
        replica, record = self.replica, self._record
        if self._storage.has_backlog or not covers(replica.durable_vector(), record.vector):
            return False  # not all of it is on disk yet
        if self._cut is None:
            self._cut = cut_of_checkpoint(replica, record, is_trial=True)
        if not is_told(replica, self._cut):
            return True  # of some keys less history is kept than this takes: nobody can tell
        if self._values:
            some, self._values = self._values[:SLICE_VALUES], self._values[SLICE_VALUES:]
            for entry in some:
                _ = entry.value
            replica.values.check(some)
            return False
        if self._found is not None:
            self._sum_up(self._found)
            return False
        if self._start is None:
            if self._digest % DIGEST_MODULUS != int.from_bytes(record.digest, "big"):
                raise InvalidEncoding("its entries do not add up to its digest")
            return True
        self._look()
        return False

    def _look(self) -> None:
        if self._page is None:
            assert self._cut is not None
            wanted = KeySelection(None, "", self._start or "", SLICE_KEYS, has_values=False)
            self._page = Collecting(self.replica, self._storage, self._cut, wanted)
        if self._page.advance():
            self._found = self._page.found()
            self._start, self._page = self._page.complete_to, None

    def _sum_up(self, found: Iterator[Entry]) -> None:
        some = [*islice(found, SLICE_ENTRIES)]
        self._digest += sum(entry.digest for entry in some)
        self._values = [entry for entry in some if entry.is_on_disk and self._is_new(entry)]
        if len(some) < SLICE_ENTRIES:
            self._found = None

    def _is_new(self, entry: Entry) -> bool:
        is_new = not entry.is_in(self._before)
        return is_new and self.replica.entries.holds_dot(entry.key, entry.dot)
