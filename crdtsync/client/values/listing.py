"""Results of reads of many things: a list, and on it the point that it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from crdtsync.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


def check_count(name: str, count: object) -> None:
    """Refuse what says how many are wanted, and is neither None nor a number of 0 or more."""
    if count is not None and (type(count) is not int or count < 0):
        raise InvalidRequest(f"{name} must be a whole number, 0 or more, not {count!r}")


class Listing(list[T]):
    """A list; a watch with ``after=listing.token`` brings all that it does not show.

    A long one is fetched in several pages while others write, and ``token`` names the point of the first: what came
    while the later pages were read may be in the list, and the watch brings it again. None if nothing was asked of the
    daemon.

    ``prefixes``: of keys that were listed with a ``delimiter`` the beginnings that stand for all below them, in order.
    """

    __slots__ = ("prefixes", "token")

    def __init__(self, items: Iterable[T] = (), token: str | None = None, prefixes: Iterable[str] = ()) -> None:
        super().__init__(items)
        self.token = token
        self.prefixes = [*prefixes]
