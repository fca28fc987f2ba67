"""Events in, :class:`Ready` out: the types that go into a node and come out of it; see :mod:`crdtsync.core.node`."""

from __future__ import annotations

from collections.abc import Sequence

from crdtsync.core.agents.cluster_requests import Chore, ChoreDone
from crdtsync.core.agents.frames import Reply
from crdtsync.core.alarm_catalogue import Alarm
from crdtsync.core.cluster.admission import Reach
from crdtsync.core.cluster.membership import Membership
from crdtsync.core.cluster.node_alarms import LetIn, Misled
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.peer.joining import Join


class Now(NamedTuple):
    """The time, from outside: wall clock in ms since 1970 UTC, and a monotonic clock in seconds."""

    wall_ms: int
    mono_s: float


class AgentOpened(NamedTuple):
    """An agent attached on connection ``conn``. ``is_local``: its user owns the socket or is in the socket's group."""

    conn: int
    uid: int
    pid: int
    gids: tuple[int, ...] = ()
    is_local: bool = True


class AgentFrame(NamedTuple):
    """An agent sent a frame. (A tuple: the cheapest to make, and there is one for each request.)"""

    conn: int
    payload: bytes


class AgentFlow(NamedTuple):
    """An agent's connection takes no more for now (``blocked``), or does so again."""

    conn: int
    blocked: bool


class AgentClosed(NamedTuple):
    """An agent's connection is gone; ``is_stopping``: since this node stops."""

    conn: int
    is_stopping: bool = False


class PeerOpened(NamedTuple):
    """A connection to another daemon stands; ``dialled``: this side made it.

    ``node`` is the node whose key the other side has proven to have; empty in plain text.
    """

    conn: int
    url: str
    dialled: bool
    node: str = ""


class PeerFrame(NamedTuple):
    """Another daemon sent a message."""

    conn: int
    data: bytes


class PeerClosed(NamedTuple):
    """A connection to another daemon is gone."""

    conn: int
    reason: str


class PeerFlowed(NamedTuple):
    """Bytes flow over a connection to a peer, at a rate worth the name."""

    conn: int


class DialState(NamedTuple):
    """How it goes at an address that is dialled: ``connecting``, ``down``, ``refused``, or ``removed``, as a member
    there says; ``forgotten``: it is dialled no more.
    """

    url: str
    state: str
    error: str


class DiskSpace(NamedTuple):
    """Whether there is room to write; ``reason`` is what refused writers are told, empty if there is. ``has_reserve``:
    there is still room for what frees some.
    """

    reason: str
    has_reserve: bool = False


class Room(NamedTuple):
    """How much memory is free, or room on the disk if that is less: what large things that come may take."""

    free_bytes: int


class HostAlarm(NamedTuple):
    """A fault that only the caller sees, such as a port that another program has. An empty message: that is over."""

    alarm: Alarm
    message: str


class LookAtUsage(NamedTuple):
    """It is time to look how full everything is, and to raise alarms; ``disk``: what there is to say of that."""

    disk: str


class Tick(NamedTuple):
    """Time has passed."""


class JoinOpened(NamedTuple):
    """A connection stands to a node that asks to join. It ends with a :class:`PeerClosed`."""

    conn: int


class JoinAsked(NamedTuple):
    """The request of that node. ``is_signed``: the key of its certificate has signed it; ``pin``: the certificate's, if
    so.
    """

    conn: int
    join: Join
    pin: str
    is_signed: bool


class TakeBack(NamedTuple):
    """A change that was acknowledged here, and that the tables lack; see :mod:`crdtsync.core.replay`."""

    space: int
    body: bytes


Event = (
    AgentOpened
    | AgentFrame
    | AgentFlow
    | AgentClosed
    | PeerOpened
    | PeerFrame
    | PeerClosed
    | PeerFlowed
    | DialState
    | DiskSpace
    | Room
    | JoinOpened
    | JoinAsked
    | Reach
    | Misled
    | LetIn
    | ChoreDone
    | HostAlarm
    | LookAtUsage
    | TakeBack
    | Tick
)


class Ready(NamedTuple):
    """The caller's duties of this turn, field by field from top to bottom; :mod:`crdtsync.core` says why
    in this order.
    """

    persist: WriteBatch
    """Rows, to be made durable in one commit before anything below is done. Empty after a turn that only read."""

    sends: list[tuple[int, bytes]]
    """Messages to peers, by connection, each connection's in the order in which they are to arrive. They show what
    ``persist`` holds, so none may leave before it is on disk.
    """

    replies: list[Reply]
    """Frames for agents: replies to requests, and events of watches. The same holds for them."""

    peer_closes: list[tuple[int, str]]
    """Connections to peers that are to be closed, with the reason, after what ``sends`` has for them."""

    agent_closes: list[tuple[int, str]]
    """Connections of agents that are to be closed, with the reason, after what ``replies`` has for them."""

    membership: Membership | None = None
    """The cluster's members from now on, if that has changed: whom to trust, and whom to dial. Else None. Else None."""

    chores: Sequence[Chore] = ()
    """Tasks that only the caller can do, such as opening a listener. Each ends with a
    :class:`~crdtsync.core.agents.cluster_requests.ChoreDone`, to be stepped like any other event.
    """
