"""What peers say to each other: one msgpack array per websocket message, the first element its type.

=========  =========================================================================================
HELLO      ``[1, {…}]``: who I am, and the frontier of every space that I replicate
CHANGES    ``[2, space, epoch, [body, …]]``: changes, in an order in which they can be applied; then ``true`` if nobody
           at the sender waits for their acknowledgement
ACK        ``[3, bytes, [[space, epoch, [writer, seq, …], cut, digest], …]]``: what I have on disk
WANT       ``[4, space, epoch, [writer, seq, hash8, …]]``: start over, from this frontier
LINKS      ``[5, [node id, …]]``: the nodes that I am connected to
STOP       ``[6, space, code, message]``: I stopped syncing this space with you, and why
OFFER      ``[7, space, epoch]``: what you lack is no longer in my log, or would be too much: take a snapshot
TAKE       ``[8, space, epoch, snapshot, part]``: send me a snapshot (empty id), or this one on from that part
PART       ``[9, space, epoch, snapshot, part, bytes, hash8, is_last]``: one part of it
RESOLVERS  ``[10, node id, [[space, pattern, ms], …], [[space, key, asked], …]]``: who resolves what at a node
PROBE      ``[11, number]``: are you getting anywhere?
PROBED     ``[12, number, time_ms]``: yes; and it is so late here
RELAYS     ``[13, wanted, [[space, [node id, …]], …]]``: do, or do not, relay changes of these nodes to me; an empty
           space stands for all that every node may hold
ASK        ``[14, node id, round, [[space, epoch, [writer, …]], …]]``: that node asks all how much they have of these
HOLDING    ``[15, node id, [[space, epoch, node id, name, database, [writer, seq, …]], …]]``: what nodes that the sender
           has heard of have on disk, for the one that asked
REACHED    ``[16, [[node id, hops], …]]``: the nodes that I reach over others, and over how many connections
DIGESTS    ``[20, space, epoch, cut, digest, texts]``: at this cut, what my state and my texts add up to
REMOVED    ``[21, space, epoch, [[key, writer, seq, n], …]]``: values of yours that I know to have been removed
=========  =========================================================================================

The map of a HELLO has ``protocol``, ``features`` (a list of names), ``node``, ``name``, ``cluster`` and ``database``
(bytes), ``time_ms``, and ``spaces``: by name, ``[epoch, [writer, seq, hash8, …]]``.

Some messages go only to a node whose HELLO names a feature:

=============  =========================================================================================
``snapshots``  OFFER, TAKE and PART; what a part holds is :mod:`crdtsync.wire.peer.snapshot`
``deflate``    parts that are compressed, as that module says
``resolvers``  RESOLVERS
``probes``     PROBE and PROBED
``mesh``       RELAYS, ASK, HOLDING and REACHED
``digests``    DIGESTS and REMOVED
=============  =========================================================================================

Unknown types, and elements after the known ones, come from newer versions and are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crdtsync.causality import Frontier, VersionVector, flatten
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.change import SHORT_HASH_BYTES
from crdtsync.wire.codec import check_items, pack, unpack
from crdtsync.wire.limits import MESSAGE_ITEMS_MAX, PEER_FRAME_BYTES_MAX, PROTOCOL_VERSION
from crdtsync.wire.peer.comparing import DECODERS as _COMPARING_DECODERS
from crdtsync.wire.peer.comparing import Digests, Removed, encode_comparing
from crdtsync.wire.peer.fields import flat_frontier as _flat_frontier
from crdtsync.wire.peer.fields import read_blob as _blob
from crdtsync.wire.peer.fields import read_count as _count
from crdtsync.wire.peer.fields import read_frontier as _frontier
from crdtsync.wire.peer.fields import read_key as _key
from crdtsync.wire.peer.fields import read_name as _name
from crdtsync.wire.peer.fields import read_space as _space
from crdtsync.wire.peer.fields import read_text as _text
from crdtsync.wire.peer.fields import read_vector as _vector
from crdtsync.wire.peer.meshing import DECODERS as _MESH_DECODERS
from crdtsync.wire.peer.meshing import Ask, Holding, Reached, Relays, encode_mesh_message

FRAME_CHANGES_MAX = 256
LINKS_MAX = 10_000
SPACES_MAX = 100_000
PART_NUMBER_MAX = 1 << 32
SNAPSHOT_ID_BYTES = 16
SNAPSHOTS = "snapshots"
"""The feature of a node that gives and takes snapshots."""
RESOLVERS = "resolvers"
"""The feature of a node that tells which resolvers are attached to it."""
RESOLVERS_PATTERNS_MAX = 256
RESOLVERS_KEYS_MAX = 256
RESOLVER_TAKEOVER_MS_MAX = 3600 * 1000
PROBES = "probes"
"""The feature of a node that answers probes."""
MESH = "mesh"
"""The feature of a node that can do with few connections: it takes hints about relays, and passes on questions."""
STOP_CHARS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of either side."""

    node: str
    name: str
    cluster: bytes
    database: bytes
    spaces: Mapping[str, tuple[int, Frontier]]
    time_ms: int
    protocol: int = PROTOCOL_VERSION
    features: Sequence[str] = field(default=())


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one space. ``is_patient``: nobody at the sender waits for their acknowledgement."""

    space: str
    epoch: int
    bodies: Sequence[bytes]
    is_patient: bool = False


@dataclass(frozen=True, slots=True)
class SpaceAck:
    """What a node has on disk of one space.

    The writers that advanced and, if sent, a digest of the state at ``cut``.
    """

    space: str
    epoch: int
    vector: VersionVector
    cut: bytes = b""
    digest: bytes = b""


@dataclass(frozen=True, slots=True)
class Ack:
    """``received_bytes`` counts the changes' bytes taken in on this connection; they are credit for sending more."""

    received_bytes: int
    spaces: Sequence[SpaceAck]


@dataclass(frozen=True, slots=True)
class Want:
    """Something was dropped: send from this frontier again."""

    space: str
    epoch: int
    frontier: Frontier


@dataclass(frozen=True, slots=True)
class Links:
    """Ids of the nodes that the sender is connected to."""

    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Stop:
    """The sender no longer syncs this space with the receiver."""

    space: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Offer:
    """The receiver is too far behind to be brought what it lacks change by change."""

    space: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Take:
    """Send a snapshot: a new one if ``snapshot`` is empty, else that one, from ``part`` on."""

    space: str
    epoch: int
    snapshot: bytes
    part: int


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a snapshot. Its bytes count as changes' bytes do: for credit, and in acknowledgements."""

    space: str
    epoch: int
    snapshot: bytes
    part: int
    data: bytes
    short_hash: bytes
    is_last: bool


class ResolvedPattern(NamedTuple):
    """That somebody resolves conflicts of such keys, and how long one answer may take."""

    space: str
    pattern: str
    takeover_ms: int


class HandledKey(NamedTuple):
    """A conflict that resolvers of a node are at work on, the how-many-th by now, or, with 0, that none of them can
    settle.
    """

    space: str
    key: str
    asked: int


@dataclass(frozen=True, slots=True)
class Resolvers:
    """All that ``node`` has to say about its resolvers, instead of what was told of it before.

    The sender itself, or a node that it is connected to and the receiver is not.
    """

    node: str
    patterns: tuple[ResolvedPattern, ...] = ()
    keys: tuple[HandledKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """The receiver must answer from its next turn."""

    number: int


@dataclass(frozen=True, slots=True)
class Probed:
    """The answer to the probe of that number."""

    number: int
    time_ms: int


Message = (
    Hello | Changes | Ack | Want | Links | Stop | Offer | Take | Part | Resolvers | Probe | Probed
    | Relays | Ask | Holding | Reached | Digests | Removed
)  # fmt: skip


def is_ack(data: bytes) -> bool:
    """Whether an encoded message is an :class:`Ack`."""
    return data[1] == 3  # after the array's own first byte: none of these has over 15 elements


def message_name(data: bytes) -> str:
    """What an encoded message is called in the table above, of which this is the beginning at least; ``?``: in none."""
    return _NAMES.get(data[1], "?") if len(data) > 1 else "?"


def encode_message(message: Message) -> bytes:  # noqa: C901, PLR0912  # a case for each message
    """The message as it goes into one websocket frame."""
    match message:
        case Hello():
            return pack([1, _plain_hello(message)])
        case Changes(space, epoch, bodies, is_patient):
            return pack([2, space, epoch, list(bodies), True] if is_patient else [2, space, epoch, list(bodies)])
        case Ack(received_bytes, spaces):
            return pack([3, received_bytes, [[s.space, s.epoch, flatten(s.vector), s.cut, s.digest] for s in spaces]])
        case Want(space, epoch, frontier):
            return pack([4, space, epoch, _flat_frontier(frontier)])
        case Links(nodes):
            return pack([5, sorted(nodes)])
        case Stop(space, code, message_text):
            return pack([6, space, code, message_text])
        case Offer(space, epoch):
            return pack([7, space, epoch])
        case Take(space, epoch, snapshot, part):
            return pack([8, space, epoch, snapshot, part])
        case Part(space, epoch, snapshot, part, data, short_hash, is_last):
            return pack([9, space, epoch, snapshot, part, data, short_hash, is_last])
        case Resolvers(node, patterns, keys):
            return pack([10, node, [list(one) for one in patterns], [list(one) for one in keys]])
        case Probe(number):
            return pack([11, number])
        case Probed(number, time_ms):
            return pack([12, number, time_ms])
        case Relays() | Ask() | Holding() | Reached():
            return encode_mesh_message(message)
        case Digests() | Removed():
            return encode_comparing(message)


def decode_message(data: bytes) -> Message | None:
    """The message; None if it is of a type that only newer versions know.

    :raises InvalidEncoding: not a message that any correct node could have sent.
    """
    if len(data) > PEER_FRAME_BYTES_MAX:
        raise InvalidEncoding(f"a peer message of {len(data):,} bytes is over the limit of {PEER_FRAME_BYTES_MAX:,}")
    check_items(data, MESSAGE_ITEMS_MAX)
    plain = unpack(data)
    try:
        decoder = _DECODERS.get(plain[0])
        return None if decoder is None else decoder(plain)
    except ValueError as error:
        raise InvalidEncoding(f"malformed peer message: {error}") from None
    except (TypeError, LookupError, AttributeError):
        raise InvalidEncoding("malformed peer message: a part is missing, or of another type than it must be") from None


def _plain_hello(hello: Hello) -> dict[str, object]:
    return {
        "protocol": hello.protocol,
        "features": list(hello.features),
        "node": hello.node,
        "name": hello.name,
        "cluster": hello.cluster,
        "database": hello.database,
        "spaces": {name: [epoch, _flat_frontier(frontier)] for name, (epoch, frontier) in hello.spaces.items()},
        "time_ms": hello.time_ms,
    }


def _hello(plain: list[Any]) -> Hello:
    fields = plain[1]
    if len(fields["spaces"]) > SPACES_MAX:
        raise ValueError("too many spaces")
    return Hello(
        node=_text(fields["node"]),
        name=_name(fields["name"]),
        cluster=_blob(fields["cluster"], 64),
        database=_blob(fields["database"], 64),
        spaces={_space(name): (_count(epoch), _frontier(flat)) for name, (epoch, flat) in fields["spaces"].items()},
        time_ms=_count(fields["time_ms"]),
        protocol=_count(fields["protocol"]),
        features=tuple(_text(feature) for feature in fields["features"][:100]),
    )


def _changes(plain: list[Any]) -> Changes:
    _, space, epoch, bodies = plain[:4]
    if not 1 <= len(bodies) <= FRAME_CHANGES_MAX:
        raise ValueError(f"{len(bodies)} changes in one message")
    is_patient = len(plain) > 4 and plain[4] is True
    return Changes(_space(space), _count(epoch), [_blob(body, PEER_FRAME_BYTES_MAX) for body in bodies], is_patient)


def _ack(plain: list[Any]) -> Ack:
    _, received_bytes, spaces = plain[:3]
    return Ack(
        _count(received_bytes),
        [
            SpaceAck(_space(space), _count(epoch), _vector(flat), _blob(cut, 64), _blob(digest, 64))
            for space, epoch, flat, cut, digest in spaces
        ],
    )


def _want(plain: list[Any]) -> Want:
    _, space, epoch, flat = plain[:4]
    return Want(_space(space), _count(epoch), _frontier(flat))


def _links(plain: list[Any]) -> Links:
    if len(plain[1]) > LINKS_MAX:
        raise ValueError("too many links")
    return Links(frozenset(_text(node) for node in plain[1]))


def _stop(plain: list[Any]) -> Stop:
    _, space, code, message = plain[:4]
    if type(message) is not str:
        raise ValueError("not a message in words")
    return Stop(_space(space), _text(code), message[:STOP_CHARS_MAX])


def _offer(plain: list[Any]) -> Offer:
    _, space, epoch = plain[:3]
    return Offer(_space(space), _count(epoch))


def _take(plain: list[Any]) -> Take:
    _, space, epoch, snapshot, part = plain[:5]
    if len(snapshot) not in (0, SNAPSHOT_ID_BYTES):
        raise ValueError("not the id of a snapshot")
    return Take(_space(space), _count(epoch), _blob(snapshot, SNAPSHOT_ID_BYTES), _count(part, PART_NUMBER_MAX))


def _part(plain: list[Any]) -> Part:
    _, space, epoch, snapshot, part, data, short_hash, is_last = plain[:8]
    if len(snapshot) != SNAPSHOT_ID_BYTES or type(is_last) is not bool:
        raise ValueError("part of a snapshot")
    return Part(
        _space(space),
        _count(epoch),
        _blob(snapshot, SNAPSHOT_ID_BYTES),
        _count(part, PART_NUMBER_MAX),
        _blob(data, PEER_FRAME_BYTES_MAX),
        _blob(short_hash, SHORT_HASH_BYTES),
        is_last,
    )


def _resolvers(plain: list[Any]) -> Resolvers:
    _, node, patterns, keys = plain[:4]
    if len(patterns) > RESOLVERS_PATTERNS_MAX or len(keys) > RESOLVERS_KEYS_MAX:
        raise ValueError("more about resolvers than a node has to say")
    return Resolvers(
        _text(node),
        tuple(
            ResolvedPattern(_space(space), _key(pattern), _count(takeover_ms, RESOLVER_TAKEOVER_MS_MAX))
            for space, pattern, takeover_ms in (one[:3] for one in patterns)
        ),
        tuple(HandledKey(_space(space), _key(key), _count(asked)) for space, key, asked in (one[:3] for one in keys)),
    )


_NAMES = {
    1: "HELLO", 2: "CHANGES", 3: "ACK", 4: "WANT", 5: "LINKS", 6: "STOP", 7: "OFFER", 8: "TAKE", 9: "PART",
    10: "RESOLVERS", 11: "PROBE", 12: "PROBED", 13: "RELAYS", 14: "ASK", 15: "HOLDING", 16: "REACHED", 20: "DIGESTS",
    21: "REMOVED",
}  # fmt: skip

_DECODERS: dict[object, Callable[[list[Any]], Message]] = {
    **_MESH_DECODERS,
    **_COMPARING_DECODERS,
    1: _hello,
    2: _changes,
    3: _ack,
    4: _want,
    5: _links,
    6: _stop,
    7: _offer,
    8: _take,
    9: _part,
    10: _resolvers,
    11: lambda plain: Probe(_count(plain[1])),
    12: lambda plain: Probed(_count(plain[1]), _count(plain[2])),
}
