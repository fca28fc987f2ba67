"""Agents attached to this node: their handshake, their requests, their replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from crdtsync.causality import VersionVector, Writer, covers
from crdtsync.core.draft import Draft
from crdtsync.core.identity import Identity
from crdtsync.core.reads import READS, Reader
from crdtsync.core.replica import Applied, Replica
from crdtsync.core.seen import NotYet
from crdtsync.core.storage import OutcomeRow, Storage
from crdtsync.core.sync import Sync
from crdtsync.core.waits import Wait, Waits
from crdtsync.core.watches import Watch, Watches
from crdtsync.core.writes import WRITES
from crdtsync.errors import (
    CrdtSyncError,
    InvalidEncoding,
    InvalidRequest,
    NoSpace,
    QuotaExceeded,
    Timeout,
    UnknownSpace,
    VersionMismatch,
    to_wire,
)
from crdtsync.wire.codec import check_items, pack, unpack
from crdtsync.wire.framing import frame
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX, PROTOCOL_VERSION, REQUEST_ITEMS_MAX, check_name, shown
from crdtsync.wire.tokens import decode_token, encode_token

TIMEOUT_MS_DEFAULT = 30_000
TIMEOUT_MS_MAX = 24 * 3600 * 1000
OUTCOMES_PER_CLIENT_MAX = 1024
OUTCOME_BYTES_MAX = 16 * 1024
"""A larger reply is remembered without the value that the write replaced, which history keeps."""
WATCHES_PER_AGENT_MAX = 1000
SETTLE_BYTES_MAX = 4 * 1024 * 1024

Arguments = Mapping[str, Any]


class Reply(NamedTuple):
    """A frame for an agent. ``request`` is None for events. ``stands``: also if the commit under way fails."""

    conn: int
    request: int | None
    data: bytes
    stands: bool = False


class Agent:
    """One attached connection."""

    __slots__ = ("client", "conn", "name", "pid", "since_ms", "space", "uid")

    def __init__(self, conn: int, uid: int, pid: int, since_ms: int) -> None:
        self.conn = conn
        self.uid = uid
        self.pid = pid
        self.since_ms = since_ms
        self.client = b""
        self.name = ""
        self.space = "default"


class Host(Protocol):
    """What the agents' desk needs of its node."""

    replicas: dict[str, Replica]
    sync: Sync
    now_ms: int
    now_s: float
    read_only: str

    def applied(self, replica: Replica, changes: list[Applied]) -> None:
        """Changes have been applied in memory."""

    def outcome(self, row: OutcomeRow) -> None:
        """Store a write's reply with the commit."""

    def status(self) -> dict[str, Any]:
        """The status object."""


class Desk:
    """Takes requests in, hands replies out through ``replies``; connections to close collect in ``closes``."""

    def __init__(self, host: Host, identity: Identity, storage: Storage) -> None:
        self.host = host
        self.identity = identity
        self.storage = storage
        self.agents: dict[int, Agent] = {}
        self.replies: list[Reply] = []
        self.closes: list[tuple[int, str]] = []
        self.waits = Waits(self._applied)
        self.watches = Watches(storage, lambda conn, data: self.replies.append(Reply(conn, None, data)))
        self._clients: dict[bytes, int] = {}
        self._uncommitted: dict[tuple[bytes, int], dict[str, Any]] = {}
        self._held_now: list[Wait] = []
        self._others: dict[str, Callable[[Agent, int, Arguments], object]] = {
            "wait": self._wait,
            "watch": self._watch,
            "unwatch": self._unwatch,
            "status": lambda _agent, _request, _args: self.host.status(),
        }

    # -- connections ---------------------------------------------------------------------------------------

    def opened(self, conn: int, uid: int, pid: int) -> None:
        """An agent attached."""
        self.agents[conn] = Agent(conn, uid, pid, self.host.now_ms)

    def closed(self, conn: int) -> None:
        """It is gone, and with it everything that it still waited for."""
        agent = self.agents.pop(conn, None)
        if agent is not None and self._clients.get(agent.client) == conn:
            del self._clients[agent.client]
        self.waits.drop(conn)
        self.watches.remove(conn)

    def reload(self, replicas: dict[str, Replica], error: CrdtSyncError) -> None:
        """The replicas have been read anew, after a failed commit: start over what was built on the old ones."""
        self._uncommitted.clear()
        self._held_now.clear()
        for wait in self.waits.take_unsettled():
            self._fail(wait.conn, wait.request, error)
        self.watches.reload(replicas)

    def committed(self) -> None:
        """What was replied is on disk, and what was done for those who wait for other nodes."""
        self._uncommitted.clear()
        for wait in self._held_now:
            wait.stands = True
        self._held_now.clear()

    # -- requests --------------------------------------------------------------------------------------------

    def received(self, conn: int, payload: bytes) -> None:
        """Handle one frame."""
        agent = self.agents.get(conn)
        if agent is None:
            return
        try:
            request, name, args = _request(payload)
        except InvalidRequest as error:
            self._fail(conn, 0, error)
            self.closes.append((conn, error.message))
            return
        try:
            result = self._handle(agent, request, name, args)
        except CrdtSyncError as error:
            self._fail(conn, request, error)
            if name == "hello" or not agent.name:
                self.closes.append((conn, error.message))
            return
        if result is not _LATER:
            self._answer(conn, request, result, stands=name == "hello")

    def _handle(self, agent: Agent, request: int, name: str, args: Arguments) -> object:
        if not agent.name:
            if name != "hello":
                raise InvalidRequest("the first request of a connection must be hello")
            return self._hello(agent, args)
        if name in WRITES:
            return self._write(agent, request, name, args)
        if name in READS:
            return self._read(agent, request, name, args)
        handler = self._others.get(name)
        if handler is None:
            known = ", ".join(sorted({*WRITES, *READS, *self._others}))
            raise InvalidRequest(f"unknown operation {shown(name)}; this daemon knows {known}")
        return handler(agent, request, args)

    def _hello(self, agent: Agent, args: Arguments) -> object:
        protocol, client = args.get("protocol"), args.get("client")
        if protocol != PROTOCOL_VERSION:
            raise InvalidRequest(
                f"protocol {shown(protocol)} is not spoken here; "
                f"this daemon speaks {PROTOCOL_VERSION}: upgrade the older side"
            )
        if type(client) is not bytes or len(client) != 16:
            raise InvalidRequest("client must be 16 random bytes")
        name = check_name(args.get("agent"), "an agent")
        agent.space = self._replica(agent, args).name
        earlier = self._clients.get(client)
        if earlier is not None:
            self.closed(earlier)
            self.closes.append((earlier, "the same client has attached again"))
        agent.name, agent.client = name, client
        self._clients[client] = agent.conn
        me = self.identity
        return {
            "protocol": PROTOCOL_VERSION,
            "version": me.version,
            "node": me.node,
            "name": me.name,
            "database": me.database,
        }

    def _replica(self, agent: Agent, args: Arguments) -> Replica:
        space = args.get("space", agent.space)
        replica = self.host.replicas.get(space) if isinstance(space, str) else None
        if replica is None:
            raise UnknownSpace(
                f"there is no space {shown(space)} on this node; it has {', '.join(sorted(self.host.replicas))}"
            )
        return replica

    # -- writes ------------------------------------------------------------------------------------------------

    def _write(self, agent: Agent, request: int, name: str, args: Arguments) -> object:
        replica = self._replica(agent, args)
        number = args.get("n")
        if type(number) is not int or not 0 <= number < 2**63:
            raise InvalidRequest("a write needs n, a number that the client counts up")
        if args.get("again"):
            result = self._earlier_outcome(agent, number)
            if result is not None:
                stands = (agent.client, number) not in self._uncommitted
                return self._concern(agent, request, replica, args, result, stands)
        author = check_name(args.get("agent", agent.name), "an agent")
        self._check_concern(agent, args)
        if self.host.read_only:
            raise NoSpace(self.host.read_only)
        try:
            result = self._commit(agent, author, replica, name, args, number)
        except NotYet as not_yet:
            return self._later(
                agent, request, args, replica, not_yet.vector, lambda: self._write(agent, request, name, args)
            )
        return self._concern(agent, request, replica, args, result)

    def _check_concern(self, agent: Agent, args: Arguments) -> None:
        """Refuse a write concern that cannot be waited for before the write is done, not after."""
        if args.get("w") in (None, 1):
            return
        _nodes_wanted(args.get("w"), 1)
        _timeout_ms(args)
        if self.waits.is_full(agent.conn):
            raise self._too_many_waits()

    def _commit(
        self, agent: Agent, author: str, replica: Replica, name: str, args: Arguments, number: int
    ) -> dict[str, Any]:
        draft = Draft(replica, self.host.now_ms, replica.node_of)
        result = WRITES[name](draft, args)
        if draft.ops:
            idempotency = agent.client[:8] + number.to_bytes(8, "big")
            applied = replica.commit(draft.ops, author, idempotency, self.host.now_ms)
            draft.finish(applied)
            point: VersionVector = {applied.change.writer: applied.change.seq}
            self.host.applied(replica, [applied])
        else:
            point = replica.vector
        result["token"] = encode_token([(replica.name, replica.epoch, point)])
        self._remember(agent.client, number, result)
        return result

    def _remember(self, client: bytes, number: int, result: dict[str, Any]) -> None:
        self._uncommitted[client, number] = result
        slot = number % OUTCOMES_PER_CLIENT_MAX
        stored = pack(result)
        if len(stored) > OUTCOME_BYTES_MAX:
            stored = pack(_without_replaced(result))
        self.host.outcome(OutcomeRow(client, slot, number, self.host.now_ms, stored))

    def _earlier_outcome(self, agent: Agent, number: int) -> dict[str, Any] | None:
        result = self._uncommitted.get((agent.client, number))
        if result is None:
            stored = self.storage.outcome(agent.client, number)
            result = None if stored is None else unpack(stored)
        return result

    def _concern(
        self,
        agent: Agent,
        request: int,
        replica: Replica,
        args: Arguments,
        result: dict[str, Any],
        stands: bool = False,
    ) -> object:
        """Reply now, or, with a write concern, when enough nodes hold the write."""
        if args.get("w") in (None, 1):
            self._answer(agent.conn, request, result, stands)
            return _LATER
        token = result["token"]
        return self._held(agent, request, args, {replica.name: decode_token(token)[replica.name][1]}, token, result)

    # -- reads and waits -----------------------------------------------------------------------------------------

    def _read(self, agent: Agent, request: int, name: str, args: Arguments) -> object:
        replica = self._replica(agent, args)
        after = args.get("after")
        if after is not None and name != "text_updates":
            vector = self._point(replica, after)
            if not covers(replica.vector, vector):
                return self._later(
                    agent, request, args, replica, vector, lambda: self._answer_read(replica, name, args)
                )
        return self._answer_read(replica, name, args)

    def _answer_read(self, replica: Replica, name: str, args: Arguments) -> object:
        return READS[name](Reader(replica, self.storage, self.host.now_ms, replica.node_of), args)

    def _point(self, replica: Replica, token: object) -> VersionVector:
        epoch, vector = decode_token(token).get(replica.name, (replica.epoch, {}))
        if epoch != replica.epoch:
            raise InvalidRequest(
                f"the token belongs to epoch {epoch} of space {replica.name}; it is in epoch {replica.epoch} now"
            )
        return vector

    def _later(
        self,
        agent: Agent,
        request: int,
        args: Arguments,
        replica: Replica,
        vector: VersionVector,
        then: Callable[[], object],
    ) -> object:
        """Do ``then`` when this node holds ``vector``."""

        def check() -> object | None:
            return _Done(then())

        def expire() -> CrdtSyncError:
            return Timeout(
                "this node did not get what the request refers to in time; nothing was done: "
                "try again with a longer timeout, or see with status whether its peers are connected",
                held_by=[],
            )

        self._park(agent, request, args, {replica.name: vector}, check, expire)
        return _LATER

    def _wait(self, agent: Agent, request: int, args: Arguments) -> object:
        token = args.get("token")
        needed = {}
        for space, (_, vector) in decode_token(token).items():
            needed[self._replica(agent, {"space": space}).name] = vector
        return self._held(agent, request, args, needed, str(token), {})

    def _held(
        self,
        agent: Agent,
        request: int,
        args: Arguments,
        needed: dict[str, VersionVector],
        token: str,
        result: dict[str, Any],
    ) -> object:
        """Answer when enough nodes hold ``needed``, this one among them."""
        sync = self.host.sync
        members = 1 + len(sync.peers)
        wanted = _nodes_wanted(args.get("w"), members)

        def holders() -> list[str]:
            names = [peer.name for peer in sync.peers.values() if all(peer.holds(*item) for item in needed.items())]
            here = all(covers(self.host.replicas[space].vector, vector) for space, vector in needed.items())
            return [self.identity.name, *names] if here else names

        def check() -> object | None:
            held = holders()
            here = bool(held) and held[0] == self.identity.name
            return _Done({**result, "nodes": len(held)}) if here and len(held) >= wanted else None

        def expire() -> CrdtSyncError:
            held = holders()
            here = "" if self.identity.name in held[:1] else ", this one not among them"
            return Timeout(
                f"{len(held)} of the {wanted} nodes wanted hold it so far{here}: {', '.join(held) or 'none known'}",
                token=token,
                held_by=held,
            )

        self._held_now.append(self._park(agent, request, args, needed, check, expire))
        return _LATER

    def _park(
        self,
        agent: Agent,
        request: int,
        args: Arguments,
        needed: dict[str, VersionVector],
        check: Callable[[], object | None],
        expire: Callable[[], CrdtSyncError],
    ) -> Wait:
        wait = Wait(agent.conn, request, self.host.now_s + _timeout_ms(args) / 1000, needed, check, expire)
        if not self.waits.add(wait):
            raise self._too_many_waits()
        return wait

    def _too_many_waits(self) -> QuotaExceeded:
        return QuotaExceeded(
            f"this connection has {self.waits.PER_AGENT_MAX:,} requests waiting already: let some of them end first"
        )

    def settle(self) -> None:
        """Answer waiting requests that are done or out of time: as many as fit into one turn."""
        size_bytes = 0
        for wait, result in self.waits.settle(self.host.now_s):
            before = len(self.replies)
            if isinstance(result, CrdtSyncError):
                self._fail(wait.conn, wait.request, result)
            elif isinstance(result, _Done) and result.result is not _LATER:
                self._answer(wait.conn, wait.request, result.result)
            size_bytes += sum(len(reply.data) for reply in self.replies[before:])
            if size_bytes >= SETTLE_BYTES_MAX:
                return

    def _applied(self, space: str, writer: Writer) -> int:
        return self.host.replicas[space].vector.get(writer, 0)

    # -- watches -----------------------------------------------------------------------------------------------------

    def _watch(self, agent: Agent, request: int, args: Arguments) -> object:
        replica = self._replica(agent, args)
        prefix, after = args.get("prefix", ""), args.get("after")
        if type(prefix) is not str:
            raise InvalidRequest("prefix must be a string")
        if self.watches.count(agent.conn) >= WATCHES_PER_AGENT_MAX:
            raise QuotaExceeded(f"this connection has {WATCHES_PER_AGENT_MAX:,} watches already")
        vector = None if after is None else self._point(replica, after)
        self._answer(agent.conn, request, {"token": encode_token([(replica.name, replica.epoch, vector or {})])}, True)
        self.watches.add(Watch(agent.conn, request, prefix, replica), vector, self.host.now_ms)
        return _LATER

    def _unwatch(self, agent: Agent, _request: int, args: Arguments) -> object:
        watch = args.get("watch")
        if type(watch) is not int:
            raise InvalidRequest("watch must be the id of the request that began the watch")
        self.watches.remove(agent.conn, watch)
        return {}

    # -- replies -----------------------------------------------------------------------------------------------------

    def _answer(self, conn: int, request: int, result: object, stands: bool = False) -> None:
        payload = pack([request, 0, result])
        if len(payload) > AGENT_FRAME_BYTES_MAX:
            payload = pack(
                [
                    request,
                    1,
                    {"code": "too_large", "message": "the answer is too large for one reply: read it in parts"},
                ]
            )
        self.replies.append(Reply(conn, request, frame(payload), stands))

    def _fail(self, conn: int, request: int, error: CrdtSyncError) -> None:
        fields = to_wire(error)
        if isinstance(error, VersionMismatch) and len(pack(fields)) > AGENT_FRAME_BYTES_MAX:
            fields["current"] = None
        self.replies.append(Reply(conn, request, frame(pack([request, 1, fields]))))


def _without_replaced(result: dict[str, Any]) -> dict[str, Any]:
    """A write's reply, or a batch's, without the values that it replaced."""
    shorter = {name: value for name, value in result.items() if name != "replaced"}
    if "results" in shorter:
        shorter["results"] = [_without_replaced(part) for part in shorter["results"]]
    return shorter


class _Done:
    """A waiting request's result, which may itself be None."""

    def __init__(self, result: object) -> None:
        self.result = result


_LATER = object()


def _request(payload: bytes) -> tuple[int, str, Arguments]:
    try:
        check_items(payload, REQUEST_ITEMS_MAX)
        plain = unpack(payload)
    except InvalidEncoding as error:
        raise InvalidRequest(error.message) from None
    match plain:
        case [int(request), str(name), dict(args)] if 1 <= request < 2**63:
            return request, name, args
    raise InvalidRequest("a request is [id, operation, arguments]")


def _timeout_ms(args: Arguments) -> int:
    timeout_ms = args.get("timeout", TIMEOUT_MS_DEFAULT)
    if type(timeout_ms) is not int or not 0 <= timeout_ms <= TIMEOUT_MS_MAX:
        raise InvalidRequest("timeout must be a whole number of milliseconds, up to 24 h")
    return timeout_ms


def _nodes_wanted(w: object, members: int) -> int:
    if w is None:
        return 1
    if w == "all":
        return members
    if w == "majority":
        return members // 2 + 1
    if type(w) is int and w >= 1:
        return w
    raise InvalidRequest('w must be a number of nodes, "majority" or "all"')
