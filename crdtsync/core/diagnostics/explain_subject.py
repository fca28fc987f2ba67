"""What an explanation is about: a key of a space on a node, how its changes came, and who else has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from crdtsync.causality import Dot, VersionVector
from crdtsync.core.cluster.node_names import node_names
from crdtsync.core.reads.operations import Reader
from crdtsync.core.replica.replica import Replica
from crdtsync.core.storage.interface import Storage

if TYPE_CHECKING:
    from crdtsync.core.access.authorizer import Guard
    from crdtsync.core.access.requests import AccessDesk
    from crdtsync.core.alarms import Alarms
    from crdtsync.core.cluster.admission import Admission
    from crdtsync.core.cluster.spaces import Spaces
    from crdtsync.core.identity import Identity
    from crdtsync.core.sync.protocol import Sync

Item = dict[str, Any]


class Host(Protocol):
    """What an explanation needs of its node."""

    replicas: dict[str, Replica]
    spaces: Spaces
    sync: Sync
    fleet: Admission
    guard: Guard
    access_desk: AccessDesk
    identity: Identity
    alarms: Alarms
    storage: Storage
    read_only: str
    now_ms: int
    now_s: float


class Here(NamedTuple):
    """What is looked at: one key of one space on one node."""

    host: Host
    replica: Replica
    reader: Reader
    key: str


def reason(code: str, message: str, **fields: object) -> Item:
    """One of the reasons why something may be missing."""
    return {"code": code, "message": message, **fields}


def arrival(here: Here, dot: Dot) -> Item:
    """How a change came here."""
    origin = here.replica.origins.get(dot.writer)
    if origin is not None and origin[0] == here.host.identity.node:
        return {"came": "made_here", "over": None, "received": None}
    came = here.replica.arrivals.of(dot.writer, dot.seq)
    if came is None:
        return {"came": "earlier", "over": None, "received": None}
    over = node_names(here.host).get(came.node) or came.node[:12]
    return {"came": "snapshot" if came.is_snapshot else "change", "over": over, "received": came.time_ms}


def holders(here: Here, dot: Dot) -> tuple[list[str], list[str]]:
    """The other nodes that have said that they have a change on disk, and those that have not.

    Of nodes that are reached only over others, and have not told in time, nothing is known: they are in neither.
    """
    vector: VersionVector = {dot.writer: dot.seq}
    _, met = here.host.spaces.holders([here.replica.name]).counted()
    found = [(peer, peer.holds(here.replica.name, vector)) for peer in met()]
    mesh, now_s = here.host.sync.mesh, here.host.now_s
    routes, name = mesh.routes.by_node(), here.replica.name
    far = {node for node, route in routes.items() if route.hops > 1 and not mesh.knows(name, node, now_s)}
    lacking = [peer.name for peer, has in found if not has and peer.node not in far]
    return sorted(peer.name for peer, has in found if has), sorted(lacking)
