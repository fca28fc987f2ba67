"""What stands on a connection of its own (a watch, a mirror, a resolver): what it asks its daemon to have first, and
what it outlasts.

``space drop`` and ``space create`` are two commands, and a program that runs for weeks should not have to be started
again for what happened between them. So a space that was there, and is gone, is waited for.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from crdtsync.errors import CrdtSyncError, DaemonUnavailable, Timeout, UnknownSpace

if TYPE_CHECKING:
    from crdtsync.client.protocol.seen_point import Horizon
    from crdtsync.client.session.request_context import Arguments

NEED_FIRST_MS = 100
"""How long a daemon may take at first to get what the client has seen: then it has to say what it lacks."""
NEED_NEXT_MS = 2000
"""How long it may take each time that it is asked again."""
SPACE_RETURN_S = 30.0
"""How long a space that has gone is waited for."""


class Standing:
    """Whether the daemon has taken the request, over all connections; and what keeps it from that."""

    def __init__(self, horizon: Horizon, space: object) -> None:
        self.is_taken = False
        """On the present connection."""
        self.lacking: Timeout | None = None
        """What the daemon said last that it lacks, as long as it does."""
        self._was_there = False
        self._gone: UnknownSpace | None = None  # what the daemon said first of a space that is waited for
        self._until_s = 0.0
        self._horizon = horizon
        self._space = space

    def need(self, after: str | None = None) -> Arguments:
        """What the request says on a new connection: all that the client has seen, and ``after``, must be there."""
        self.is_taken = False
        need = self._horizon.need(self._space, after)
        if need is None:
            return {}
        return {"need": need, "timeout": NEED_FIRST_MS if self.lacking is None else NEED_NEXT_MS}

    def taken(self) -> None:
        """The daemon holds all that, and has begun."""
        self.is_taken = True
        self.lacking = None
        self._was_there = True
        self._gone = None

    def outlast(self, error: CrdtSyncError) -> None:
        """The daemon has said this, or gone away. Returns if it is to be asked again.

        :raises CrdtSyncError: it is not.
        """
        if isinstance(error, DaemonUnavailable):
            return
        if isinstance(error, Timeout):
            self.lacking = error
            return
        if not isinstance(error, UnknownSpace) or not self._was_there:
            raise error
        if self._gone is None:
            self._gone, self._until_s = error, monotonic() + SPACE_RETURN_S
        elif monotonic() >= self._until_s:
            raise self._gone
        self.lacking = Timeout(f"{error.message}; if it is made anew soon this goes on")

    def shown(self, holder: object, token: str) -> None:
        """``holder`` has handed out, or shows, what ``token`` names: the client has seen it."""
        self._horizon.watched(self._space, id(holder), token)

    def late(self, what: str, **details: object) -> Timeout:
        """The error for waiting in vain: that, and what the daemon lacks, if it said so."""
        if self.lacking is None:
            return Timeout(what, **details)
        return Timeout(f"{what}: {self.lacking.message}", **{**details, "missing": self.lacking.missing})
