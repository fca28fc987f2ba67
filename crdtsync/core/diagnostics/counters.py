"""Counts of what a node has done since it started: plain numbers, so that counting costs a few ns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.core.crdt.entries import Entries
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.kinds.registry import rules_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crdtsync.core.space import Applied


class Counts:
    """Changes and conflicts of a node, since it started."""

    __slots__ = ("changes_made", "changes_received", "conflicts", "values_crowded_out")

    def __init__(self) -> None:
        self.changes_made = 0
        self.changes_received = 0
        self.conflicts = 0
        self.values_crowded_out = 0

    def note(self, entries: Entries, applied: Iterable[Applied]) -> None:
        """Changes have been applied to a space that holds ``entries`` now."""
        for item in applied:
            if item.own:
                self.changes_made += 1
                self.values_crowded_out += sum([op.crowded for op in item.change.ops])
            else:
                self.changes_received += 1
            if entries.keys_with_several:
                for effect in item.effects:
                    added = effect.added
                    if added is not None and added.key in entries.keys_with_several and added.key[0] != "_":
                        self.conflicts += is_conflicting(entries, added)

    def described(self) -> dict[str, Any]:
        """As the status shows them."""
        return {name: getattr(self, name) for name in self.__slots__}


def is_conflicting(entries: Entries, entry: Entry) -> bool:
    """Whether a value stands beside another one that its author had not seen.

    Values that several authors build together (counters, sets, logs, texts) are no conflict; in a map, values of one
    field are.
    """
    return entry.key in entries.keys_of_mixed_kinds or rules_of(entry.kind).is_conflicting(entries, entry)
