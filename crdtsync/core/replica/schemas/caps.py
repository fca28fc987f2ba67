"""Keeps within the caps of schemas what authors write: the oldest goes, in the same change.

Example: ``cache/*`` may have 500 keys. A write of the 501st removes the one that was written longest ago. Overwriting
one of the 500 removes nothing. A log that may have 1,000 elements loses its first with the 1,001st.

Like all rules it holds where something is written: what merges take in may be too much, until the next write.

To count the keys of a pattern takes as long as they are many. So they are counted once, from then on each change that
is applied adds to that or takes away, and the oldest that were found wait for those who are one too many. When these
have gone, all is counted again. A value with an older time that a merge brings later goes only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING

from crdtsync.core.crdt.key_entries import summary_of
from crdtsync.core.crdt.read_context import removals
from crdtsync.core.kinds.log import remove_oldest, trim
from crdtsync.wire.change import Op
from crdtsync.wire.kinds import Kind, kind_name
from crdtsync.wire.limits import CHANGE_OPS_MAX
from crdtsync.wire.patterns import check_pattern

if TYPE_CHECKING:
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.crdt.schemas import Schema, SchemaTable, WriteRules
    from crdtsync.core.kinds.draft import Draft
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.space import Effect

KEYS_MAX = 5_000
"""Keys that a cap may leave to a pattern: to count them takes some 14 ms"""
LOOK_MAX = 2 * KEYS_MAX
"""Keys that are looked at for one change, whichever patterns it writes to. If there were more before, the oldest of
these go; a pattern that is not looked at is so with the next change.
"""


class _Sizes:
    """The bytes of a log's elements."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def add(self, entry: Entry) -> None:
        self.size_bytes += entry.size_bytes

    def remove(self, entry: Entry) -> None:
        self.size_bytes -= entry.size_bytes


class _Room:
    """The room that a pattern has left. ``oldest``: keys that are to go next, the first one last, each
    with its time.
    """

    __slots__ = ("keys", "oldest", "size_bytes")

    def __init__(self, keys: int, size_bytes: int, oldest: list[tuple[int, str]]) -> None:
        self.keys = keys
        self.size_bytes = size_bytes
        self.oldest = oldest


class SchemaCaps:
    """The caps of one replica."""

    def __init__(self) -> None:
        self._table: SchemaTable | None = None
        self._rooms: dict[str, _Room] = {}  # by pattern

    def forget(self) -> None:
        """Keys came or went that no change has written."""
        self._rooms.clear()

    def note(self, replica: Replica, effects: Iterable[Effect]) -> None:
        """A change has been applied: take what it did into account."""
        if not self._rooms:
            return
        if replica.schemas.table is not self._table:
            self._rooms.clear()
            return
        grown: dict[str, tuple[int, int]] = {}
        for effect in effects:
            count, size_bytes = grown.get(effect.op.key, (0, 0))
            added = 0 if effect.added is None else effect.added.size_bytes
            size_bytes += added - sum(entry.size_bytes for entry in effect.removed)
            grown[effect.op.key] = count + (effect.added is not None) - len(effect.removed), size_bytes
        for key, (count, size_bytes) in grown.items():
            room = self._rooms.get(replica.schemas.of(key).pattern)
            if room is not None:
                after = len(replica.entries.held(key))
                room.keys -= (after > 0) - (after - count > 0)
                room.size_bytes -= size_bytes

    def keep(self, draft: Draft) -> dict[str, int]:
        """Add to a change what has to go because of it; how many elements of each log."""
        schemas = draft.space.schemas
        if schemas.table is not self._table:
            self._table = schemas.table
            self._rooms.clear()
        ops_of: dict[str, list[Op]] = {}
        for op in draft.ops:
            if op.value_hash is not None and op.key[0] != "_":
                ops_of.setdefault(op.key, []).append(op)
        gone: dict[str, int] = {}
        looks = LOOK_MAX
        patterns: dict[str, tuple[Schema, WriteRules, list[str]]] = {}
        for key, ops in ops_of.items():
            schema = schemas.of(key)
            rules = schema.rules
            if rules is None or (rules.entries_max is None and rules.bytes_max is None):
                continue
            if rules.kind != kind_name(Kind.LOG):
                patterns.setdefault(schema.pattern, (schema, rules, []))[2].append(key)
            elif looks > 0:
                looks -= len(draft.space.entries.held(key)) if draft.space.entries.is_expiring(key) else 0
                gone[key] = _shorten(draft, key, rules, ops)
        for schema, rules, keys in patterns.values():
            looks -= self._make_room(draft, schema, rules, keys, looks)
        return gone

    def _make_room(self, draft: Draft, schema: Schema, rules: WriteRules, written: list[str], looks: int) -> int:
        """Returns how many keys it has looked at: ``looks`` at most."""
        entries, looked, is_counted = draft.space.entries, 0, False
        keys = sum(not entries.held(key) for key in written)
        size_bytes = sum(_bytes_of(draft.held(key)) - _bytes_of(entries.held(key)) for key in written)
        room, settled = self._rooms.get(schema.pattern), {*written}
        while room is None or keys > room.keys or size_bytes > room.size_bytes:
            if room is None or not room.oldest:
                if is_counted or looks <= 0:
                    break
                room, looked = self._count(draft, schema, rules, looks)
                is_counted = True
                continue
            hlc, key = room.oldest.pop()
            held = entries.held(key)
            if not held or held[-1].hlc != hlc or key in settled:
                continue
            if len(draft.ops) >= CHANGE_OPS_MAX:
                room.oldest.append((hlc, key))
                break
            for removes in removals(held, None) if draft.held(key) else ():
                draft.add(Op(key, None, held[-1].kind, None, None, removes, None))
            settled.add(key)
            keys, size_bytes = keys - 1, size_bytes - _bytes_of(held)
        return looked

    def _count(self, draft: Draft, schema: Schema, rules: WriteRules, looks: int) -> tuple[_Room, int]:
        """The room that is left of a pattern, after a look at ``looks`` keys at most, and how many were looked at."""
        entries, schemas = draft.space.entries, draft.space.schemas
        there: list[tuple[int, str]] = []
        pattern, looked, size_bytes = check_pattern(schema.pattern), 0, 0
        for key in islice(entries.keys(pattern.prefix), looks):
            looked += 1
            if pattern.matches(key) and schemas.of(key) is schema:
                held = entries.held(key)
                there.append((held[-1].hlc, key))
                size_bytes += _bytes_of(held)
        keys_left = (rules.entries_max or LOOK_MAX) - len(there)
        oldest = nsmallest(max(0, -keys_left) + CHANGE_OPS_MAX, there)[::-1]
        room = _Room(keys_left, (rules.bytes_max or 1 << 53) - size_bytes, oldest)
        if looked < looks:
            self._rooms[schema.pattern] = room
        else:
            self._rooms.pop(schema.pattern, None)  # there may be more of them
        return room, looked


def _bytes_of(entries: Iterable[Entry]) -> int:
    return sum(entry.size_bytes for entry in entries)


def _size(op: Op) -> int:
    return len(op.value or b"")


def _shorten(draft: Draft, key: str, rules: WriteRules, ops: Sequence[Op]) -> int:
    """Remove the first elements of a log that has become too long, but not the last one; how many."""
    if draft.is_mixed(key) or len(draft.ops) >= CHANGE_OPS_MAX:
        return 0
    entries = draft.space.entries
    live = entries.live(key, draft.now_ms)
    sizes = summary_of(_Sizes, live) if entries.is_expiring(key) else entries.summary(key, _Sizes)
    size_bytes = sizes.size_bytes + sum(map(_size, ops))
    gone, count = 0, len(live) + len(ops)
    count_max, bytes_max = rules.entries_max or count, rules.bytes_max or size_bytes
    while gone < count - 1 and (count - gone > count_max or size_bytes > bytes_max):
        size_bytes -= live[gone].size_bytes if gone < len(live) else _size(ops[gone - len(live)])
        gone += 1
    if gone > len(live):
        trim(draft, {"key": key, "keep": count - gone})
    elif gone:
        remove_oldest(draft, key, live[:gone], is_alone=len(live) == len(entries.held(key)))
    return gone
