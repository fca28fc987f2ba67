"""A change in the making, as the operations on a space as a whole see it: with the replica that will commit it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from crdtsync.core.kinds.draft import Draft

if TYPE_CHECKING:
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.replica.restore import Past


class SpaceDraft(Draft):
    """The draft of a change to one replica.

    ``past``: the state that a restore goes back to. ``check_made``: whether the author may delete something that these
    authors have made.
    """

    def __init__(self, replica: Replica, now_ms: int) -> None:
        super().__init__(replica, now_ms)
        self.replica = replica
        self.past: Past | None = None
        self.check_made: Callable[[str, Iterable[str | None]], None] = lambda _what, _authors: None
