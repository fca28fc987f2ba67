"""The forms that answers take on their way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.named_tuple import NamedTuple

if TYPE_CHECKING:
    from crdtsync.core.replica.replica import Replica


class Reply(NamedTuple):
    """A frame for an agent. ``request`` is None for events. ``stands``: also if the commit under way fails."""

    conn: int
    request: int | None
    data: bytes
    stands: bool = False


class ReadResult:
    """The result of a read, and what it was read from."""

    __slots__ = ("replica", "result")

    def __init__(self, replica: Replica, result: object) -> None:
        self.replica = replica
        self.result = result
