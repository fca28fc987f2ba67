"""An agent's frames: a request taken apart, and the forms that answers take on their way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.kinds.arguments import Arguments
from crdtsync.errors import InvalidEncoding, InvalidRequest
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import check_items, unpack
from crdtsync.wire.limits import REQUEST_ITEMS_MAX

if TYPE_CHECKING:
    from crdtsync.core.replica.replica import Replica


def request_of(payload: bytes) -> tuple[int, str, Arguments]:
    """``(id, operation, arguments)``.

    :raises InvalidRequest: it is something else.
    """
    try:
        if len(payload) > REQUEST_ITEMS_MAX:  # else it cannot hold more
            check_items(payload, REQUEST_ITEMS_MAX)
        plain = unpack(payload)
    except InvalidEncoding as error:
        raise InvalidRequest(error.message) from None
    if type(plain) is list and len(plain) == 3:
        request, name, args = plain
        if type(request) is int and type(name) is str and type(args) is dict and 1 <= request < 2**63:
            return request, name, args
    raise InvalidRequest("a request is [id, operation, arguments]")


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
