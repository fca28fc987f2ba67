"""Replies to writes, kept so that a repeated write is answered and not done again. There are bounds: the oldest go."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from crdtsyncd.storage.in_list import STEP_ROWS, VALUES_MAX, in_list

from crdtsync.core.storage.rows import OutcomeRow

OUTCOME_AGE_MS_MAX = 24 * 3600 * 1000
"""How long replies are known for a repeat."""
OUTCOMES_MAX = 262_144
"""Replies known for a repeat; the oldest go first."""
OUTCOMES_BYTES_MAX = 64 * 1024 * 1024
"""All replies known for a repeat."""
ROW_BYTES = 80
"""Bytes that a row takes beside its reply, about, with its place in the index."""
PRUNED_MAX = 256
"""How many go in one commit at most, beside as many as come."""

_PUT = "INSERT OR REPLACE INTO outcomes (client, slot, number, time_ms, reply) VALUES (?, ?, ?, ?, ?)"


class OutcomeTable:
    """The table and how much is in it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.count()

    def count(self) -> None:
        """Count anew what is on disk."""
        rows, size_bytes = self._db.execute("SELECT COUNT(*), IFNULL(SUM(LENGTH(reply)), 0) FROM outcomes").fetchone()
        self.rows = int(rows)
        self.size_bytes = int(size_bytes) + ROW_BYTES * self.rows

    def write(self, rows: Sequence[OutcomeRow]) -> None:
        """Store replies; each takes the place of what its client had in that slot. In the caller's transaction."""
        for _ in self.steps(rows):
            pass

    def steps(self, rows: Sequence[OutcomeRow]) -> Iterator[None]:
        """The same a step at a time, between which others may go first."""
        newest: dict[tuple[bytes, int], OutcomeRow] = {}
        for row in rows:
            newest.pop(row[:2], None)  # for its place is behind the others
            newest[row[:2]] = row
        for client, slots in groupby(sorted(newest), itemgetter(0)):
            self._count_earlier(client, [slot for _, slot in slots])
        yield
        new = [*newest.values()]
        for start in range(0, len(new), STEP_ROWS):
            self._db.executemany(_PUT, new[start : start + STEP_ROWS])
            yield
        self.rows += len(new)
        self.size_bytes += ROW_BYTES * len(new) + sum([len(row.reply) for row in new])
        if rows:
            self._prune(rows[-1].time_ms, PRUNED_MAX + len(rows))

    def _count_earlier(self, client: bytes, slots: list[int]) -> None:
        """Take replies that others replace off the count."""
        for start in range(0, len(slots), VALUES_MAX):
            among, some = in_list(slots[start : start + VALUES_MAX])
            rows, size_bytes = self._db.execute(
                f"SELECT COUNT(*), IFNULL(SUM(LENGTH(reply)), 0) FROM outcomes WHERE client = ? AND slot {among}",
                (client, *some),
            ).fetchone()
            self.rows -= rows
            self.size_bytes -= ROW_BYTES * rows + size_bytes

    def redact(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Put shorter replies in the place of some, by their numbers. In the caller's transaction."""
        for number, reply in rows:
            found = self._db.execute("SELECT LENGTH(reply) FROM outcomes WHERE id = ?", (number,)).fetchone()
            if found is not None:
                self._db.execute("UPDATE outcomes SET reply = ? WHERE id = ?", (reply, number))
                self.size_bytes += len(reply) - found[0]

    def _prune(self, now_ms: int, rows_max: int) -> None:
        oldest = self._db.execute(  # what a flipped bit has made no number is old
            "SELECT id, IFNULL(LENGTH(reply), 0), IIF(TYPEOF(time_ms) = 'integer', time_ms, 0) FROM outcomes "
            "ORDER BY id LIMIT ?",
            (rows_max,),
        )
        gone: list[tuple[int]] = []
        rows, size_bytes = self.rows, self.size_bytes
        for number, reply_bytes, time_ms in oldest:
            if rows <= OUTCOMES_MAX and size_bytes <= OUTCOMES_BYTES_MAX and time_ms >= now_ms - OUTCOME_AGE_MS_MAX:
                break
            gone.append((number,))
            rows -= 1
            size_bytes -= ROW_BYTES + reply_bytes
        oldest.close()
        self._db.executemany("DELETE FROM outcomes WHERE id = ?", gone)
        self.rows, self.size_bytes = rows, size_bytes
