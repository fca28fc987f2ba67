"""A cluster in one process: members with keys, connections that both sides must accept, agents of several rights."""

from __future__ import annotations

import shutil
from collections import Counter, deque
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from crdtsyncd.storage.database import Store

from crdtsync.core.cluster.admission import TOLD_META, Reach, pack_told
from crdtsync.core.cluster.membership import NOBODY, Membership
from crdtsync.core.identity import Identity
from crdtsync.core.interface import (
    AgentClosed,
    AgentFrame,
    AgentOpened,
    Event,
    JoinAsked,
    JoinOpened,
    Now,
    PeerClosed,
    PeerFrame,
    PeerOpened,
    Tick,
)
from crdtsync.core.node import Node
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.framing import FrameReader
from crdtsync.wire.invites import Invite
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX, CLUSTER_SPACE
from crdtsync.wire.peer.joining import (
    Admitted,
    Challenge,
    Join,
    JoinMessage,
    NotAdmitted,
    binding,
    decode_join_message,
    proof_of,
    secret_key,
)
from tests.simulator.hosts import memory_dir
from tests.simulator.model import require

START_MS = 1_800_000_000_000
OPERATOR_UID = 0
STRANGER_UID = 2000
TURNS_MAX = 1000


class Refusal(Exception):
    """A daemon's error reply."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(f"{fields['code']}: {fields['message']}")
        self.code = fields["code"]


class Session:
    """One agent's connection; every request is answered by the turn that follows it."""

    def __init__(self, host: Host, name: str, uid: int, **hello: Any) -> None:
        """:raises Refusal: it is not let in."""
        self._host = host
        self._replies: dict[int, Any] = {}
        self._request_last = self._number = 0
        self.conn = host.world.new_conn()
        host.sessions[self.conn] = self
        host.step(AgentOpened(self.conn, uid, 4242, (uid,), uid == OPERATOR_UID))
        self.ask("hello", protocol=1, client=host.world.random.randbytes(16), agent=name, **hello)

    def ask(self, operation: str, **args: Any) -> Any:
        """:raises Refusal: what it asks for is refused."""
        self._request_last += 1
        self._host.step(AgentFrame(self.conn, pack([self._request_last, operation, args])))
        self._host.turn()
        require(self._request_last in self._replies, self._host.name, "does not answer", operation, args)
        status, content = self._replies.pop(self._request_last)
        if status == 1:
            require(content["code"] != "internal", "a request failed inside the daemon:", content, operation, args)
            raise Refusal(content)
        return content

    def write(self, operation: str, **args: Any) -> Any:
        """The same for what changes keys."""
        self._number += 1
        return self.ask(operation, n=self._number, **args)

    def received(self, data: bytes) -> None:
        """The daemon has sent something."""
        for payload in FrameReader(AGENT_FRAME_BYTES_MAX).feed(data):
            request, status, content = unpack(payload)
            if status < 2:
                self._replies[request] = status, content

    def close(self) -> None:
        """Leave."""
        if self._host.sessions.pop(self.conn, None) is not None:
            self._host.step(AgentClosed(self.conn))


class Wire:
    """A connection of two hosts, first in, first out."""

    def __init__(self, world: ClusterWorld, ends: tuple[Host, Host]) -> None:
        self.ends = ends
        self.conns = (world.new_conn(), world.new_conn())
        self.queues: tuple[deque[bytes], deque[bytes]] = (deque(), deque())  # to each of its ends
        self._world = world
        world.wires.append(self)
        for at in (0, 1):
            host, other = ends[at], ends[1 - at]
            host.wires[self.conns[at]] = self
            host.step(PeerOpened(self.conns[at], f"wss://{other.name}", at == 0, host.membership.node_of(other.pin)))

    def put(self, sender: Host, data: bytes) -> None:
        """Send."""
        self.queues[1 - self.ends.index(sender)].append(data)

    def deliver(self, to: Host, most: int = 1_000_000) -> int:
        """Hand over some of what is under way; how many messages."""
        at, done = self.ends.index(to), 0
        while self.queues[at] and done < most:
            data = self.queues[at].popleft()
            to.heard.append(data)
            to.step(PeerFrame(self.conns[at], data))
            done += 1
        return done

    def close(self, reason: str) -> None:
        """Both sides notice, and what was under way is lost."""
        if self not in self._world.wires:
            return
        self._world.wires.remove(self)
        for at in (0, 1):
            self.queues[at].clear()
            del self.ends[at].wires[self.conns[at]]
            self.ends[at].step(PeerClosed(self.conns[at], reason))


class Host:
    """One machine: a key, a database, and a daemon that belongs to a cluster."""

    def __init__(self, world: ClusterWorld, key: tuple[str, bytes], cluster: bytes, told: dict[str, Any]) -> None:
        self.world = world
        self.pin, self.certificate = key
        self.index = len(world.hosts)
        self.name = f"host-{self.index}"
        self.cluster = cluster
        self.skew_ms = world.random.choice((0, 0, 5_000, -3_600_000))
        self.directory = world.directory / str(self.index)
        self.membership: Membership = NOBODY
        self.known_removed: set[str] = set()
        self.addresses = (f"10.0.0.{self.index + 1}:4440",)
        self.wires: dict[int, Wire] = {}
        self.sessions: dict[int, Session] = {}
        self.joining: dict[int, list[JoinMessage]] = {}
        self.heard: list[bytes] = []
        for part in ("data", "run"):
            (self.directory / part).mkdir(parents=True)
        self._open({TOLD_META: pack_told(told)} if told else {})

    def _open(self, metas: dict[str, bytes]) -> None:
        random = self.world.random
        self.store = Store(
            self.directory / "data", self.directory / "run", lambda: self.pin[:32], self.cluster, random.randbytes
        )
        if metas:
            batch = WriteBatch()
            batch.metas.extend(metas.items())
            self.store.commit(batch)
        identity = Identity(self.store.node, self.name, self.store.cluster, self.store.database, "0")
        self.node = Node(identity, self.store, Random(random.getrandbits(64)), _no_log, self.now)
        self.node.sync.comparer.is_on = False  # what is looked for must not be mended before somebody has looked
        self.tell_reach()
        self.turn()

    @property
    def id(self) -> str:
        """The node's."""
        return self.node.identity.node

    @property
    def now(self) -> Now:
        """By this host's clock."""
        return Now(START_MS + int(self.world.mono_s * 1000) + self.skew_ms, self.world.mono_s)

    @property
    def records(self) -> Any:
        """The replica of the cluster's own records."""
        return self.node.replicas[CLUSTER_SPACE]

    def tell_reach(self) -> None:
        """As the shell does: how this node is reached, its key, and who runs it."""
        self.step(Reach(((self.pin, self.certificate),), self.addresses, operators=(OPERATOR_UID,)))

    def step(self, event: Event) -> None:
        """Hand over an event."""
        self.node.step(event, self.now)

    def turn(self) -> None:
        """Commit what was stepped, and let it out."""
        ready = self.node.ready()
        self.store.commit(ready.persist)
        self.store.settle_some()
        self.store.bring_some_in()
        self.node.advance()
        if ready.membership is not None:
            self.membership = ready.membership
        for conn, data in ready.sends:
            if conn in self.wires:
                self.wires[conn].put(self, data)
            elif conn in self.joining:
                self.joining[conn].append(decode_join_message(data))
        for reply in ready.replies:
            if reply.conn in self.sessions:
                self.sessions[reply.conn].received(reply.data)
        for conn, reason in ready.peer_closes:
            if conn in self.wires:
                self.wires[conn].close(reason)
        for conn, _ in ready.agent_closes:
            if conn in self.sessions:
                self.sessions[conn].close()
        self._check_removed()

    def _check_removed(self) -> None:
        """Removal is for good, and nobody who was removed stays connected to who knows of it."""
        removed = {*self.membership.removed}
        lost = self.known_removed - removed
        require(not lost, self.name, "has forgotten the removal of", lost)
        self.known_removed = removed
        again = removed & {*self.membership.members}
        require(not again, self.name, "counts removed nodes as members:", again)
        for wire in self.wires.values():
            other = wire.ends[1 - wire.ends.index(self)]
            require(other.id not in removed, self.name, "stays connected to", other.name, "which it knows was removed")

    def accepts(self, other: Host) -> bool:
        """Whether the handshake with its key succeeds here."""
        return not self.membership.refusal_of(other.pin)

    def operator(self) -> Session:
        """Who runs this node."""
        return Session(self, "root", OPERATOR_UID)

    def restart(self) -> None:
        """Kill -9, and start again on the same disk."""
        for wire in list(self.wires.values()):
            wire.close("killed")
        self.sessions.clear()
        self.joining.clear()
        self.store.close()
        self.membership = NOBODY
        self.known_removed = set()
        self._open({})

    def content(self) -> bytes:
        """All that this machine has ever been sent by others, or has on its disk."""
        files = [path.read_bytes() for path in self.directory.rglob("*") if path.is_file()]
        return b"".join([*self.heard, *files])


class ClusterWorld:
    """The hosts, what connects them, and the time."""

    def __init__(self, seed: int, told: list[str] | None = None) -> None:
        self.random = Random(f"cluster {seed}")
        self.directory: Path = memory_dir()
        self.mono_s = 1000.0
        self.hosts: list[Host] = []
        self.wires: list[Wire] = []
        self.counts: Counter[str] = Counter()
        self._conn_last = 0
        self._keys = 0
        self._told = told

    def close(self) -> None:
        """Remove all files."""
        for host in self.hosts:
            host.store.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def note(self, *what: object) -> None:
        """Tell what happens, for a trace."""
        if self._told is not None:
            self._told.append(" ".join(map(str, what)))

    def new_conn(self) -> int:
        """A number for a connection."""
        self._conn_last += 1
        return self._conn_last

    def new_key(self) -> tuple[str, bytes]:
        """A pin and its certificate."""
        self._keys += 1
        certificate = f"the certificate of key {self._keys}".encode()
        return sha256(certificate).hexdigest(), certificate

    def begin(self) -> Host:
        """The first member of a new cluster."""
        host = self._add(self.new_key(), self.random.randbytes(16), {})
        host.operator().ask("cluster_init")
        return host

    def _add(self, key: tuple[str, bytes], cluster: bytes, told: dict[str, Any]) -> Host:
        host = Host(self, key, cluster, told)
        self.hosts.append(host)
        return host

    def ask_to_join(self, inviter: Host, invite: Invite, key: tuple[str, bytes], fault: str = "") -> Host | NotAdmitted:
        """A node with that key asks ``inviter`` to let it in; ``fault``: what is wrong with its request."""
        conn = self.new_conn()
        inviter.joining[conn] = []
        inviter.step(JoinOpened(conn))
        inviter.turn()
        (challenge,) = inviter.joining[conn]
        assert isinstance(challenge, Challenge)
        name = f"host-{len(self.hosts)}"
        plain = Join(invite.invite, key[1], name, ())
        secret = bytes(len(invite.secret)) if fault == "forged" else invite.secret
        nonce = bytes(len(challenge.nonce)) if fault == "replayed" else challenge.nonce
        proof = proof_of(secret_key(secret), binding(nonce, invite.pin, plain))
        join = Join(invite.invite, key[1], name, (), proof, b"signature")
        inviter.step(JoinAsked(conn, join, key[0], fault != "unsigned"))
        inviter.turn()
        answer = inviter.joining.pop(conn)[-1]
        inviter.step(PeerClosed(conn, "done"))
        inviter.turn()
        if isinstance(answer, Admitted):
            return self._add(key, answer.cluster, {node: dict(plain) for node, plain in answer.members.items()})
        assert isinstance(answer, NotAdmitted)
        return answer

    # -- what connects them ---------------------------------------------------------------------------------------

    def accepted(self, one: Host, other: Host) -> bool:
        """Whether both sides would take a connection."""
        return one.accepts(other) and other.accepts(one)

    def is_linked(self, one: Host, other: Host) -> bool:
        """Whether there is one."""
        return any({*wire.ends} == {one, other} for wire in self.wires)

    def link(self, one: Host, other: Host) -> bool:
        """``one`` dials ``other``; whether a connection stands."""
        if one is other or self.is_linked(one, other) or not self.accepted(one, other):
            return False
        Wire(self, (one, other))
        return True

    def circle(self, host: Host) -> set[Host]:
        """All hosts that its bytes could reach, if nobody heard of another removal from now on.

        Those who do not know each other yet may do so once somebody has told them, so what is known flows too.
        """
        known = {one: {*one.membership.members, *one.membership.removed} for one in self.hosts}
        is_growing = True
        while is_growing:
            is_growing = False
            for one in self.hosts:
                for other in self.hosts:
                    if _could_meet(one, other, known) and known[one] != known[other]:
                        known[one] |= known[other]
                        known[other] |= known[one]
                        is_growing = True
        found, looked_at = {host}, [host]
        while looked_at:
            one = looked_at.pop()
            near = {other for other in self.hosts if _could_meet(one, other, known)} - found
            found |= near
            looked_at += sorted(near, key=lambda each: each.index)
        return found

    def circles(self) -> Iterator[list[Host]]:
        """All hosts, by who can reach whom."""
        left = [*self.hosts]
        while left:
            found, looked_at = {left[0]}, [left[0]]
            while looked_at:
                one = looked_at.pop()
                near = {other for other in left if self.accepted(one, other)} - found
                found |= near
                looked_at += sorted(near, key=lambda each: each.index)
            yield [host for host in left if host in found]
            left = [host for host in left if host not in found]

    # -- time -----------------------------------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        """Nothing else happens meanwhile."""
        self.mono_s += seconds
        for host in self.hosts:
            host.step(Tick())
            host.turn()

    def settle(self) -> None:
        """Deliver everything until nothing moves and nothing is due."""
        for _ in range(TURNS_MAX):
            moved = sum(wire.deliver(end) for wire in list(self.wires) for end in wire.ends)
            for host in self.hosts:
                host.turn()
            due = [due_s for host in self.hosts if (due_s := host.node.deadline_s()) is not None]
            is_due = any(due_s <= self.mono_s for due_s in due)
            if not moved and not is_due and not any(any(wire.queues) for wire in self.wires):
                return
        require(False, "the hosts do not come to rest")


def _could_meet(one: Host, other: Host, known: dict[Host, set[str]]) -> bool:
    """Whether they could be connected, once each knows that."""
    is_known = other.id in known[one] and one.id in known[other]
    return is_known and other.id not in one.membership.removed and one.id not in other.membership.removed


def _no_log(*_: object, **__: object) -> None:
    """Nobody reads it."""
