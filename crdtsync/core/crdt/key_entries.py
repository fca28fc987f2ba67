"""The entries of one key: in a list in causal order, and with indexes where there are many."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from crdtsync.causality import Dot, VersionVector, covers
from crdtsync.core.crdt.entry import Entry, inside, order_of, reach_of
from crdtsync.wire.change import RemoveRange

DOTS_SEARCHED_MAX = 16
"""So few dots are searched one by one, faster than a set of them is made."""
REMOVED_SINGLY_MAX = 64
"""So many entries are taken out of a long list one by one; beyond that it is made anew."""


class KeySummary(Protocol):
    """Something that a kind works out from all entries of a key, kept up to date as they come and go."""

    def add(self, entry: Entry) -> None:
        """An entry has come, in whatever order."""

    def remove(self, entry: Entry) -> None:
        """An entry that had come has gone."""


S = TypeVar("S", bound=KeySummary)


def summary_of(make: Callable[[], S], entries: Iterable[Entry]) -> S:
    """The summary of some entries, from nothing."""
    summary = make()
    for entry in entries:
        summary.add(entry)
    return summary


class KeyEntries:
    """The entries of one key that has many, in causal order, with indexes: nothing here looks at all of them, but for
    what removes many.
    """

    __slots__ = ("_reach", "by_dot", "by_sub", "entries", "kinds", "summaries")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.by_dot = {entry.dot: entry for entry in entries}
        self.by_sub: dict[str, tuple[Entry, ...]] = {}
        self.kinds: dict[int, int] = {}
        self.summaries: dict[object, KeySummary] = {}
        self._reach: VersionVector | None = reach_of(entries)[0]
        for entry in entries:
            self._count(entry)

    def copy(self) -> KeyEntries:
        """Another with the same entries, to be changed on its own."""
        twin = KeyEntries.__new__(KeyEntries)
        twin.entries = self.entries.copy()
        twin.by_dot, twin.by_sub, twin.kinds = self.by_dot.copy(), self.by_sub.copy(), self.kinds.copy()
        twin.summaries, twin._reach = {}, self.reach.copy()  # noqa: SLF001  # of the same class
        return twin

    def without(self, gone: list[Entry]) -> KeyEntries:
        """Another without many that are in it, given in causal order: to take out each takes five times as long."""
        twin, away = KeyEntries.__new__(KeyEntries), {*gone}
        are_oldest = self.entries[len(gone) - 1] is gone[-1]
        twin.entries = self.entries[len(gone) :] if are_oldest else [e for e in self.entries if e not in away]
        twin.by_dot = {dot: entry for dot, entry in self.by_dot.items() if entry not in away}
        twin.by_sub = {
            sub: left
            for sub, some in self.by_sub.items()
            if (left := some if away.isdisjoint(some) else tuple(entry for entry in some if entry not in away))
        }
        twin.kinds = Counter([entry.kind for entry in twin.entries])
        twin.summaries, twin._reach = {}, None  # noqa: SLF001  # of the same class
        return twin

    @property
    def reach(self) -> VersionVector:
        """The highest ``seq`` of each writer among them."""
        if self._reach is None:
            self._reach = reach_of(self.entries)[0]
        return self._reach

    def add(self, entry: Entry) -> None:
        """Add an entry."""
        insert(self.entries, entry)
        dot = entry.dot
        self.by_dot[dot] = entry
        if self._reach is not None and dot.seq > self._reach.get(dot.writer, 0):
            self._reach[dot.writer] = dot.seq
        self._count(entry)
        for summary in self.summaries.values():
            summary.add(entry)

    def _count(self, entry: Entry) -> None:
        self.kinds[entry.kind] = self.kinds.get(entry.kind, 0) + 1
        if entry.sub is not None:
            others = self.by_sub.get(entry.sub)
            self.by_sub[entry.sub] = tuple(sorted((*others, entry), key=order_of)) if others else (entry,)

    def covered(self, removes: tuple[Dot, ...] | RemoveRange) -> list[Entry]:
        """Those that ``removes`` names. Not to be changed."""
        if isinstance(removes, RemoveRange):
            if removes.bound is None:
                return self.entries if covers(removes.vector, self.reach) else covered_by(self.entries, removes)
            oldest = self.entries[: bisect_right(self.entries, removes.bound, key=order_of)]
            return oldest if covers(removes.vector, self.reach) else inside(oldest, removes.vector)
        gone = {dot: entry for dot in removes if (entry := self.by_dot.get(dot)) is not None}
        return sorted(gone.values(), key=order_of) if len(gone) > 1 else [*gone.values()]

    def remove(self, gone: list[Entry]) -> None:
        """Take out entries that are in it, given in causal order."""
        for entry in gone:
            dot = entry.dot
            del self.by_dot[dot]
            if self._reach is not None and self._reach[dot.writer] == dot.seq:
                self._reach = None
            self._discount(entry)
            for summary in self.summaries.values():
                summary.remove(entry)
        if gone and self.entries[len(gone) - 1] is gone[-1]:  # the oldest: a trim
            del self.entries[: len(gone)]
        elif len(gone) <= REMOVED_SINGLY_MAX:
            for entry in gone:
                del self.entries[bisect_left(self.entries, entry.order, key=order_of)]
        else:
            self.entries[:] = [entry for entry in self.entries if entry.dot in self.by_dot]

    def _discount(self, entry: Entry) -> None:
        self.kinds[entry.kind] -= 1
        if not self.kinds[entry.kind]:
            del self.kinds[entry.kind]
        if entry.sub is not None:
            left = tuple(other for other in self.by_sub[entry.sub] if other is not entry)
            if left:
                self.by_sub[entry.sub] = left
            else:
                del self.by_sub[entry.sub]

    def let_go(self, count_max: int) -> None:
        """Drop so much of the indexes of a key that is gone: to drop those of 100,000 at once takes 30 ms."""
        for index in (self.by_dot, self.by_sub):
            for _ in range(min(count_max, len(index))):
                index.popitem()

    def summary(self, make: Callable[[], S]) -> S:
        """The result of ``make`` over all entries."""
        found = self.summaries.get(make)
        if found is None:
            found = self.summaries[make] = summary_of(make, self.entries)
        return found  # type: ignore[return-value]  # it was made by `make`


def insert(held: list[Entry], entry: Entry) -> None:
    """Insert an entry into a list in causal order: nearly always at the end."""
    if not held or held[-1].order < entry.order:
        held.append(entry)
    else:
        insort(held, entry, key=order_of)


def covered_by(held: Iterable[Entry], removes: tuple[Dot, ...] | RemoveRange) -> list[Entry]:
    """Those of ``held`` that ``removes`` names."""
    if not isinstance(removes, RemoveRange):
        dots = removes if len(removes) <= DOTS_SEARCHED_MAX else frozenset(removes)
        return [entry for entry in held if entry.dot in dots]
    vector, bound = removes
    found = inside(held, vector)
    return found if bound is None else [entry for entry in found if entry.order <= bound]
