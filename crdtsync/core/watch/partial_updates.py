"""The effect of a commit on a key with many parts, told as the parts alone: to watchers that hold the rest.

A log has 10,000 elements and gets one more: to send the log again would be a megabyte. A watcher that mirrors it is
sent the element and the new length instead.

The rule: a copy of the key as it was before the commit becomes exactly what the key is after it. Where that takes more
than a few parts to say, the whole is told instead. The rules of each kind say what its parts are
(:attr:`crdtsync.core.kinds.base.Rules.partial`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from crdtsync.core.crdt.entries import Entries
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.kinds.base import Part, Touched
from crdtsync.core.kinds.registry import rules_of

if TYPE_CHECKING:
    from crdtsync.causality import Dot
    from crdtsync.core.space import Effect

WHOLE_ENTRIES_MAX = 8
"""A key with so few entries is told as a whole."""


def part_of(entries: Entries, key: str, effects: Sequence[Effect]) -> Part | None:
    """The sum of all these effects on ``key``, as fields of an event; None: the whole must be told."""
    held = entries.held(key)
    if len(held) <= WHOLE_ENTRIES_MAX or key in entries.keys_of_mixed_kinds or entries.is_expiring(key):
        return None
    kind = held[-1].kind
    partial = rules_of(kind).partial
    if partial is None:
        return None
    touched = _touched(effects)
    if any(entry.kind != kind for entry in (*touched.removed, *touched.added.values())):
        return None
    return partial(entries, key, touched)


def _touched(effects: Iterable[Effect]) -> Touched:
    added: dict[Dot, Entry] = {}
    removed: list[Entry] = []
    for effect in effects:
        removed += [entry for entry in effect.removed if added.pop(entry.dot, None) is None]
        if effect.added is not None:
            added[effect.added.dot] = effect.added
    return Touched(added, removed)
