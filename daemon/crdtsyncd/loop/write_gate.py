"""Makes those wait who write faster than rows come into their tables.

Four agents write batches of 1,000 keys, one behind the other. Each batch is durable at once, and its rows follow by
slices. If nobody waited, more would be on their way each second, and memory remembers them until they are there. So
whoever has brought many rows is read no further until all are in their tables. Others go on, and whoever only reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

FREE_ROWS = 256
"""So many rows may a connection bring before it has to wait, unless far too many are on their way."""


class Crowded(Protocol):
    """Where the rows come from and go to: the store."""

    @property
    def is_crowded(self) -> bool:
        """Whether those who write are to wait."""

    @property
    def is_overfull(self) -> bool:
        """Whether whoever writes anything is to wait."""


class WriteGate:
    """By connection, of agents and of peers: ``store`` gives the one in use."""

    def __init__(self, store: Callable[[], Crowded]) -> None:
        self._store = store
        self._rows: dict[object, int] = {}  # since nobody had to wait
        self._waiting: dict[object, Callable[[], object]] = {}

    @property
    def is_closed(self) -> bool:
        """Whether somebody has written since it was open, and may have to wait."""
        return bool(self._rows)

    def wrote(self, who: object, rows: int) -> None:
        """A request or message has brought so many rows."""
        if rows > 0 and (self._rows or self._store().is_crowded):
            self._rows[who] = self._rows.get(who, 0) + rows

    def lets_through(self, who: object, then: Callable[[], object]) -> bool:
        """Whether this connection may go on; else ``then`` is called once it may."""
        if who not in self._rows or not self._store().is_crowded:
            return True
        if self._rows[who] <= FREE_ROWS and not self._store().is_overfull:
            return True
        self._waiting[who] = then
        return False

    def forget(self, who: object) -> None:
        """The connection has ended."""
        self._rows.pop(who, None)
        self._waiting.pop(who, None)

    def open(self) -> None:
        """All rows are in their tables: let those go on who wait."""
        self._rows.clear()
        waiting, self._waiting = self._waiting, {}
        for then in waiting.values():
            then()
