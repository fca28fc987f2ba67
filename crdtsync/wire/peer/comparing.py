"""Messages of nodes with the feature ``digests``: whether their replicas are equal, and what is to be done if not;
see :mod:`crdtsync.wire.peer.messages`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from crdtsync.causality import WRITER_MAX, Dot, Writer
from crdtsync.wire.codec import pack
from crdtsync.wire.peer.fields import read_blob, read_count, read_key, read_space

DIGESTS = "digests"
"""The feature of a node that compares its state, with the texts, and mends a difference."""
REMOVED_ENTRIES_MAX = 2000
DIGEST_BYTES_MAX = 64


@dataclass(frozen=True, slots=True)
class Digests:
    """What the sender's state adds up to at ``cut``: its live entries, and the texts that they name."""

    space: str
    epoch: int
    cut: bytes
    digest: bytes
    texts: bytes


@dataclass(frozen=True, slots=True)
class Removed:
    """Entries of the receiver, by key and dot, that the sender knows to have been removed."""

    space: str
    epoch: int
    entries: Sequence[tuple[str, Dot]]


def encode_comparing(message: Digests | Removed) -> bytes:
    """The message as it goes into one frame."""
    match message:
        case Digests(space, epoch, cut, digest, texts):
            return pack([20, space, epoch, cut, digest, texts])
        case Removed(space, epoch, entries):
            return pack([21, space, epoch, [[key, *dot] for key, dot in entries]])


def _digests(plain: list[Any]) -> Digests:
    _, space, epoch, cut, digest, texts = plain[:6]
    cut, digest, texts = (read_blob(part, DIGEST_BYTES_MAX) for part in (cut, digest, texts))
    return Digests(read_space(space), read_count(epoch), cut, digest, texts)


def _removed(plain: list[Any]) -> Removed:
    _, space, epoch, entries = plain[:4]
    if len(entries) > REMOVED_ENTRIES_MAX:
        raise ValueError("more entries than one message may name")
    return Removed(
        read_space(space),
        read_count(epoch),
        tuple(
            (read_key(key), Dot(Writer(read_count(writer, WRITER_MAX)), read_count(seq), read_count(n)))
            for key, writer, seq, n in (one[:4] for one in entries)
        ),
    )


DECODERS: dict[object, Callable[[list[Any]], Digests | Removed]] = {20: _digests, 21: _removed}
