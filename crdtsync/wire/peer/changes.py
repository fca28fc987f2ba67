"""Changes and acknowledgements: the everyday traffic of one space.

For example, an agent on host-a writes. Host-a commits the change and sends CHANGES to host-b. Host-b applies the
change, has it on its disk, and answers with an ACK that names the writer and the number of the change. If an earlier
change has not come, host-b keeps the change for a while; where there is no room for that, host-b drops the change and
asks again with WANT. If the two hold different changes under one number, one of them says STOP.
"""

from __future__ import annotations

from typing import Annotated, Any

from crdtsync.causality import flatten
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack
from crdtsync.wire.limits import PEER_FRAME_BYTES_MAX
from crdtsync.wire.parts import read_blob, read_count, read_vector
from crdtsync.wire.peer.base import Message, message
from crdtsync.wire.peer.fields import (
    HASH_FIELD_BYTES_MAX,
    Count,
    Epoch,
    FlatFrontier,
    FlatVector,
    Hash,
    Octets,
    Several,
    SpaceName,
    Text,
    Words,
    read_space,
)

FRAME_CHANGES_MAX = 256
"""Changes in one message."""
STOP_CHARS_MAX = 1000


def _read_reason(reason: Any) -> str:
    if type(reason) is not str:
        raise ValueError("not a message in words")
    return reason[:STOP_CHARS_MAX]


Body = Annotated[bytes, Octets("body", PEER_FRAME_BYTES_MAX)]
Reason = Annotated[
    str,
    Words(
        "reason",
        f"a string, of which the first {STOP_CHARS_MAX:,} characters are read",
        f"(?s:.){{0,{STOP_CHARS_MAX}}}",
        _read_reason,
    ),
]


@message
class Changes(Message):
    """Bring changes of one space, in an order in which the receiver can apply them.

    ``[2, space, epoch, [body, …]]``, and then ``true`` if the sender is patient

    Each body is a change as its author encoded it (:mod:`crdtsync.wire.change`): a node relays it unchanged. The
    receiver ignores a change that it holds, and keeps one that comes too early.

    :param space: the space
    :param epoch: the making of the space; the receiver ignores changes of another one
    :param bodies: the changes
    :param is_patient: nobody at the sender waits for the acknowledgement, so that it may come some ms later
    """

    TYPE = 2

    space: SpaceName
    epoch: Epoch
    bodies: Annotated[list[Body], Several(FRAME_CHANGES_MAX, 1)]
    is_patient: bool = False

    def encode(self) -> bytes:
        """See :class:`Message`."""
        if self.is_patient:
            return pack([self.TYPE, self.space, self.epoch, self.bodies, True])
        return pack([self.TYPE, self.space, self.epoch, self.bodies])

    @classmethod
    def decode(cls, plain: list[Any]) -> Changes:
        """See :class:`Message`."""
        _, space, epoch, bodies = plain[:4]
        if not 1 <= len(bodies) <= FRAME_CHANGES_MAX:
            raise ValueError(f"{len(bodies)} changes in one message")
        is_patient = len(plain) > 4 and plain[4] is True
        return cls(
            read_space(space), read_count(epoch), [read_blob(body, PEER_FRAME_BYTES_MAX) for body in bodies], is_patient
        )


class SpaceAck(NamedTuple):
    """The changes of one space that a node has on disk.

    :param space: the space
    :param epoch: the making of the space
    :param vector: the writers that advanced since the last ACK, and how far
    :param cut: a short name for the whole version vector at which ``digest`` holds
    :param digest: the digest of the live entries at the cut; empty: not computed
    """

    space: SpaceName
    epoch: Epoch
    vector: FlatVector
    cut: Hash = b""
    digest: Hash = b""


@message
class Ack(Message):
    """Say what the sender has on disk, and give credit for more.

    ``[3, received_bytes, [[space, epoch, [writer, seq, …], cut, digest], …]]``

    The receiver may have so many bytes of changes and snapshots under way, counted from ``received_bytes``; beyond
    that it waits for the next ACK. If both stand at the same cut with different digests, their states have diverged.

    :param received_bytes: the bytes of bodies and parts that the sender has taken in on this connection, in all
    :param spaces: each space in which writers advanced
    """

    TYPE = 3

    received_bytes: Count
    spaces: list[SpaceAck]

    def encode(self) -> bytes:
        """See :class:`Message`."""
        spaces = [[one.space, one.epoch, flatten(one.vector), one.cut, one.digest] for one in self.spaces]
        return pack([self.TYPE, self.received_bytes, spaces])

    @classmethod
    def decode(cls, plain: list[Any]) -> Ack:
        """See :class:`Message`."""
        _, received_bytes, spaces = plain[:3]
        return cls(
            read_count(received_bytes),
            [
                SpaceAck(
                    read_space(space),
                    read_count(epoch),
                    read_vector(flat),
                    read_blob(cut, HASH_FIELD_BYTES_MAX),
                    read_blob(digest, HASH_FIELD_BYTES_MAX),
                )
                for space, epoch, flat, cut, digest in spaces
            ],
        )


@message
class Want(Message):
    """Ask for all changes after a frontier; the first WANT for a space also introduces it.

    ``[4, space, epoch, [writer, seq, short hash, …]]``

    :param space: the space
    :param epoch: the making of the space
    :param frontier: what the sender has; the receiver starts over from there
    """

    TYPE = 4

    space: SpaceName
    epoch: Epoch
    frontier: FlatFrontier


@message
class Stop(Message):
    """Say that the sender no longer syncs a space over this connection.

    ``[6, space, code, reason]``

    The receiver raises an alarm with this code and reason, and sends nothing more of the space. Other spaces go on.

    :param space: the space
    :param code: the code of the error, such as ``fork``
    :param message: the reason, for people
    """

    TYPE = 6

    space: SpaceName
    code: Text
    message: Reason
