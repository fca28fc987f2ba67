"""The changes that a node lacks for a request, whose they are, and whether they can be expected to come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from crdtsync.causality import VersionVector, covers, missing
from crdtsync.core.cluster.node_names import names
from crdtsync.core.peers.peer_state import Peer

if TYPE_CHECKING:
    from crdtsync.core.cluster.spaces import Holders
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.sync.protocol import Sync

UNHEARD = "a writer never heard of here"
"""Whose changes they are, if none of that writer has come: of a node that is new, or of one that is known and has a new
writer, or of none of this fleet.
"""
UNHEARD_WAIT_S = 3.0
"""How long a change is waited for of a writer that nobody has heard of who would have to know of it."""


def lacking(needed: Iterable[tuple[Replica, VersionVector]]) -> dict[str, int]:
    """How many changes of which nodes are not here."""
    by_node: dict[str, int] = {}
    for replica, wanted in needed:
        for writer, seq in sorted(wanted.items()):
            count = missing(replica.vector, {writer: seq})
            if count:
                node = replica.node_of(writer) if writer in replica.origins else UNHEARD
                by_node[node] = by_node.get(node, 0) + count
    return by_node


def told(by_node: Mapping[str, int]) -> str:
    """The same for a message."""
    return (
        names([f"{count:,} change{'s' if count > 1 else ''} of {node}" for node, count in sorted(by_node.items())])
        or "nothing any more"
    )


def connected(peers: Iterable[Peer]) -> str:
    """The peers that could bring it, for a message."""
    return names(sorted(peer.name for peer in peers if peer.link is not None)) or "no other node"


def is_unheard(replica: Replica, wanted: VersionVector, holders: Holders, sync: Sync) -> bool:
    """Whether it names a writer of whom neither this node nor any other knows, and all others can be reached: here, or
    from one that is connected here. Then it can hardly be one of this fleet's.
    """
    unknown = {
        writer: seq for writer, seq in wanted.items() if writer not in replica.vector and writer not in replica.origins
    }
    if not unknown or is_known_elsewhere(sync.peers.values(), replica.name, unknown):
        return False
    links = {node: peer.link for node, peer in sync.peers.items() if peer.link is not None}
    near = {*links}.union(*(link.nodes for link in links.values()))
    count, met = holders.counted()
    others = met()
    is_all = count == 1 + len(others) and all(peer.node in near for peer in others)
    return is_all and all(dial.node for dial in sync.dials.values())


def is_known_elsewhere(peers: Iterable[Peer], space: str, vector: VersionVector) -> bool:
    """Whether some other node has said that it holds this, so that it may be expected to come."""
    return any(
        peer.holds(space, vector)
        or (peer.link is not None and space in peer.link.spaces and covers(peer.link.spaces[space].known, vector))
        for peer in peers
    )
