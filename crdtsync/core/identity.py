"""The node's identity."""

from __future__ import annotations

from crdtsync.named_tuple import NamedTuple

LOOPBACK_CLUSTER = bytes(16)
"""The cluster of nodes that have not joined one: only nodes on one machine sync in it."""

OWN_AGENT = "crdtsyncd"
"""The agent's name on what the daemon writes by itself."""


class Identity(NamedTuple):
    """``node`` names the node for ever, ``database`` this copy of its data; ``cluster`` binds changes to one fleet.

    ``incarnation``: what agents know the database by, if not by its own id. It is another one where the data may have
    gone back since: nobody can tell there what became of a write that was sent before.
    """

    node: str
    name: str
    cluster: bytes
    database: bytes
    version: str
    pid: int = 0
    incarnation: bytes = b""
