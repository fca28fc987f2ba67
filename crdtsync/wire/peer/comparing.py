"""Comparing: whether two nodes that should hold the same do so, and mending it if not.

For example, a space has been quiet for five seconds. Host-a and host-b send each other DIGESTS: at this version vector,
my entries add up to this, and my texts to that. If the sums differ, a bug or a bad disk has bitten one of the two. Then
each takes the other's snapshot, compares, and names in REMOVED the entries that the other should not hold.

Another example: host-b was away, and host-a sends it a snapshot that takes away much of what host-b holds. Before
host-b merges it, it asks host-c in SAMPLE about some of that. If host-c, which holds all that host-a says it has, still
has those values, host-a is wrong, and host-b merges nothing.

A third one: the disk of host-a was put back to an older copy, and host-a went on writing. Now host-a and host-b hold
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
from crdtsync.wire.peer.fields import (
    Count,
    Epoch,
    Flat,
    FlatEntry,
    FlatVector,
    Hash,
    Octets,
    Several,
    SpaceName,
    WriterId,
)
from crdtsync.wire.peer.transfer import SnapshotId

DIGESTS = "digests"
"""The feature of a node that compares its state, with the texts, and mends a difference."""
SAMPLES = "samples"
"""The feature of a node that tells what it knows of a snapshot that another one was sent."""
REMOVED_ENTRIES_MAX = 2000
"""Entries that one message of a repair names."""
SAMPLE_ENTRIES_MAX = 64
SAMPLE_WRITERS_MAX = 10_000


@message
class Digests(Message):
    """Say what the sender's live entries, and the texts that they name, add up to.

    ``[20, space, epoch, cut, digest, texts]``

    If the receiver stands at the same cut and has other sums, the receiver raises the alarm ``divergence`` and mends.

    :param space: the space
    :param epoch: the making of the space
    :param cut: a short name for the version vector at which this holds
    :param digest: of the live entries
    :param texts: of the texts' contents
    """

    TYPE = 20
    FEATURE = DIGESTS

    space: SpaceName
    epoch: Epoch
    cut: Hash
    digest: Hash
    texts: Hash


@message
class Removed(Message):
    """Name entries of the receiver that the sender knows to have been removed.

    ``[21, space, epoch, [[key, writer, seq, n], …]]``

    The receiver removes them only while it compares with this sender and differs.

    :param space: the space
    :param epoch: the making of the space
    :param entries: each by its key and dot
    """

    TYPE = 21
    FEATURE = DIGESTS

    space: SpaceName
    epoch: Epoch
    entries: Annotated[list[FlatEntry], Several(REMOVED_ENTRIES_MAX)]


@message
class Sample(Message):
    """Ask what the receiver knows of a snapshot that the sender was given by somebody else.

    ``[24, space, epoch, snapshot, vector, [[key, writer, seq, n], …]]``

    The receiver answers with SAMPLED.

    :param space: the space
    :param epoch: the making of the space
    :param snapshot: which snapshot; the answer names it
    :param vector: what the snapshot claims to know beyond the sender, of up to 10,000 writers
    :param entries: some of those that it takes away, each by its key and dot
    """

    TYPE = 24
    FEATURE = SAMPLES

    space: SpaceName
    epoch: Epoch
    snapshot: SnapshotId
    vector: FlatVector
    entries: Annotated[list[FlatEntry], Several(SAMPLE_ENTRIES_MAX)]


@message
class Sampled(Message):
    """Say what the sender knows of a snapshot that the receiver was given by somebody else.

    ``[25, space, epoch, snapshot, is_known, live, is_denied]``

    :param space: the space
    :param epoch: the making of the space
    :param snapshot: the one that SAMPLE named
    :param is_known: the sender holds all changes that the vector in SAMPLE names
    :param live: how many of the entries the sender holds
    :param is_denied: the vector names changes of the writer that the sender goes on as, which the sender never made
    """

    TYPE = 25
    FEATURE = SAMPLES

    space: SpaceName
    epoch: Epoch
    snapshot: SnapshotId
    is_known: bool
    live: Count
    is_denied: bool


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
