"""Long values stand on disk. Memory holds the keys, and of the values those that are in use.

A team keeps 100,000 checkpoints of 50 kB: 5 GB, of which a few are read in an hour. So once an entry is committed, the
node drops its value from memory if it is long. :attr:`Entry.value <crdtsync.core.crdt.entry.Entry.value>` reads it
again when somebody asks: through one cache for all spaces, which is bounded in bytes. If a caller only needs the
length, it asks for :attr:`Entry.size_bytes <crdtsync.core.crdt.entry.Entry.size_bytes>`.

A value from the disk is compared with the entry's hash: a long value when it is read, a short one at the start. If the
two differ, the value is *damaged*. The node looks for it in the log, which holds it once more as long as it holds the
change that wrote it, and writes it to its place anew, unless that cannot be read at all. If the log does not hold it,
the node raises an alarm and asks its peers (:mod:`crdtsync.core.sync.value_repair`). Until the value has come, the
entry reads as one whose value was purged. Only a reader of that key gets an error; everything else is served.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from crdtsync.core.crdt.entry import Entry, OnDisk, on_disk
from crdtsync.errors import DamagedValue
from crdtsync.wire.blobs import BLOB_PREFIX, subject_of
from crdtsync.wire.change import value_hash
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import shown

if TYPE_CHECKING:
    from crdtsync.causality import Dot

MEMORY_BYTES_MAX = 512
"""A value that stays in memory. A longer value stands on disk; a shorter one is not much longer than what memory holds
of every entry.
"""
CACHE_BYTES_MAX = 64 * 1024 * 1024
"""The cache of values that stand on disk, unless the setting ``value_cache_bytes`` says otherwise."""
ROW_BYTES = 200
"""Bytes that a value takes in the cache beside its own, about."""
STAND_INS_MAX = 4096
"""Lengths of values, for which one object stands in all entries of a space."""
FETCHED_MIN = 16
"""Values of one key that are read from disk together. With fewer values it is as quick to read them one by one."""
WANTED_MAX = 10_000
"""Damaged values of a space that peers are asked for."""
_TEXT = int(Kind.TEXT)  # its hash is that of an edit, and its value is short: the name of a document


class ValueCache:
    """Long values that were written or read lately, by row. Shared by all spaces of a node."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.size_bytes = 0
        self.hits = 0
        self.misses = 0
        self._values: OrderedDict[int, bytes] = OrderedDict()

    def __contains__(self, row: int) -> bool:
        return row in self._values

    def get(self, row: int) -> bytes | None:
        """The value of that row, if it is here."""
        value = self._values.get(row)
        if value is None:
            self.misses += 1
            return None
        self.hits += 1
        self._values.move_to_end(row)
        return value

    def put(self, row: int, value: bytes) -> None:
        """Keep a value for a while; those that nobody has read for longest go."""
        self.drop(row)
        self._values[row] = value
        self.size_bytes += len(value) + ROW_BYTES
        while self.size_bytes > self.bytes_max and self._values:
            _, oldest = self._values.popitem(last=False)
            self.size_bytes -= len(oldest) + ROW_BYTES

    def drop(self, row: int) -> None:
        """Let go of a value, if it is here."""
        gone = self._values.pop(row, None)
        if gone is not None:
            self.size_bytes -= len(gone) + ROW_BYTES

    def clear(self) -> None:
        """Let go of all: rows may get other numbers."""
        self._values.clear()
        self.size_bytes = 0


class LongValues:
    """The long values of one space. ``read`` reads one from the disk by row, and ``read_many`` several.

    ``find`` looks for one elsewhere, and is told whether something can be read in its place, and so be mended.
    """

    __slots__ = (
        "_cache", "_find", "_mend", "_read", "_read_many", "_stand_ins", "_tell", "damaged", "memory_bytes_max",
        "wanted",
    )  # fmt: skip

    def __init__(
        self,
        cache: ValueCache,
        read: Callable[[int], bytes | None],
        read_many: Callable[[list[int]], Iterable[tuple[int, bytes]]],
        find: Callable[[Entry, bool], bytes | None],
        tell: Callable[[Entry], None],
        mend: Callable[[Entry, bytes], None],
    ) -> None:
        self.damaged: dict[Dot, None] = {}
        """Those that were read and cannot be."""
        self.wanted: dict[Dot, tuple[Entry, bool]] = {}
        """Those of them to ask others for, and whether something can be read in their place, and so be mended."""
        self.memory_bytes_max = MEMORY_BYTES_MAX
        self._cache = cache
        self._read = read
        self._read_many = read_many
        self._find = find
        self._tell = tell
        self._mend = mend
        self._stand_ins: dict[int, OnDisk] = {}

    def stand_in(self, size_bytes: int) -> OnDisk:
        """The object that an entry of this space holds instead of a value of that length: the same for all of one
        length.
        """
        found = self._stand_ins.get(size_bytes)
        if found is None:
            if len(self._stand_ins) >= STAND_INS_MAX:
                self._stand_ins.clear()
            found = self._stand_ins[size_bytes] = OnDisk(size_bytes, self._value)
        return found

    def let_go(self, entry: Entry) -> None:
        """An entry is on disk: drop its value from memory if it is long; for a while the cache has it."""
        value = entry.held
        if type(value) is not bytes or len(value) <= self.memory_bytes_max or entry.kind == _TEXT:
            return
        if not entry.key.startswith(BLOB_PREFIX):  # parts are read once, in order: they would push out all else
            self._cache.put(entry.row, value)
        entry.leave_on_disk(self.stand_in(len(value)))

    def died(self, entry: Entry) -> None:
        """An entry is alive no more: its value makes room in the cache for others."""
        if entry.is_on_disk:
            self._cache.drop(entry.row)

    def fetch(self, entries: Sequence[Entry]) -> None:
        """The caller will ask for all of these values, which are many: read at once those that are not here."""
        long = on_disk(entries)
        if len(long) < FETCHED_MIN or sum(entry.size_bytes for entry in long) > self._cache.bytes_max // 2:
            return
        by_row = {row: entry for entry in long if (row := entry.row) not in self._cache}
        for row, value in self._read_many(sorted(by_row)):
            if type(value) is bytes and value_hash(value) == by_row[row].value_hash:
                self._cache.put(row, value)

    def check(self, entries: Collection[Entry], may_lack: bool = False) -> None:
        """To be called where entries have been read for an answer about one key. ``may_lack``: a value that others are
        asked for is no matter; one that history has let go of is.

        :raises DamagedValue: the value of one cannot be read.
        """
        if self.damaged:
            for entry in entries:
                if entry.dot in self.damaged and entry.is_on_disk and not (may_lack and entry.dot in self.wanted):
                    key = subject_of(entry.key)
                    raise DamagedValue(
                        f"the value of {shown(key)} that {entry.agent} wrote is damaged on this node's disk: "
                        "it is asked for on other nodes; if it does not come, read it there, or write it again",
                        key=key,
                    )

    def _value(self, entry: Entry) -> bytes | None:
        value = self._cache.get(entry.row)
        if value is not None:
            return value
        if entry.dot in self.damaged:
            return None
        value = self._read(entry.row)
        if value is None:
            self.damaged[entry.dot] = None  # of an entry that is dead, and of which history has let go
            return None
        if value_hash(value) != entry.value_hash:
            can_mend = bool(value)
            value = self._find(entry, can_mend)
            if value is None or value_hash(value) != entry.value_hash:
                self._want(entry, can_mend)
                return None
        if not entry.key.startswith(BLOB_PREFIX):
            self._cache.put(entry.row, value)
        return value

    def _want(self, entry: Entry, can_mend: bool) -> None:
        self.damaged[entry.dot] = None
        if len(self.wanted) < WANTED_MAX:
            self.wanted[entry.dot] = entry, can_mend
        self._tell(entry)

    def lacks(self, entry: Entry) -> None:
        """An entry has come from a peer that has lost its value: something else stands in its place."""
        self.doubt_all((entry,))
        self._want(entry, can_mend=True)

    def doubt(self, entry: Entry) -> None:
        """An entry was read from disk with its value: if that is not what it was, look for it as for one of now."""
        if not entry.is_on_disk:
            self.doubt_all((entry,))

    def doubt_all(self, entries: Iterable[Entry]) -> None:
        """As :meth:`doubt`, of those that have their value; what stands on disk is compared when it is read."""
        for entry in entries:
            value = entry.held
            if type(value) is bytes and value_hash(value) != entry.value_hash and entry.kind != _TEXT:
                entry.leave_on_disk(self.stand_in(len(value)))

    def came(self, dot: Dot, value: bytes) -> bool:
        """A peer has given a value: whether it is one that is wanted here. It is in its place with the next commit."""
        entry, can_mend = self.wanted.get(dot, (None, False))
        if entry is None or value_hash(value) != entry.value_hash:
            return False
        del self.wanted[dot]
        self.damaged.pop(dot, None)
        self._none_wanted()
        if entry.is_on_disk:
            entry.leave_on_disk(self.stand_in(len(value)))
            self._cache.put(entry.row, value)
            if can_mend:
                self._mend(entry, value)
        return True

    def pass_over(self, count: int, is_alive: Callable[[str, Dot], bool]) -> None:
        """No peer has the first ``count`` that are wanted: the others come first, and what is dead is forgotten.

        A reader of the past then finds the value damaged anew.
        """
        for dot in [*islice(self.wanted, count)]:
            entry, can_mend = self.wanted.pop(dot)
            if is_alive(entry.key, dot):
                self.wanted[dot] = entry, can_mend
            else:
                self.damaged.pop(dot, None)
        self._none_wanted()

    def _none_wanted(self) -> None:
        if not self.wanted:
            self.damaged.clear()  # what had no place among those that are wanted is found anew when it is read
