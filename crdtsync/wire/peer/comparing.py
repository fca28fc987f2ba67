"""Comparing replicas: whether two nodes that hold the same changes hold the same state, and mending it if not.

For example, a space has been quiet for five seconds. Host-a and host-b send each other DIGESTS: at this version vector,
my entries add up to this, and my texts to that. If the sums differ, a bug or a bad disk has bitten one of the two. Then
each takes the other's snapshot, compares, and names in REMOVED the entries that the other should not hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from crdtsync.causality import WRITER_MAX, Dot, Writer
from crdtsync.wire.codec import pack
from crdtsync.wire.peer.base import Message, message
from crdtsync.wire.peer.fields import (
    HASH_FIELD_BYTES_MAX,
    Epoch,
    Flat,
    Hash,
    KeyText,
    Several,
    SpaceName,
    read_blob,
    read_count,
    read_key,
    read_space,
)

DIGESTS = "digests"
"""The feature of a node that compares its state, with the texts, and mends a difference."""
REMOVED_ENTRIES_MAX = 2000

FlatDot = Annotated[Dot, Flat("dot", "writer, seq, n: the name of one written value")]


@message
@dataclass(frozen=True, slots=True)
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
@dataclass(frozen=True, slots=True)
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
            [
                (read_key(key), Dot(Writer(read_count(writer, WRITER_MAX)), read_count(seq), read_count(n)))
                for key, writer, seq, n in (one[:4] for one in entries)
            ],
        )
