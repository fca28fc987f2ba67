"""Fetching damaged values: a node asks a peer for what its own disk has spoilt.

For example, a bit of the value of ``reports/q3`` has flipped on host-a's disk. The value does not have its hash, and
host-a's log holds it no longer. Host-a names it in SPOILT, and host-b answers with INTACT. Host-a compares what came
with the hash, and writes it to its place.
"""

from __future__ import annotations

from typing import Annotated

from crdtsync.causality import Dot
from crdtsync.wire.limits import CHANGE_BYTES_MAX
from crdtsync.wire.peer.base import Message, message
from crdtsync.wire.peer.fields import Epoch, FlatEntry, Octets, Several, SpaceName

VALUES = "values"
"""The feature of a node that gives values to those whose disk has spoilt them."""
SPOILT_ENTRIES_MAX = 64
"""Values that one message asks for."""
INTACT_BYTES_MAX = 1024 * 1024
"""Bytes of the values in one answer, if it has more than one."""

ValueBytes = Annotated[bytes, Octets("value", CHANGE_BYTES_MAX)]


@message
class Spoilt(Message):
    """Ask for values that the sender's disk has spoilt.

    ``[28, space, epoch, [[key, writer, seq, n], …]]``

    The receiver answers with INTACT, if it has some of them.

    :param space: the space
    :param epoch: the making of the space
    :param entries: each by its key and dot, also of values that have been removed
    """

    TYPE = 28
    FEATURE = VALUES

    space: SpaceName
    epoch: Epoch
    entries: Annotated[list[FlatEntry], Several(SPOILT_ENTRIES_MAX)]


@message
class Intact(Message):
    """Give values that SPOILT named: as many as fit, the first ones first.

    ``[29, space, epoch, [[key, writer, seq, n], …], [value, …]]``

    The receiver compares each with its hash before it uses it.

    :param space: the space
    :param epoch: the making of the space
    :param entries: each by its key and dot
    :param values: theirs, in the same order
    """

    TYPE = 29
    FEATURE = VALUES

    space: SpaceName
    epoch: Epoch
    entries: Annotated[list[FlatEntry], Several(SPOILT_ENTRIES_MAX)]
    values: Annotated[list[ValueBytes], Several(SPOILT_ENTRIES_MAX)]

    def found(self) -> list[tuple[str, Dot, bytes]]:
        """Keys and dots with their values."""
        return [(key, dot, value) for (key, dot), value in zip(self.entries, self.values, strict=False)]
