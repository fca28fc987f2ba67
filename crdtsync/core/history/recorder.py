"""Writes down what a replica removes, so that history can tell of it.

Ann sets a key and Bob overwrites it. Ann's entry leaves the live state; the recorder adds a row to the commit under
way that says when it went, by which operation, and why (:mod:`crdtsync.core.history.removal_reason`).

The row is on disk only after that commit, and in its place later still where the commit is large. A reader may ask for
the history of the key before: so the recorder keeps what was removed lately in ``unsaved`` too. The recorder looks up
what such an entry had ``seen`` when a reader asks for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from crdtsync.causality import Dot, VersionVector, covers, merge
from crdtsync.core.crdt.entries import REMOVED_AT_ONCE_MAX
from crdtsync.core.crdt.entry import Entry, on_disk, rows_of
from crdtsync.core.history.removal_reason import RemovalReason, has_resolution, removal_reasons, with_lost
from crdtsync.core.history.taken_away import Pins
from crdtsync.core.kinds.operations import TRIM
from crdtsync.core.kinds.registry import operation_of
from crdtsync.core.kinds.seen import BLINDLY
from crdtsync.core.storage.rows import (
    PastRow,
    PastRows,
    Removal,
    RemovalRow,
    RemovedRow,
    RemovedRows,
    history_floor_name,
    pack_vector,
)
from crdtsync.core.storage.write_batch import Ledger
from crdtsync.core.text.marker import stored_value
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import Change, Op, RemoveRange, flat_removes
from crdtsync.wire.codec import new_row, pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.patterns import ANY_PARTS, Pattern, check_pattern

if TYPE_CHECKING:
    from crdtsync.core.space import SpaceState


FREED_MAX = 5000
"""Entries of which the memory is given back in one turn."""
PATTERN_FLOORS_MAX = 1000
"""For so many patterns history says by itself where it begins; for more, the whole space's begins there."""
_SET = "set"


def _is_to_say(op: Op) -> bool:
    """Not of what its draft has said: that it joins texts, so that none of them is lost."""
    removes = op.removes
    if op.value_hash is None or isinstance(removes, RemoveRange) or op.lost is not None:
        return False
    return len(removes) > 1 or op.crowded > 0


class Floor(NamedTuple):
    """The ``vector`` below which history does not tell all of a pattern's keys, and the time since when it does."""

    pattern: Pattern
    vector: VersionVector
    since_ms: int


class HistoryRecorder:
    """The history of one replica. ``floor`` is the vector below which history no longer tells all, ``since_ms`` the
    time since when it does: 0 if nothing is missing. For some keys it tells less: see :meth:`floors`.
    """

    __slots__ = (
        "_committed", "_judged", "_ledger", "_of_patterns", "_space", "_unfreed", "_unsaved_keys", "floor", "since_ms",
        "taken_away", "unsaved",
    )  # fmt: skip

    def __init__(self, space: SpaceState, ledger: Ledger, floor: VersionVector, since_ms: int) -> None:
        self.floor = floor
        self.since_ms = since_ms
        self.unsaved: dict[str, list[PastRow | PastRows]] = {}
        self._unfreed: list[list[Entry]] = []  # are on disk in their place, and in memory here alone
        self._unsaved_keys: list[tuple[int, str]] = []  # of which some went at this position, oldest first
        self._judged: tuple[Change | None, bool] = None, False
        self._committed = 0  # the position of the newest change on disk
        self._space = space
        self._ledger = ledger
        self._of_patterns = {floor.pattern.text: floor for floor in _stored_floors(space)}
        self.taken_away = Pins(space, ledger)

    # -- while changes are applied -----------------------------------------------------------------------------

    def record_removed(self, change: Change, n: int, removed: Sequence[Entry], position: int, now_ms: int) -> None:
        """Operation ``n`` of a change has removed these entries, and names perhaps others that were gone already."""
        batch, op = self._ledger.batch, change.ops[n]
        operation, dot = operation_of(op).name, new_row(Dot, (change.writer, change.seq, n))
        if removed:
            reasons = removal_reasons(
                change,
                n,
                removed,
                lambda entry: self.is_same_author(entry, change),
                self._space.entries.policy_of,
                self._resolves(change),
            )
            operation = TRIM.name if reasons[0] == RemovalReason.TRIMMED else operation
            removal = new_row(Removal, (dot, change.hlc, change.agent, operation))
            if len(removed) > REMOVED_AT_ONCE_MAX and reasons.count(reasons[0]) == len(reasons):
                many = PastRows([*removed], position, reasons[0], removal)
                self.unsaved.setdefault(op.key, []).append(many)
                self._unsaved_keys.append((position, op.key))
                batch.removed_many.append(RemovedRows(rows_of(removed), position, now_ms, n, reasons[0]))
            elif len(removed) == 1:
                self._note_one(op.key, removed[0], position, now_ms, reasons[0], removal)
            else:
                self._died(removed)
                death = repeat(position)
                self._keep(op.key, position, zip(removed, repeat(None), death, reasons, repeat(removal)))
                rows = zip(rows_of(removed), death, repeat(now_ms), repeat(n), reasons)
                batch.removed_rows += map(new_row, repeat(RemovedRow), rows)
        removes, hlc = pack(flat_removes(op.removes)), change.hlc.to_bytes(8, "big")
        row = (self._space.id, op.key, *dot, removes, position, now_ms, hlc, change.agent, operation)
        batch.removals.append(new_row(RemovalRow, row))

    def _note_one(
        self, key: str, gone: Entry, position: int, now_ms: int, reason: RemovalReason, removal: Removal
    ) -> None:
        self._space.values.died(gone)
        self._keep(key, position, [(gone, None, position, reason, removal)])
        row = (gone.row, position, now_ms, removal.dot.n, reason)
        self._ledger.batch.removed_rows.append(new_row(RemovedRow, row))

    def _died(self, removed: Sequence[Entry]) -> None:
        for entry in on_disk(removed):
            self._space.values.died(entry)

    def with_lost(self, change: Change) -> tuple[Op, ...]:
        """The operations of an own change in the making. Those that write a value in place of several say which of
        these are lost: no other node can tell for certain.
        """
        if not any(map(_is_to_say, change.ops)):
            return change.ops
        entries = self._space.entries
        drafted: dict[Dot, Entry] = {}
        ops: list[Op] = []
        for n, op in enumerate(change.ops):
            if _is_to_say(op):
                removed = [entry for entry in (*entries.held(op.key), *drafted.values()) if entry.dot in op.removes]
                ops.append(
                    with_lost(change, n, removed, lambda entry: self.is_same_author(entry, change), entries.policy_of)
                )
            else:
                ops.append(op)
            if op.value_hash is not None:
                dot = Dot(change.writer, change.seq, n)
                value = stored_value(op.value, dot) if op.kind == Kind.TEXT else op.value
                drafted[dot] = Entry(
                    0, dot, op.key, op.sub, int(op.kind), change.hlc, change.agent, value, op.value_hash, op.attrs
                )
        return tuple(ops)

    def _resolves(self, change: Change) -> bool:
        """Looked up once for all operations of a change."""
        if change is not self._judged[0]:
            self._judged = change, has_resolution(change)
        return self._judged[1]

    def replaced(self, change: Change, dot: Dot, gone: Entry, position: int, now_ms: int) -> bytes:
        """As :meth:`record_removed`, of an operation that puts ``dot``, a register's value, in the place of the one
        that the key held. Returns what :func:`~crdtsync.core.kinds.seen.seen_by` says of it.
        """
        batch, op = self._ledger.batch, change.ops[dot.n]
        hlc, agent, removes = change.hlc, change.agent, pack(flat_removes(op.removes))
        reason = RemovalReason.LOST if op.blind and not self.is_same_author(gone, change) else RemovalReason.REPLACED
        removal = new_row(Removal, (dot, hlc, agent, _SET))
        self._note_one(op.key, gone, position, now_ms, reason, removal)
        row = (self._space.id, op.key, *dot, removes, position, now_ms, hlc.to_bytes(8, "big"), agent, _SET)
        batch.removals.append(new_row(RemovalRow, row))
        return BLINDLY + removes if op.blind else removes

    def record_removed_elsewhere(self, gone: Collection[Entry], position: int, now_ms: int) -> None:
        """These have been removed elsewhere: a snapshot does not tell by whom."""
        unsaved, removed_rows = self.unsaved, self._ledger.batch.removed_rows
        for entry in gone:
            unsaved.setdefault(entry.key, []).append(new_row(PastRow, (entry, None, position, None, None)))
            removed_rows.append(new_row(RemovedRow, (entry.row, position, now_ms, None, None)))
        self._unsaved_keys.extend([(position, entry.key) for entry in gone])

    def _keep(self, key: str, position: int, rows: Iterable[tuple[Any, ...]]) -> None:
        self.unsaved.setdefault(key, []).extend(map(new_row, repeat(PastRow), rows))
        self._unsaved_keys.append((position, key))

    def cut(self, floor: VersionVector, time_ms: int) -> None:
        """From now on nothing is told of what was superseded before: neither below ``floor`` nor before that time."""
        merge(self.floor, floor)
        self.since_ms = max(self.since_ms, time_ms)
        self._ledger.batch.history_floors.append((pack_vector(self.floor), self.since_ms, self._space.id))
        for text, of_pattern in [*self._of_patterns.items()]:
            if covers(self.floor, of_pattern.vector) and self.since_ms >= of_pattern.since_ms:
                del self._of_patterns[text]
                self._ledger.batch.metas.append((history_floor_name(self._space.id, text), None))

    def cut_pattern(self, text: str, floor: VersionVector, time_ms: int) -> None:
        """As :meth:`cut`, of the keys of a pattern alone."""
        before = self._of_patterns.get(text)
        if before is None and len(self._of_patterns) >= PATTERN_FLOORS_MAX:
            text = ANY_PARTS  # not of the whole space: checkpoints are kept however late history begins there
            before = self._of_patterns.get(text)
        before = before or Floor(check_pattern(text), {}, 0)
        merge(before.vector, floor)
        after = self._of_patterns[text] = before._replace(since_ms=max(before.since_ms, time_ms))
        packed = pack([text, pack_vector(after.vector), after.since_ms])
        self._ledger.batch.metas.append((history_floor_name(self._space.id, text), packed))

    def committed(self) -> None:
        """All that was removed is on disk."""
        self._committed = self._space.position
        self.let_go()

    def let_go(self) -> None:
        """Forget what is on disk where readers of dead entries find it."""
        keys = self._unsaved_keys
        if self._unfreed:
            self.free_some()
        if not keys:
            return
        missing = self._space.storage.backlog_position
        end = self._committed + 1 if missing is None else min(missing, self._committed + 1)
        count = bisect_left(keys, (end, ""))
        for _, key in keys[:count]:
            rows = self.unsaved.pop(key, [])
            self._unfreed += [row.entries for row in rows if row.position < end and type(row) is PastRows]
            later = [row for row in rows if row.position >= end]
            if later:
                self.unsaved[key] = later
        del keys[:count]

    def free_some(self) -> bool:
        """Give back some of the memory of many that went at once, which takes as long as to remove them did; whether
        that was all.
        """
        for entries in self._unfreed[-1:]:
            self._died(entries[-FREED_MAX:])
            del entries[-FREED_MAX:]
            if not entries:
                self._unfreed.pop()
        return not self._unfreed

    def forget(self, is_meant: Callable[[str], bool], is_covered: Callable[[Dot], bool]) -> None:
        """Tell no longer, out of memory, what these keys held under these dots."""
        for key in filter(is_meant, [*self.unsaved]):
            self.unsaved[key] = [row for row in self.unsaved_of(key) if not is_covered(row.entry.dot)]

    def unsaved_of(self, key: str) -> Iterator[PastRow]:
        """What is not on disk yet of the entries of a key that went, or not in its place there."""
        for row in self.unsaved.get(key, ()):
            if isinstance(row, PastRow):
                yield row
            else:
                yield from row.each()

    # -- for readers -------------------------------------------------------------------------------------------

    def floors(self, key: str | None = None, prefix: str = "") -> list[tuple[VersionVector, int]]:
        """Where history begins, as vectors and times, none if nothing is missing: of ``key``, or of all keys that begin
        with ``prefix``.
        """
        found = [(self.floor, self.since_ms)] if self.floor or self.since_ms else []
        return found + [(floor.vector, floor.since_ms) for floor in self.floors_of_patterns(key, prefix)]

    def floors_of_patterns(self, key: str | None = None, prefix: str = "") -> list[Floor]:
        """Those of patterns alone."""
        floors = self._of_patterns.values()
        return [
            floor for floor in floors if (floor.pattern.meets(prefix) if key is None else floor.pattern.matches(key))
        ]

    def is_same_author(self, entry: Entry, change: Change) -> bool:
        """Whether a change is of the author of an entry."""
        if entry.agent != change.agent or entry.writer == change.writer:
            return entry.agent == change.agent
        nodes = {self._space.origins.get(writer, ("",))[0] for writer in (entry.writer, change.writer)}
        return len(nodes) == 1 and "" not in nodes


def _stored_floors(space: SpaceState) -> list[Floor]:
    found = []
    for packed in space.storage.metas(history_floor_name(space.id, "")):
        text, vector, since_ms = unpack(packed)
        flat = unpack(vector)
        found.append(Floor(check_pattern(text), dict(zip(flat[::2], flat[1::2], strict=True)), since_ms))
    return found
