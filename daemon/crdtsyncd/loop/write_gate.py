"""Makes those wait who write faster than rows come into their tables.

Four agents write batches of 1,000 keys, one after the other. Each batch is durable at once, and its rows follow by
slices. If nobody waited, more rows would be on their way each second, and memory holds them until they are in their
tables. So if a connection has brought many rows, the daemon reads it no further until all are in their tables. Agents
that wrote little, or only read, go on.
"""

from __future__ import annotations

from collections.abc import Callable

FREE_ROWS = 256
"""So many rows may a connection bring before it has to wait."""
FREE_ROWS_OF_ALL = 16_384
"""So many may all connections bring that need not wait: if many write, each has its share of them."""


class WriteGate:
    """By connection, of agents and of peers. ``is_crowded``: whether those who write much are to wait for the store."""

    def __init__(self, is_crowded: Callable[[], bool]) -> None:
        self._is_crowded = is_crowded
        self._rows: dict[object, int] = {}  # since nobody had to wait
        self._waiting: dict[object, Callable[[], object]] = {}

    @property
    def is_closed(self) -> bool:
        """Whether somebody has written since it was open, and may have to wait."""
        return bool(self._rows)

    @property
    def is_counting(self) -> bool:
        """Whether what a request or message brings now is to be told."""
        return bool(self._rows) or self._is_crowded()

    def wrote(self, who: object, rows: int) -> None:
        """One has brought so many rows."""
        if rows > 0:
            self._rows[who] = self._rows.get(who, 0) + rows

    def lets_through(self, who: object, then: Callable[[], object]) -> bool:
        """Whether this connection may go on; else ``then`` is called once it may."""
        if who not in self._rows or not self._is_crowded():
            return True
        if self._rows[who] <= min(FREE_ROWS, FREE_ROWS_OF_ALL // len(self._rows)):
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
