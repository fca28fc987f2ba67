"""Fetching values: a node asks a peer for what its own disk has spoilt, or what was gone before it came.

For example, a bit of the value of ``reports/q3`` has flipped on host-a's disk. The value does not have its hash, and
host-a's log holds it no longer. Host-a names it in SPOILT, and host-b answers with INTACT. Host-a compares what came
with the hash, and writes it to its place. If the log is what host-a's disk has spoilt, it asks for the whole change.

Another example: host-d has joined by a snapshot. A snapshot holds nothing of what was overwritten or deleted before,
and the checkpoint ``before-refactor`` does. Host-d sends RECALL with the checkpoint's record. Host-a, which has been
there since, answers with RECALLED: some of those values, and where it goes on. Host-d asks again from there, until
nothing follows. Then it compares all that it holds of the checkpoint with the checkpoint's digest.
"""

from __future__ import annotations

from typing import Annotated

from crdtsync.causality import Dot
from crdtsync.wire.limits import CHANGE_BYTES_MAX, CHANGE_OPS_MAX, PEER_FRAME_BYTES_MAX
from crdtsync.wire.peer.base import Message, message
from crdtsync.wire.peer.fields import Epoch, FlatEntry, KeyText, Octets, Several, SpaceName

VALUES = "values"
"""The feature of a node that gives values to those whose disk has spoilt them."""
SPOILT_ENTRIES_MAX = 64
"""Values that one message asks for."""
WHOLE_CHANGE = CHANGE_OPS_MAX
"""Stands for the number of an operation, which no change has, where the whole change is meant."""
ANY_KEY = "*"
"""Stands for the key there."""
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
    :param entries: each by its key and dot, also of values that have been removed. A dot whose n is 1,000: the whole
        change, out of the log; its key says nothing
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
    :param values: theirs, in the same order; of a change its body
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
