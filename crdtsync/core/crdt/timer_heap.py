"""Timers: a binary heap of due times from which anything can be taken out.

``heapq`` would have to keep what has been taken out until it comes to the top, or be made anew now and then: with
100,000 entries that stops everything for a tenth of a second. Here every operation costs O(log n), and nothing is left
of what is gone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)


class _Item(Generic[Name]):
    """``at`` is its place in the heap."""

    __slots__ = ("at", "due", "name")

    def __init__(self, due: float, name: Name) -> None:
        self.due = due
        self.name = name
        self.at = 0


class Timeline(Generic[Name]):
    """Names by the time when they are due. Where two are due at once, either comes first."""

    __slots__ = ("_heap", "_items")

    def __init__(self) -> None:
        self._heap: list[_Item[Name]] = []
        self._items: dict[Name, _Item[Name]] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Name]:
        return iter(self._items)

    def __contains__(self, name: Name) -> bool:
        return name in self._items

    def add(self, name: Name, due: float) -> None:
        """Add a name, or move it to another time."""
        self.discard(name)
        item = self._items[name] = _Item(due, name)
        self._heap.append(item)
        self._rise(item, len(self._heap) - 1)

    def discard(self, name: Name) -> bool:
        """Take a name out; whether it was there."""
        item = self._items.pop(name, None)
        if item is None:
            return False
        last = self._heap.pop()
        if last is not item:
            at = item.at
            if last.due < item.due:
                self._rise(last, at)
            else:
                self._sink(last, at)
        return True

    def next_due(self) -> float | None:
        """When the next one is due."""
        return self._heap[0].due if self._heap else None

    def take(self, now: float) -> Name | None:
        """Take out the next one, if it is due."""
        if not self._heap or self._heap[0].due > now:
            return None
        name = self._heap[0].name
        self.discard(name)
        return name

    def _rise(self, item: _Item[Name], at: int) -> None:
        heap = self._heap
        while at:
            above = heap[(at - 1) >> 1]
            if above.due <= item.due:
                break
            heap[at] = above
            above.at, at = at, above.at
        heap[at] = item
        item.at = at

    def _sink(self, item: _Item[Name], at: int) -> None:
        heap = self._heap
        end = len(heap)
        while (below := 2 * at + 1) < end:
            child = heap[below]
            if below + 1 < end and heap[below + 1].due < child.due:
                child = heap[below + 1]
            if item.due <= child.due:
                break
            heap[at] = child
            child.at, at = at, child.at
        heap[at] = item
        item.at = at
