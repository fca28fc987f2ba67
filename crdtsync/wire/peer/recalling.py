"""Fetching what a checkpoint holds: a node that came later asks a peer for the values that were gone by then.

For example, host-d has joined by a snapshot. A snapshot holds nothing of what was overwritten or deleted before, and
the checkpoint ``before-refactor`` does. Host-d sends RECALL with the checkpoint's record. Host-a, which has been there
since, answers with RECALLED: some of those values, and where it goes on. Host-d asks again from there, until nothing
follows. Then it compares all that it holds of the checkpoint with the checkpoint's digest.
"""

from __future__ import annotations

from typing import Annotated

from crdtsync.wire.limits import PEER_FRAME_BYTES_MAX
from crdtsync.wire.peer.base import Message, message
from crdtsync.wire.peer.fields import Epoch, FlatEntry, KeyText, Octets, Several, SpaceName

CHECKPOINTS = "checkpoints"
"""The feature of a node that gives what its checkpoints hold to those who came later."""
PLACE_BYTES_MAX = 2048
"""Bytes of a place in a checkpoint."""
UNTOLD_MAX = 100
"""Patterns of which one answer says that nothing is known."""

Place = Annotated[bytes, Octets("place", PLACE_BYTES_MAX)]
RecalledData = Annotated[bytes, Octets("part", PEER_FRAME_BYTES_MAX)]


@message
class Recall(Message):
    """Ask for what a checkpoint holds and no snapshot of today does.

    ``[32, space, epoch, [key, writer, seq, n], place]``

    The receiver answers with RECALLED if it can show all of the checkpoint, else not at all. A sender that is not
    answered asks another node.

    :param space: the space
    :param epoch: the making of the space
    :param record: the checkpoint's record
    :param place: where to go on, as the receiver said it; nothing: at the beginning
    """

    TYPE = 32
    FEATURE = CHECKPOINTS

    space: SpaceName
    epoch: Epoch
    record: FlatEntry
    place: Place


@message
class Recalled(Message):
    """Give some of what RECALL asked for.

    ``[33, space, epoch, [key, writer, seq, n], place, data, next, [pattern, …]]``

    The receiver ignores an answer that it does not wait for.

    :param space: the space
    :param epoch: the making of the space
    :param record: the checkpoint's record
    :param place: the place that RECALL named
    :param data: entries, or documents as of the checkpoint, as in a part of a snapshot, never compressed; or nothing. A
        document of no bytes: the sender cannot tell what it was
    :param next: the place where it goes on; nothing: that was all
    :param untold: patterns of keys of which the sender cannot tell what the checkpoint holds
    """

    TYPE = 33
    FEATURE = CHECKPOINTS

    space: SpaceName
    epoch: Epoch
    record: FlatEntry
    place: Place
    data: RecalledData
    next: Place
    untold: Annotated[list[KeyText], Several(UNTOLD_MAX)]
