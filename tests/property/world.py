"""A fleet in one process: real nodes on real databases; the network, the clocks and the agents are under control.

Nothing here happens by itself. A test (or a seeded history) says what is written, delivered, cut or crashed next, so
every failure can be replayed. After each event the :mod:`oracle <tests.property.oracle>` judges what the node did.

A connection is first in, first out, as TCP is, and loses what is in flight when it is cut; one side may notice later
than the other. A crash throws away what was not committed, or what was committed and not yet sent. The database is
on a file system in memory, and the commits are real.
"""

from __future__ import annotations

import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

from crdtsyncd.store import Store

from crdtsync.core.identity import LOOPBACK_CLUSTER, Identity
from crdtsync.core.node import (
    Event,
    Node,
    Now,
    PeerClosed,
    PeerFrame,
    PeerOpened,
    Ready,
    Tick,
)
from crdtsync.core.retention import Caps
from crdtsync.core.snapshot import Taking
from crdtsync.core.storage import Batch
from crdtsync.errors import NoSpace
from crdtsync.wire.change import Codec
from crdtsync.wire.codec import unpack
from crdtsync.wire.framing import FrameReader
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX
from crdtsync.wire.tokens import Version
from tests.property.agents import KEYS, Agent
from tests.property.disks import check_bounds, check_disk
from tests.property.mirrors import MirrorWatcher
from tests.property.model import ChangeId, Model, Value, require
from tests.property.oracle import Oracle
from tests.property.pasts import check_history
from tests.property.sessions import check_follows
from tests.property.tuning import make_small
from tests.property.watchers import Watcher

START_MS = 1_800_000_000_000
QUIET_ROUNDS_MAX = 2000
SPACE = "default"
TAKEOVER_MS = 3_600_000


def memory_dir() -> Path:
    """A new directory, in memory where there is such a file system."""
    shared = Path("/dev/shm")  # a test's own directory in it
    return Path(mkdtemp(prefix="crdtsync-world-", dir=shared if shared.is_dir() else None))


class Link:
    """One connection between two hosts: a queue each way, and who still believes in it."""

    def __init__(self, ends: tuple[int, int], conns: tuple[int, int]) -> None:
        self.ends = ends
        self.conns = conns
        self.queues: tuple[deque[bytes], deque[bytes]] = (deque(), deque())  # to ends[0], to ends[1]
        self.is_cut = False
        self.believed = [True, True]

    def side(self, host: int) -> int:
        return self.ends.index(host)


class Host:
    """One machine: a data directory, at times a running node, and what the oracle expects of it."""

    def __init__(self, index: int, directory: Path, skew_ms: int) -> None:
        self.index = index
        self.name = f"host-{index}"
        self.skew_ms = skew_ms
        self.directory = directory
        for part in ("data", "run"):
            (directory / part).mkdir(parents=True)
        self.store: Store | None = None
        self.node: Node | None = None
        self.model = Model()
        self.applied: list[ChangeId] = []
        self.durable = 0
        self.digest = 0
        self.created: list[ChangeId] = []
        self.observed = 0
        self.observed_heads = 0
        self.has_jumped = False  # whether a snapshot has ever taken it on
        self.agents: dict[int, Agent | Watcher | MirrorWatcher] = {}

    @property
    def running(self) -> Node:
        assert self.node is not None
        return self.node

    @property
    def replica(self) -> Any:
        return self.running.replicas[SPACE]


class World:
    """See the module's description."""

    def __init__(
        self,
        seed: int,
        hosts: int = 3,
        skews_ms: Iterable[int] = (0,),
        small: bool = False,
        caps: Caps | None = None,
    ) -> None:
        """``small``: many limits are; ``caps``: how much of the past is kept, None for all."""
        self.seed = seed
        self.caps = caps
        self.random = Random(seed)
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
        self.counts: Counter[str] = Counter()
        self.expected_alarms = {"copied_node"}  # that one daemon replaces its stale connections often looks like two
        skews = [*skews_ms]
        self.hosts = [Host(i, self.directory / str(i), skews[i % len(skews)]) for i in range(hosts)]
        for host in self.hosts:
            self.start(host)

    def close(self) -> None:
        self.tuning.close()
        for host in self.hosts:
            if host.store is not None:
                host.store.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def next_number(self) -> int:
        self.counter += 1
        return self.counter

    def new_conn(self) -> int:
        self.conn_last += 1
        return self.conn_last

    # -- time ----------------------------------------------------------------------------------------------------

    def now(self, host: Host) -> Now:
        return Now(START_MS + int((self.mono_s - 1000.0) * 1000) + host.skew_ms, self.mono_s)

    def pass_time(self, seconds: float) -> None:
        """Time passes only between turns: what was stepped is committed first."""
        for host in self.up():
            self.turn(host)
        self.mono_s += seconds
        for host in self.up():
            self.step(host, Tick())
            self.turn(host)

    # -- processes -------------------------------------------------------------------------------------------------

    def up(self) -> list[Host]:
        return [host for host in self.hosts if host.node is not None]

    def start(self, host: Host) -> None:
        """Start the daemon of ``host`` on what its disk holds; that must be all that was ever committed."""
        require(host.node is None, host.name, "runs already")
        host.store = Store(host.directory / "data", host.directory / "run")
        identity = Identity(host.store.node, host.name, LOOPBACK_CLUSTER, host.store.database, "0")
        caps = self.caps or Caps()
        host.node = Node(identity, host.store, Random(self.random.getrandbits(64)), _no_log, self.now(host), caps)
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
        host.observed_heads = len(host.running._ledger.batch.heads)
        host.observed = len(host.running._ledger.batch.changes)
        of_space = [row for row in host.running._ledger.batch.changes if row.space == host.replica.id]
        require(not of_space, host.name, "has uncommitted changes right after a start")
        self.check(host)
        require(host.replica.entries.digest == host.digest, host.name, "has another digest on disk than it committed")

    def crash(self, host: Host) -> None:
        """kill -9: whatever is not on disk is gone, and every connection with it."""
        self.counts["crash"] += 1
        assert host.store is not None
        host.store._journal.cleared()  # on disk it stays as it is
        host.store.close()
        host.store = host.node = None
        self.oracle.forget(host.created)
        host.created = []
        host.observed = host.observed_heads = 0
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
        host.running.step(event, self.now(host))
        self.observe(host, host.running._ledger.batch)

    def observe(self, host: Host, batch: Batch) -> None:
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

    def _observe_jump(self, host: Host, batch: Batch) -> None:
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
        return "" if owner is host or expired_ms >= TAKEOVER_MS else f"{owner.name} wrote it"

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
        """Commit and let out what was stepped; ``crash``: "before" or "after" the commit, or the disk is "full"."""
        ready = host.running.ready()
        self.observe(host, ready.persist)
        host.observed = host.observed_heads = 0
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
        host.store.commit(ready.persist)
        host.durable = len(host.applied)
        host.digest = host.replica.entries.digest
        host.created = []
        if crash == "after":
            self.crash(host)
            return
        host.running.advance()
        self.check(host)
        self.dispatch(host, ready)

    def dispatch_uncommitted(self, host: Host, ready: Ready) -> None:
        """What a correct driver does with messages of a commit that did not happen: nothing."""

    def dispatch(self, host: Host, ready: Ready) -> None:
        by_conn = {link.conns[link.side(host.index)]: link for link in self.links if host.index in link.ends}
        for conn, data in ready.sends:
            link = by_conn.get(conn)
            if link is not None and not link.is_cut:
                link.queues[1 - link.side(host.index)].append(data)
        for reply in ready.replies:
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
        if host.node is None:
            return
        snapshot = host.running.sync.transfers.giver._cut(host.replica)
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
        if SPACE in sync.transfers.taker.receipts:
            return  # one at a time
        self.counts["merge"] += 1
        self.step(host, Tick())
        taking = Taking(snapshot, node)
        for data in parts:
            taking.add(data)
        taking.finish()
        merged = host.replica.merge_snapshot(taking, self.now(host).wall_ms)
        for link in sync.links.values():
            if SPACE in link.spaces:
                link.spaces[SPACE].ack_writers |= merged.advanced
                link.ack_due_s = self.mono_s
        host.running._applied.setdefault(SPACE, []).extend(merged.applied)
        host.running.desk.watches.retell(SPACE, merged.keys())
        self.observe(host, host.running._ledger.batch)

    # -- the end -------------------------------------------------------------------------------------------------

    def heal(self, edges: list[tuple[int, int]] | None = None) -> None:
        """Start what is down, mend every connection, deliver everything: all nodes must come to the same state."""
        for link in list(self.links):
            for side in (0, 1):
                self.notice(link, side)
        for host in self.hosts:
            if host.node is None:
                self.start(host)
        for watcher in self.watchers:
            watcher.flow(blocked=False)
        pairs = edges or [(i, j) for i in range(len(self.hosts)) for j in range(i)]
        self.settle(lambda: self.is_quiet, [(self.hosts[i], self.hosts[j]) for i, j in pairs])

    def settle(self, done: Callable[[], bool], pairs: Iterable[tuple[Host, Host]] = ()) -> None:
        """Deliver, turn and let time pass until ``done``; the first of each pair dials the other when it is gone."""
        pairs = [*pairs]
        for _ in range(QUIET_ROUNDS_MAX):
            for first, second in pairs:
                if not self.linked(first, second):
                    self.counts["dial"] += 1
                    self.connect(first, second)
            moved = 0
            for link in list(self.links):
                for side in (0, 1):
                    moved += self.deliver(link, side, 1000)
            for host in self.up():
                self.turn(host)
            if moved or any(any(link.queues) for link in self.links):
                continue
            if done():
                return
            self.pass_time(self._time_to_next())
        vectors = {host.name: host.model.vector for host in self.hosts}
        require(False, "the nodes do not come to rest:", vectors, [agent.pending for agent in self.agents])

    def _time_to_next(self) -> float:
        due = [deadline for host in self.up() if (deadline := host.running.deadline_s()) is not None]
        return max(0.01, min([*due, self.mono_s + 1.0]) - self.mono_s)

    @property
    def is_quiet(self) -> bool:
        first = self.hosts[0].model.vector
        waiting = any(agent.pending for agent in self.agents if agent.conn is not None)
        waiting |= any(host.running.desk.watches.has_more() for host in self.hosts)
        return not waiting and all(host.model.vector == first for host in self.hosts)

    def check_converged(self) -> None:
        """Nodes with equal vectors hold equal content, and nothing that was acknowledged is missing."""
        first = self.hosts[0].replica
        for host in self.hosts:
            self.check(host)
            replica = host.replica
            require(replica.vector == first.vector, host.name, "has another vector")
            require(replica.entries.digest == first.entries.digest, host.name, "has another digest")
            require(len(replica.gate) == 0, host.name, "still holds early changes")
            require(entries_of(replica) == entries_of(first), host.name, "has other entries")
            self.check_texts(host)
            check_disk(self, host)
            check_history(self, host)
        self.check_reads()
        everything = {*self.hosts[0].applied}
        for request in self.acknowledged:
            require(request.change in everything, "an acknowledged write is gone:", request)
        for watcher in self.watchers:
            watcher.check()

    def check_bounds(self) -> None:
        """A while after the last write, when no snapshot is kept for anybody any more, every cap is kept to."""
        for seconds in (61.0, 61.0, *[0.1] * 8):
            self.pass_time(seconds)
            self.settle(lambda: self.is_quiet)
        for host in self.hosts:
            self.check(host)
            check_disk(self, host)
            check_bounds(self, host)

    def check_texts(self, host: Host) -> None:
        """Every live document of ``host`` has the words that were written into it."""
        for values in host.model.keys.values():
            for document in {value.document for value in values.values() if value.document is not None}:
                text = host.replica.documents.get(document).read()
                wanted = host.model.texts.read(document)
                is_right = self.oracle.is_text(document, text, wanted)
                require(is_right, host.name, document, f"is {text!r}, and ought to be {wanted!r}")

    def check_reads(self) -> None:
        """Every reader is shown the same, on every host; and that is what the oracle expects."""
        readers = [Agent(self, f"reader-{host.index}", host) for host in self.hosts]
        for reader in readers:
            for key in KEYS:
                for name in ("get", "entry"):
                    reader.ask(name, key)
            self.turn(reader.home)
            reader.leave()
            for place, (live, told) in readers[0].told.items():
                alike = reader.told[place][0] != live or _agree(
                    reader.told[place][1], told
                )  # clocks differ, and so what has expired
                require(alike, reader.home.name, "shows", place, "as", reader.told[place], "and not as", told)

    def check_disks(self) -> None:
        """The same after every daemon was killed and started again."""
        for host in self.hosts:
            self.crash(host)
        for host in self.hosts:
            self.start(host)
            self.check_texts(host)
            check_history(self, host)


def entries_of(replica: Any) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that a reader could learn of every entry."""
    return {
        key: [(e.dot, e.sub, e.kind, e.hlc, e.agent, e.value, e.value_hash, e.attrs) for e in replica.entries.held(key)]
        for key in replica.entries._keys
    }


def _agree(one: Any, other: Any) -> bool:
    """Whether two hosts tell the same, but for what one of them cannot know: what the author of a value had seen that
    came with a snapshot.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        if "seen" in one and None in (one["seen"], other["seen"]):
            one, other = ({n: v for n, v in told.items() if n not in _HAD_SEEN} for told in (one, other))
        return one.keys() == other.keys() and all(_agree(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_agree, one, other))
    return bool(one == other)


_HAD_SEEN = ("seen", "blind", "seen_all")


def _no_log(event: str, level: str = "info", **fields: object) -> None:
    pass
