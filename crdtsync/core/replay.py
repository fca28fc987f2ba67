"""Changes that were acknowledged and that this node's tables lack, because their rows fitted into none: taken in again.

They come as if from a peer, so their rows are made anew, and what builds on one that cannot be taken in waits for it. A
change that fails again is *barred*: it waits for itself, whoever sends it, until a snapshot covers it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.causality import Writer
from crdtsync.core.replica.replica import Replica
from crdtsync.errors import ForkDetected, InvalidEncoding
from crdtsync.wire.change import Change

if TYPE_CHECKING:
    from crdtsync.core.node_parts import NodeParts


def take_back(node: NodeParts, space: int, body: bytes) -> None:
    """Take one in, if that can be done now."""
    replica = replica_of(node, space)
    change = None if replica is None else decoded(replica, body)
    if replica is None or change is None:
        return
    replica.texts.make_ready(change)
    try:
        applied, _ = replica.receive(change, node.now_ms)
        if replica.unknown is not None:  # an edit of a text that is here no longer
            replica.texts.skip_document(replica.unknown[1])
            applied += replica.receive(change, node.now_ms)[0]
    except ForkDetected as error:
        node.log("change_refused", space=replica.name, reason=error.message)
        return
    node.received(applied)


def is_held(node: NodeParts, space: int, writer: int, seq: int) -> bool:
    """Whether a change is in this node's state, or in none any more, since its space is gone."""
    replica = replica_of(node, space)
    return replica is None or replica.vector.get(Writer(writer), 0) >= seq


def replica_of(node: NodeParts, space: int) -> Replica | None:
    """The replica that is stored under a number."""
    return next((replica for replica in node.replicas.values() if replica.id == space), None)


def decoded(replica: Replica, body: bytes) -> Change | None:
    """A change by its bytes; None if they are broken."""
    try:
        return replica.codec.decode(body)
    except InvalidEncoding:
        return None
