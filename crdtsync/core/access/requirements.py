"""The right that each request needs, as the authorizer asks for it: from the one table, :mod:`crdtsync.wire.requests`.
A request that is not in it needs all there is.
"""

from __future__ import annotations

from collections.abc import Mapping

from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.requests import REQUESTS, On, Right

__all__ = ["GRANTED", "NEEDED", "Needed", "On", "Right"]

GRANTED = (Right.READ, Right.WRITE, Right.ADMIN)
"""The rights that a rule can grant."""


class Needed(NamedTuple):
    """The need of a request."""

    right: Right
    on: On


NEEDED: Mapping[str, Needed] = {name: Needed(request.right, request.on) for name, request in REQUESTS.items()}
