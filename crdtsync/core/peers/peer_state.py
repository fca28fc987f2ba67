"""The facts that a node knows of other nodes: the connection to each, what it has been sent, and what it
has on disk.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from crdtsync.causality import VersionVector, Writer, covers
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.peer.base import Message
from crdtsync.wire.peer.comparing import Digests
from crdtsync.wire.peer.hello import Hello


@dataclass(slots=True)
class Serving:
    """Which snapshot is being given away, and which part is next."""

    snapshot: bytes
    part: int


class SpaceLink:
    """How far one space has got on one connection.

    ``known``: what the peer said it has, or was sent. ``position``: everything in our log up to here is known or
    left to others to bring. ``relay_until``: up to here it is no longer left to others.

    ``offered``: the peer was told to take a snapshot, and the log waits; ``serving``: the one that it takes;
    ``floor_lag``: how far it was below the log's floor when that was last looked at. The other way: ``has_offer``,
    and ``was_asked`` for a snapshot. ``told`` and ``heard``: what the replicas add up to, as last said. ``forked``: the
    writers of whom the two hold different changes under one number, and how many messages were sent about each.
    """

    __slots__ = (
        "ack_writers",
        "epoch",
        "floor_lag",
        "forked",
        "has_offer",
        "heard",
        "known",
        "mark_position",
        "mark_vector",
        "offer_due_s",
        "offered",
        "position",
        "progressed",
        "relay_until",
        "serving",
        "stopped",
        "told",
        "was_asked",
    )

    def __init__(self, epoch: int, known: VersionVector) -> None:
        self.epoch = epoch
        self.known = known
        self.position = 0
        self.relay_until = 0
        self.stopped = False
        self.forked: dict[Writer, int] = {}
        self.ack_writers: set[Writer] = set()
        self.mark_vector: VersionVector = {}
        self.mark_position = 0
        self.progressed = False
        self.offered = False
        self.offer_due_s = 0.0
        self.serving: Serving | None = None
        self.floor_lag = 0
        self.has_offer = False
        self.was_asked = False
        self.told: Digests | None = None
        self.heard: Digests | None = None


class Link:
    """One open connection to a peer. ``introduced``: what this side said first that it has, of each space.

    ``busy``: the spaces for which there is something to send or to acknowledge; ``unsettled``: those of which the peer
    has not said that it holds all. A turn looks at no others, however many spaces there are.

    ``node``: whose key the other side has proven to have; empty in plain text. ``unwanted``: the nodes whose changes it
    gets from others, see :mod:`crdtsync.core.peers.relay_tree`. ``unintroduced``: the spaces that it has still to be
    told of.
    """

    __slots__ = (
        "ack_due_s", "acked_bytes", "busy", "conn", "dialled", "dropped_bytes", "dropped_spaces", "flowed_s", "hello",
        "introduced", "is_given_up", "node", "nodes", "probe_due_s", "probe_number", "probe_sent_s", "received_bytes",
        "rtt_ms", "sent_bytes", "since_s", "spaces", "unintroduced", "unsettled",
        "unwanted", "url", "wants",
    )  # fmt: skip

    def __init__(self, conn: int, url: str, dialled: bool, now_s: float, node: str = "") -> None:
        self.conn = conn
        self.node = node
        self.url = url
        self.dialled = dialled
        self.since_s = now_s
        self.hello: Hello | None = None
        self.introduced: dict[str, VersionVector] = {}
        self.spaces: dict[str, SpaceLink] = {}
        self.busy: set[str] = set()
        self.unsettled: set[str] = set()
        self.unwanted: dict[str, set[str]] = {}
        self.unintroduced: deque[str] = deque()
        self.nodes: frozenset[str] = frozenset()
        self.sent_bytes = 0
        self.acked_bytes = 0
        self.received_bytes = 0
        self.dropped_bytes = 0
        self.dropped_spaces: set[str] = set()
        self.ack_due_s: float | None = None
        self.rtt_ms: float | None = None
        self.wants: dict[str, float] = {}
        self.probe_number = 0
        self.probe_due_s = 0.0
        self.probe_sent_s: float | None = None
        self.flowed_s = 0.0
        self.is_given_up = False

    @property
    def peer_node(self) -> str:
        """The node at the other end; empty until it has introduced itself."""
        return self.node if self.hello is None else self.hello.node

    @property
    def peer_name(self) -> str | None:
        """The name of the node at the other end; None until it has introduced itself."""
        return None if self.hello is None else self.hello.name

    def takes(self, message: type[Message]) -> bool:
        """Whether the peer has introduced itself as one that knows such messages."""
        return self.hello is not None and (not message.FEATURE or message.FEATURE in self.hello.features)


@dataclass(slots=True)
class Peer:
    """One other node, connected or not. ``clock_skew_ms``: None until it has been measured."""

    node: str
    name: str
    url: str = ""
    last_seen_ms: int = 0
    last_error: str = ""
    database: bytes = b""
    clock_skew_ms: int | None = None
    link: Link | None = None
    replaced_s: list[float] = field(default_factory=list)
    acked: dict[str, VersionVector] = field(default_factory=dict)

    def holds(self, space: str, vector: VersionVector) -> bool:
        """Whether the node has said that it has all of this on disk."""
        return covers(self.acked.get(space, {}), vector)


class Dial(NamedTuple):
    """An address that this node keeps trying to reach. ``node``: who answered there; ``is_self``: this node did."""

    url: str
    state: str = "connecting"
    last_error: str = ""
    node: str = ""
    is_self: bool = False
