"""Causal points: what a session has seen of a space, whether this node has it too, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterable

from crdtsync.causality import VersionVector, missing
from crdtsync.core.concerns import names
from crdtsync.core.peers import Peer
from crdtsync.core.replica import Replica
from crdtsync.errors import Timeout, TooOld
from crdtsync.wire.tokens import decode_token, encode_token

UNHEARD = "a node never heard of here"
"""Whose changes they are, of a writer that has not written anything that has come here."""


def point_of(replica: Replica) -> str:
    """A short token for all that the replica holds: its own newest change, which covers what came before it, and what
    has come since.
    """
    return encode_token([(replica.name, replica.epoch, replica.tips())])


def vector_in(replica: Replica, token: object) -> VersionVector:
    """What ``token`` names in the replica's space; nothing, if it names no point there.

    :raises TooOld: it is of an earlier epoch: the space was dropped since.
    :raises Timeout: it is of a later one, of which this node has not heard yet.
    """
    epoch, vector = decode_token(token).get(replica.name, (replica.epoch, {}))
    if epoch < replica.epoch:
        raise TooOld(
            f"the token belongs to epoch {epoch} of space {replica.name}, which was dropped since; it is in epoch "
            f"{replica.epoch} now"
        )
    if epoch > replica.epoch:
        raise Timeout(
            f"the token belongs to epoch {epoch} of space {replica.name}, and this node is in epoch {replica.epoch} "
            "still: it has not heard yet that the space was dropped and made anew; nothing was done",
            held_by=[],
        )
    return vector


def need_in(replica: Replica, token: object) -> VersionVector:
    """What a session that has seen ``token`` needs here. What was dropped with an earlier epoch it needs no more.

    :raises Timeout: as :func:`vector_in`.
    """
    try:
        return vector_in(replica, token)
    except TooOld:
        return {}


def resumed_in(replica: Replica, token: object) -> tuple[VersionVector | None, bool]:
    """Where a watch goes on, and whether it starts over because the space was dropped since: then nowhere.

    :raises Timeout: as :func:`vector_in`.
    """
    try:
        return vector_in(replica, token), False
    except TooOld:
        return None, True


def not_here(replica: Replica, wanted: VersionVector, peers: Iterable[Peer], name: str) -> Timeout:
    """The error for a request that waited in vain at the node ``name``: what it lacks, and who is there to give it."""
    by_node: dict[str, int] = {}
    for writer, seq in sorted(wanted.items()):
        lacking = missing(replica.vector, {writer: seq})
        if lacking:
            node = replica.node_of(writer) if writer in replica.origins else UNHEARD
            by_node[node] = by_node.get(node, 0) + lacking
    lacks = [f"{count:,} change{'s' if count > 1 else ''} of {node}" for node, count in sorted(by_node.items())]
    connected = sorted(peer.name for peer in peers if peer.link is not None)
    return Timeout(
        f"{name} did not get in time what the request refers to: it lacks {names(lacks) or 'nothing any more'} "
        f"in space {replica.name}, and is connected to {names(connected) or 'no other node'}; nothing was done: "
        "try again with a longer timeout, or see with crdtsync peers what keeps the nodes apart",
        held_by=[],
        missing=by_node,
    )
