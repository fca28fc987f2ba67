"""Times of expiry: the entries of a replica that have a time to live, by when it ends.

Two things happen to an entry that expires. Readers stop seeing it when their own node's clock says so: it is *hidden*.
And one node alone deletes it, by a change that all others get (:mod:`crdtsync.core.background.expiry_reaper`): if every
node did, each entry would cost as many changes as there are nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from crdtsync.causality import Dot, Writer
from crdtsync.core.crdt.timer_heap import Timeline

if TYPE_CHECKING:
    from crdtsync.core.crdt.entry import Entry

EXPIRE = "expire"
"""The name of an expiry among the operations in events."""
EXPIRED_ATTR = "expired"
"""The attribute of an operation that removes what has expired."""
CLOCK_SET_BACK_MS_MIN = 1000
"""A clock that goes back by less has hidden nothing that is worth telling anew."""


class Expiry:
    """The entries of one replica that have a time to live, by the time when that ends."""

    __slots__ = ("_last_ms", "_put_off", "_waiting", "hidden", "hidden_count")

    def __init__(self) -> None:
        self.hidden: dict[Writer, dict[Dot, Entry]] = {}
        self.hidden_count = 0
        self._put_off: list[Entry] = []  # that were hidden then
        self._waiting: Timeline[Entry] = Timeline()
        self._last_ms = 0

    def __len__(self) -> int:
        """How many entries are going to expire."""
        return len(self._waiting)

    def add(self, entry: Entry, expires_ms: int) -> None:
        """Remember an entry."""
        self._waiting.add(entry, expires_ms)

    def discard(self, entry: Entry) -> None:
        """Forget an entry that has been removed."""
        if not self._waiting.discard(entry):
            self._discard_hidden(entry)

    def _discard_hidden(self, entry: Entry) -> None:
        of_writer = self.hidden.get(entry.writer, {})
        if of_writer.pop(entry.dot, None) is not None:
            self.hidden_count -= 1
            if not of_writer:
                del self.hidden[entry.writer]

    def put_off(self, entry: Entry, expires_ms: int) -> None:
        """An entry lives longer than was known."""
        if entry.hidden:
            self._discard_hidden(entry)
            entry.hidden = False
            self._put_off.append(entry)
        self._waiting.add(entry, expires_ms)

    def next_ms(self) -> float | None:
        """When the next entry expires."""
        return self._waiting.next_due()

    def hidden_keys(self, prefix: str, vector: Mapping[Writer, int]) -> list[str]:
        """The keys that begin with ``prefix`` of the hidden entries that ``vector`` covers."""
        return [
            entry.key
            for writer, entries in self.hidden.items()
            for entry in entries.values()
            if entry.dot.seq <= vector.get(writer, 0) and entry.key.startswith(prefix)
        ]

    def is_due(self, now_ms: int) -> bool:
        """Whether there is something to hide, or to show again."""
        due_ms = self._waiting.next_due()
        is_due = due_ms is not None and due_ms <= now_ms
        return is_due or bool(self._put_off) or (self.hidden_count > 0 and now_ms < self._last_ms)

    def take_due(self, now_ms: int, count_max: int) -> list[Entry]:
        """The entries that have expired since the last call, ``count_max`` at most. They count as hidden now."""
        self._last_ms = max(self._last_ms, now_ms)
        due: list[Entry] = []
        while len(due) < count_max and (entry := self._waiting.take(now_ms)) is not None:
            entry.hidden = True
            self.hidden.setdefault(entry.writer, {})[entry.dot] = entry
            due.append(entry)
        self.hidden_count += len(due)
        return due

    def take_back(self, now_ms: int) -> list[Entry]:
        """The entries that readers see again, because the clock has been set back, or somebody has read their key."""
        put_off, self._put_off = [entry for entry in self._put_off if entry in self._waiting], []
        if now_ms > self._last_ms - CLOCK_SET_BACK_MS_MIN:
            return put_off
        self._last_ms = now_ms
        back = [entry for of_writer in self.hidden.values() for entry in of_writer.values()]
        back = [entry for entry in back if not entry.is_expired(now_ms)]
        for entry in back:
            self._discard_hidden(entry)
            entry.hidden = False
            expires_ms = entry.expires_ms()
            assert expires_ms is not None
            self.add(entry, expires_ms)
        return put_off + back
