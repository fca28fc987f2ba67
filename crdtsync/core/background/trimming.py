"""How much of the past is kept, and what goes when there is too much of it.

The log and the history of a space each have a cap in bytes and in age. The node drops the excess in small slices,
oldest first, with the commit under way: so the floor that says where the past begins is the same in memory and on disk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import merge as merge_sorted
from itertools import islice

from crdtsync.causality import TIME_MS_MAX, Dot, VersionVector, merge
from crdtsync.core.background.pattern_trimming import PatternTrimming
from crdtsync.core.background.retention_caps import Caps
from crdtsync.core.replica.asleep import Asleep
from crdtsync.core.replica.replica import Replica
from crdtsync.core.storage.interface import Storage
from crdtsync.core.storage.rows import (
    DocumentSpan,
    DocumentTrim,
    HistoryDrop,
    HistoryTrim,
    LogTrim,
    OldChange,
    OldDead,
    OldRemoval,
    pack_vector,
)
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.blobs import BLOB_PREFIX

CHECK_INTERVAL_S = 1.0
"""How often the caps are looked at while something is written."""
LOOK_SHARE = 8
LOOK_BYTES_MIN = 256 * 1024
"""Or once so many bytes have come, or an eighth of a cap if that is more: at 2 MB/s a cap of 1 MiB is soon outrun."""
ROW_BYTES = 128
"""Bytes that a row of the log or history takes beside its change, about."""
IDLE_INTERVAL_S = 60.0
"""How often they are when nothing is: then only age calls for a trim."""
SLICE_INTERVAL_S = 0.01
"""Between two slices, as long as there is more to trim."""
BUSY_INTERVAL_S = 0.05
"""The same while something is written, in slices of twice what has come since: whoever writes waits for them."""
SLICE_ROWS = 128
"""Rows of the log, and of the history twice as many, in a slice: with their commit about 2 ms, measured."""
BUSY_S = 0.25
"""So long after a change a space counts as being written to: on a busy machine a writer pauses now and then."""
BUSY_SLICE_ROWS = 16
"""The same at least while something is written."""
SLICE_ROWS_MAX = 512
"""Rows of the log that go in one commit at most: a slice takes twice what has come, lest the caps be outrun."""
HISTORY_ROWS_MAX = 512
"""Rows of the history that are trimmed in one commit, of which one change can add thousands: with it 5 ms."""
SLICE_BYTES_MAX = 1024 * 1024
"""So many bytes of log, and of history, in a slice, or one row: to delete a MiB takes 3 to 5 ms."""
SLICE_PARTS = 4
"""Parts of blobs that go in one slice: 2 MiB."""
SLICE_SPACES_MAX = 64
"""How many spaces are looked at in one turn."""
SLICE_DOCUMENTS_MAX = 32
SLICE_STATES_MAX = 2
"""How many documents are stored as a whole in one slice: each has to be read."""
CHANGE_HASHES_MAX = 262_144
"""Hashes kept of changes that the log no longer holds, to tell forks: about 16 MiB, a quarter of the log's cap."""
CHANGE_HASH_AGE_MS_MAX = 30 * 24 * 3600 * 1000
"""How long the hash of a change that the log no longer holds is kept."""
HISTORY_CAPS_MAX = 2
"""While keys with a history cap of their own have more than that, the others keep up to so many times the space's."""
CHECKPOINT_CAPS = 4
"""Checkpoints hold the past, with the documents of texts, up to so many times the cap of history."""
PINNED_CAPS = 2
"""Snapshots in transfer hold the log up to so many times its cap."""

# -- what goes: pure decisions on the oldest rows --------------------------------------------------------------


def changes_due(rows: Sequence[OldChange], size_bytes: int, caps: Caps, now_ms: int, pin: int | None) -> int:
    """How many of the oldest changes are to go, of a log of ``size_bytes``.

    ``pin`` is the position of a snapshot in transfer: what comes after it stays, while the log is not far too large.
    """
    gone_bytes = 0
    for count, row in enumerate(rows):
        gone_bytes += row.size_bytes
        if count and gone_bytes > SLICE_BYTES_MAX:
            return count
        if size_bytes <= caps.log_bytes_max and row.time_ms >= now_ms - caps.log_age_ms_max:
            return count
        if pin is not None and row.position > pin and size_bytes <= PINNED_CAPS * caps.log_bytes_max:
            return count
        size_bytes -= row.size_bytes
    return len(rows)


class HistoryPlan(NamedTuple):
    """The last dead entry and the last removal to go (None, 0: none), what the floor of history must cover then, and
    when the last of them was written down.
    """

    dead_to: tuple[int, int] | None
    removals_to: int
    floor: VersionVector
    time_ms: int = 0


def history_due(
    dead: Sequence[OldDead], removals: Sequence[OldRemoval], size_bytes: int, caps: Caps, now_ms: int, rows_max: int
) -> HistoryPlan:
    """Which of the oldest rows are to go, of a history of ``size_bytes``: at most ``rows_max``, so many of each given.

    An entry was in an older cut if the cut covers its dot and none of its removers. So no removal may go before the
    entries that it removed, and once one entry has gone, cuts without its remover can be told no longer.
    """
    dead_to: tuple[int, int] | None = None
    removals_to = last = last_ms = gone_bytes = 0
    rows: Iterable[tuple[int, int, int, int, int]] = merge_sorted(
        ((row.position, 0, row.id, row.size_bytes, row.time_ms) for row in dead),
        ((row.position, 1, row.id, row.size_bytes, row.time_ms) for row in removals),
    )
    for position, is_removal, number, row_bytes, time_ms in islice(rows, rows_max):
        if size_bytes <= caps.history_bytes_max and time_ms >= now_ms - caps.history_age_ms_max:
            break
        gone_bytes += row_bytes
        if last and gone_bytes > SLICE_BYTES_MAX:
            break
        size_bytes -= row_bytes
        last, last_ms = position, time_ms
        if is_removal:
            removals_to = number
        else:
            dead_to = position, number
    floor: VersionVector = {}
    for row in removals:
        if row.position > last:
            break
        merge(floor, {row.writer: row.seq})
    return HistoryPlan(dead_to, removals_to, floor, last_ms)


class DocumentPlan(NamedTuple):
    """The part of a document that is to go, if any, and whether the document has to be stored as a whole before more
    can.
    """

    trim: DocumentTrim | None
    needs_state: bool


def document_due(space: int, span: DocumentSpan, trimmed_position: int, pin: int | None) -> DocumentPlan:
    """Edits go with the log, once a whole state at or after them is stored that no snapshot in transfer is older than.

    :param pin: the position of the oldest snapshot in transfer: the document as of then must stay readable.
    """
    kept = span.states[-1] if span.states else 0
    if pin is not None:
        kept = max((position for position in span.states if position <= pin), default=0)
    updates_to = min(trimmed_position, kept)
    has_old_states = bool(span.states) and span.states[0] < kept
    has_old_updates = span.first_update is not None and span.first_update <= updates_to
    trim = DocumentTrim(space, *span.dot, updates_to, kept) if has_old_states or has_old_updates else None
    newest = span.states[-1] if span.states else 0
    is_overdue = span.first_update is not None and span.first_update <= trimmed_position and newest < trimmed_position
    return DocumentPlan(trim, is_overdue)


# -- doing it ------------------------------------------------------------------------------------------------------


class _Round:
    """A walk over the documents of a space: up to which trim of the log, and the last document looked at."""

    __slots__ = ("after", "trimmed_position")

    def __init__(self) -> None:
        self.after: Dot | None = None
        self.trimmed_position = 0


class Retention:
    """Keeps every space of a node within its caps. ``due_s`` is when :meth:`run` wants to be called."""

    def __init__(self, storage: Storage, caps: Caps, now_s: float) -> None:
        self.caps = caps
        self.due_s = now_s + CHECK_INTERVAL_S
        self._storage = storage
        self._last_s = now_s
        self._rounds: dict[int, _Round] = {}
        self._of_patterns: dict[int, PatternTrimming] = {}
        self._later: dict[str, None] = {}
        self._part_pins: dict[int, list[int]] = {}
        self._whole_to: int | None = None  # the log position up to which all rows are in their place; None: all are
        self._log_rows = self._history_rows = 0  # that have come, and for which no slice has made up yet
        self._come_bytes = 0  # since the caps were looked at
        self._look_bytes = max(LOOK_BYTES_MIN, min(caps.log_bytes_max, caps.history_bytes_max) // LOOK_SHARE)
        self._written_s = -BUSY_S
        self._waiting: dict[str, None] = {}
        self._round_s = now_s

    def touched(self, names: Iterable[str], batch: WriteBatch, now_s: float) -> None:
        """Something is being written into these spaces: ``batch``."""
        self._waiting.update(dict.fromkeys(names))
        if batch.changes:
            self._written_s = now_s
        log_rows, history_rows = len(batch.changes), batch.removed_count + len(batch.removals)
        self._log_rows += log_rows
        self._history_rows += history_rows
        self._come_bytes += sum([len(row.body) for row in batch.changes]) + (log_rows + history_rows) * ROW_BYTES
        is_much = self._come_bytes >= self._look_bytes
        self.due_s = min(self.due_s, now_s if is_much else max(now_s, self._last_s + CHECK_INTERVAL_S))

    def recount(self, replica: Replica) -> None:
        """Rows have gone that nobody here has counted off."""
        self._of_patterns.pop(replica.id, None)

    def is_done_with(self, replica: Replica) -> bool:
        """Whether it has looked at all of a space since something happened there, and has nothing left to do."""
        at, name = self._rounds.get(replica.id), replica.name
        is_through = at is not None and at.after is None and at.trimmed_position == replica.trimmed_position
        return is_through and name not in self._waiting and name not in self._later

    def failed(self, now_s: float) -> None:
        """The commit did not happen, and memory has been read anew: begin again, but not at once."""
        self.due_s = now_s + CHECK_INTERVAL_S
        self._rounds.clear()
        self._of_patterns.clear()

    def run(
        self, replicas: Mapping[str, Replica], batch: WriteBatch, coming: Collection[str], now_ms: int, now_s: float
    ) -> None:
        """Add to ``batch`` the next slice of what is to go, and raise the floors of the replicas accordingly.

        It looks at the spaces that have been written to, and from time to time at all; at some of them in one turn.

        The rows in question have been committed: what is in ``batch`` so far is not among them, so the spaces that it
        is about, ``coming``, are looked at again. Nor is what is at or after the oldest change of which rows are on
        their way: of those nobody knows yet which one is the next to go.
        """
        self._last_s, self._come_bytes = now_s, 0
        missing = self._storage.backlog_position
        self._whole_to = None if missing is None else missing - 1
        if now_s >= self._round_s:
            self._round_s = now_s + IDLE_INTERVAL_S
            self._waiting.update(dict.fromkeys(sorted(replicas)))
        self.due_s = self._round_s
        is_busy = now_s < self._written_s + BUSY_S
        rows_min = BUSY_SLICE_ROWS if is_busy else SLICE_ROWS
        slice_rows = max(rows_min, min(SLICE_ROWS_MAX, 2 * self._log_rows))
        history_rows = max(2 * rows_min, min(HISTORY_ROWS_MAX, 2 * self._history_rows))
        self._log_rows = max(0, self._log_rows - slice_rows // 2)
        self._history_rows = max(0, self._history_rows - history_rows // 2)
        is_busy &= not self._log_rows and not self._history_rows  # else more comes than goes
        for name in list(self._waiting)[:SLICE_SPACES_MAX]:
            del self._waiting[name]
            replica = replicas.get(name)
            if replica is None:
                continue
            if replica.asleep is not None and not self._is_overdue(replica, replica.asleep, now_ms):
                continue
            replica.past.let_go()
            replica.past.taken_away.let_old_ones_go(now_ms)
            stats = self._storage.log_stats(replica.id)
            # before the log is trimmed, which says where their cuts stand
            held_bytes = stats["history_bytes"] + stats["document_bytes"]
            replica.checkpoints.find_pins(held_bytes, CHECKPOINT_CAPS * self.caps.history_bytes_max)
            more = self._trim_log(replica, batch, stats["log_bytes"], now_ms, slice_rows)
            if self._drop_parts(replica, batch):
                more = True
            else:
                more |= self._trim_pasts(replica, batch, stats["history_bytes"], now_ms, history_rows)
            more |= self._trim_documents(replica, batch)
            if more:
                self._waiting[name] = None  # behind the others
            elif name in coming or (self._whole_to is not None and replica.position > self._whole_to):
                self._later[name] = None
        if self._waiting:
            self.due_s = now_s + (BUSY_INTERVAL_S if is_busy else SLICE_INTERVAL_S)
            return
        if self._whole_to is None:
            self._log_rows = self._history_rows = 0  # nothing is over a cap, or may go: there is nothing to make up for
        if self._later:
            self._waiting.update(self._later)
            self._later.clear()
            self.due_s = now_s + CHECK_INTERVAL_S

    def _is_overdue(self, replica: Replica, asleep: Asleep, now_ms: int) -> bool:
        """Whether a space that sleeps has something that is to go. It is read once: nothing changes there."""
        trim_ms = self._trim_ms(replica.id) if asleep.trim_ms is None else asleep.trim_ms
        if trim_ms != asleep.trim_ms:
            replica.asleep = asleep._replace(trim_ms=trim_ms)
        return trim_ms < now_ms

    def _trim_ms(self, space: int) -> int:
        storage, caps = self._storage, self.caps
        stats, change = storage.log_stats(space), storage.oldest_change(space)
        if stats["log_bytes"] > caps.log_bytes_max or stats["history_bytes"] > caps.history_bytes_max:
            return 0
        times_ms = [row.time_ms for row in storage.oldest_dead(space, 1)]
        times_ms += [row.time_ms for row in storage.oldest_removals(space, 1)]
        history_ms = min(times_ms, default=TIME_MS_MAX) + caps.history_age_ms_max
        return history_ms if change is None else min(history_ms, change.time_ms + caps.log_age_ms_max)

    def _trim_log(self, replica: Replica, batch: WriteBatch, size_bytes: int, now_ms: int, slice_rows: int) -> bool:
        rows_max = slice_rows if size_bytes > self.caps.log_bytes_max else 1
        pin = min(replica.pins, default=None)
        rows = self._oldest_changes(replica, rows_max)
        count = changes_due(rows, size_bytes, self.caps, now_ms, pin)
        if not count:
            return False
        if rows_max == 1:  # too old: then others are likely to be, too
            rows = self._oldest_changes(replica, slice_rows)
            count = changes_due(rows, size_bytes, self.caps, now_ms, pin)
        for row in rows[:count]:
            merge(replica.floor, {row.writer: row.seq})
        replica.trimmed_position = rows[count - 1].position
        batch.floors.append((pack_vector(replica.floor), replica.id))
        batch.log_trims.append(LogTrim(replica.id, replica.trimmed_position, now_ms))
        return count == slice_rows or count < len(rows)

    def _oldest_changes(self, replica: Replica, rows_max: int) -> list[OldChange]:
        """Those that have all their rows: a long value that is on its way is read from its change."""
        rows, whole_to = self._storage.oldest_changes(replica.id, rows_max), self._whole_to
        return rows if whole_to is None else [row for row in rows if row.position <= whole_to]

    def _trim_pasts(self, replica: Replica, batch: WriteBatch, size_bytes: int, now_ms: int, slice_rows: int) -> bool:
        """First what keys have beyond a cap of their own. One of the two in a turn: both go by what is on disk."""
        of_patterns = self._of_patterns.get(replica.id)
        if of_patterns is None:
            of_patterns = self._of_patterns[replica.id] = PatternTrimming(self._storage)
        pins = [*replica.pins, *replica.past.taken_away.before()]
        if not pins and size_bytes <= HISTORY_CAPS_MAX * self.caps.history_bytes_max:
            before = len(batch.history_drops)
            more = of_patterns.run(replica, batch, now_ms, self._whole_to)
            if more or len(batch.history_drops) > before:
                return True
        return self._trim_history(replica, batch, size_bytes, now_ms, slice_rows)

    def _drop_parts(self, replica: Replica, batch: WriteBatch) -> bool:
        """The bytes of blobs that have been removed go at once, unless a checkpoint or a snapshot in transfer needs
        them; whether some went.
        """
        uploads, checkpoints = replica.uploads, replica.checkpoints.pins
        if not uploads.have_gone and checkpoints == self._part_pins.get(replica.id):
            return False
        snapshots = [*replica.pins, *replica.past.taken_away.before(), *self._unfinished()]
        pin = min([*snapshots, *checkpoints], default=None)
        rows = self._storage.dead_under(replica.id, BLOB_PREFIX, pin, SLICE_PARTS)
        if rows:
            batch.history_drops.append(HistoryDrop(replica.id, tuple(rows), ()))
            return True
        uploads.have_gone = bool(replica.undurable or snapshots)  # what goes with this commit is not found yet
        if replica.undurable:
            self._later[replica.name] = None
        self._part_pins[replica.id] = checkpoints
        return False

    def _trim_history(self, replica: Replica, batch: WriteBatch, size_bytes: int, now_ms: int, slice_rows: int) -> bool:
        rows_max = slice_rows if size_bytes > self.caps.history_bytes_max else 1
        plan, dead = self._plan_history(replica, size_bytes, now_ms, rows_max)
        if plan.dead_to is None and not plan.removals_to:
            return False
        if rows_max == 1:
            plan, dead = self._plan_history(replica, size_bytes, now_ms, slice_rows)
        replica.past.cut(plan.floor, plan.time_ms)
        if plan.dead_to is not None:
            gone = [row for row in dead if (row.position, row.id) <= plan.dead_to]
            self._of_patterns[replica.id].dropped(replica, gone)
        batch.history_trims.append(HistoryTrim(replica.id, plan.dead_to, plan.removals_to))
        return True

    def _plan_history(
        self, replica: Replica, size_bytes: int, now_ms: int, rows_max: int
    ) -> tuple[HistoryPlan, list[OldDead]]:
        """The plan, and the rows that it is about."""
        dead = self._storage.oldest_dead(replica.id, rows_max)
        removals = self._storage.oldest_removals(replica.id, rows_max)
        is_pinned = size_bytes <= PINNED_CAPS * self.caps.history_bytes_max
        # values that were alive at that snapshot are read when their part is made
        snapshots = [*replica.pins, *replica.past.taken_away.before()] if is_pinned else []
        pin = min([*snapshots, *replica.checkpoints.pins, *self._unfinished()], default=None)
        if pin is not None:
            dead = [row for row in dead if row.position <= pin]
            removals = [row for row in removals if row.position <= pin]
        return history_due(dead, removals, size_bytes, self.caps, now_ms, rows_max), dead

    def _unfinished(self) -> list[int]:
        """The position behind which rows are on their way, if some are: as a pin."""
        return [] if self._whole_to is None else [self._whole_to]

    def _trim_documents(self, replica: Replica, batch: WriteBatch) -> bool:
        """Go on with a round over the documents, or begin one if the log has been trimmed since the last began."""
        at = self._rounds.setdefault(replica.id, _Round())
        if at.after is None:
            if at.trimmed_position == replica.trimmed_position:
                return False
            at.trimmed_position = replica.trimmed_position
        pin = min([*replica.pins, *replica.checkpoints.pins], default=None)
        states = 0
        spans = self._storage.document_spans(replica.id, at.after, SLICE_DOCUMENTS_MAX)
        for span in spans:
            at.after = span.dot
            if not replica.documents.is_named(span.dot):  # deleted: kept for late edits as long as the log tells of it
                if span.last <= replica.trimmed_position and not replica.pins and (pin is None or span.last <= pin):
                    replica.texts.drop(span.dot)
                elif span.last <= replica.trimmed_position and replica.pins:
                    at.trimmed_position = 0  # another round, when no snapshot is in transfer
                continue
            plan = document_due(replica.id, span, replica.trimmed_position, pin)
            if plan.trim is not None:
                batch.document_trims.append(plan.trim)
            if plan.needs_state:
                if replica.texts.store(span.dot):
                    at.trimmed_position = 0  # another round, which drops the edits before that state
                states += 1
                if states == SLICE_STATES_MAX:
                    return True
        if len(spans) == SLICE_DOCUMENTS_MAX:
            return True
        at.after = None
        return not at.trimmed_position and not replica.pins
