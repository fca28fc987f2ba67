"""One node: every space, every peer, every agent, as a state machine without I/O.

The caller feeds events to :meth:`Node.step`, takes a :class:`Ready` from :meth:`Node.ready`, makes ``persist``
durable, and only then sends ``sends`` and ``replies`` and calls :meth:`Node.advance`. That order is the whole
safety argument: nothing leaves before what it shows is on disk. (The shape is that of etcd's raft library.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from crdtsync.core.access.agent import Agent, User
from crdtsync.core.agenda import NodePart, are_plain
from crdtsync.core.agents.cluster_requests import ChoreDone
from crdtsync.core.agents.frames import Reply
from crdtsync.core.agents.host_requests import Service, host_requests
from crdtsync.core.alarm_catalogue import DISK_FILLING, NO_SPACE
from crdtsync.core.cluster.admission import Reach
from crdtsync.core.cluster.node_alarms import LetIn, Misled
from crdtsync.core.diagnostics.counters import Counts
from crdtsync.core.diagnostics.explain import explain_request
from crdtsync.core.diagnostics.remote_lag import status_request
from crdtsync.core.diagnostics.status import build_status, health_of, limited_status
from crdtsync.core.diagnostics.usage import Crowds, Stats, Usage, UsageAlarms, pressing, usages
from crdtsync.core.heal_forks import ForkHealing
from crdtsync.core.identity import Identity
from crdtsync.core.interface import (
    AgentClosed,
    AgentFlow,
    AgentFrame,
    AgentOpened,
    DialState,
    DiskSpace,
    Event,
    HostAlarm,
    JoinAsked,
    JoinOpened,
    LookAtUsage,
    Now,
    PeerClosed,
    PeerFlowed,
    PeerFrame,
    PeerOpened,
    Ready,
    Room,
    TakeBack,
    Tick,
)
from crdtsync.core.node_context import Log
from crdtsync.core.node_parts import DEFAULT_SETTINGS, NodeParts, NodeSettings
from crdtsync.core.peers.peer_state import Dial
from crdtsync.core.replay import take_back
from crdtsync.core.storage.interface import Storage
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.errors import CrdtSyncError, NoSpace, PeerError, to_wire
from crdtsync.wire.codec import pack
from crdtsync.wire.framing import frame
from crdtsync.wire.limits import CLUSTER_SPACE

if TYPE_CHECKING:
    from random import Random

_OF_OTHERS = frozenset((AgentOpened, AgentFrame, AgentFlow, AgentClosed, PeerOpened, PeerFrame, PeerClosed, PeerFlowed))
"""Events of agents and peers."""


class Node(NodeParts):
    """See the module's description. Not thread-safe."""

    def __init__(
        self,
        identity: Identity,
        storage: Storage,
        random: Random,
        log: Log,
        now: Now,
        settings: NodeSettings = DEFAULT_SETTINGS,
        services: Mapping[str, Service] | None = None,
        shell_usages: Callable[[], Iterable[Usage]] = tuple,
    ) -> None:
        super().__init__(identity, storage, random, log, now, settings)
        self.counts = Counts()
        self.crowds = Crowds()
        self._shell_usages = shell_usages
        self._usage_alarms = UsageAlarms(self.alarms)
        self._has_work = False  # as of the end of the last turn
        self.dispatcher.add_requests(host_requests(services or {}))
        self.dispatcher.add_requests({"status": status_request(self, self.status), "explain": explain_request(self)})
        self.dispatcher.check_requests()
        self.agenda.deadlines = self._deadlines()
        self.spaces.start(self.fleet, self.sync)
        self.dispatcher.access_changes.reload()
        self.fork_healing = ForkHealing(self, self._take, self.read_anew)
        self.fork_healing.finish()
        self._handlers: dict[type, Callable[[Any], None]] = {
            AgentOpened: self._agent_opened,
            AgentFrame: self._agent_frame,
            AgentFlow: self._agent_flow,
            AgentClosed: self._agent_closed,
            PeerOpened: self._peer_opened,
            PeerFrame: self._peer_frame,
            PeerClosed: self._peer_closed,
            PeerFlowed: self._peer_flowed,
            DialState: self._dial_state,
            DiskSpace: self._disk_space,
            Room: self._room,
            JoinOpened: lambda event: self.fleet.join_opened(event.conn),
            JoinAsked: lambda event: self.fleet.join_asked(event.conn, event.join, event.pin, event.is_signed),
            Reach: self._reached,
            Misled: self.false_addresses.misled,
            LetIn: self.fleet.let_in,
            ChoreDone: self.cluster_requests.done,
            HostAlarm: lambda event: self.alarms.set(event.alarm, "", event.message),
            LookAtUsage: self._look_at_usage,
            TakeBack: lambda event: take_back(self, event.space, event.body),
            Tick: self._tick,
        }

    def put_to_sleep(self, name: str) -> bool:
        """See :meth:`NodeParts.put_to_sleep`."""
        return not self.fork_healing.is_busy and super().put_to_sleep(name)

    # -- events in -------------------------------------------------------------------------------------------

    def step(self, event: Event, now: Now) -> None:
        """Take in one event. The next :meth:`ready` shows what follows from it."""
        self.now_ms, self.now_s = now
        self.alarms.now_ms = self.now_ms
        for name in self.restless:
            self.replicas[name].documents.now_s = self.now_s
        kind = type(event)
        if kind is not AgentFrame and kind is not PeerFrame:
            self.agenda.all_now()
        if self.fork_healing.has_others_wait and kind in _OF_OTHERS:
            self.fork_healing.wait(event)
        else:
            self._handlers[kind](event)

    def _take(self, event: Event) -> None:
        """Take in an event that has waited."""
        self.agenda.all_now()
        self._handlers[type(event)](event)

    def _agent_opened(self, event: AgentOpened) -> None:
        self.dispatcher.opened(event.conn, User(event.uid, event.gids, event.is_local), event.pid)

    def _reached(self, event: Reach) -> None:
        operators = self.fleet.reach.operators
        self.fleet.reached(event)
        if not event.is_starting:
            self.cluster_requests.started()
            self._tell_health()
        if event.operators != operators:
            self.dispatcher.access_changes.reload()

    def _agent_frame(self, event: AgentFrame) -> None:
        if not self.dispatcher.received(event.conn, event.payload):
            self.agenda.all_now()

    def _agent_flow(self, event: AgentFlow) -> None:
        self.dispatcher.watches.set_blocked(event.conn, event.blocked)
        self.resolvers.set_blocked(event.conn, event.blocked)

    def _agent_closed(self, event: AgentClosed) -> None:
        self.dispatcher.closed(event.conn, is_stopping=event.is_stopping)

    def _peer_opened(self, event: PeerOpened) -> None:
        self.sync.opened(event.conn, event.url, event.dialled, event.node)

    def _peer_frame(self, event: PeerFrame) -> None:
        self.dispatcher.waits.recheck()
        try:
            applied = self.sync.received(event.conn, event.data)
        except PeerError as error:
            self.sync.outbox.closes.append((event.conn, error.message))
            self.agenda.all_now()
            return
        has_merged = self._tell_merges()
        self.received(applied)
        if self.sync.heard_ack:
            self._has_work = self._is_work_left()
        elif has_merged or not applied or not are_plain(applied):
            self.agenda.all_now()

    def _tell_merges(self) -> bool:
        """Tell everybody here of the snapshots that were merged; whether there were any."""
        merges = self.sync.snapshot_client.take_merges()
        for name, merged in merges:
            self._applied.setdefault(name, [])
            self.restless.add(name)
            keys = merged.keys()
            self.resolvers.touched(name, keys)
            if len(self.dispatcher.watches):
                self.dispatcher.watches.retell(name, keys)
            if name == CLUSTER_SPACE:
                self.cluster.changed(keys)
        return bool(merges)

    def _peer_closed(self, event: PeerClosed) -> None:
        self.fleet.join_closed(event.conn)
        self.sync.closed(event.conn, event.reason)
        self.dispatcher.waits.recheck()  # who waits for all that are reached waits for one less
        self.fleet.forget_removed()

    def _peer_flowed(self, event: PeerFlowed) -> None:
        link = self.sync.links.get(event.conn)
        if link is not None:
            self.sync.liveness.flowed(link, self.now_s)

    def _dial_state(self, event: DialState) -> None:
        if event.state == "forgotten":
            self.sync.dials.pop(event.url, None)
            return
        before = self.sync.dials.get(event.url, Dial(event.url))
        is_removed = event.state == "removed"
        if is_removed and self.fleet.is_initialised:
            self.fleet.told_removed(event.error)
        state = "refused" if is_removed else event.state
        self.sync.dials[event.url] = Dial(event.url, state, event.error, before.node, before.is_self)

    def _disk_space(self, event: DiskSpace) -> None:
        self.read_only = event.reason
        self.can_free = not event.reason or event.has_reserve
        if not event.reason:
            self.sync.has_room_again()
        self.alarms.set(NO_SPACE, "", event.reason)
        self._tell_health()

    def _tell_health(self) -> None:
        self.sync.health.tell(health_of(self))

    def _room(self, event: Room) -> None:
        self.sync.snapshot_client.room_bytes = event.free_bytes

    def _look_at_usage(self, event: LookAtUsage) -> None:
        self.alarms.set(DISK_FILLING, "", event.disk)
        self._usage_alarms.look([*pressing(self, self.crowds), *self._shell_usages()])
        self._tell_health()

    def _tick(self, _event: Tick) -> None:
        """Nothing but the passing of time, which :meth:`ready` looks at."""

    # -- for agents, and for the shell -----------------------------------------------------------------------------

    def usages(self, stats: Stats) -> list[Usage]:
        """How full everything is that has a bound; ``stats``: those of all spaces' logs."""
        return [*usages(self, self.crowds, stats), *self._shell_usages()]

    def status(self, agent: Agent | None = None, reserved: bool = False) -> dict[str, Any]:
        """The object that ``crdtsync status --json`` prints; with the reserved space if that is asked for.

        It leaves out all that an ``agent`` may not see.
        """
        if agent is not None and not self.authorizer.sees_everything(agent):
            return limited_status(self, agent, build_status(self, self.counts, self.usages))
        return build_status(self, self.counts, self.usages, reserved)

    # -- results out -----------------------------------------------------------------------------------------------

    def ready(self) -> Ready:
        """List all that the caller has to do now.

        The caller must end with :meth:`advance` or :meth:`persist_failed` before the next call.
        """
        agenda, dispatcher, sync, batch, now_s = self.agenda, self.dispatcher, self.sync, self.ledger.batch, self.now_s
        rewind = self.fork_healing.begin() if sync.forks.lost or self.fork_healing.is_busy else None
        if rewind is not None:
            return Ready(rewind, [], self.take_replies(), [], [])
        if self.ledger.late:
            self._take_late()
        agenda.begin()
        self._heed_waiting()
        if now_s >= agenda.soonest_s:
            self._run_what_writes()
        has_watches = len(dispatcher.watches) > 0
        if self._applied:
            self._tell_of_applied(has_watches)
        if now_s >= agenda.soonest_s:
            self._run_what_reads()
        if has_watches:
            dispatcher.watches.advance(self._durable, self.now_ms)
        are_peers_due = now_s >= agenda.soonest_s and agenda.takes(NodePart.PEERS, now_s)
        sync.pump(self._applied, self._durable, not len(dispatcher.waits), are_peers_due)
        sends, closes, met = sync.outbox.take()
        batch.peers.extend(met)
        if sync.outbox.seen and batch:
            batch.peers.extend(sync.outbox.seen.values())
            sync.outbox.seen.clear()
        if agenda.ran:
            self.fleet.store(batch)
            dispatcher.replies += self.chore_replies()
            membership, chores = self.fleet.take_change(), self.cluster_requests.take_chores()
            ready = Ready(self.ledger.take(), sends, dispatcher.replies, closes, dispatcher.closes, membership, chores)
        else:
            ready = Ready(self.ledger.take(), sends, dispatcher.replies, closes, dispatcher.closes)
        dispatcher.replies, dispatcher.closes = [], []
        return ready

    def _take_late(self) -> None:
        """Changes that were left over when many could be applied at once."""
        self.agenda.all_now()
        late, self.ledger.late = self.ledger.late, {}
        for name, changes in late.items():
            replica = self.replicas.get(name)
            if replica is None:
                continue
            applied, kept = replica.take_in(changes, self.now_ms, asked=None)
            self.received(applied)
            if not kept:
                self.sync.ask_again(name)

    def _heed_waiting(self) -> None:
        """Look at waiting requests again: what has just happened may answer some."""
        dispatcher = self.dispatcher
        if len(dispatcher.waits) or len(dispatcher.long_reads):
            self.agenda.all_now()  # a request that goes on may be any
        if self.resolvers.has_queues:
            self.agenda.now(NodePart.RESOLVERS)

    def _run_what_writes(self) -> None:
        """The parts of which changes may come; whatever does come makes due what follows from it."""
        agenda, now_s = self.agenda, self.now_s
        if agenda.takes(NodePart.REQUESTS, now_s):
            self.dispatcher.settle()
        if agenda.takes(NodePart.EXPIRY, now_s):
            self.reaper.run(self.dispatcher.watches, self.sync)
        if agenda.takes(NodePart.ARCHIVES, now_s):
            self.spaces.archives.run()
        if agenda.takes(NodePart.PURGES, now_s):
            self.purger.run()
        if agenda.takes(NodePart.UPLOADS, now_s):
            self.upload_sweep.run()
        if agenda.takes(NodePart.CHECKPOINTS, now_s):
            self.automatic_checkpoints.run()
            self.recalls.run()
        if agenda.takes(NodePart.TEXTS, now_s):
            self._keep_texts()
        if agenda.takes(NodePart.SNAPSHOTS, now_s):
            self.sync.snapshot_client.go_on()
            applied = self.sync.conclude()
            self._tell_merges()
            self.received(applied)
        if agenda.takes(NodePart.RECORDS, now_s):
            self.fleet.keep_records()
            self.cluster_requests.check_keys()

    def _keep_texts(self) -> None:
        has_readied = False
        for name in sorted(self.restless):
            keeper = self._texts[name]
            applied = keeper.keep(self.now_ms, not self.read_only)
            if applied:
                self.applied(self.replicas[name], applied)
            has_readied |= keeper.has_readied
        if has_readied:
            self.dispatcher.waits.recheck()
            self.dispatcher.settle()  # what waited is done before any later edit comes

    def _run_what_reads(self) -> None:
        """The parts that look at what was written, of which no change comes."""
        now_s, retention = self.now_s, self.retention
        if self.agenda.takes(NodePart.RESOLVERS, now_s):
            self.resolvers.run()
        if self.agenda.takes(NodePart.RETENTION, now_s) and self.can_free and now_s >= retention.due_s:
            retention.run(self.replicas, self.ledger.batch, self._applied, self.now_ms, now_s)
        if self.agenda.takes(NodePart.SLEEP, now_s):
            self.sleeper.run()

    def _tell_of_applied(self, has_watches: bool) -> None:
        """Count what the commit under way changes, and tell watchers and resolvers of it."""
        watches = self.dispatcher.watches
        for name, applied in self._applied.items():
            replica = self.replicas[name]
            replica.prepare_commit()
            if name != CLUSTER_SPACE:
                self.counts.note(replica.entries, applied)
            reranked = watches.reranked(replica, self.now_ms)
            if has_watches:
                watches.notify(name, applied, self._durable[name], self.now_ms)
            if reranked:
                watches.retell(name, reranked, is_lagging=False)
            self.resolvers.notify(name, applied)
            if replica.purges.is_noted:
                self.agenda.now(NodePart.PURGES)
        self.retention.touched(self._applied, self.ledger.batch, self.now_s)
        self.agenda.at(NodePart.RETENTION, self.retention.due_s)

    def chore_replies(self) -> list[Reply]:
        """Replies to requests whose chore is done."""
        return [Reply(conn, request, frame(data)) for conn, request, data in self.cluster_requests.take_replies()]

    @property
    def is_calm(self) -> bool:
        """Whether nothing is due and nothing was applied. Then the last event brought at most replies, which show
        nothing but what is on disk, and :meth:`take_replies` does instead of a turn. So it is with most reads, which
        need not wait for one, and with acknowledgements that nobody waits for.
        """
        return not self._applied and not self._has_work and self.now_s < self.agenda.soonest_s

    @property
    def rows_to_write(self) -> int:
        """How many rows of entries, and of what removed some, the next commit has."""
        return self.ledger.batch.entry_rows()

    def take_replies(self) -> list[Reply]:
        """The replies that :attr:`is_calm` speaks of; they may go out at once."""
        replies, self.dispatcher.replies = self.dispatcher.replies, []
        return replies

    def advance(self) -> None:
        """What :meth:`ready` asked to persist is on disk."""
        if self.fork_healing.advance():
            self._has_work = True
            return
        self.ledger.committed()
        if self.agenda.ran:
            for name in self._applied:
                replica = self.replicas[name]
                replica.committed()
                self._durable[name] = replica.position
            self.restless = {name for name in self.restless if self._is_restless(name)} | self._applied.keys()
            self.resolvers.committed()
        else:
            for name in self._applied:
                replica = self.replicas[name]
                replica.committed_plainly()
                self._durable[name] = replica.position
        self._applied.clear()
        self.dispatcher.committed()
        self._has_work = self._is_work_left()

    def step_failed(self, event: Event, why: str) -> Ready:
        """:meth:`step` raised what it never should.

        A bug. The node drops what the event left half done, with all that was not yet committed.
        """
        dispatcher, sync = self.dispatcher, self.sync
        ready = Ready(WriteBatch(), [], dispatcher.replies, [], dispatcher.closes)
        dispatcher.replies, dispatcher.closes, sync.outbox.sends, sync.outbox.closes = [], [], [], []
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
        self.fork_healing.forget()
        self._load()
        return self._begin_anew(ready, refusal)

    def read_anew(self, name: str, refusal: CrdtSyncError) -> Ready:
        """A commit has changed what the disk holds of a space: read that. Waiting agents get ``refusal``."""
        replica = self.replicas[name]
        replica.read_anew(next(row for row in self.storage.spaces() if row.name == name))
        self._read(replica)
        return self._begin_anew(Ready(WriteBatch(), [], [], [], []), refusal)

    def _begin_anew(self, ready: Ready, refusal: CrdtSyncError) -> Ready:
        """Start over what was built on what memory held before."""
        self.agenda.all_now()
        self.retention.failed(self.now_s)
        self.purger.reload()
        self.recalls.reload()
        error = to_wire(refusal)
        replies = [
            reply if reply.stands else Reply(reply.conn, reply.request, frame(pack([reply.request, 1, error])))
            for reply in ready.replies
            if reply.request is not None
        ]
        closes = [(conn, f"this node could not store what it received: {refusal.message}") for conn in self.sync.links]
        self.sync.ballots.reload(self.now_s)
        self.sync.reload("" if isinstance(refusal, NoSpace) else refusal.message)
        self.dispatcher.reload(self.replicas, refusal)
        self.spaces.reload()
        self.fleet.reload()
        self.resolvers.reload()
        self.cluster.reload()
        self.dispatcher.access_changes.reload()
        return Ready(WriteBatch(), [], [*replies, *self.take_replies()], closes, ready.agent_closes)

    def deadline_s(self) -> float | None:
        """Until when (on the monotonic clock) the caller may wait before it steps a :class:`Tick`; None: for ever.

        To be called when what is :meth:`ready` has been done, and nothing has been stepped since.
        """
        due_s = self.turn_due_s()
        ack_s = self.sync.ack_due_s()
        return due_s if ack_s is None else ack_s if due_s is None else min(due_s, ack_s)

    @property
    def patience_s(self) -> float:
        """So late may the caller ask :meth:`turn_due_s` when a turn is over; 0: something is left to do at once."""
        return 0.0 if self._has_work else self.agenda.patience_s

    def turn_due_s(self) -> float | None:
        """The same for a caller who also sends the acknowledgements that are due, with :meth:`acknowledge`."""
        if self._applied or self.fork_healing.is_busy or self.ledger.late or self.dispatcher.watches.has_more():
            return self.now_s
        next_s = self.agenda.next_s()
        if self.sync.forks.lost and self.fork_healing.due_s > self.now_s:
            next_s = min(next_s, self.fork_healing.due_s)
        return None if next_s == inf else next_s

    @property
    def ack_due_s(self) -> float | None:
        """When :meth:`acknowledge` has something to do."""
        return self.sync.ack_due_s()

    def acknowledge(self, now: Now) -> list[tuple[int, bytes]]:
        """The acknowledgements to peers that are due, to be sent at once; but while a turn is due it brings them."""
        self.sync.acknowledge(now.mono_s)
        return self.sync.outbox.take_sends()

    def _is_work_left(self) -> bool:
        """Whether the next turn has something to do at once. Quicker to tell than all of :meth:`deadline_s`."""
        dispatcher = self.dispatcher
        return bool(
            self._applied
            or self.fork_healing.is_busy
            or self.ledger.late
            or dispatcher.watches.has_more()
            or len(dispatcher.long_reads)
            or dispatcher.waits.is_settling
        ) or (self.sync.has_more(self._durable))

    def _deadlines(self) -> dict[NodePart, Callable[[], float | None]]:
        """How to ask each part when it is due."""
        return {
            NodePart.REQUESTS: lambda: self.now_s if len(self.dispatcher.long_reads) else self.dispatcher.deadline_s(),
            NodePart.EXPIRY: self.reaper.deadline_s,
            NodePart.ARCHIVES: lambda: None if self.read_only else self.spaces.archives.due_s,
            NodePart.PURGES: self.purger.deadline_s,
            NodePart.UPLOADS: lambda: None if self.read_only else self.upload_sweep.due_s,
            NodePart.CHECKPOINTS: lambda: min(self.automatic_checkpoints.due_s, self.recalls.due_s),
            NodePart.TEXTS: self._texts_due_s,
            NodePart.SNAPSHOTS: self.sync.snapshot_client.check_due_s,
            NodePart.RESOLVERS: self.resolvers.deadline_s,
            NodePart.RETENTION: lambda: self.retention.due_s if self.can_free else None,
            NodePart.PEERS: lambda: self.sync.deadline_s(self._durable),
            NodePart.SLEEP: lambda: self.sleeper.due_s,
        }

    def _texts_due_s(self) -> float | None:
        due = [self._texts[name].deadline_s(self.now_s, not self.read_only) for name in self.restless]
        return min((moment_s for moment_s in due if moment_s is not None), default=None)
