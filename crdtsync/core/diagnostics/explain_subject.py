"""The subject of an explanation: a key of a space on a node, how its changes came, and who else has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.causality import Dot, VersionVector
from crdtsync.core.reads.operations import Reader
from crdtsync.core.replica.replica import Replica
from crdtsync.named_tuple import NamedTuple

if TYPE_CHECKING:
    from crdtsync.core.node_parts import NodeParts

Item = dict[str, Any]


class Subject(NamedTuple):
    """The subject: one key of one space on one node."""

    node: NodeParts
    replica: Replica
    reader: Reader
    key: str


def reason(code: str, message: str, **fields: object) -> Item:
    """One of the reasons why something may be missing."""
    return {"code": code, "message": message, **fields}


def arrival(here: Subject, dot: Dot) -> Item:
    """How a change came here."""
    origin = here.replica.origins.get(dot.writer)
    if origin is not None and origin[0] == here.node.identity.node:
        return {"came": "made_here", "over": None, "received": None}
    came = here.replica.arrivals.of(dot.writer, dot.seq)
    if came is None:
        return {"came": "earlier", "over": None, "received": None}
    over = here.node.fleet.node_names().get(came.node) or came.node[:12]
    return {"came": "snapshot" if came.is_snapshot else "change", "over": over, "received": came.time_ms}


def holders(here: Subject, dot: Dot) -> tuple[list[str], list[str]]:
    """The other nodes that have said that they have a change on disk, and those that have not.

    A node that is reached only over others, and has not answered in time, is in neither list.
    """
    vector: VersionVector = {dot.writer: dot.seq}
    _, met = here.node.spaces.holders([here.replica.name]).counted()
    found = [(peer, peer.holds(here.replica.name, vector)) for peer in met()]
    mesh = here.node.sync.mesh
    routes, name = mesh.routes.by_node(), here.replica.name
    far = {node for node, route in routes.items() if route.hops > 1 and not mesh.knows(name, node)}
    lacking = [peer.name for peer, has in found if not has and peer.node not in far]
    return sorted(peer.name for peer, has in found if has), sorted(lacking)
