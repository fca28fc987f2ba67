"""Causal points: what a session has seen of a space, whether this node has it too, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterable

from crdtsync.causality import VersionVector, merge
from crdtsync.core.peers.peer_state import Peer
from crdtsync.core.replica.replica import Replica
from crdtsync.core.waiting.missing_changes import connected, lacking, told
from crdtsync.errors import CrdtSyncError, Timeout, TooOld
from crdtsync.wire.tokens import decode_token, encode_token


def point_of(replica: Replica) -> str:
    """A short token for all that the replica holds: its own newest change, which covers what came before it, and what
    has come since.
    """
    at = (replica.position, replica.writer)  # with either of them it changes, and with nothing else
    if replica.point is None or replica.point[0] != at:
        replica.point = (at, encode_token([(replica.name, replica.epoch, replica.tips())]))
    return replica.point[1]


def shown_at(replica: Replica, error: CrdtSyncError) -> CrdtSyncError:
    """An error, with the point at which it shows what there is, if it does."""
    if "current" in error.details:
        error.details["token"] = point_of(replica)
    return error


def vector_in(replica: Replica, token: object) -> VersionVector:
    """The changes that ``token`` names in the replica's space; none, if it names no point there.

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
    return with_new_names(replica, vector) if replica.new_names else vector


def with_new_names(replica: Replica, vector: VersionVector) -> VersionVector:
    """Numbers that were handed out here on a branch that has moved since, and that nobody may ever use again, by the
    names that they have now.
    """
    named = dict(vector)
    for writer, first, last, name in replica.new_names:
        seq = named.get(writer, 0)
        if first <= seq <= last and seq > replica.vector.get(writer, 0):
            merge(named, {name: seq - first + 1})
            named[writer] = first - 1
    return named


def need_in(replica: Replica, token: object) -> VersionVector:
    """The changes that a session that has seen ``token`` needs here. It no longer needs those that were dropped with an
    earlier epoch.

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


def not_here(replica: Replica, wanted: VersionVector, peers: Iterable[Peer], name: str, *, is_vain: bool) -> Timeout:
    """The error for a request that waited in vain at the node ``name``: what it lacks, and who is there to give it.

    ``is_vain``: it could hardly come, so that it was not waited for any longer.
    """
    by_node = lacking([(replica, wanted)])
    lacks = (
        f"{name} did not get in time what the request refers to: it lacks {told(by_node)} in space {replica.name}, and "
        f"is connected to {connected(peers)}"
    )
    if is_vain:
        why = (
            ": nobody known here has that. It is of another fleet, or of a node that is quite new, or that lost its "
            "disk before others had it; nothing was done: read again here, or go on without the token"
        )
    else:
        why = (
            "; nothing was done: try again with a longer timeout, or see with crdtsync peers what keeps the nodes apart"
        )
    return Timeout(lacks + why, held_by=[], missing=by_node)
