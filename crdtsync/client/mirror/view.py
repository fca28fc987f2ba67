"""Reading a copy of keys as a mapping: a dict lookup, no lock, no system call."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Any

from crdtsync.errors import Unresolved

if TYPE_CHECKING:
    from crdtsync.client.mirror.held_values import HeldValue
    from crdtsync.client.session.read_memory import ReadMemory
    from crdtsync.client.values.results import Entry

Holding = dict[str, "HeldValue"]
"""What is shown, by key."""


class Reads:
    """What was read of a copy, for the session's memory of what its next writes may supersede.

    Written down by readers without a lock; who writes takes it from here.
    """

    def __init__(self) -> None:
        self.winners: dict[str, HeldValue] = {}
        self.wholes: dict[str, HeldValue] = {}
        self.absent: dict[str, None] = {}

    def take(self, key: str) -> str | None:
        """What was read of ``key`` since the last call, as a version; empty: that it is absent; None: nothing."""
        absent = key in self.absent
        if absent:
            self.absent.pop(key, None)
        whole, winner = self.wholes.pop(key, None), self.winners.pop(key, None)
        if whole is not None:
            return whole.version(of_winner=False)
        if winner is not None:
            return winner.version(of_winner=True)
        return "" if absent else None

    def bound(self, memory: ReadMemory, keys_max: int) -> None:
        """Hand the oldest over to the session's memory if there are more than so many."""
        for reads in (self.wholes, self.winners, self.absent):
            for key in list(reads)[: len(reads) - keys_max] if len(reads) > keys_max else ():
                version = self.take(key)
                if version is not None:
                    memory.read_elsewhere(key, version)


class MirrorView(Mapping[str, Any]):
    """Keys and values at one moment, which :attr:`token` names.

    What it hands out is shared by all who ask: to change a value, copy it first. To read is to have seen: a write by
    the session that it belongs to supersedes what was read here, as after ``get``.
    """

    def __init__(self, holding: Holding, token: str | None, reads: Reads) -> None:
        self._holding = holding
        self._token = token
        self._reads = reads

    @property
    def token(self) -> str | None:
        """Names the moment: ``get(after=token)`` shows no older state, on any host."""
        return self._token

    def __getitem__(self, key: str) -> Any:
        try:
            held = self._holding[key]
        except KeyError:
            self._note_absent(key)
            raise
        self._reads.winners[key] = held
        try:
            return held.plain
        except AttributeError:
            return self._read_first(key, held)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, or ``default`` if it is absent."""
        held = self._holding.get(key)
        if held is None:
            self._note_absent(key)
            return default
        self._reads.winners[key] = held
        try:
            return held.plain
        except AttributeError:
            return self._read_first(key, held)

    def entry(self, key: str) -> Entry | None:
        """The value of ``key`` with its author, time, version and siblings; None if it is absent."""
        held = self._holding.get(key)
        if held is None:
            self._note_absent(key)
            return None
        self._reads.wholes[key] = held
        return held.entry(key)

    def conflicts(self) -> list[Entry]:
        """The entries that have siblings, in the order of their keys."""
        holding = self._copied()
        self._reads.wholes.update({key: held for key, held in holding.items() if held.siblings})
        return [holding[key].entry(key) for key in sorted(holding) if holding[key].siblings]

    def __contains__(self, key: object) -> bool:
        return key in self._holding

    def __len__(self) -> int:
        return len(self._holding)

    def __iter__(self) -> Iterator[str]:
        """The keys, sorted."""
        return iter(sorted(self._copied()))

    def items(self) -> ItemsView[str, Any]:
        """Keys and values of one moment."""
        return ItemsView(self.snapshot())

    def values(self) -> ValuesView[Any]:
        """The values of one moment, in the order of their keys."""
        return ValuesView(self.snapshot())

    def snapshot(self) -> MirrorView:
        """All keys as they are now, with the token of this moment; it stays as it is."""
        return self

    def _copied(self) -> Holding:
        return self._holding

    def _read_first(self, key: str, held: HeldValue) -> Any:
        try:
            return held.read()
        except Unresolved:
            self._reads.wholes[key] = held  # the refusal hands over everything
            raise

    def _note_absent(self, key: str) -> None:
        self._reads.absent[key] = None
