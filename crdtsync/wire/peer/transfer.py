"""Snapshots on their way: for a peer that is too far behind for single changes.

For example, host-b was away for a month, and host-a has forgotten the changes of that time. Host-a sends OFFER and
stops feeding host-b from its log. Host-b answers TAKE with no snapshot named; host-a begins one and sends PART 0, PART
1 and so on, as far as credit goes. If the connection breaks after part 7, host-b asks on the next one with a TAKE that
names this snapshot and part 8. After the last part host-b merges the whole, and host-a goes on with changes.

The module :mod:`crdtsync.wire.peer.snapshot` says what a part holds.
"""

from __future__ import annotations

from typing import Annotated

from crdtsync.wire.limits import PEER_FRAME_BYTES_MAX
from crdtsync.wire.peer.base import Message, message
from crdtsync.wire.peer.fields import (
    Epoch,
    Number,
    Octets,
    ShortHash,
    SpaceName,
)

SNAPSHOTS = "snapshots"
"""The feature of a node that gives and takes snapshots."""
PART_NUMBER_MAX = 1 << 32
SNAPSHOT_ID_BYTES = 16

SnapshotId = Annotated[bytes, Octets("snapshot id", SNAPSHOT_ID_BYTES, SNAPSHOT_ID_BYTES)]
NoSnapshot = Annotated[bytes, Octets("nothing", 0)]
PartNumber = Annotated[int, Number("part number", PART_NUMBER_MAX)]
PartData = Annotated[bytes, Octets("part", PEER_FRAME_BYTES_MAX)]


@message
class Offer(Message):
    """Offer a snapshot: the log no longer holds what the receiver lacks, or holds far more than a snapshot would.

    ``[7, space, epoch]``

    :param space: the space
    :param epoch: the making of the space
    """

    TYPE = 7
    FEATURE = SNAPSHOTS

    space: SpaceName
    epoch: Epoch


@message
class Take(Message):
    """Ask for a snapshot, from one of its parts on.

    ``[8, space, epoch, snapshot, part]``

    :param space: the space
    :param epoch: the making of the space
    :param snapshot: the snapshot to go on with; nothing: a new one
    :param part: the first part to send
    """

    TYPE = 8
    FEATURE = SNAPSHOTS

    space: SpaceName
    epoch: Epoch
    snapshot: SnapshotId | NoSnapshot
    part: PartNumber


@message
class Part(Message):
    """Bring one part of a snapshot.

    ``[9, space, epoch, snapshot, part, data, short hash, is_last]``

    Its bytes count as those of changes do: for credit, and in acknowledgements. A part that nobody asked for closes
    the connection.

    :param space: the space
    :param epoch: the making of the space
    :param snapshot: which snapshot this is a part of
    :param part: its place among them, from 0
    :param data: the part; compressed only if the receiver names the feature ``deflate``
    :param short_hash: the checksum of the snapshot's id, the place and the data
    :param is_last: no further part follows
    """

    TYPE = 9
    FEATURE = SNAPSHOTS

    space: SpaceName
    epoch: Epoch
    snapshot: SnapshotId
    part: PartNumber
    data: PartData
    short_hash: ShortHash
    is_last: bool
