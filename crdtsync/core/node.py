"""One node: every space, every peer, every agent, as a state machine without I/O.

The caller feeds events to :meth:`Node.step`, takes a :class:`Ready` from :meth:`Node.ready`, makes ``persist``
durable, and only then sends ``sends`` and ``replies`` and calls :meth:`Node.advance`. That order is the whole
safety argument: nothing leaves before what it shows is on disk. (The shape is that of etcd's raft library.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from crdtsync.core.agents import Desk, Reply
from crdtsync.core.alarms import Alarms
from crdtsync.core.identity import Identity
from crdtsync.core.ledger import Ledger
from crdtsync.core.peers import Dial
from crdtsync.core.reaper import Reaper
from crdtsync.core.replica import Applied, Replica
from crdtsync.core.retention import DEFAULT_CAPS, Caps, Retention
from crdtsync.core.status import build_status
from crdtsync.core.storage import Batch, OutcomeRow, SpaceRow, Storage
from crdtsync.core.sync import Sync
from crdtsync.core.text_keeping import TextKeeper
from crdtsync.errors import CrdtSyncError, PeerError, to_wire
from crdtsync.wire.change import Codec
from crdtsync.wire.codec import pack
from crdtsync.wire.framing import frame

if TYPE_CHECKING:
    from random import Random

Log = Callable[..., None]


class Now(NamedTuple):
    """The time, from outside: wall clock in ms since 1970 UTC, and a monotonic clock in seconds."""

    wall_ms: int
    mono_s: float


@dataclass(frozen=True, slots=True)
class AgentOpened:
    """An agent attached on connection ``conn``."""

    conn: int
    uid: int
    pid: int


@dataclass(frozen=True, slots=True)
class AgentFrame:
    """An agent sent a frame."""

    conn: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class AgentFlow:
    """An agent's connection takes no more for now (``blocked``), or does so again."""

    conn: int
    blocked: bool


@dataclass(frozen=True, slots=True)
class AgentClosed:
    """An agent's connection is gone."""

    conn: int


@dataclass(frozen=True, slots=True)
class PeerOpened:
    """A connection to another daemon stands; ``dialled``: this side made it."""

    conn: int
    url: str
    dialled: bool


@dataclass(frozen=True, slots=True)
class PeerFrame:
    """Another daemon sent a message."""

    conn: int
    data: bytes


@dataclass(frozen=True, slots=True)
class PeerClosed:
    """A connection to another daemon is gone."""

    conn: int
    reason: str


@dataclass(frozen=True, slots=True)
class PeerLatency:
    """A round trip to a peer took so long."""

    conn: int
    rtt_ms: float


@dataclass(frozen=True, slots=True)
class DialState:
    """How the attempts to reach a configured address go."""

    url: str
    state: str
    error: str


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Whether there is room to write; ``reason`` is what refused writers are told, empty if there is."""

    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = (
    AgentOpened
    | AgentFrame
    | AgentFlow
    | AgentClosed
    | PeerOpened
    | PeerFrame
    | PeerClosed
    | PeerLatency
    | DialState
    | DiskSpace
    | Tick
)


class Ready(NamedTuple):
    """What the caller must do, in this order: persist (one durable commit), then send and reply, then close."""

    persist: Batch
    sends: list[tuple[int, bytes]]
    replies: list[Reply]
    peer_closes: list[tuple[int, str]]
    agent_closes: list[tuple[int, str]]


class Node:
    """See the module's description. Not thread-safe."""

    def __init__(
        self,
        identity: Identity,
        storage: Storage,
        random: Random,
        log: Log,
        now: Now,
        caps: Caps = DEFAULT_CAPS,
    ) -> None:
        self.identity = identity
        self.storage = storage
        self.log = log
        self.now_ms, self.now_s = now
        self.started_s = now.mono_s
        self.read_only = ""
        self.alarms = Alarms(log)
        self._random = random
        self._ledger = Ledger(0, 0)
        self._applied: dict[str, list[Applied]] = {}
        self._durable: dict[str, int] = {}
        self.replicas: dict[str, Replica] = {}
        self.reaper = Reaper(self)
        self._texts: dict[str, TextKeeper] = {}
        self._load()
        self.retention = Retention(storage, caps, now.mono_s)
        self.sync = Sync(identity, self.replicas, storage, self.alarms, random, log, self.now_s)
        self.desk = Desk(self, identity, storage)
        self._handlers: dict[type, Callable[[Any], None]] = {
            AgentOpened: self._agent_opened,
            AgentFrame: self._agent_frame,
            AgentFlow: self._agent_flow,
            AgentClosed: self._agent_closed,
            PeerOpened: self._peer_opened,
            PeerFrame: self._peer_frame,
            PeerClosed: self._peer_closed,
            PeerLatency: self._peer_latency,
            DialState: self._dial_state,
            DiskSpace: self._disk_space,
            Tick: self._tick,
        }

    def _load(self) -> None:
        """Read every space from disk, in place of what memory holds."""
        rows = self.storage.spaces() or [SpaceRow(1, "default", 0, None, 0, 0, 0, {}, 0, {})]
        self._ledger = Ledger(max(row.position for row in rows), self.storage.row_last())
        known = {row.id for row in self.storage.spaces()}
        self._ledger.batch.spaces.extend((row.id, row.name, row.epoch) for row in rows if row.id not in known)
        me = (self.identity.node, self.identity.name)
        for row in rows:
            codec = Codec(self.identity.cluster, row.name, row.epoch)
            self.replicas[row.name] = Replica(row, codec, self.storage, self._ledger, self._random, me, self.alarms)
        for replica in self.replicas.values():
            self.reaper.loaded(replica)
        self._durable = {row.name: row.position for row in rows}
        self._texts = {name: TextKeeper(replica) for name, replica in self.replicas.items()}
        self._tell_time()

    def _tell_time(self) -> None:
        self.alarms.now_ms = self.now_ms
        for replica in self.replicas.values():
            replica.documents.now_s = self.now_s

    # -- events in -------------------------------------------------------------------------------------------

    def step(self, event: Event, now: Now) -> None:
        """Take in one event. What follows from it shows in the next :meth:`ready`."""
        self.now_ms, self.now_s = now
        self._tell_time()
        self._handlers[type(event)](event)

    def _agent_opened(self, event: AgentOpened) -> None:
        self.desk.opened(event.conn, event.uid, event.pid)

    def _agent_frame(self, event: AgentFrame) -> None:
        self.desk.received(event.conn, event.payload)

    def _agent_flow(self, event: AgentFlow) -> None:
        self.desk.watches.set_blocked(event.conn, event.blocked)

    def _agent_closed(self, event: AgentClosed) -> None:
        self.desk.closed(event.conn)

    def _peer_opened(self, event: PeerOpened) -> None:
        self.sync.opened(event.conn, event.url, event.dialled, self.now_s, self.now_ms)

    def _peer_frame(self, event: PeerFrame) -> None:
        self.desk.waits.peers_spoke()
        try:
            applied = self.sync.received(event.conn, event.data, self.now_s, self.now_ms)
        except PeerError as error:
            self.sync.closes.append((event.conn, error.message))
            return
        for name, merged in self.sync.transfers.taker.take_merges():
            self._applied.setdefault(name, [])
            if len(self.desk.watches):
                self.desk.watches.retell(name, merged.keys())
        for item in applied:
            self._applied.setdefault(item.space, []).append(item)

    def _peer_closed(self, event: PeerClosed) -> None:
        self.sync.closed(event.conn, event.reason, self.now_s, self.now_ms)

    def _peer_latency(self, event: PeerLatency) -> None:
        link = self.sync.links.get(event.conn)
        if link is not None:
            link.rtt_ms = event.rtt_ms

    def _dial_state(self, event: DialState) -> None:
        node = self.sync.dials[event.url].node if event.url in self.sync.dials else ""
        self.sync.dials[event.url] = Dial(event.url, event.state, event.error, node)

    def _disk_space(self, event: DiskSpace) -> None:
        self.read_only = event.reason
        self.sync.set_read_only(bool(event.reason), self.now_s)
        if event.reason:
            self.alarms.raise_once("no_space", "", event.reason)
        else:
            self.alarms.clear("no_space", "")

    def _tick(self, _event: Tick) -> None:
        """Nothing but the passing of time, which :meth:`ready` looks at."""

    # -- for the agents' desk ------------------------------------------------------------------------------------

    def applied(self, replica: Replica, changes: list[Applied]) -> None:
        """Changes have been applied in memory."""
        self._applied.setdefault(replica.name, []).extend(changes)

    def outcome(self, row: OutcomeRow) -> None:
        """Store a write's reply with the commit."""
        self._ledger.batch.outcomes.append(row)

    def status(self) -> dict[str, Any]:
        """The object that ``crdtsync status --json`` prints."""
        return build_status(self)

    def document_memory_bytes(self) -> int:
        """About how much memory the loaded documents of all spaces take."""
        return sum(replica.documents.memory_bytes for replica in self.replicas.values())

    def is_linked(self, url: str) -> bool:
        """Whether the node that answered at ``url`` last is connected."""
        dial = self.sync.dials.get(url)
        peer = self.sync.peers.get(dial.node) if dial is not None and dial.node else None
        return peer is not None and peer.link is not None

    # -- results out -----------------------------------------------------------------------------------------------

    def ready(self) -> Ready:
        """What has to be done now.

        The caller must end with :meth:`advance` or :meth:`persist_failed` before the next call.
        """
        desk, sync = self.desk, self.sync
        desk.settle()
        self.reaper.run()
        for name, keeper in self._texts.items():
            own = keeper.keep(self.now_ms, not self.read_only)
            if own:
                self.applied(self.replicas[name], own)
        for name, applied in self._applied.items():
            self.replicas[name].prepare_commit()
            desk.watches.notify(name, applied, self._durable[name], self.now_ms)
        self._retain()
        desk.watches.advance(self._durable, self.now_ms)
        sync.pump(self._applied, self._durable, self.now_s)
        self._ledger.batch.peers.extend(sync.met)
        ready = Ready(self._ledger.take(), sync.sends, desk.replies, sync.closes, desk.closes)
        sync.met, sync.sends, sync.closes = [], [], []
        desk.replies, desk.closes = [], []
        return ready

    def _retain(self) -> None:
        """Let go of what is too old or too much. While there is no room nothing is added, and nothing goes."""
        if self._applied:
            self.retention.touched(self._ledger.batch, self.now_s)
        if not self.read_only and self.now_s >= self.retention.due_s:
            replicas = [replica for _, replica in sorted(self.replicas.items())]
            self.retention.run(replicas, self._ledger.batch, self.now_ms, self.now_s)

    def advance(self) -> None:
        """What :meth:`ready` asked to persist is on disk."""
        for name in self._applied:
            replica = self.replicas[name]
            replica.committed()
            self._durable[name] = replica.position
        self._applied.clear()
        self.desk.committed()

    def step_failed(self, event: Event, why: str) -> Ready:
        """:meth:`step` raised what it never should.

        A bug. What it left half done is dropped, with all that was not yet committed.
        """
        desk, sync = self.desk, self.sync
        ready = Ready(Batch(), [], desk.replies, [], desk.closes)
        desk.replies, desk.closes, sync.sends, sync.closes = [], [], [], []
        if isinstance(event, AgentFrame):
            ready.replies.append(Reply(event.conn, 0, b""))
            ready.agent_closes.append((event.conn, why))
        return self.persist_failed(
            ready, CrdtSyncError(f"this failed inside the daemon and was not done; please report it: {why}")
        )

    def persist_failed(self, ready: Ready, refusal: CrdtSyncError) -> Ready:
        """The commit failed and nothing of it is on disk.

        Memory is read anew; whoever was about to be answered gets ``refusal`` instead.
        """
        self._applied.clear()
        self._load()
        self.retention.failed(self.now_s)
        error = to_wire(refusal)
        replies = [
            reply if reply.stands else Reply(reply.conn, reply.request, frame(pack([reply.request, 1, error])))
            for reply in ready.replies
            if reply.request is not None
        ]
        closes = [(conn, f"this node could not store what it received: {refusal.message}") for conn in self.sync.links]
        self.sync.transfers.reload(self.now_s)
        self.desk.reload(self.replicas, refusal)
        return Ready(Batch(), [], [*replies, *self._take_replies()], closes, ready.agent_closes)

    def _take_replies(self) -> list[Reply]:
        replies, self.desk.replies = self.desk.replies, []
        return replies

    def deadline_s(self) -> float | None:
        """Until when (on the monotonic clock) the caller may wait before it steps a :class:`Tick`; None: for ever."""
        if self._applied or self.desk.watches.has_more():
            return self.now_s
        due = [self.desk.waits.deadline_s(), self.sync.deadline_s(self._durable), self.reaper.deadline_s()]
        due += [keeper.deadline_s(self.now_s, not self.read_only) for keeper in self._texts.values()]
        if not self.read_only:
            due.append(self.retention.due_s)
        return min((moment for moment in due if moment is not None), default=None)
