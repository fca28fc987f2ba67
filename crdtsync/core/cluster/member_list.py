"""All members of the cluster, and all who were, as ``cluster members`` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crdtsync.core.cluster.admission import Admission
    from crdtsync.core.sync.protocol import Sync

_STATES: Mapping[int | None, str] = {None: "down", 1: "connected"}
"""The state of a member, by the number of connections over which it is reached."""


def listing(fleet: Admission, sync: Sync, me: str) -> list[dict[str, Any]]:
    """A row for each; ``me`` is this node."""
    rows = []
    for node, member in fleet.membership.members.items():
        peer = sync.peers.get(node)
        hops = sync.mesh.routes.hops(node)
        rows.append(
            {
                "id": node,
                "name": member.name,
                "state": "self" if node == me else _STATES.get(hops, "indirect"),
                "addresses": list(member.addresses),
                "joined": member.joined_ms,
                "by": member.by,
                "last_seen": None if peer is None else peer.last_seen_ms,
                "pins": [pin for pin, _ in member.keys],
            }
        )
    for node, gone in fleet.membership.removed.items():
        rows.append(
            {
                "id": node,
                "name": gone.name,
                "state": "removed",
                "addresses": [],
                "joined": None,
                "by": gone.by,
                "last_seen": gone.time_ms,
                "pins": [pin for pin, _ in gone.keys],
            }
        )
    return rows
