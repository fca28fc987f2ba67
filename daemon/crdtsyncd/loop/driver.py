"""The driver: the only caller of :class:`crdtsync.core.node.Node`.

Three agents write at the same moment. If each write were flushed by itself, the third would wait for three flushes. If
a reply left before its flush, a power cut could take back what an agent had been told. So one turn of the event loop
steps everything that has come in, then one commit makes all of it durable, then replies and messages leave. If the
commit fails, nothing that hangs on it leaves, and the node reads its memory anew from disk.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Callable, Mapping
from random import SystemRandom
from typing import TYPE_CHECKING

from crdtsyncd.backup.backup import Backups
from crdtsyncd.backup.set_database_aside import OpenStore, begin, set_aside
from crdtsyncd.loop.agent_budget import AgentPlaces, LargeRequests
from crdtsyncd.loop.agent_socket import AgentConnection
from crdtsyncd.loop.connections import Connections, write_replies
from crdtsyncd.loop.host_services import services
from crdtsyncd.loop.housekeeping import Housekeeping
from crdtsyncd.loop.pending_joins import PendingJoins
from crdtsyncd.loop.process import free_memory_bytes
from crdtsyncd.loop.recovery import Recovery
from crdtsyncd.loop.replay_quarantine import look
from crdtsyncd.loop.timers import AckTimer, TurnTimer
from crdtsyncd.loop.write_gate import WriteGate
from crdtsyncd.security.peer_identity import Credentials, PeerIdentity
from crdtsyncd.storage.database import Store
from crdtsyncd.storage.journal.quarantine import RowsRefused
from crdtsyncd.storage.wal_checkpoint import WalCheckpoints
from crdtsyncd.storage.writer_mark import machine_id
from crdtsyncd.telemetry.event_log import log
from crdtsyncd.telemetry.slow_turns import SlowTurns
from crdtsyncd.telemetry.turn_times import TurnTimes

from crdtsync.core.access.agent import User
from crdtsync.core.agents.cluster_requests import Chore, ChoreDone
from crdtsync.core.background.digest_warmup import sum_some
from crdtsync.core.cluster.admission import Reach
from crdtsync.core.cluster.membership import Membership
from crdtsync.core.cluster.node_alarms import Misled
from crdtsync.core.identity import Identity
from crdtsync.core.interface import (
    AgentClosed,
    AgentFlow,
    AgentFrame,
    AgentOpened,
    DialState,
    Event,
    Now,
    PeerClosed,
    PeerFrame,
    PeerOpened,
    Ready,
    Tick,
)
from crdtsync.core.node import Node
from crdtsync.core.node_parts import NodeSettings
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.errors import CrdtSyncError, NoSpace, StorageError
from crdtsync.wire.codec import new_row
from crdtsync.wire.invites import Invite
from crdtsync.wire.peer.joining import Join

if TYPE_CHECKING:
    from crdtsyncd.config.model import Config
    from crdtsyncd.peers.websocket_peer import PeerConnection
    from crdtsyncd.security.trusted_members import Trust


FULL_TURN_S = 0.02
"""A turn that has taken so long takes in no more large requests: 32 agents may bring some of 30 ms at one moment."""


def operators() -> tuple[int, int]:
    """The users who run this node: they may do everything."""
    return 0, os.geteuid()


def _now() -> Now:
    now: Now = new_row(Now, (time.time_ns() // 1_000_000, time.monotonic()))
    return now


class Driver:
    """Feeds the node, commits, and delivers what it says. ``failed`` is set when the process must end."""

    def __init__(self, config: Config, store: Store, open_store: OpenStore, trust: Trust, version: str) -> None:
        self._config = config
        self._open_store = open_store
        self._slow_turns = SlowTurns(log, self._agent_name)
        self.times = TurnTimes(self._slow_turns.tell)
        self._store = store
        store.work = self.times.work
        self._version = version
        self.trust = trust
        trust.cluster = self._store.cluster
        self.on_membership: Callable[[Membership], None] = trust.update
        self.early_chores: list[Chore] = []
        """Those that came before there was somebody for them."""
        self.on_chore: Callable[[Chore], None] = self.early_chores.append
        self._joins = PendingJoins(self.feed, self._bound)
        settle = lambda: self._store.settle()  # noqa: E731, PLW0108  # it may be another one by then
        self._backups = Backups(store.path, self._about, config.free_bytes_min, settle)
        self._offered = services(self.exposition, self._backups)
        self._connections = Connections(AgentPlaces(config.agents_max, os.geteuid()))
        self.large_requests = LargeRequests()
        self._agents, self._peers = self._connections.agents, self._connections.peers
        self._gate = WriteGate(lambda: self._store.is_crowded)
        self._held_back: dict[object, Callable[[], object]] = {}  # while a fork is healed and much waits already
        self._checkpoints = WalCheckpoints(self)
        self._house = Housekeeping(self, config, self._connections, self._checkpoints)
        self._recovery = Recovery(self)
        self._node = self._make_node()
        gc.freeze()  # the live state: it stays, and looking through it for garbage again and again stalls everybody
        self._flush_due: asyncio.Handle | None = None
        self._planner = TurnTimer(self.feed, self._due, self.times)
        self._acks = AckTimer(self._acknowledge, lambda: self._node.ack_due_s)
        self._flushed: asyncio.Event | None = None  # set at the end of the turn under way, if anybody waits for that
        self._collects_later = False  # whether garbage is looked for again when the turn is over
        self._is_delivering = False
        self._met_meanwhile: list[Event] = []
        self._is_stopping = False
        self._is_stopped = False
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.progress = 0
        if store.quarantine.count:
            log("quarantined", level="error", reason=store.quarantine.why)
        self._recovery.take_back()
        self._flush()

    def _make_node(self) -> Node:
        node = self._bare_node()
        node.step(Reach(operators=operators(), is_starting=True), _now())  # who may do what is asked at once
        return node

    def _bare_node(self) -> Node:
        store, config = self._store, self._config
        identity = Identity(
            store.node, config.node_name, store.cluster, store.database, self._version, os.getpid(), store.incarnation
        )
        settings = NodeSettings(
            config.caps,
            config.limits,
            free_memory_bytes(),
            config.value_cache_bytes,
            config.blob_bytes_max,
            config.voters,
        )
        return Node(identity, store, SystemRandom(), log, _now(), settings, self._offered, self._house.usages)

    # -- one turn ----------------------------------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        """Step the node, and see to it that what follows is committed and let out."""
        if self.failed.done() or self._is_stopped:
            return
        if self._is_delivering:
            self._met_meanwhile.append(event)
            return
        times, now = self.times, _now()
        if not times.since_s:
            times.since_s = now.mono_s
        times.events.append(event)
        is_collecting = gc.isenabled() or self._collects_later
        gc.disable()  # one look for garbage after the turn, for which nobody waits, in the place of many amid it
        try:
            self._node.step(event, now)
            is_calm = self._node.is_calm
        except Exception as error:  # noqa: BLE001  # a bug must not leave a state that nobody meant, nor stop the service
            self._recovery.step_failed(event, error)
            is_calm = False
        if not is_calm and self._flush_due is None:
            self._flush_due = asyncio.get_running_loop().call_soon(self._flush)
            times.has_turn = True
        self._collects_later = is_collecting and self._flush_due is not None
        if is_collecting and not self._collects_later:
            gc.enable()

    def _due(self) -> Node | None:
        """The node, which knows when the next turn is due; None while a due turn is not over."""
        return None if self.is_over or self._flush_due is not None else self._node

    def fail(self, error: CrdtSyncError) -> None:
        """See :class:`crdtsyncd.storage.wal_checkpoint.StoreOwner`: it must start over from what is on disk."""
        log("storage_failed", level="error", reason=error.message)
        if not self.failed.done():
            self.failed.set_result(error.message)

    def _flush(self) -> None:
        """Commit what has been stepped, then let it out."""
        self._flush_due = None
        if self.is_over:
            return
        times, ready = self.times, None
        times.stepped_s = times.readied_s = times.committed_s = times.clock()
        try:
            ready = self._take_turn()
        finally:
            times.over("full" if self._node.agenda.ran else "short", ready)
            if self._collects_later:
                self._collects_later = False
                gc.enable()

    def _take_turn(self) -> Ready | None:
        """Take one turn; None: it has failed."""
        times = self.times
        if self._store.is_behind:  # somebody who only wanted to read found that out
            self._recovery.step_failed(Tick(), RowsRefused(self._store.quarantine.why))
            return None
        try:
            ready = self._node.ready()
        except Exception as error:  # noqa: BLE001  # as above
            self._recovery.step_failed(Tick(), error)
            return None
        times.readied_s = times.committed_s = times.clock()
        try:
            self._store.commit(ready.persist)
            times.committed_s = times.clock()
        except NoSpace as error:
            log("commit_refused", level="error", reason=error.message)
            refusal = NoSpace(f"this could not be stored, and was not done: {error.message}")
            try:
                ready = self._node.persist_failed(ready, refusal)
            except Exception as second:  # noqa: BLE001  # as above
                self._recovery.step_failed(Tick(), second)
                return None
            self._house.check_disk()
            self.deliver(ready)
        except StorageError as error:
            self.fail(error)
            return None
        except Exception as error:  # noqa: BLE001  # as above
            self._recovery.commit_failed(ready, error)
            return None
        else:
            try:
                self.deliver(ready)  # first of all: somebody waits for it
            finally:
                self._node.advance()
            self._mind_store(ready.persist)
        self.progress += 1
        self._announce(ready)
        if self._flushed is not None:
            self._flushed.set()
            self._flushed = None
        if self._held_back and not self._node.fork_healing.is_crowded:
            held_back, self._held_back = self._held_back, {}
            for then in held_back.values():
                then()
        self._planner.plan_soon()
        self._acks.mind()
        return ready

    def _acknowledge(self) -> None:
        if self.is_over or self._flush_due is not None:
            return  # the turn that is due does
        try:
            sends = self._node.acknowledge(_now())
        except Exception as error:  # noqa: BLE001  # as above
            self._recovery.step_failed(Tick(), error)
            return
        self._connections.send_to_peers(sends)

    def _mind_store(self, persisted: WriteBatch) -> None:
        if not persisted:
            return
        self._checkpoints.mind()
        self._house.mind_disk()
        if persisted.snapshot_parts or persisted.adoptions:
            gc.freeze()  # as above: 100,000 entries that come at once set off collections of 0.1 s and more

    def let_out(self, ready: Ready) -> None:
        """See :class:`crdtsyncd.loop.recovery.NodeOwner`, as for the next ones."""
        self.deliver(ready)
        self._announce(ready)

    @property
    def core(self) -> Node:
        return self._node

    def now(self) -> Now:
        return _now()

    def plan(self) -> None:
        self._planner.plan()

    def _announce(self, ready: Ready) -> None:
        if ready.membership is not None:
            self.trust.update(ready.membership)
            self.on_membership(ready.membership)
        for chore in ready.chores:
            self.on_chore(chore)

    def deliver(self, ready: Ready) -> None:
        """Let out what is done. New events that this brings about (a connection takes no more, or ends) are for the
        next turn.
        """
        self._is_delivering = True
        try:
            self._connections.send_all(ready)
        finally:
            self._is_delivering = False
        if self._met_meanwhile:
            asyncio.get_running_loop().call_soon(self._feed_met)

    def _feed_met(self) -> None:
        met, self._met_meanwhile = self._met_meanwhile, []
        for event in met:
            self.feed(event)

    # -- agents --------------------------------------------------------------------------------------------------

    def agent_opened(self, connection: AgentConnection, user: User, pid: int) -> int:
        """See :class:`crdtsyncd.loop.agent_socket.AgentSink`, as for all of these."""
        conn = self._connections.add_agent(connection, user.uid)
        self.feed(AgentOpened(conn, user.uid, pid, user.gids, user.is_local))
        return conn

    def agent_frame(self, conn: int, payload: bytes) -> int:
        node, replies, is_counted = self._node, self._node.dispatcher.replies, self._gate.is_counting
        before, rows = len(replies), node.rows_to_write if is_counted else 0
        self.feed(new_row(AgentFrame, (conn, payload)))
        if is_counted:
            self._gate.wrote(self._agents.get(conn), node.rows_to_write - rows)
        if len(replies) == before + 1:
            return len(replies[before].data)
        return sum([len(reply.data) for reply in replies[before:]])

    def agent_served(self) -> None:
        if self._flush_due is None and not self.is_over:  # reads alone, of what is on disk: nothing to wait for
            self.progress += 1
            write_replies(self._agents, self._node.take_replies())
            self.times.at_once()

    def may_go_on(self, connection: object, then: Callable[[], object]) -> bool:
        """See both kinds of connections."""
        if self._node.fork_healing.is_crowded:
            self._held_back[connection] = then
            return False
        return self._gate.lets_through(connection, then)

    def is_turn_full(self) -> bool:
        """See :class:`crdtsyncd.loop.agent_socket.AgentSink`."""
        times = self.times
        return bool(times.since_s) and times.clock() - times.since_s > FULL_TURN_S

    def rows_moved(self) -> None:
        """See :class:`crdtsyncd.storage.wal_checkpoint.StoreOwner`. Connections that have waited for the end of their
        rows go first.
        """
        if self._gate.is_closed and not self._store.is_crowded:
            self.feed(Tick())
            self._gate.open()

    def agent_flow(self, conn: int, blocked: bool) -> None:
        event = AgentFlow(conn, blocked)
        if self._met_meanwhile:  # maybe that it takes no more: uvloop writes what it can before it calls anybody
            self._met_meanwhile.append(event)
        else:
            self.feed(event)

    def agent_closed(self, conn: int) -> None:
        self._gate.forget(self._agents.get(conn))
        self._connections.remove_agent(conn)
        self.feed(AgentClosed(conn, self._is_stopping))
        self._backups.closed(conn)  # within the turn: it may remove a large file

    def _agent_name(self, conn: int) -> str:
        agent = self._node.dispatcher.agents.get(conn)
        return agent.name if agent is not None else ""

    def take_turns_later(self, connection: AgentConnection) -> None:
        self._planner.take_turn_later(connection)
        self.feed(Tick())

    def refuse_agent(self, user: User) -> CrdtSyncError | None:
        return self._connections.places.refusal(user.uid)

    # -- peers ---------------------------------------------------------------------------------------------------

    def peer_opened(self, connection: PeerConnection) -> int:
        """See :class:`crdtsyncd.peers.websocket_peer.PeerSink`, as for all of these."""
        conn = self._connections.add_peer(connection)
        if connection.joins:
            self._joins.opened(conn, connection)
        else:
            self.feed(PeerOpened(conn, connection.url, connection.dialled, connection.node))
        return conn

    def peer_frame(self, conn: int, data: bytes) -> None:
        if conn in self._joins:
            self._joins.asked(conn, self._peers[conn], data)
        else:
            node, is_counted = self._node, self._gate.is_counting
            rows = node.rows_to_write
            self.feed(PeerFrame(conn, data))
            if is_counted:
                self._gate.wrote(self._peers.get(conn), node.rows_to_write - rows)
            self.times.at_once()

    def _bound(self, conn: int, join: Join) -> bytes:
        return self._node.fleet.bound(conn, join)

    def credentials(self) -> Credentials | None:
        return self.trust.credentials()

    def recognise(self, certificate: bytes | None, asked: str) -> PeerIdentity:
        return self.trust.recognise(certificate, asked)

    def space_groups(self) -> list[frozenset[str]]:
        """The nodes of each space that is here and not for all, which must be connected among themselves."""
        return self._node.spaces.groups()

    def is_node_linked(self, node: str) -> bool:
        """Whether a node is connected."""
        return self._node.is_node_linked(node)

    def peer_closed(self, conn: int, reason: str) -> None:
        self._gate.forget(self._peers.pop(conn, None))
        self._joins.closed(conn)
        self.feed(PeerClosed(conn, reason))

    def peer_count(self) -> int:
        return len(self._peers)

    def dial_state(self, url: str, state: str, error: str) -> None:
        self.feed(DialState(url, state, error))

    def misled(self, node: str, address: str, found: str) -> None:
        self.feed(Misled(node, address, found))

    def is_linked(self, url: str) -> bool:
        return self._node.is_linked(url)

    def turn_due(self) -> int:
        return self.progress + 1 if self._flush_due is not None or self._is_delivering else 0

    async def breathe(self) -> None:
        if self._flush_due is None and not self._is_delivering:
            await asyncio.sleep(0)  # nothing has come of it
            return
        if self._flushed is None:
            self._flushed = asyncio.Event()
        await self._flushed.wait()

    async def turn(self) -> None:
        """See :class:`crdtsyncd.service.sd_notify.TurnLoop`."""
        self.feed(Tick())
        await self.breathe()

    def summary(self) -> str:
        """One line for people who ask the service manager."""
        state = f"read-only: {self._house.refusal}" if self._house.refusal else "ready"
        return f"{state}; {self._connections.summary()}"

    def log(self, event: str, level: str = "info", **fields: object) -> None:
        log(event, level, **fields)

    # -- the cluster -----------------------------------------------------------------------------------------------

    @property
    def node(self) -> str:
        """This node's id."""
        return self._node.identity.node

    def meta(self, name: str) -> bytes | None:
        """The value that the node keeps for itself under a name."""
        return self._store.meta(name)

    def refuses_to_join(self, invite: Invite) -> str | None:
        """Why this node does not join by an invite; empty if it is a member already, None if it does."""
        if self._node.fleet.joined_already(invite) is not None:
            return ""
        return None if self.keeps_data(invite) else self._node.fleet.other_cluster() or self._node.data() or None

    def keeps_data(self, invite: Invite) -> bool:
        """Whether this node's data is of the cluster that it is invited to."""
        return self._node.fleet.keeps_data(invite)

    async def join(self, cluster: bytes, metas: Mapping[str, bytes], number: int, members: int, node: str = "") -> None:
        """Go on as a member of another cluster, on a new database; what the old one holds is set aside.

        ``node`` is the id under which the cluster knows this node's key; empty: the one that the key gives.
        ``number`` is the chore that this ends, if not 0. Every connection is closed.

        :raises CrdtSyncError: the disk failed, and the process must end.
        """
        if self._flush_due is not None:
            self._flush_due.cancel()
            self._flush()
        await self._checkpoints.ended()
        with self.times.work("join"):
            self._begin_anew(cluster, metas, number, members, node)

    def _begin_anew(self, cluster: bytes, metas: Mapping[str, bytes], number: int, members: int, node: str) -> None:
        has_data = bool(self._node.fleet.other_cluster() or self._node.data())
        try:
            archive = set_aside(self._store, self._config.data_dir, has_data)
            self._store = begin(self._open_store, cluster, node, metas)
            self._store.work = self.times.work
        except CrdtSyncError as error:
            self.fail(error)
            raise
        before, self._node = self._node, self._make_node()
        self.trust.use(self.trust.key, cluster)
        if number:
            summary = {"cluster": cluster.hex(), "node": self.node, "members": members}
            before.step(ChoreDone(number, result={**summary, "archive": str(archive) if archive else None}), _now())
            write_replies(self._agents, before.chore_replies())  # and nothing else: its database is closed
        self._connections.close_all("this node has joined another cluster")
        self._connections.forget_all()
        self.feed(self._house.disk_space())

    # -- housekeeping --------------------------------------------------------------------------------------------

    async def keep_house(self) -> None:
        """See :mod:`crdtsyncd.loop.housekeeping`. Runs until cancelled."""
        await self._house.run()

    @property
    def is_over(self) -> bool:
        """See :class:`crdtsyncd.storage.wal_checkpoint.StoreOwner`, as for the next."""
        return self._is_stopped or self.failed.done()

    def recover_rows(self, error: RowsRefused) -> None:
        self._recovery.step_failed(Tick(), error)

    def note(self, event: Event) -> None:
        """See :class:`crdtsyncd.loop.housekeeping.House`, as for the next ones."""
        self._node.step(event, _now())

    def document_memory_bytes(self) -> int:
        return self._node.document_memory_bytes()

    def sum_some(self) -> bool:
        return sum_some(self._node.replicas)

    def loop_held(self) -> str:
        return self._slow_turns.look()

    def look_at_quarantine(self) -> None:
        look(self._node, self._store)

    def exposition(self, spaces: str = "all") -> str:
        """All figures in Prometheus' text format; ``spaces`` says which of them are named, as the setting does."""
        from crdtsyncd.telemetry.metrics_privacy import with_names
        from crdtsyncd.telemetry.prometheus import exposition  # only where somebody asks: it takes memory

        is_named = {"all": lambda _name: True, "none": lambda _name: False}.get(spaces, self._node.authorizer.is_open)
        with self.times.work("metrics"):
            return exposition(with_names(self._node.status(), is_named), self._store.commit_times, self.times)

    def _about(self) -> dict[str, object]:
        """The origin that a backup names."""
        me = self._node.identity
        return {
            "node": me.node, "name": me.name, "version": me.version, "cluster": me.cluster.hex(),
            "database": me.database.hex(), "machine": machine_id(), "time": self._node.now_ms,
        }  # fmt: skip

    def stop(self) -> None:
        """Let out what is done and close every connection."""
        self._is_stopping = True
        if self._flush_due is not None:
            self._flush_due.cancel()
            self._flush()
        self._connections.close_all("this node is stopping")

    @property
    def store(self) -> Store:
        """The database in use: another one after this node has joined a cluster."""
        return self._store

    async def finish(self) -> None:
        """Commit what the end of the connections has brought, and leave the store alone from then on."""
        if self._flush_due is not None:
            self._flush_due.cancel()
            self._flush()
        self._is_stopped = True
        self._backups.close()
        self._planner.stop()
        self._acks.stop()
        await self._checkpoints.ended()
