"""Finding where two chains of one writer part, and showing which of the two keeps the numbers.

For example, the disk of host-a was put back to an older copy, and host-a went on writing. Now host-a and host-b hold
other changes of writer 77 from number 412 on. Host-b says in CHAIN what its changes 500, 499, 497 … of writer 77 are
known by; host-a finds 403 equal and 467 different, and says the same of numbers between. Once two neighbours are found,
411 equal and 412 different, CHAIN carries the change 412 itself: the one with the lower hash keeps the number, and who
holds the other one gives its branch another name.
"""

from __future__ import annotations

from typing import Annotated, Any

from crdtsync.wire.change import SHORT_HASH_BYTES
from crdtsync.wire.limits import PEER_FRAME_BYTES_MAX
from crdtsync.wire.parts import read_blob, read_count
from crdtsync.wire.peer.base import Message, message
from crdtsync.wire.peer.fields import Epoch, Flat, Octets, SpaceName, WriterId

FORKS = "forks"
"""The feature of a node that heals forks."""
CHAIN_POINTS_MAX = 64
"""Points in the changes of one writer, in a message."""


def _flat_points(points: dict[int, bytes]) -> list[object]:
    return [part for point in sorted(points.items()) for part in point]


def _read_points(flat: list[Any]) -> dict[int, bytes]:
    if len(flat) % 2 or len(flat) > 2 * CHAIN_POINTS_MAX:
        raise ValueError("points")
    return {read_count(flat[i]): read_blob(flat[i + 1], SHORT_HASH_BYTES) for i in range(0, len(flat), 2)}


FlatPoints = Annotated[
    dict[int, bytes],
    Flat(
        "points",
        f"one array of seq, short hash, …, of up to {CHAIN_POINTS_MAX} changes, sorted",
        _flat_points,
        _read_points,
    ),
]
ShownBody = Annotated[bytes, Octets("body", PEER_FRAME_BYTES_MAX)]


@message
class Chain(Message):
    """Say by what hashes some changes of one writer are known at the sender, or show the first that differs.

    ``[26, space, epoch, writer, [seq, short hash, …], body]``

    The receiver compares, and answers with points between the last that is equal and the first that differs; if these
    two are neighbours, with its own change at the latter.

    :param space: the space
    :param epoch: the making of the space
    :param writer: whose changes they are
    :param points: by number, the first bytes of the hash of that change
    :param body: the sender's change at the first number that differs; empty: not known yet
    """

    TYPE = 26
    FEATURE = FORKS

    space: SpaceName
    epoch: Epoch
    writer: WriterId
    points: FlatPoints
    body: ShownBody = b""
