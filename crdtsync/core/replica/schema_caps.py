"""Keeps within the caps of schemas what authors write: the oldest goes, in the same change.

Example: ``cache/*`` may have 500 keys. Whoever writes the 501st removes the one that was written longest ago. To write
one of the 500 anew removes nothing. A log that may have 1,000 elements loses its first with the 1,001st.

Like all rules it holds where something is written: what merges take in may be too much, until the next write.

To count the keys of a pattern takes as long as they are many. So it is remembered how much may be written before it has
to be counted again. What others take away meanwhile only makes that sooner.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING

from crdtsync.core.crdt.entries import summary_of
from crdtsync.core.crdt.read_context import removals
from crdtsync.core.kinds.log import remove_oldest, trim
from crdtsync.core.kinds.values import kind_name
from crdtsync.wire.change import Kind, Op
from crdtsync.wire.limits import CHANGE_OPS_MAX
from crdtsync.wire.patterns import check_pattern

if TYPE_CHECKING:
    from crdtsync.core.crdt.entries import Entry
    from crdtsync.core.crdt.schemas import Rules, Schema, SchemaTable
    from crdtsync.core.replica.change_draft import Draft

CAPPED = frozenset({kind_name(Kind.REGISTER), kind_name(Kind.LOG)})
"""Kinds that can have a cap."""
KEYS_MAX = 5_000
"""Keys that a cap may leave to a pattern: to count them takes some 14 ms"""
LOOK_MAX = 2 * KEYS_MAX
"""Keys that are looked at for one change, whichever patterns it writes to. Of more that were there before, the oldest
of these go; a pattern that is not looked at is so with the next change.
"""


class _Sizes:
    """The bytes of a log's elements."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def add(self, entry: Entry) -> None:
        self.size_bytes += entry.size_bytes

    def remove(self, entry: Entry) -> None:
        self.size_bytes -= entry.size_bytes


class SchemaCaps:
    """Of one replica."""

    def __init__(self) -> None:
        self._table: SchemaTable | None = None
        self._left: dict[str, tuple[int, int]] = {}  # by pattern, keys and bytes until it is counted again

    def keep(self, draft: Draft) -> dict[str, int]:
        """Add to a change what has to go because of it; how many elements of each log."""
        schemas = draft.replica.schemas
        if schemas.table is not self._table:
            self._table = schemas.table
            self._left.clear()
        ops_of: dict[str, list[Op]] = {}
        for op in draft.ops:
            if op.value_hash is not None and op.key[0] != "_":
                ops_of.setdefault(op.key, []).append(op)
        gone: dict[str, int] = {}
        patterns: dict[str, tuple[Schema, Rules, list[str]]] = {}
        for key, ops in ops_of.items():
            schema = schemas.of(key)
            rules = schema.rules
            if rules is None or (rules.entries_max is None and rules.bytes_max is None):
                continue
            if rules.kind == kind_name(Kind.LOG):
                gone[key] = _shorten(draft, key, rules, ops)
            else:
                patterns.setdefault(schema.pattern, (schema, rules, []))[2].append(key)
        looks = LOOK_MAX
        for schema, rules, keys in patterns.values():
            looks -= self._make_room(draft, schema, rules, {key: sum(map(_size, ops_of[key])) for key in keys}, looks)
        return gone

    def _make_room(self, draft: Draft, schema: Schema, rules: Rules, written: dict[str, int], looks: int) -> int:
        """Returns how many keys it has looked at: ``looks`` at most."""
        entries = draft.replica.entries
        keys, size_bytes = self._left.get(schema.pattern, (-1, -1))
        keys -= sum(not entries.held(key) for key in written)
        size_bytes -= sum(written.values())
        self._left[schema.pattern] = keys, size_bytes
        if (keys >= 0 and size_bytes >= 0) or looks <= 0:
            return 0
        there: list[tuple[int, str, int]] = []
        schemas, pattern, looked = draft.replica.schemas, check_pattern(schema.pattern), 0
        for key in islice(entries.keys(pattern.prefix), looks):
            looked += 1
            if pattern.matches(key) and key not in written and schemas.of(key) is schema:
                held = entries.held(key)
                there.append((held[-1].hlc, key, sum(entry.size_bytes for entry in held)))
        keys = (rules.entries_max or LOOK_MAX) - len(there) - len(written)
        size_bytes = (rules.bytes_max or 1 << 53) - sum(one[2] for one in there) - sum(written.values())
        room = CHANGE_OPS_MAX - len(draft.ops)
        if keys < 0 or size_bytes < 0:
            for _, key, size in nsmallest(room, there):
                if keys >= 0 and size_bytes >= 0:
                    break
                held = entries.held(key)
                for removes in removals(held, None):
                    draft.add(Op(key, None, held[-1].kind, None, None, removes, None))
                keys, size_bytes = keys + 1, size_bytes + size
        self._left[schema.pattern] = (keys, size_bytes) if looked < looks else (-1, -1)  # there may be more of them
        return looked


def _size(op: Op) -> int:
    return len(op.value or b"")


def _shorten(draft: Draft, key: str, rules: Rules, ops: Sequence[Op]) -> int:
    """Remove the first elements of a log that has become too long, but not the last one; how many."""
    if draft.is_mixed(key) or len(draft.ops) >= CHANGE_OPS_MAX:
        return 0
    entries = draft.replica.entries
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
