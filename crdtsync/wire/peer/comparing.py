"""Comparing replicas: whether two nodes that hold the same changes hold the same state, and mending it if not.

For example, a space has been quiet for five seconds. Host-a and host-b send each other DIGESTS: at this version vector,
my entries add up to this, and my texts to that. If the sums differ, a bug or a bad disk has bitten one of the two. Then
each takes the other's snapshot, compares, and names in REMOVED the entries that the other should not hold.

Another example: host-b was away, and host-a sends it a snapshot that takes away much of what host-b holds. Before
host-b merges it, it asks host-c in SAMPLE about some of that. If host-c, which holds all that host-a says it has, still
has those values, host-a is wrong, and host-b merges nothing.
"""

from __future__ import annotations

from typing import Annotated, Any

from crdtsync.causality import WRITER_MAX, Dot, Writer, flatten
from crdtsync.wire.codec import pack
from crdtsync.wire.peer.base import Message, message
from crdtsync.wire.peer.fields import (
    HASH_FIELD_BYTES_MAX,
    Count,
    Epoch,
    Flat,
    FlatVector,
    Hash,
    KeyText,
    Several,
    SpaceName,
    read_blob,
    read_count,
    read_key,
    read_space,
    read_vector,
)
from crdtsync.wire.peer.transfer import SNAPSHOT_ID_BYTES, SnapshotId

DIGESTS = "digests"
"""The feature of a node that compares its state, with the texts, and mends a difference."""
SAMPLES = "samples"
"""The feature of a node that tells what it knows of a snapshot that another one was sent."""
REMOVED_ENTRIES_MAX = 2000
"""Entries that one message of a repair names."""
SAMPLE_ENTRIES_MAX = 64
SAMPLE_WRITERS_MAX = 10_000

FlatDot = Annotated[Dot, Flat("dot", "writer, seq, n: the name of one written value")]


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

    def encode(self) -> bytes:
        """See :class:`Message`."""
        return pack([self.TYPE, self.space, self.epoch, self.cut, self.digest, self.texts])

    @classmethod
    def decode(cls, plain: list[Any]) -> Digests:
        """See :class:`Message`."""
        _, space, epoch, cut, digest, texts = plain[:6]
        cut, digest, texts = (read_blob(part, HASH_FIELD_BYTES_MAX) for part in (cut, digest, texts))
        return cls(read_space(space), read_count(epoch), cut, digest, texts)


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
    entries: Annotated[list[tuple[KeyText, FlatDot]], Several(REMOVED_ENTRIES_MAX)]

    def encode(self) -> bytes:
        """See :class:`Message`."""
        return pack([self.TYPE, self.space, self.epoch, [[key, *dot] for key, dot in self.entries]])

    @classmethod
    def decode(cls, plain: list[Any]) -> Removed:
        """See :class:`Message`."""
        _, space, epoch, entries = plain[:4]
        if len(entries) > REMOVED_ENTRIES_MAX:
            raise ValueError("more entries than one message may name")
        return cls(
            read_space(space),
            read_count(epoch),
            read_entries(entries),
        )


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
    entries: Annotated[list[tuple[KeyText, FlatDot]], Several(SAMPLE_ENTRIES_MAX)]

    def encode(self) -> bytes:
        """See :class:`Message`."""
        entries = [[key, *dot] for key, dot in self.entries]
        return pack([self.TYPE, self.space, self.epoch, self.snapshot, flatten(self.vector), entries])

    @classmethod
    def decode(cls, plain: list[Any]) -> Sample:
        """See :class:`Message`."""
        _, space, epoch, snapshot, vector, entries = plain[:6]
        if len(entries) > SAMPLE_ENTRIES_MAX:
            raise ValueError("more entries than one sample has")
        return cls(
            read_space(space),
            read_count(epoch),
            read_blob(snapshot, SNAPSHOT_ID_BYTES),
            read_vector(vector),
            read_entries(entries),
        )


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

    def encode(self) -> bytes:
        """See :class:`Message`."""
        return pack([self.TYPE, self.space, self.epoch, self.snapshot, self.is_known, self.live, self.is_denied])

    @classmethod
    def decode(cls, plain: list[Any]) -> Sampled:
        """See :class:`Message`."""
        _, space, epoch, snapshot, is_known, live, is_denied = plain[:7]
        if type(is_known) is not bool or type(is_denied) is not bool:
            raise ValueError("whether all is known, or something denied")
        return cls(
            read_space(space),
            read_count(epoch),
            read_blob(snapshot, SNAPSHOT_ID_BYTES),
            is_known,
            read_count(live),
            is_denied,
        )


def read_entries(plain: list[Any]) -> list[tuple[str, Dot]]:
    """Entries, each by its key and dot."""
    return [
        (read_key(key), Dot(Writer(read_count(writer, WRITER_MAX)), read_count(seq), read_count(n)))
        for key, writer, seq, n in (one[:4] for one in plain)
    ]
