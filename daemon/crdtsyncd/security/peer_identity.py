"""The identity at the other end of a peer's connection, and the credentials of the two: names for it alone.

The code that speaks to peers (:mod:`crdtsyncd.peers.websocket_peer`) takes long to import, and agents need none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.named_tuple import NamedTuple

if TYPE_CHECKING:
    import ssl

DUPLICATE = "duplicate"
POLICY_VIOLATION = 1008
"""The websocket's close code for somebody who is refused (RFC 6455, section 7.4.1)."""
REMOVED_CODE = 4001
"""That for a node that was removed from the cluster; 4000 to 4999 are for programs' own use."""


class Credentials(NamedTuple):
    """The TLS contexts in force; ``name`` is what members ask each other for."""

    listening: ssl.SSLContext
    dialling: ssl.SSLContext
    name: str


class PeerIdentity(NamedTuple):
    """``node``: who has been proven to be there. ``joins``: nobody yet, who may ask to join, and nothing else.

    ``code``: with what a refused one's connection is closed.
    """

    node: str
    joins: bool = False
    refusal: str = ""
    code: int = POLICY_VIOLATION
