"""The driver: the only caller of :class:`crdtsync.core.node.Node`.

One turn of the event loop: everything that came in is stepped, then one commit makes it durable, then replies and
messages leave.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from random import SystemRandom
from traceback import format_exception
from typing import TYPE_CHECKING

from crdtsyncd.backup import Backups
from crdtsyncd.disk import DiskGuard
from crdtsyncd.growth import Growth
from crdtsyncd.ipc import AgentConnection
from crdtsyncd.joining import is_signed, pin_of_join
from crdtsyncd.mark import machine_id
from crdtsyncd.memory import MemoryGuard, release_start_pages
from crdtsyncd.quarantine import RowsRefused
from crdtsyncd.services import services
from crdtsyncd.shell_usage import shell_usages
from crdtsyncd.store import WAL_BYTES_MAX, WAL_CHECKPOINT_BYTES, WAL_REST_BYTES_MAX, Store
from crdtsyncd.taking_back import look, take_back
from crdtsyncd.telemetry import log
from crdtsyncd.transport import DUPLICATE, Credentials, Guest, PeerConnection
from crdtsyncd.trust import Trust

from crdtsync.core.attached import Reply, User
from crdtsync.core.cluster_desk import Chore, ChoreDone
from crdtsync.core.identity import Identity
from crdtsync.core.inputs import (
    AgentClosed,
    AgentFlow,
    AgentFrame,
    AgentOpened,
    DialState,
    DiskSpace,
    Event,
    JoinAsked,
    JoinOpened,
    LookAtUsage,
    Now,
    PeerClosed,
    PeerFlowed,
    PeerFrame,
    PeerOpened,
    Ready,
    Tick,
)
from crdtsync.core.membership import Membership
from crdtsync.core.node import Node
from crdtsync.core.storage import Batch
from crdtsync.core.usage import Usage
from crdtsync.errors import CrdtSyncError, InvalidEncoding, NoSpace, QuotaExceeded, StorageError
from crdtsync.wire.invites import Invite
from crdtsync.wire.joining import Join, decode_join_message

if TYPE_CHECKING:
    from crdtsyncd.config import Config

HOUSEKEEPING_S = 1.0
SETTLE_DELAY_S = 0.1
"""How long rows stay in the journal alone when no more come; nobody waits for that."""
FLOW_BYTES_MIN = 1024
"""In one way or the other, between two such looks: slower is as good as nothing."""
USAGE_INTERVAL_S = 10.0
"""How often it is looked at how full everything is."""
DISK_INTERVAL_S = 0.02
"""How often free space is looked at while there are commits: a fast disk takes some MB in that time."""
RELEASE_INTERVAL_S = 0.05
PLAN_DELAY_S = 0.001
"""What is due by time alone may come so much late: to work out when that is takes longer than many a turn."""
WAL_LOOK_COMMITS = 8
"""The size of the write-ahead log is looked at once in so many commits: asking for it costs a system call."""
CHECKPOINT_PASSES_MAX = 4
CHECKPOINT_RETRY_S = 1.0
JOIN_TIMEOUT_S = 15.0
ARCHIVE_NAME = "archive"

OpenStore = Callable[..., Store]
"""Opens a new database, of a cluster and perhaps of the node with this id."""
"""Opens the database, which belongs to the cluster given if it is new."""


def _now() -> Now:
    return Now(time.time_ns() // 1_000_000, time.monotonic())


class Driver:
    """Feeds the node, commits, and delivers what it says. ``failed`` is set when the process must end."""

    def __init__(self, config: Config, store: Store, open_store: OpenStore, trust: Trust, version: str) -> None:
        self._config = config
        self._open_store = open_store
        self._store = store
        self._version = version
        self.trust = trust
        trust.cluster = self._store.cluster
        self.on_membership: Callable[[Membership], None] = trust.update
        self.on_chore: Callable[[Chore], None] = lambda _chore: None
        self._joining: dict[int, asyncio.TimerHandle] = {}
        self._backups = Backups(store.path, self._about, config.free_bytes_min)
        self._offered = services(self.exposition, self._backups)
        self._node = self._make_node()
        self._growth = Growth()
        gc.freeze()  # the live state: it stays, and looking through it for garbage again and again stalls everybody
        self._memory = MemoryGuard()
        self._disk = DiskGuard(config.data_dir, config.ballast_bytes, config.free_bytes_min)
        self._agents: dict[int, AgentConnection] = {}
        self._peers: dict[int, PeerConnection] = {}
        self._conn_last = 0
        self._flush_due: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._turns: dict[AgentConnection, None] = {}
        self._checkpoint: asyncio.Task[None] | None = None
        self._settling: asyncio.TimerHandle | None = None
        self._flushed: asyncio.Event | None = None  # set at the end of the turn under way, if anybody waits for that
        self._planning: asyncio.TimerHandle | None = None
        self._refusal = ""
        self._is_delivering = False
        self._met_meanwhile: list[Event] = []
        self._is_stopped = False
        self._checkpoint_due_s = 0.0
        self._wal_look_due = 0
        self._disk_due_s = 0.0
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.progress = 0
        if store.quarantine.count:
            log("quarantined", level="error", reason=store.quarantine.why)
        self._take_back()
        self._flush()

    def _make_node(self) -> Node:
        store, config = self._store, self._config
        identity = Identity(store.node, config.node_name, store.cluster, store.database, self._version, os.getpid())
        return Node(
            identity, store, SystemRandom(), log, _now(), config.caps, self._offered, self._usages, config.limits
        )

    # -- one turn ----------------------------------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        """Step the node, and see to it that what follows is committed and let out."""
        if self.failed.done() or self._is_stopped:
            return
        if self._is_delivering:
            self._met_meanwhile.append(event)
            return
        try:
            self._node.step(event, _now())
            is_calm = self._node.is_calm
        except Exception as error:  # noqa: BLE001  # a bug must not leave a state that nobody meant, nor stop the service
            self._recover(event, error)
            is_calm = False
        if not is_calm and self._flush_due is None:
            self._flush_due = asyncio.get_running_loop().call_soon(self._flush)

    def _recover(self, event: Event, error: Exception) -> None:
        """Drop what a bug left half done, and go on from what is on disk."""
        try:
            if isinstance(error, sqlite3.Error):
                raise self._store.unreadable(error)
            if isinstance(error, StorageError):  # reading brings in what waits in the journal, and that has failed
                raise error
            _log_failure(error, type(event).__name__)
            self._settle_for_reload()
            self._deliver(self._node.step_failed(event, f"{type(error).__name__}: {error}"))
            self._take_back()
            self._plan()
        except sqlite3.Error as second:
            self._fail(self._store.unreadable(second))
        except CrdtSyncError as second:
            self._fail(second)

    def _commit_failed(self, ready: Ready, error: Exception) -> None:
        """The same, where nothing of a commit is on disk: whoever waits for it hears so."""
        _log_failure(error, "commit")
        refusal = CrdtSyncError(f"this could not be stored, and was not done: {type(error).__name__}: {error}")
        try:
            self._settle_for_reload()
            self._deliver(self._node.persist_failed(ready, refusal))
            self._take_back()
            self._plan()
        except Exception as second:  # noqa: BLE001  # as above
            self._recover(Tick(), second)

    def _settle_for_reload(self) -> None:
        """See to it that reading everything anew is not interrupted by what no table takes."""
        with suppress(RowsRefused):
            self._store.settle()
        self._store.is_behind = False

    def _take_back(self) -> None:
        """What is in quarantine into memory and the tables again, as far as that can be done."""
        try:
            take_back(self._node, self._store, _now, self._let_out)
        except NoSpace as error:
            log("commit_refused", level="error", reason=error.message)
            self._deliver(self._node.step_failed(Tick(), error.message))
        except StorageError as error:
            self._fail(error)

    def _fail(self, error: CrdtSyncError) -> None:
        """The disk cannot be trusted: this process must end, and start over from it."""
        log("storage_failed", level="error", reason=error.message)
        if not self.failed.done():
            self.failed.set_result(error.message)

    def _flush(self) -> None:
        """Commit what has been stepped, then let it out."""
        self._flush_due = None
        if self.failed.done() or self._is_stopped:
            return
        if self._store.is_behind:  # somebody who only wanted to read found that out
            self._recover(Tick(), RowsRefused(self._store.quarantine.why))
            return
        try:
            ready = self._node.ready()
        except Exception as error:  # noqa: BLE001  # as above
            self._recover(Tick(), error)
            return
        try:
            self._store.commit(ready.persist)
        except NoSpace as error:
            log("commit_refused", level="error", reason=error.message)
            refusal = NoSpace(f"this could not be stored, and was not done: {error.message}")
            try:
                ready = self._node.persist_failed(ready, refusal)
            except Exception as second:  # noqa: BLE001  # as above
                self._recover(Tick(), second)
                return
            self._check_disk()
            self._deliver(ready)
        except StorageError as error:
            self._fail(error)
            return
        except Exception as error:  # noqa: BLE001  # as above
            self._commit_failed(ready, error)
            return
        else:
            try:
                self._deliver(ready)  # first of all: somebody waits for it
            finally:
                self._node.advance()
            self._mind_store(ready.persist)
        self.progress += 1
        self._announce(ready)
        if self._flushed is not None:
            self._flushed.set()
            self._flushed = None
        self._plan_soon()

    def _mind_store(self, persisted: Batch) -> None:
        if not persisted:
            return
        self._mind_wal()
        self._mind_journal()
        if not self._refusal and time.monotonic() >= self._disk_due_s:
            self._check_disk()  # the writes themselves may fill it, faster than housekeeping looks
        if persisted.snapshot_parts or persisted.adoptions:
            gc.freeze()  # as above: 100,000 entries that come at once set off collections of 0.1 s and more

    def _let_out(self, ready: Ready) -> None:
        """What follows once it is on disk."""
        self._deliver(ready)
        self._announce(ready)

    def _announce(self, ready: Ready) -> None:
        if ready.membership is not None:
            self.trust.update(ready.membership)
            self.on_membership(ready.membership)
        for chore in ready.chores:
            self.on_chore(chore)

    def _deliver(self, ready: Ready) -> None:
        """Let out what is done. What that brings about (a connection takes no more, or ends) is for the next turn."""
        self._is_delivering = True
        try:
            self._send_all(ready)
        finally:
            self._is_delivering = False
        if self._met_meanwhile:
            met, self._met_meanwhile = self._met_meanwhile, []
            for event in met:
                asyncio.get_running_loop().call_soon(self.feed, event)

    def _send_all(self, ready: Ready) -> None:
        for conn, data in ready.sends:
            if conn in self._peers:
                self._peers[conn].send(data)
        _write_replies(self._agents, ready.replies)
        for conn, reason in ready.peer_closes:
            if conn in self._peers:
                if reason.startswith(DUPLICATE):
                    log("peer_closed", level="debug", url=self._peers[conn].url, reason=reason)
                else:
                    log("peer_refused", level="warning", url=self._peers[conn].url, reason=reason)
                self._peers[conn].close(reason)
        for conn, reason in ready.agent_closes:
            if conn in self._agents:
                log("agent_closed", level="warning", conn=conn, reason=reason)
                self._agents[conn].close()

    def _plan_soon(self) -> None:
        """Arrange for the next turn: at once if there is work left; else once for all turns of a little while."""
        if self._turns or self._node.has_work():
            self._plan()
        elif self._planning is None:
            self._planning = asyncio.get_running_loop().call_later(PLAN_DELAY_S, self._plan)

    def _plan(self) -> None:
        """Arrange for the next turn, if time alone calls for one."""
        if self._planning is not None:
            self._planning.cancel()
            self._planning = None
        if self.failed.done() or self._is_stopped:
            return
        loop = asyncio.get_running_loop()
        if self._turns:
            turns, self._turns = self._turns, {}
            for connection in turns:
                loop.call_soon(connection.take_turn)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_s = self._node.deadline_s()
        if deadline_s is not None:
            delay_s = max(0.0, deadline_s - time.monotonic())
            self._timer = loop.call_later(delay_s, self.feed, Tick())

    # -- agents --------------------------------------------------------------------------------------------------

    def agent_opened(self, connection: AgentConnection, user: User, pid: int) -> int:
        """See :class:`crdtsyncd.ipc.Sink`, as for all of these."""
        conn = self._next_conn()
        self._agents[conn] = connection
        self.feed(AgentOpened(conn, user.uid, pid, user.gids, user.is_local))
        return conn

    def agent_frame(self, conn: int, payload: bytes) -> int:
        replies = self._node.desk.replies
        before = len(replies)
        self.feed(AgentFrame(conn, payload))
        after = len(replies)
        if after == before + 1:
            return len(replies[before].data)
        return sum([len(reply.data) for reply in replies[before:]])

    def agent_served(self) -> None:
        if self._flush_due is None:  # reads alone, of what is on disk: nothing to wait for
            self.progress += 1
            _write_replies(self._agents, self._node.take_replies())

    def agent_flow(self, conn: int, blocked: bool) -> None:
        self.feed(AgentFlow(conn, blocked))

    def agent_closed(self, conn: int) -> None:
        self._agents.pop(conn, None)
        self._backups.closed(conn)
        self.feed(AgentClosed(conn))

    def take_turns_later(self, connection: AgentConnection) -> None:
        self._turns[connection] = None
        self.feed(Tick())

    def refuse_agent(self) -> CrdtSyncError | None:
        if len(self._agents) < self._config.agents_max:
            return None
        return QuotaExceeded(
            f"{len(self._agents):,} agents are attached, the most that this daemon takes: "
            "detach some, or raise agents_max"
        )

    # -- peers ---------------------------------------------------------------------------------------------------

    def peer_opened(self, connection: PeerConnection) -> int:
        """See :class:`crdtsyncd.transport.Sink`, as for all of these."""
        conn = self._next_conn()
        self._peers[conn] = connection
        if connection.joins:
            give_up = asyncio.get_running_loop().call_later(
                JOIN_TIMEOUT_S, connection.close, "nothing was asked in time"
            )
            self._joining[conn] = give_up
            self.feed(JoinOpened(conn))
        else:
            self.feed(PeerOpened(conn, connection.url, connection.dialled, connection.node))
        return conn

    def peer_frame(self, conn: int, data: bytes) -> None:
        if conn in self._joining:
            self._join_asked(conn, data)
        else:
            self.feed(PeerFrame(conn, data))

    def _join_asked(self, conn: int, data: bytes) -> None:
        """A node without a key that is known here asks to be let in. Whether its signature holds is found here."""
        connection = self._peers[conn]
        try:
            join = decode_join_message(data)
            if not isinstance(join, Join):
                raise InvalidEncoding("the first message must ask to join")
        except InvalidEncoding as error:
            log("peer_refused", level="warning", url=connection.url, reason=error.message)
            connection.close(error.message)
            return
        signed = is_signed(join, self._node.fleet.bound(conn, join))
        self.feed(JoinAsked(conn, join, pin_of_join(join), signed))

    def credentials(self) -> Credentials | None:
        return self.trust.credentials()

    def recognise(self, certificate: bytes | None, asked: str) -> Guest:
        return self.trust.recognise(certificate, asked)

    def space_groups(self) -> list[frozenset[str]]:
        """The nodes of each space that is here and not for all, which must be connected among themselves."""
        return self._node.spaces.groups()

    def is_node_linked(self, node: str) -> bool:
        """Whether a node is connected."""
        return self._node.is_node_linked(node)

    def peer_closed(self, conn: int, reason: str) -> None:
        self._peers.pop(conn, None)
        timer = self._joining.pop(conn, None)
        if timer is not None:
            timer.cancel()
        self.feed(PeerClosed(conn, reason))

    def peer_count(self) -> int:
        return len(self._peers)

    def dial_state(self, url: str, state: str, error: str) -> None:
        self.feed(DialState(url, state, error))

    def is_linked(self, url: str) -> bool:
        return self._node.is_linked(url)

    async def breathe(self) -> None:
        if self._flush_due is None and not self._is_delivering:
            await asyncio.sleep(0)  # nothing has come of it
            return
        if self._flushed is None:
            self._flushed = asyncio.Event()
        await self._flushed.wait()

    async def turn(self) -> None:
        """See :class:`crdtsyncd.supervisor.Worker`."""
        self.feed(Tick())
        await self.breathe()

    def summary(self) -> str:
        """One line for people who ask the service manager."""
        state = f"read-only: {self._refusal}" if self._refusal else "ready"
        return f"{state}; {len(self._agents):,} agents, {len(self._peers):,} peer connections"

    def log(self, event: str, level: str = "info", **fields: object) -> None:
        log(event, level, **fields)

    # -- the cluster -----------------------------------------------------------------------------------------------

    @property
    def node(self) -> str:
        """This node's id."""
        return self._node.identity.node

    def meta(self, name: str) -> bytes | None:
        """What the node keeps for itself under a name."""
        return self._store.meta(name)

    def refuses_to_join(self, invite: Invite) -> str | None:
        """Why this node does not join by an invite; empty if it is a member already, None if it does."""
        if self._node.fleet.joined_already(invite) is not None:
            return ""
        return self._node.fleet.other_cluster() or self._node.data() or None

    async def join(self, cluster: bytes, metas: Mapping[str, bytes], number: int, members: int, node: str = "") -> None:
        """Go on as a member of another cluster, on a new database; what the old one holds is set aside.

        ``node`` is the id under which the cluster knows this node's key; empty: the one that the key gives.
        ``number`` is the chore that this ends, if not 0. Every connection is closed.

        :raises CrdtSyncError: the disk failed, and the process must end.
        """
        if self._flush_due is not None:
            self._flush_due.cancel()
            self._flush()
        if self._checkpoint is not None:
            await asyncio.wait([self._checkpoint])
        has_data, old = bool(self._node.fleet.other_cluster() or self._node.data()), self._store
        place = (
            self._config.data_dir
            / ARCHIVE_NAME
            / f"{old.cluster.hex()[:8]}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        )
        try:
            old.set_aside(place)
            if not has_data:
                shutil.rmtree(place, ignore_errors=True)
            self._store = self._open_store(cluster, node)
            batch = Batch()
            batch.metas.extend(metas.items())
            self._store.commit(batch)
        except CrdtSyncError as error:
            self._fail(error)
            raise
        before, self._node = self._node, self._make_node()
        self.trust.use(self.trust.key, cluster)
        if number:
            summary = {"cluster": cluster.hex(), "node": self.node, "members": members}
            before.step(ChoreDone(number, result={**summary, "archive": str(place) if has_data else None}), _now())
            _write_replies(self._agents, before.chore_replies())  # and nothing else: its database is closed
        for agent in list(self._agents.values()):
            agent.close()
        for peer in list(self._peers.values()):
            peer.close("this node has joined another cluster")
        self._agents.clear()
        self._peers.clear()
        self.feed(DiskSpace(self._refusal))

    # -- housekeeping --------------------------------------------------------------------------------------------

    async def keep_house(self) -> None:
        """Watch the disk and the memory, and give back what nothing needs. Runs until cancelled."""
        check_due_s = usage_due_s = 0.0
        release_start_pages()
        while True:
            if time.monotonic() >= check_due_s:
                check_due_s = time.monotonic() + HOUSEKEEPING_S
                self._note_flow()
                self._check_disk()
                await self._memory.check(self._node.document_memory_bytes())
            if time.monotonic() >= usage_due_s:
                usage_due_s = time.monotonic() + USAGE_INTERVAL_S
                self._look_at_usage()
            await asyncio.sleep(RELEASE_INTERVAL_S if self._release_space() else HOUSEKEEPING_S)

    def _look_at_usage(self) -> None:
        store = self._store
        self._growth.note(time.monotonic(), store.size_bytes())
        store.growth_bytes_per_hour = self._growth.bytes_per_hour()
        self.feed(LookAtUsage(self._disk.forecast(self._growth.lasting_bytes_per_hour())))
        if store.quarantine.count:
            look(self._node, store)

    def _usages(self) -> Iterable[Usage]:
        return shell_usages(self._config, self._store, self._agents.values(), len(self._peers))

    def exposition(self) -> str:
        """All figures in Prometheus' text format."""
        from crdtsyncd.metrics import exposition  # only where somebody asks: it takes memory

        return exposition(self._node.status(), self._store.commit_times)

    def _about(self) -> dict[str, object]:
        """What a backup says of where it comes from."""
        me = self._node.identity
        return {
            "node": me.node, "name": me.name, "version": me.version, "cluster": me.cluster.hex(),
            "database": me.database.hex(), "machine": machine_id(), "time": self._node.now_ms,
        }  # fmt: skip

    def _note_flow(self) -> None:
        for conn, connection in self._peers.items():
            if connection.has_flowed(FLOW_BYTES_MIN):
                self._node.step(PeerFlowed(conn), _now())

    def _release_space(self) -> bool:
        try:
            has_more = not self.failed.done() and self._store.release_space()
        except StorageError as error:
            self._fail(error)
            return False
        self._mind_wal()
        return has_more

    def _check_disk(self) -> None:
        self._disk_due_s = time.monotonic() + DISK_INTERVAL_S
        try:
            refusal = self._disk.check()
        except StorageError as error:
            self._fail(error)
            return
        if refusal != self._refusal:
            log("disk_low" if refusal else "disk_recovered", level="warning", reason=refusal)
            self._refusal = refusal
            self.feed(DiskSpace(refusal))

    def _mind_journal(self) -> None:
        """See to it that what was committed comes into its tables soon, and not within this turn."""
        if self._settling is None and self._store.has_pending:
            self._settling = asyncio.get_running_loop().call_later(SETTLE_DELAY_S, self._settle)

    def _settle(self) -> None:
        self._settling = None
        if self.failed.done() or self._is_stopped:
            return
        try:
            self._store.settle()
        except StorageError as error:
            self._fail(error)
        except RowsRefused as error:
            self._recover(Tick(), error)

    def _mind_wal(self) -> None:
        """Begin a checkpoint of the write-ahead log if it has become large."""
        if self._checkpoint is not None or self._store.commits < self._wal_look_due:
            return
        self._wal_look_due = self._store.commits + WAL_LOOK_COMMITS
        if self._store.wal_bytes() > WAL_CHECKPOINT_BYTES and time.monotonic() >= self._checkpoint_due_s:
            self._checkpoint = asyncio.create_task(self._checkpoint_wal())

    async def _checkpoint_wal(self) -> None:
        """In a thread, until what comes in meanwhile is little enough to be done here; then the log begins anew."""
        store = self._store
        try:
            for _ in range(CHECKPOINT_PASSES_MAX):
                before_bytes = store.wal_bytes()
                await asyncio.to_thread(store.checkpoint)
                if store.wal_bytes() - before_bytes <= WAL_REST_BYTES_MAX:
                    break
            if self.failed.done() or self._is_stopped or store.finish_checkpoint():
                return
            self._checkpoint_due_s = time.monotonic() + CHECKPOINT_RETRY_S  # somebody reads the database
            if store.wal_bytes() > WAL_BYTES_MAX:
                store.truncate()
        except StorageError as error:
            self._fail(error)
        finally:
            self._checkpoint = None

    def stop(self) -> None:
        """Let out what is done and close every connection."""
        if self._flush_due is not None:
            self._flush_due.cancel()
            self._flush()
        for connection in list(self._agents.values()):
            connection.close()
        for peer in list(self._peers.values()):
            peer.close("this node is stopping")

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
        for timer in (self._timer, self._planning):
            if timer is not None:
                timer.cancel()
        if self._checkpoint is not None:
            await asyncio.wait([self._checkpoint])

    def _next_conn(self) -> int:
        self._conn_last += 1
        return self._conn_last


def _log_failure(error: Exception, during: str) -> None:
    if isinstance(error, RowsRefused):
        log("quarantined", level="error", reason=str(error))
    else:
        log("bug", level="error", during=during, error="".join(format_exception(error)))


def _write_replies(agents: dict[int, AgentConnection], replies: list[Reply]) -> None:
    """Write all frames of a connection at once: one system call instead of one a frame."""
    if len(replies) == 1:
        reply = replies[0]
        if reply.conn in agents:
            agents[reply.conn].write(reply.data)
        return
    together: dict[int, list[bytes]] = {}
    for reply in replies:
        together.setdefault(reply.conn, []).append(reply.data)
    for conn, frames in together.items():
        if conn in agents:
            agents[conn].write(b"".join(frames))
