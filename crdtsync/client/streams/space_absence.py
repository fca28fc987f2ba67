"""A space that was dropped may be made anew: whoever watches it, mirrors it or settles its conflicts waits a while.

``space drop`` and ``space create`` are two commands, and a program that runs for weeks should not have to be started
again for what happened between them.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from crdtsync.errors import UnknownSpace

if TYPE_CHECKING:
    from crdtsync.errors import CrdtSyncError

SPACE_RETURN_S = 30.0
"""How long a space that has gone is waited for."""


class Absence:
    """Whether the space of a watch is gone, and since when."""

    def __init__(self) -> None:
        self._was_there = False
        self._error: UnknownSpace | None = None
        self._until_s = 0.0

    def over(self) -> None:
        """The daemon has taken the watch: the space is there."""
        self._was_there = True
        self._error = None

    @property
    def is_on(self) -> bool:
        """Whether it is waited for."""
        return self._error is not None

    def outlast(self, error: CrdtSyncError) -> None:
        """The daemon has refused, or ended, the watch. Returns if it is worth another attempt.

        :raises CrdtSyncError: it is not: what the daemon said first.
        """
        if not isinstance(error, UnknownSpace) or not self._was_there:
            raise error
        if self._error is None:
            self._error = error
            self._until_s = monotonic() + SPACE_RETURN_S
        elif monotonic() >= self._until_s:
            raise self._error
