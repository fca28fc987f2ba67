"""What nodes are called, for people."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from crdtsync.core.cluster.admission import Admission
    from crdtsync.core.identity import Identity
    from crdtsync.core.sync.protocol import Sync

NAMES_MAX = 20
"""How many nodes a message names one by one."""


class Host(Protocol):
    """Who knows other nodes."""

    identity: Identity
    fleet: Admission

    @property
    def sync(self) -> Sync:
        """Its peers."""


def node_names(host: Host) -> dict[str, str]:
    """Every node that this one knows, by id."""
    met = {peer.node: peer.name for peer in host.sync.peers.values()}
    removed = {node: gone.name for node, gone in host.fleet.membership.removed.items()}
    members = {node: member.name for node, member in host.fleet.membership.members.items()}
    return removed | met | members | {host.identity.node: host.identity.name}


def where(host: Host, nodes: Collection[str] | None) -> str:
    """On which nodes something is, in words; of one that is not known here the beginning of its id."""
    known = node_names(host)
    return "all nodes" if nodes is None else names(sorted(known.get(node) or node[:12] for node in nodes))


def names(nodes: list[str]) -> str:
    """A list of nodes for a message; of many, the first."""
    more = len(nodes) - NAMES_MAX
    return ", ".join(nodes) if more <= 0 else f"{', '.join(nodes[:NAMES_MAX])} and {more:,} more"
