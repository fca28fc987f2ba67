"""The driver: the only caller of :class:`crdtsync.core.node.Node`.

One turn of the event loop: everything that came in is stepped, then one commit makes it durable, then replies and
messages leave.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import time
from random import SystemRandom
from traceback import format_exception

from crdtsyncd.config import Config
from crdtsyncd.disk import DiskGuard
from crdtsyncd.ipc import AgentConnection
from crdtsyncd.memory import MemoryGuard
from crdtsyncd.store import WAL_BYTES_MAX, WAL_CHECKPOINT_BYTES, WAL_REST_BYTES_MAX, Store
from crdtsyncd.telemetry import log
from crdtsyncd.transport import DUPLICATE, PeerConnection

from crdtsync.core.agents import Reply
from crdtsync.core.identity import LOOPBACK_CLUSTER, Identity
from crdtsync.core.node import (
    AgentClosed,
    AgentFlow,
    AgentFrame,
    AgentOpened,
    DialState,
    DiskSpace,
    Event,
    Node,
    Now,
    PeerClosed,
    PeerFrame,
    PeerLatency,
    PeerOpened,
    Ready,
    Tick,
)
from crdtsync.errors import CrdtSyncError, NoSpace, QuotaExceeded, StorageError

HOUSEKEEPING_S = 1.0
DISK_INTERVAL_S = 0.02
"""How often free space is looked at while there are commits: a fast disk takes some MB in that time."""
RELEASE_INTERVAL_S = 0.05
CHECKPOINT_PASSES_MAX = 4
CHECKPOINT_RETRY_S = 1.0


def _now() -> Now:
    return Now(time.time_ns() // 1_000_000, time.monotonic())


class Driver:
    """Feeds the node, commits, and delivers what it says. ``failed`` is set when the process must end."""

    def __init__(self, config: Config, store: Store, version: str) -> None:
        self._config = config
        self._store = store
        identity = Identity(store.node, config.node_name, LOOPBACK_CLUSTER, store.database, version, os.getpid())
        self._node = Node(identity, store, SystemRandom(), log, _now(), config.caps)
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
        self._flushed = asyncio.Event()
        self._refusal = ""
        self._is_stopped = False
        self._checkpoint_due_s = 0.0
        self._disk_due_s = 0.0
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.progress = 0
        self._flush()

    # -- one turn ----------------------------------------------------------------------------------------------

    def _feed(self, event: Event) -> None:
        if self.failed.done() or self._is_stopped:
            return
        try:
            self._node.step(event, _now())
        except Exception as error:  # noqa: BLE001  # a bug must not leave a state that nobody meant, nor stop the service
            self._recover(event, error)
        if self._flush_due is None:
            self._flush_due = asyncio.get_running_loop().call_soon(self._flush)

    def _recover(self, event: Event, error: Exception) -> None:
        """Drop what a bug left half done, and go on from what is on disk."""
        try:
            if isinstance(error, sqlite3.Error):
                raise self._store.unreadable(error)
            log("bug", level="error", during=type(event).__name__, error="".join(format_exception(error)))
            self._deliver(self._node.step_failed(event, f"{type(error).__name__}: {error}"))
            self._plan()
        except sqlite3.Error as second:
            self._fail(self._store.unreadable(second))
        except CrdtSyncError as second:
            self._fail(second)

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
        except StorageError as error:
            self._fail(error)
            return
        except Exception as error:  # noqa: BLE001  # as above
            self._recover(Tick(), error)
            return
        else:
            self._node.advance()
            self._mind_wal()
            if ready.persist and not self._refusal and time.monotonic() >= self._disk_due_s:
                self._check_disk()  # the writes themselves may fill it, faster than housekeeping looks
            if ready.persist.snapshot_parts or ready.persist.adoptions:
                gc.freeze()  # as above: 100,000 entries that come at once set off collections of 0.1 s and more
        self.progress += 1
        self._deliver(ready)
        self._flushed.set()
        self._flushed = asyncio.Event()
        self._plan()

    def _deliver(self, ready: Ready) -> None:
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

    def _plan(self) -> None:
        """Arrange for the next turn, if time alone calls for one."""
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
            self._timer = loop.call_later(delay_s, self._feed, Tick())

    # -- agents --------------------------------------------------------------------------------------------------

    def agent_opened(self, connection: AgentConnection, uid: int, pid: int) -> int:
        """See :class:`crdtsyncd.ipc.Sink`, as for all of these."""
        conn = self._next_conn()
        self._agents[conn] = connection
        self._feed(AgentOpened(conn, uid, pid))
        return conn

    def agent_frame(self, conn: int, payload: bytes) -> int:
        replies = self._node.desk.replies
        before = len(replies)
        self._feed(AgentFrame(conn, payload))
        return sum(len(reply.data) for reply in replies[before:])

    def agent_flow(self, conn: int, blocked: bool) -> None:
        self._feed(AgentFlow(conn, blocked))

    def agent_closed(self, conn: int) -> None:
        self._agents.pop(conn, None)
        self._feed(AgentClosed(conn))

    def take_turns_later(self, connection: AgentConnection) -> None:
        self._turns[connection] = None
        self._feed(Tick())

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
        self._feed(PeerOpened(conn, connection.url, connection.dialled))
        return conn

    def peer_frame(self, conn: int, data: bytes) -> None:
        self._feed(PeerFrame(conn, data))

    def peer_latency(self, conn: int, rtt_ms: float) -> None:
        self._node.step(PeerLatency(conn, rtt_ms), _now())

    def peer_closed(self, conn: int, reason: str) -> None:
        self._peers.pop(conn, None)
        self._feed(PeerClosed(conn, reason))

    def peer_count(self) -> int:
        return len(self._peers)

    def dial_state(self, url: str, state: str, error: str) -> None:
        self._feed(DialState(url, state, error))

    def is_linked(self, url: str) -> bool:
        return self._node.is_linked(url)

    async def breathe(self) -> None:
        await self._flushed.wait()

    async def turn(self) -> None:
        """See :class:`crdtsyncd.supervisor.Worker`."""
        self._feed(Tick())
        await self._flushed.wait()

    def summary(self) -> str:
        """One line for people who ask the service manager."""
        state = f"read-only: {self._refusal}" if self._refusal else "ready"
        return f"{state}; {len(self._agents):,} agents, {len(self._peers):,} peer connections"

    def log(self, event: str, level: str = "info", **fields: object) -> None:
        log(event, level, **fields)

    # -- housekeeping --------------------------------------------------------------------------------------------

    async def keep_house(self) -> None:
        """Watch the disk and the memory, and give back what nothing needs. Runs until cancelled."""
        check_due_s = 0.0
        while True:
            if time.monotonic() >= check_due_s:
                check_due_s = time.monotonic() + HOUSEKEEPING_S
                self._check_disk()
                await self._memory.check(self._node.document_memory_bytes())
            await asyncio.sleep(RELEASE_INTERVAL_S if self._release_space() else HOUSEKEEPING_S)

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
            self._feed(DiskSpace(refusal))

    def _mind_wal(self) -> None:
        """Begin a checkpoint of the write-ahead log if it has become large."""
        is_large = self._store.wal_bytes() > WAL_CHECKPOINT_BYTES
        if is_large and self._checkpoint is None and time.monotonic() >= self._checkpoint_due_s:
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

    async def finish(self) -> None:
        """Commit what the end of the connections has brought, and leave the store alone from then on."""
        if self._flush_due is not None:
            self._flush_due.cancel()
            self._flush()
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._checkpoint is not None:
            await asyncio.wait([self._checkpoint])

    def _next_conn(self) -> int:
        self._conn_last += 1
        return self._conn_last


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
