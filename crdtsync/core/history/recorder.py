"""Writes down what a replica removes, so that history can tell of it.

Ann sets a key and Bob overwrites it. Ann's entry leaves the live state; the recorder adds a row to the commit under
way that says when it went, by which operation, and why (:mod:`crdtsync.core.history.removal_reason`).

The row is on disk only after that commit, and in its place later still where the commit is large. A reader may ask for
the history of the key before: so the recorder keeps what was removed lately in ``unsaved`` too. What such an entry had
``seen`` is looked up when somebody asks for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from crdtsync.causality import Dot, VersionVector, covers, merge
from crdtsync.core.crdt.entries import Entry
from crdtsync.core.history.removal_reason import RemovalReason, has_resolution, removal_reasons, with_lost
from crdtsync.core.history.taken_away import Pins
from crdtsync.core.kinds.operations import TRIM
from crdtsync.core.kinds.registry import operation_of
from crdtsync.core.storage.interface import (
    PastRow,
    Removal,
    RemovalRow,
    RemovedRow,
    history_floor_name,
    pack_vector,
)
from crdtsync.core.storage.write_batch import Ledger
from crdtsync.core.text.marker import stored_value
from crdtsync.wire.change import Change, Op, RemoveRange, flat_removes
from crdtsync.wire.codec import new_row, pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.patterns import Pattern, check_pattern
from crdtsync.wire.tokens import encode_dot, encode_token

if TYPE_CHECKING:
    from crdtsync.core.replica.replica import Replica


PATTERN_FLOORS_MAX = 1000
"""For so many patterns history says by itself where it begins; for more, the whole space's begins there."""
_RANGE, _BLIND, _CROWDED, _READ = 0, 2, 3, 4
_SET = "set"
_BLINDLY = b"\x81\x02"  # the map {_BLIND: …}
NOTHING_SEEN = pack(None)


class Seen(NamedTuple):
    """What an operation took the place of: single ``dots``, or all of the key that ``vector`` covers.

    ``blind``: its author had not read it. ``crowded``: what it took along unread, since the key was full.
    """

    dots: tuple[Dot, ...] = ()
    vector: VersionVector | None = None
    blind: bool = False
    crowded: tuple[Dot, ...] = ()


def seen_by(op: Op) -> bytes:
    """What an operation takes the place of, as an entry's row has it."""
    if not op.removes:
        return NOTHING_SEEN
    if op.crowded and not isinstance(op.removes, RemoveRange):
        end = len(op.removes) - op.crowded
        known, crowded = flat_removes(op.removes[:end]), flat_removes(op.removes[end:])
        return pack({_BLIND if op.blind else _READ: known, _CROWDED: crowded})
    plain = flat_removes(op.removes)
    return pack({_BLIND: plain}) if op.blind and not isinstance(op.removes, RemoveRange) else pack(plain)


def decode_seen(packed: bytes) -> Seen:
    """The opposite."""
    plain = unpack(packed, strict_map_key=False)
    if not isinstance(plain, dict):
        return Seen(_dots(plain))
    if _RANGE in plain:
        flat = plain[_RANGE]
        return Seen((), dict(zip(flat[::2], flat[1::2], strict=True)))
    is_blind = _BLIND in plain
    return Seen(_dots(plain[_BLIND if is_blind else _READ]), None, is_blind, _dots(plain.get(_CROWDED)))


def _dots(flat: list[Any] | None) -> tuple[Dot, ...]:
    flat = flat or []
    return tuple(Dot(*parts) for parts in zip(flat[::3], flat[1::3], flat[2::3], strict=True))


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
    """Of one replica. ``floor`` is the vector below which history no longer tells all, ``since_ms`` the time since
    when it does: 0 if nothing is missing. Of some keys it tells less: see :meth:`floors`.
    """

    __slots__ = (
        "_committed", "_judged", "_ledger", "_of_patterns", "_replica", "_unsaved_keys", "floor", "since_ms",
        "taken_away", "unsaved",
    )  # fmt: skip

    def __init__(self, replica: Replica, ledger: Ledger, floor: VersionVector, since_ms: int) -> None:
        self.floor = floor
        self.since_ms = since_ms
        self.unsaved: dict[str, list[PastRow]] = {}
        self._unsaved_keys: list[tuple[int, str]] = []  # of which some went at this position, oldest first
        self._judged: tuple[Change | None, bool] = None, False
        self._committed = 0  # the position of the newest change on disk
        self._replica = replica
        self._ledger = ledger
        self._of_patterns = {floor.pattern.text: floor for floor in _stored_floors(replica)}
        self.taken_away = Pins(replica, ledger)

    # -- while changes are applied -----------------------------------------------------------------------------

    def record_removed(self, change: Change, n: int, removed: Sequence[Entry], position: int, now_ms: int) -> None:
        """Operation ``n`` of a change has removed these entries, and names perhaps others that were gone already."""
        batch, op = self._ledger.batch, change.ops[n]
        operation = operation_of(op).name
        for entry in removed:
            self._replica.values.died(entry)
        if removed:
            reasons = removal_reasons(
                change,
                n,
                removed,
                lambda entry: self.is_same_author(entry, change),
                self._replica.entries.policy_of,
                self._resolves(change),
            )
            operation = TRIM.name if reasons[0] == RemovalReason.TRIMMED else operation
            removal = Removal(Dot(change.writer, change.seq, n), change.hlc, change.agent, operation)
            told = [*zip(removed, reasons, strict=True)]
            self._keep(op.key, position, [(entry, None, position, reason, removal) for entry, reason in told])
            batch.removed_rows += [
                new_row(RemovedRow, (entry.row, position, now_ms, n, reason)) for entry, reason in told
            ]
        removes, hlc = pack(flat_removes(op.removes)), change.hlc.to_bytes(8, "big")
        batch.removals.append(
            RemovalRow(
                self._replica.id, op.key, change.writer, change.seq, n, removes, position, now_ms,
                hlc, change.agent, operation,
            )
        )  # fmt: skip

    def with_lost(self, change: Change) -> tuple[Op, ...]:
        """The operations of an own change in the making. Those that write a value in place of several say which of
        these are lost: no other node can tell for certain.
        """
        if not any(map(_is_to_say, change.ops)):
            return change.ops
        entries = self._replica.entries
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
        that the key held. Returns what :func:`seen_by` says of it.
        """
        batch, op = self._ledger.batch, change.ops[dot.n]
        self._replica.values.died(gone)
        hlc, agent, removes = change.hlc, change.agent, pack(flat_removes(op.removes))
        reason = RemovalReason.LOST if op.blind and not self.is_same_author(gone, change) else RemovalReason.REPLACED
        removal = new_row(Removal, (dot, hlc, agent, _SET))
        self._keep(op.key, position, [(gone, None, position, reason, removal)])
        batch.removed_rows.append(new_row(RemovedRow, (gone.row, position, now_ms, dot.n, reason)))
        row = (self._replica.id, op.key, *dot, removes, position, now_ms, hlc.to_bytes(8, "big"), agent, _SET)
        batch.removals.append(new_row(RemovalRow, row))
        return _BLINDLY + removes if op.blind else removes

    def record_removed_elsewhere(self, gone: Iterable[Entry], position: int, now_ms: int) -> None:
        """These have been removed elsewhere: a snapshot does not tell by whom."""
        removed_rows = self._ledger.batch.removed_rows
        for entry in gone:
            self._keep(entry.key, position, [(entry, None, position, None, None)])
            removed_rows.append(new_row(RemovedRow, (entry.row, position, now_ms, None, None)))

    def _keep(self, key: str, position: int, rows: list[tuple[Any, ...]]) -> None:
        self.unsaved.setdefault(key, []).extend([new_row(PastRow, row) for row in rows])
        self._unsaved_keys.append((position, key))

    def cut(self, floor: VersionVector, time_ms: int) -> None:
        """From now on nothing is told of what was superseded before: neither below ``floor`` nor before that time."""
        merge(self.floor, floor)
        self.since_ms = max(self.since_ms, time_ms)
        self._ledger.batch.history_floors.append((pack_vector(self.floor), self.since_ms, self._replica.id))
        for text, of_pattern in [*self._of_patterns.items()]:
            if covers(self.floor, of_pattern.vector) and self.since_ms >= of_pattern.since_ms:
                del self._of_patterns[text]
                self._ledger.batch.metas.append((history_floor_name(self._replica.id, text), None))

    def cut_pattern(self, text: str, floor: VersionVector, time_ms: int) -> None:
        """As :meth:`cut`, of the keys of a pattern alone."""
        before = self._of_patterns.get(text)
        if before is None and len(self._of_patterns) >= PATTERN_FLOORS_MAX:
            self.cut(floor, time_ms)
            return
        before = before or Floor(check_pattern(text), {}, 0)
        merge(before.vector, floor)
        after = self._of_patterns[text] = before._replace(since_ms=max(before.since_ms, time_ms))
        packed = pack([text, pack_vector(after.vector), after.since_ms])
        self._ledger.batch.metas.append((history_floor_name(self._replica.id, text), packed))

    def committed(self) -> None:
        """All that was removed is on disk."""
        self._committed = self._replica.position
        self.let_go()

    def let_go(self) -> None:
        """Forget what is on disk where readers of dead entries find it."""
        keys = self._unsaved_keys
        if not keys:
            return
        missing = self._replica.storage.backlog_position
        end = self._committed + 1 if missing is None else min(missing, self._committed + 1)
        count = bisect_left(keys, (end, ""))
        for _, key in keys[:count]:
            later = [row for row in self.unsaved.pop(key, ()) if row.position >= end]
            if later:
                self.unsaved[key] = later
        del keys[:count]

    def forget(self, is_meant: Callable[[str], bool], is_covered: Callable[[Dot], bool]) -> None:
        """Tell no longer, out of memory, what these keys held under these dots."""
        for key in filter(is_meant, [*self.unsaved]):
            self.unsaved[key] = [row for row in self.unsaved[key] if not is_covered(row.entry.dot)]

    # -- for readers -------------------------------------------------------------------------------------------

    def floors(self, key: str | None = None, prefix: str = "") -> list[tuple[VersionVector, int]]:
        """Where history begins, as vectors and times, none if nothing is missing: of ``key``, or of all keys that begin
        with ``prefix``.
        """
        found = [(self.floor, self.since_ms)] if self.floor or self.since_ms else []
        for pattern, vector, since_ms in self._of_patterns.values():
            if pattern.meets(prefix) if key is None else pattern.matches(key):
                found.append((vector, since_ms))
        return found

    def seen(self, entry: Entry) -> bytes | None:
        """What the operation that wrote an entry took the place of, for one that was alive at the last commit or is
        now; None: not known here.
        """
        rows = self._ledger.batch.entries
        if rows and entry.row >= rows[0].row:
            at = bisect_left(rows, entry.row, key=itemgetter(0))
            if at < len(rows) and rows[at].row == entry.row:
                return rows[at].seen
        return self._replica.storage.seen(entry.row)

    def describe(self, packed: bytes | None) -> dict[str, Any]:
        """What the write of a value took the place of, as agents see it: ``seen`` is None where that is not known here.

        ``blind`` are those that it had not read; ``seen_all`` stands for all of the key that its token covers.
        """
        try:
            seen = None if packed is None else decode_seen(packed)
        except (
            LookupError,
            TypeError,
            ValueError,
        ):  # a damaged page of the disk: what else is known of the value is told
            seen = None
        if seen is None:
            return {"seen": None}
        if seen.vector is not None:
            return {"seen": [], "seen_all": encode_token([(self._replica.name, self._replica.epoch, seen.vector)])}
        dots, crowded = ([encode_dot(dot) for dot in dots] for dots in (seen.dots, seen.crowded))
        if seen.blind or crowded:
            return {"seen": [], "blind": dots + crowded} if seen.blind else {"seen": dots, "blind": crowded}
        return {"seen": dots}

    def is_same_author(self, entry: Entry, change: Change) -> bool:
        """Whether a change is of the author of an entry."""
        if entry.agent != change.agent or entry.writer == change.writer:
            return entry.agent == change.agent
        nodes = {self._replica.origins.get(writer, ("",))[0] for writer in (entry.writer, change.writer)}
        return len(nodes) == 1 and "" not in nodes


def _stored_floors(replica: Replica) -> list[Floor]:
    found = []
    for packed in replica.storage.metas(history_floor_name(replica.id, "")):
        text, vector, since_ms = unpack(packed)
        flat = unpack(vector)
        found.append(Floor(check_pattern(text), dict(zip(flat[::2], flat[1::2], strict=True)), since_ms))
    return found
