"""A fleet in one process: real nodes on real databases; the network, the clocks and the agents are under control.

Nothing here happens by itself. A test (or a seeded history) says what is written, delivered, cut or crashed next, so
every failure can be replayed. After each event the :mod:`oracle <tests.simulator.oracle>` judges what the node did.

A connection is first in, first out, as TCP is, and loses what is in flight when it is cut; one side may notice later
than the other. A crash throws away what was not committed, or what was committed and not yet sent. The database is
on a file system in memory, and the commits are real.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import Any
from zlib import crc32

from crdtsyncd.storage.database import Store

from crdtsync.core.background.retention_caps import Caps
from crdtsync.core.identity import LOOPBACK_CLUSTER, Identity
from crdtsync.core.interface import Event, Now, PeerClosed, PeerFrame, PeerOpened, Ready, Tick
from crdtsync.core.node import Node
from crdtsync.core.node_parts import NodeSettings
from crdtsync.core.replica.snapshots.merge import merge_snapshot
from crdtsync.core.replica.snapshots.snapshot import Taking
from crdtsync.core.storage import long_values
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.errors import NoSpace
from crdtsync.wire.change import Codec
from crdtsync.wire.codec import unpack
from crdtsync.wire.framing import FrameReader
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX
from crdtsync.wire.tokens import Version
from crdtsync.wire.yjs.encoding import at_once
from tests.simulator import flushing, healing, images
from tests.simulator.agents import Agent
from tests.simulator.bounds import check_limits, check_messages, check_progress, check_short_turn
from tests.simulator.disks import check_tables
from tests.simulator.hosts import SPACE, Host, Link, memory_dir
from tests.simulator.mirrors import MirrorWatcher
from tests.simulator.model import ChangeId, Model, Value, require
from tests.simulator.oracle import Oracle
from tests.simulator.sessions import check_follows
from tests.simulator.tuning import make_small
from tests.simulator.watchers import Watcher

START_MS = 1_800_000_000_000
TAKEOVER_MS = 3_600_000

SLEEPY = 0.2
"""How often a space is put to sleep after a turn, if it may be."""


class World:
    """See the module's description."""

    def __init__(
        self,
        seed: int,
        hosts: int = 3,
        skews_ms: Iterable[int] = (0,),
        small: bool = False,
        caps: Caps | None = None,
        told: list[str] | None = None,
    ) -> None:
        """``small``: many limits are; ``caps``: how much of the past is kept, None for all; ``told``: for a trace."""
        self.seed = seed
        self.caps = caps
        self.random = Random(seed)
        self.drowsiness = Random(f"sleep {seed}")  # of its own: what else happens is the same without it
        self.tuning = make_small(self.random) if small else ExitStack()
        self.directory = memory_dir()
        self.mono_s = 1000.0
        self.conn_last = 0
        self.oracle = Oracle()
        self.writers: dict[int, Host] = {}
        self.kept: list[tuple[str, bytes, list[bytes]]] = []
        self.requests: dict[bytes, Any] = {}
        self.codec = Codec(LOOPBACK_CLUSTER, SPACE, 0)
        self.links: list[Link] = []
        self.agents: list[Agent] = []
        self.watchers: list[Watcher | MirrorWatcher] = []
        self.counter = 0
        self.acknowledged: list[Any] = []
        self.forgone: set[ChangeId] = set()  # acknowledged on a disk that then was destroyed or went back
        self.told = told  # what happens, in words, if somebody wants to know
        self.fingerprint = 0
        self.counts: Counter[str] = Counter()
        # One daemon that replaces its stale connections often looks like two; clocks differ, and keys are full.
        self.expected_alarms = {"copied_node", "ttl_lengthened", "values_crowded_out"}
        self.expected_alarms |= {"snapshot_doubted", "taken_away"}  # all who could confirm a state may be behind too
        skews = [*skews_ms]
        self.hosts: list[Host] = []
        for i in range(hosts):
            self.make_host(skews[i % len(skews)])
        for host in self.hosts:
            self.start(host)

    def close(self) -> None:
        self.tuning.close()
        for host in self.hosts:
            if host.store is not None:
                host.store.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def make_host(self, skew_ms: int) -> Host:
        """Another machine, not yet running."""
        index = len(self.hosts)
        host = Host(index, self.directory / str(index), skew_ms, Random(f"{self.seed} host {index}").randbytes)
        self.hosts.append(host)
        return host

    def note(self, *what: object) -> None:
        """Tell what happens, for a trace."""
        if self.told is not None:
            self.told.append(" ".join(map(str, what)))

    def next_number(self) -> int:
        self.counter += 1
        return self.counter

    def new_conn(self) -> int:
        self.conn_last += 1
        return self.conn_last

    # -- time ----------------------------------------------------------------------------------------------------

    def now(self, host: Host) -> Now:
        wall_ms = START_MS + int((self.mono_s - 1000.0) * 1000) + host.skew_ms
        host.latest_ms = max(host.latest_ms, wall_ms)
        return Now(wall_ms, self.mono_s)

    def pass_time(self, seconds: float) -> None:
        """Time passes only between turns: what was stepped is committed first."""
        for host in self.up():
            self.turn(host)
        self.mono_s += seconds
        for host in self.up():
            if not host.is_busy:
                self.step(host, Tick())
                self.turn(host)

    # -- processes -------------------------------------------------------------------------------------------------

    def up(self) -> list[Host]:
        return [host for host in self.hosts if host.node is not None]

    def staying(self) -> list[Host]:
        """All that are not gone for good."""
        return [host for host in self.hosts if not host.is_gone]

    def start(self, host: Host) -> None:
        """Start the daemon of ``host`` on what its disk holds; that must be all that was ever committed."""
        require(host.node is None, host.name, "runs already")
        host.store = Store(
            host.directory / "data", host.directory / "run", lambda: host.entropy(16).hex(), entropy=host.entropy
        )
        identity = Identity(
            host.store.node, host.name, LOOPBACK_CLUSTER, host.store.database, "0", 0, host.store.incarnation
        )
        settings = NodeSettings(self.caps or Caps(), cache_bytes_max=long_values.CACHE_BYTES_MAX)
        random = Random(self.random.getrandbits(64))
        host.node = Node(identity, host.store, random, _no_log, self.now(host), settings)
        host.node.sync.comparer.is_on = False
        flushing.watch_flushes(host)
        images.settle_torn(self, host)
        self._expect_from_disk(host)
        self.turn(host)
        clients: list[Agent | Watcher | MirrorWatcher] = [*self.agents, *self.watchers]
        for agent in clients:
            if agent.home is host:
                agent.attach()

    def _expect_from_disk(self, host: Host) -> None:
        del host.applied[host.durable :]
        host.model = Model()
        for change_id in host.applied:
            host.model.apply(self.oracle.changes[change_id])
        host.observed_heads = len(host.running.ledger.batch.heads)
        host.observed = len(host.running.ledger.batch.changes)
        of_space = [row for row in host.running.ledger.batch.changes if row.space == host.replica.id]
        require(not of_space, host.name, "has uncommitted changes right after a start")
        self.check(host)
        require(host.replica.entries.digest == host.digest, host.name, "has another digest on disk than it committed")

    def crash(self, host: Host) -> None:
        """Kill -9: whatever is not on disk is gone, and every connection with it."""
        self.counts["crash"] += 1
        self.note(host.name, "is killed")
        assert host.store is not None
        host.store._journal.abandon()
        host.store.close()
        host.store = host.node = None
        self.oracle.forget(host.created)
        host.created = []
        host.observed = host.observed_heads = 0
        host.committing, host.is_frozen, host.synced = None, False, None
        host.flushed = None
        host.inbox.clear()
        for link in list(self.links):
            if host.index in link.ends:
                side = link.side(host.index)
                self._lose(link)
                self.notice(link, side)
        for agent in list(host.agents.values()):
            agent.lost()
        host.agents.clear()

    # -- one node's turn -----------------------------------------------------------------------------------------

    def step(self, host: Host, event: Event) -> None:
        """Hand over an event; a process that is frozen or waits for its disk finds it when it goes on."""
        if host.is_busy:
            host.inbox.append(event)
            return
        self.counts["event"] += 1
        self.fingerprint = crc32(repr(event).encode(), self.fingerprint)
        host.running.step(event, self.now(host))
        self.observe(host, host.running.ledger.batch)

    def observe(self, host: Host, batch: WriteBatch) -> None:
        """Tell the oracle of every change that ``host`` has applied since it was asked last."""
        self._observe_jump(host, batch)
        rows = batch.changes[host.observed :]
        host.observed = len(batch.changes)
        for row in [row for row in rows if row.space == host.replica.id]:
            change_id = (row.writer, row.seq)
            if change_id not in self.oracle.changes and row.writer == host.replica.writer:
                change = self.codec.decode(row.body)
                request = self.requests.get(change.idempotency or b"")
                self.writers[row.writer] = host
                if request is not None:
                    check_follows(request, host.model.vector)
                may_not = partial(self._may_not_expire, host)
                known = self.oracle.author(host.model, change, request, host.running.now_ms, may_not)
                host.created.append(change_id)
            else:
                known = self.oracle.arrived(host.name, host.model, change_id, row.hash)
            host.model.apply(known)
            host.applied.append(change_id)

    def _observe_jump(self, host: Host, batch: WriteBatch) -> None:
        """A snapshot has taken ``host`` to another vector at once: it ought to hold all changes up to that."""
        rows = [row for row in batch.heads[host.observed_heads :] if row.space == host.replica.id]
        host.observed_heads = len(batch.heads)
        if not rows:
            return
        self.counts["snapshot"] += 1
        host.has_jumped = True
        vector = {**host.model.vector, **{row.writer: row.seq for row in rows}}
        for known in self.oracle.jumped(host.name, host.model, vector):
            host.model.apply(known)
            host.applied.append(known.id)
        for row in rows:
            known = self.oracle.changes[row.writer, row.seq]
            require(known.hash.startswith(row.hash[:8]), host.name, "took over another change", known.id)

    def _may_not_expire(self, host: Host, value: Value) -> str:
        """Why ``host`` may not delete a value that has expired; empty if it may.

        Its own node does, or every node would write the same deletion. Where that stays away, another does in time.
        """
        owner = self.writers[value.dot.writer]
        assert value.ttl_ms is not None
        expired_ms = self.now(host).wall_ms - (value.hlc >> 16) - value.ttl_ms
        return "" if owner.original is host.original or expired_ms >= TAKEOVER_MS else f"{owner.name} wrote it"

    def dots(self, key: str, version: Version) -> tuple[frozenset[Any], frozenset[Any]]:
        """What a version of ``key`` covers: as shown to its reader, and as alive beside that."""
        shown = frozenset(version.dots)
        if version.vector is not None:
            vector = version.vector
            added = [effect.added for known in self.oracle.changes.values() for effect in known.effects if effect.added]
            shown |= {v.dot for v in added if v.key == key and v.dot.seq <= vector.get(v.dot.writer, 0)}
        others = frozenset(version.others)
        return shown - others, others

    def turn(self, host: Host, crash: str = "") -> None:
        """Commit and let out what was stepped.

        ``crash``: "before" or "after" the commit, or the disk is "full" or "slow".
        """
        if host.is_busy:
            if crash in ("before", "after"):
                if host.committing is not None and crash == "after":
                    self._commit(host, host.committing)
                self.crash(host)
            return
        ready = self.begin_turn(host)
        assert host.store is not None
        if crash == "before":
            self.dispatch_uncommitted(host, ready)
            self.crash(host)
            return
        if crash == "full" and ready.persist:
            self.counts["full"] += 1
            ready = host.running.persist_failed(ready, NoSpace("the disk is full"))
            self.oracle.forget(host.created)
            host.created = []
            self._expect_from_disk(host)
            self.dispatch(host, ready)
            return
        if crash == "slow" and ready.persist:
            self.counts["slow commit"] += 1
            host.committing = ready
            return
        self._commit(host, ready)
        if crash == "after":
            self.crash(host)
            return
        self._end_turn(host, ready)

    def begin_turn(self, host: Host) -> Ready:
        """What the node wants to have committed and sent."""
        ready = host.running.ready()
        self.observe(host, ready.persist)
        host.observed = host.observed_heads = 0
        check_messages(host, ready)
        check_short_turn(host)
        return ready

    def _commit(self, host: Host, ready: Ready) -> None:
        assert host.store is not None
        host.store.commit(ready.persist)
        self.bring_in(host)
        if ready.persist:
            check_tables(host)
        host.durable = len(host.applied)
        host.digest = host.replica.entries.digest
        host.created = []

    def bring_in(self, host: Host) -> None:
        """Rows go a step further on their way into their tables, as behind each turn of a daemon."""
        assert host.store is not None
        host.store.settle_some()
        host.store.bring_some_in()
        check_progress(host)

    def _end_turn(self, host: Host, ready: Ready) -> None:
        host.running.advance()
        if host.running.dispatcher.is_short:
            host.running.turn_due_s()  # from then on turns need not run everything
        self.check(host)
        self.dispatch(host, ready)
        self._let_sleep(host)

    def _let_sleep(self, host: Host) -> None:
        """At times a node puts the space to sleep, and is asked at once what peers ask a sleeper for."""
        replica = host.replica
        frontier, digest = replica.frontier, replica.digest
        if self.drowsiness.random() < SLEEPY and host.running.put_to_sleep(SPACE):
            self.counts["slept"] += 1
            told = host.replica.frontier, host.replica.digest
            require(told == (frontier, digest), host.name, "sleeps and tells", told, "and not", (frontier, digest))
            require(host.replica.asleep is not None, host.name, "was woken by what peers ask for")

    def wake(self, host: Host) -> None:
        """A frozen process goes on; a slow disk is done. What has come in meanwhile is there all at once."""
        ready, host.committing, host.is_frozen = host.committing, None, False
        if ready is not None:
            self._commit(host, ready)
            self._end_turn(host, ready)
        while host.inbox and not host.is_busy and host.node is not None:
            self.step(host, host.inbox.popleft())

    def dispatch_uncommitted(self, host: Host, ready: Ready) -> None:
        """What a correct driver does with messages of a commit that did not happen: nothing."""

    def dispatch(self, host: Host, ready: Ready) -> None:
        by_conn = {link.conns[link.side(host.index)]: link for link in self.links if host.index in link.ends}
        for conn, data in ready.sends:
            self.fingerprint = crc32(data, self.fingerprint)
            link = by_conn.get(conn)
            if link is not None and not link.is_cut:
                link.queues[1 - link.side(host.index)].append(data)
        for reply in ready.replies:
            self.fingerprint = crc32(reply.data, self.fingerprint)
            if reply.conn in host.agents:
                for payload in FrameReader(AGENT_FRAME_BYTES_MAX).feed(reply.data):
                    host.agents[reply.conn].received(unpack(payload))
        for conn, _ in ready.peer_closes:
            if conn in by_conn:
                self.cut(by_conn[conn])
        for conn, _ in ready.agent_closes:
            agent = host.agents.pop(conn, None)
            if agent is not None:
                agent.lost()

    def check(self, host: Host) -> None:
        """The node holds what the model says, no more and no less."""
        replica, model = host.replica, host.model
        check_limits(host)
        require(replica.vector == model.vector, host.name, "holds", replica.vector, "and ought to hold", model.vector)
        actual = {key: {entry.dot for entry in replica.entries.held(key)} for key in replica.entries._keys}
        wanted = {key: set(values) for key, values in model.keys.items()}
        require(
            actual == wanted,
            host.name,
            "has live entries",
            lambda: {
                key: sorted(actual.get(key, ()))
                for key in actual.keys() | wanted.keys()
                if actual.get(key) != wanted.get(key)
            },
            "and ought to have",
            lambda: {
                key: sorted(wanted.get(key, ()))
                for key in actual.keys() | wanted.keys()
                if actual.get(key) != wanted.get(key)
            },
        )
        alarms = [alarm for alarm in host.running.alarms.raised() if alarm.code not in self.expected_alarms]
        alarms = [alarm for alarm in alarms if "no part came within" not in alarm.message]  # hours pass at once here
        require(not alarms, host.name, "raises the alarms", alarms)

    # -- the network ---------------------------------------------------------------------------------------------

    def connect(self, first: Host, second: Host) -> Link | None:
        """``first`` dials ``second``."""
        if first is second or first.node is None or second.node is None:
            return None
        link = Link((first.index, second.index), (self.new_conn(), self.new_conn()))
        self.links.append(link)
        self.step(first, PeerOpened(link.conns[0], f"ws://{second.name}", True))
        self.step(second, PeerOpened(link.conns[1], f"ws://{first.name}", False))
        return link

    def linked(self, first: Host, second: Host) -> bool:
        return any({first.index, second.index} == {*link.ends} and not link.is_cut for link in self.links)

    def deliver(self, link: Link, side: int, count: int) -> int:
        """Hand over up to ``count`` of the frames that wait for ``link.ends[side]``."""
        host = self.hosts[link.ends[side]]
        queue = link.queues[side]
        done = 0
        if host.is_busy:
            return 0
        if queue:
            waiting = min(count, len(queue))
            self.note(host.name, "gets", waiting, "messages from", self.hosts[link.ends[1 - side]].name)
        while queue and done < count and host.node is not None:
            self.step(host, PeerFrame(link.conns[side], queue.popleft()))
            self.counts["frame"] += 1
            done += 1
        return done

    def _lose(self, link: Link) -> None:
        """What is in flight is lost from some point on; a beginning of it may still arrive."""
        link.is_cut = True
        for queue in link.queues:
            for _ in range(self.random.randint(0, len(queue))):
                queue.pop()

    def cut(self, link: Link, sides: tuple[int, ...] = (0, 1)) -> None:
        """The connection breaks; only ``sides`` notice it now."""
        if not link.is_cut:
            self._lose(link)
        self.counts["cut"] += 1
        self.note("the connection of", *(self.hosts[end].name for end in link.ends), "breaks")
        for side in sides:
            self.notice(link, side)

    def notice(self, link: Link, side: int) -> None:
        """One end learns that its connection is gone."""
        host = self.hosts[link.ends[side]]
        if link.is_cut and link.believed[side]:
            link.believed[side] = False
            link.queues[side].clear()
            if host.node is not None:
                self.step(host, PeerClosed(link.conns[side], "cut"))
        if link.is_cut and not any(link.believed) and link in self.links:
            self.links.remove(link)

    # -- snapshots out of turn -------------------------------------------------------------------------------------

    def keep_snapshot(self, host: Host) -> None:
        """Cut a snapshot at ``host``, to be merged some time, somewhere."""
        self.turn(host)
        if host.node is None or host.is_busy:
            return
        snapshot = host.running.sync.snapshot_server._cut(host.replica)
        parts: list[bytes] = []
        is_last = False
        while not is_last:
            data, is_last = snapshot.part(len(parts))
            parts.append(data)
        self.kept.append((host.running.identity.node, snapshot.id, parts))

    def merge_kept(self, host: Host, kept: tuple[str, bytes, list[bytes]]) -> None:
        """Merge a snapshot at ``host`` that it did not ask for: it may be old, known or even its own."""
        node, snapshot, parts = kept
        sync = host.running.sync
        if host.is_busy or SPACE in sync.snapshot_client.receipts:
            return  # one at a time
        self.counts["merge"] += 1
        self.step(host, Tick())
        taking = Taking(snapshot, node)
        for data in parts:
            taking.add(data)
        at_once(taking.finish())
        merged = merge_snapshot(host.replica, taking, self.now(host).wall_ms)
        for link in sync.links.values():
            if SPACE in link.spaces:
                link.spaces[SPACE].ack_writers |= merged.advanced
                link.ack_due_s = self.mono_s
        host.running._applied.setdefault(SPACE, []).extend(merged.applied)
        host.running.dispatcher.watches.retell(SPACE, merged.keys())
        self.observe(host, host.running.ledger.batch)

    # -- the end -------------------------------------------------------------------------------------------------

    def heal(self, is_line: bool = False) -> None:
        """See :func:`tests.simulator.healing.heal`."""
        healing.heal(self, is_line)

    def settle(self, done: Callable[[], bool], pairs: Iterable[tuple[Host, Host]] = ()) -> None:
        """See :func:`tests.simulator.healing.settle`."""
        healing.settle(self, done, pairs)

    @property
    def is_quiet(self) -> bool:
        """Whether every host holds the same, and nobody waits for anything."""
        return healing.is_quiet(self)

    def time_to_next(self) -> float:
        """Seconds until something is due somewhere."""
        return healing.time_to_next(self)

    def check_converged(self) -> None:
        """See :func:`tests.simulator.healing.check_converged`."""
        healing.check_converged(self)

    def check_bounds(self) -> None:
        """See :func:`tests.simulator.healing.check_caps`."""
        healing.check_caps(self)

    def check_disks(self) -> None:
        """See :func:`tests.simulator.healing.check_disks`."""
        healing.check_disks(self)


def _no_log(event: str, level: str = "info", **fields: object) -> None:
    pass
