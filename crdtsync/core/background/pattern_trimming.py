"""Trims the history of keys whose schema says how much of it is kept, so that it pushes nobody else's out.

Agents write their heartbeats under ``beat/*`` 50 times a second, and a plan once an hour. The cap on the history of a
space is one: after some hours it would hold heartbeats alone. A schema says that of ``beat/*`` none is kept, or so
many bytes, or so much time.

The rows of such keys stand between those of all others, in the order in which they died. Two places go through that
order. The *head* counts: it looks once at each row that has died, and adds its bytes to those of its pattern. The
*tail* of each pattern drops: it goes on to the oldest row of the pattern while the pattern has too much, past the rows
of others. So a row costs a look for each pattern with a cap, and nothing has to be kept on disk for that: after a
start, and when a schema has changed, both begin at the oldest row again.

History no longer tells values that have gone, so the floor of the pattern's history rises with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.causality import VersionVector, merge
from crdtsync.core.storage.interface import Storage
from crdtsync.core.storage.rows import HistoryDrop, OldDead
from crdtsync.core.storage.write_batch import WriteBatch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crdtsync.core.crdt.schemas import HistoryCap, SchemaTable
    from crdtsync.core.replica.replica import Replica

SLICE_ROWS = 256
"""Rows looked at in a turn, and dropped at most: about 5 ms with their commit."""
SLICE_BYTES_MAX = 1024 * 1024
"""So many bytes are dropped in a turn, or one row."""

_START = (0, 0)


class _Pattern:
    """Where the trimming of one pattern stands: ``size_bytes`` are those of its rows between tail and head."""

    __slots__ = ("cap", "due_ms", "removals", "size_bytes", "tail", "text")

    def __init__(self, text: str, cap: HistoryCap) -> None:
        self.text = text
        self.cap = cap
        self.tail = _START
        self.removals: dict[tuple[int, int], None] = {}
        """Those at the tail of which all that they removed has gone, but for what may follow at the same position."""
        self.size_bytes = 0
        self.due_ms = 0
        """When the oldest row may be too old."""

    def is_over(self, now_ms: int) -> bool:
        """Whether something may have to go."""
        if self.cap.bytes_max is not None:
            return self.size_bytes > self.cap.bytes_max
        return self.size_bytes > 0 and now_ms >= self.due_ms

    def is_kept(self, time_ms: int, now_ms: int) -> bool:
        """Whether a row that died then stays, as things are."""
        if self.cap.age_ms_max is not None:
            self.due_ms = time_ms + self.cap.age_ms_max + 1
            return now_ms < self.due_ms
        return not self.is_over(now_ms)


class PatternTrimming:
    """The trimming of one replica's patterns."""

    __slots__ = ("_head", "_patterns", "_storage", "_table")

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._table: SchemaTable | None = None
        self._head = _START
        self._patterns: dict[str, _Pattern] = {}

    def run(self, replica: Replica, batch: WriteBatch, now_ms: int, whole_to: int | None = None) -> bool:
        """Look at a slice of rows, and add those to ``batch`` that are to go; whether there is more to do.

        The rows have been committed: none of them is in ``batch`` so far. Behind the position ``whole_to`` some are
        still on their way to their place.
        """
        self._look_at_schemas(replica)
        if not self._patterns:
            return False
        more = self._count(replica, whole_to)
        left = SLICE_ROWS
        for pattern in self._patterns.values():
            if left > 0 and pattern.is_over(now_ms):
                left -= self._trim(replica, pattern, batch, now_ms, left)
        return more or any(pattern.is_over(now_ms) for pattern in self._patterns.values())

    def dropped(self, replica: Replica, rows: Iterable[OldDead]) -> None:
        """These have gone since the space had too much."""
        for row in rows:
            pattern = self._patterns.get(replica.schemas.of(row.key).pattern) if self._patterns else None
            if pattern is not None and pattern.tail < (row.position, row.id) <= self._head:
                pattern.size_bytes -= row.size_bytes

    def _look_at_schemas(self, replica: Replica) -> None:
        table = replica.schemas.table
        if table is not self._table:
            self._table = table
            self._head = _START
            capped = [schema for _, schema in table.by_pattern.values() if schema.history is not None]
            self._patterns = {each.pattern: _Pattern(each.pattern, each.history) for each in capped if each.history}

    def _count(self, replica: Replica, whole_to: int | None) -> bool:
        """Go on with the head; whether there may be more before it."""
        rows = self._storage.dead_after(replica.id, *self._head, SLICE_ROWS)
        for row in rows:
            if whole_to is not None and row.position > whole_to:
                return False
            pattern = self._patterns.get(replica.schemas.of(row.key).pattern)
            if pattern is not None:
                pattern.size_bytes += row.size_bytes
            self._head = row.position, row.id
        return len(rows) == SLICE_ROWS

    def _trim(self, replica: Replica, pattern: _Pattern, batch: WriteBatch, now_ms: int, rows_max: int) -> int:
        """Go on with the tail of a pattern; how many rows were looked at."""
        floor: VersionVector = {}
        gone: list[int] = []
        removals: list[tuple[int, int]] = []
        gone_bytes = last_ms = looked_at = 0
        rows = self._storage.dead_after(replica.id, *pattern.tail, rows_max)
        for row in rows:
            if row.position > pattern.tail[0]:
                removals += pattern.removals
                pattern.removals.clear()
            if (row.position, row.id) > self._head:
                break
            looked_at += 1
            if replica.schemas.of(row.key).pattern == pattern.text:
                if pattern.is_kept(row.time_ms, now_ms) or (gone and gone_bytes + row.size_bytes > SLICE_BYTES_MAX):
                    break
                gone.append(row.id)
                gone_bytes += row.size_bytes
                last_ms = row.time_ms
                pattern.size_bytes -= row.size_bytes
                if row.writer:
                    merge(floor, {row.writer: row.seq})
                    pattern.removals[row.position, row.n] = None
            pattern.tail = row.position, row.id
        if len(rows) < rows_max and looked_at == len(rows):
            removals += pattern.removals
            pattern.removals.clear()
        if gone or removals:
            batch.history_drops.append(HistoryDrop(replica.id, tuple(gone), tuple(removals)))
        if gone:
            replica.past.cut_pattern(pattern.text, floor, last_ms)
        return max(looked_at, 1)
