"""An agent's request, taken apart: what is not of the protocol's form is refused before anything looks at it."""

from __future__ import annotations

from crdtsync.core.kinds.arguments import Arguments
from crdtsync.errors import InvalidEncoding, InvalidRequest
from crdtsync.wire.codec import check_items, unpack
from crdtsync.wire.limits import REQUEST_ITEMS_MAX


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
