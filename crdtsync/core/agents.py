"""Agents attached to this node: their handshake, their requests, their replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from crdtsync.causality import VersionVector, Writer, covers
from crdtsync.core.access.changes import Changes
from crdtsync.core.arguments import Arguments
from crdtsync.core.attached import Agent, Done, Host, Reply, Shown, User, without_replaced
from crdtsync.core.concerns import Concern, check_possible, is_alone
from crdtsync.core.draft import Draft
from crdtsync.core.explain import explain_request
from crdtsync.core.history_scan import scan_of
from crdtsync.core.identity import Identity
from crdtsync.core.lacking import is_known_elsewhere
from crdtsync.core.long_reads import LongReads
from crdtsync.core.mirrors import StateWatch, confirm
from crdtsync.core.parking import later
from crdtsync.core.points import need_in, point_of, resumed_in, shown_at, vector_in
from crdtsync.core.reads import READS, Reader
from crdtsync.core.replica import Replica
from crdtsync.core.requests import request_of, timeout_ms
from crdtsync.core.seen import NotYet
from crdtsync.core.service import SERVICE_OPERATIONS
from crdtsync.core.space_requests import find_replica, space_requests, writable
from crdtsync.core.storage import OutcomeRow, Storage
from crdtsync.core.waits import LATER as _LATER
from crdtsync.core.waits import Wait, Waits
from crdtsync.core.watches import Watch, Watches
from crdtsync.core.writes import WRITES
from crdtsync.errors import (
    CrdtSyncError,
    InvalidRequest,
    NoSpace,
    QuotaExceeded,
    TooOld,
    UnknownSpace,
    Unresolved,
    to_wire,
)
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.framing import frame
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX, CLUSTER_SPACE, PROTOCOL_VERSION, check_name, shown
from crdtsync.wire.tokens import decode_token, encode_token

OUTCOMES_PER_CLIENT_MAX = 1024
OUTCOME_BYTES_MAX = 16 * 1024
"""A larger reply is remembered without the value that the write replaced, which history keeps."""
WATCHES_PER_AGENT_MAX = 1000
SETTLE_BYTES_MAX = 4 * 1024 * 1024


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
        self.long_reads = LongReads(self._answer)
        self._clients: dict[bytes, int] = {}
        self._uncommitted: dict[tuple[bytes, int], dict[str, Any]] = {}
        self._held_now: list[Wait] = []
        self._others: dict[str, Callable[[Agent, int, Arguments], object]] = {
            "wait": self._wait,
            "watch": self._watch,
            "unwatch": self._unwatch,
            **space_requests(host),
            "confirm": lambda agent, _request, args: confirm(self, agent.conn, args),
            **{name: self._serve(name) for name in SERVICE_OPERATIONS},
            "resolver": self._resolver,
            "resolver_done": lambda agent, request, args: self._standing(
                agent, request, self.host.resolvers.done(agent, args)
            ),
            "status": lambda agent, _request, args: self.host.status(agent, args.get("reserved") is True),
            "explain": explain_request(host),
            **host.cluster_desk.requests,
            **host.access_desk.requests,
        }
        self.requests = dict.fromkeys((*WRITES, *READS, *self._others), 0)
        self.refusals: Counter[str] = Counter()
        self.access_changes = Changes(self, host.guard)

    # -- connections ---------------------------------------------------------------------------------------

    def opened(self, conn: int, user: User, pid: int) -> None:
        """An agent attached."""
        self.agents[conn] = Agent(conn, user, pid, self.host.now_ms)

    def expel(self, conn: int, error: CrdtSyncError) -> None:
        """End a connection, and say why."""
        self.closed(conn)
        self.fail(conn, 0, error)
        self.closes.append((conn, error.message))

    def closed(self, conn: int) -> None:
        """It is gone, and with it everything that it still waited for."""
        agent = self.agents.pop(conn, None)
        if agent is not None:
            self.host.guard.left(agent)
            if self._clients.get(agent.client) == conn:
                del self._clients[agent.client]
        self.waits.drop(conn)
        self.long_reads.drop(conn)
        self.watches.remove(conn)
        self.host.resolvers.remove(conn)

    def reload(self, replicas: dict[str, Replica], error: CrdtSyncError) -> None:
        """The replicas have been read anew, after a failed commit: start over what was built on the old ones."""
        self._uncommitted.clear()
        self._held_now.clear()
        for wait in self.waits.take_unsettled():
            self.fail(wait.conn, wait.request, error)
        self.watches.reload(replicas)
        for agent in self.agents.values():
            agent.told = None if agent.told is None else {}
        for conn, request in self.long_reads.reload(replicas):
            self.fail(conn, request, error)

    def space_closed(self, name: str, reason: str, *, is_gone: bool) -> None:
        """A space, or an epoch of it, is no longer here: tell whoever waits for something of it, or watches it."""
        for wait in self.waits.take_of(name):
            self.fail(wait.conn, wait.request, TooOld(f"{reason}: what this waited for will not come"))
        for conn, request in self.watches.end(name) if is_gone else ():
            self.fail(conn, request, UnknownSpace(f"{reason}: the watch has ended"))
        for resolver in self.host.resolvers.end(name) if is_gone else ():
            self.fail(resolver.conn, resolver.request, UnknownSpace(f"{reason}: the resolver has ended"))

    def committed(self) -> None:
        """What was replied is on disk, and what was done for those who wait for other nodes."""
        self._uncommitted.clear()
        for wait in self._held_now:
            wait.stands = True
        self._held_now.clear()

    # -- requests --------------------------------------------------------------------------------------------

    def received(self, conn: int, payload: bytes) -> bool:
        """Handle one frame. True if it was a read, and has been answered: then nothing follows from it."""
        agent = self.agents.get(conn)
        if agent is None:
            return False
        try:
            request, name, args = request_of(payload)
        except InvalidRequest as error:
            self.fail(conn, 0, error)
            self.closes.append((conn, error.message))
            return False
        if name in self.requests:
            self.requests[name] += 1
        try:
            if agent.account is not None:
                agent.account.charge(self.host.now_s, len(payload) if name in WRITES else 0)
            result = self._handle(agent, request, name, args)
        except CrdtSyncError as error:
            self.host.guard.note(agent, name, error)
            self.fail(conn, request, error)
            if name == "hello" or not agent.name:
                self.closes.append((conn, error.message))
            return False
        if result is _LATER:
            return False
        self._answer(conn, request, result, stands=name in ("hello", "confirm"))
        return type(result) is Shown

    def _handle(self, agent: Agent, request: int, name: str, args: Arguments) -> object:
        if not agent.name:
            if name != "hello":
                raise InvalidRequest("the first request of a connection must be hello")
            return self._hello(agent, args)
        if name in self.requests:
            self.host.guard.check(agent, name, args)
        if "need" in args and name not in _PLACELESS:
            replica = self._replica(agent, args)
            needed = need_in(replica, args["need"])
            if not covers(replica.vector, needed):
                rest = {argument: value for argument, value in args.items() if argument != "need"}
                return later(
                    self, agent, request, args, replica, needed, lambda: self._handle(agent, request, name, rest)
                )
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
        guard = self.host.guard
        guard.admit(agent, args.get("key"))
        guard.check_label(agent, name)
        space = args.get("space", agent.space)
        # One who has no right there is not told whether there is such a space: it is refused with each request.
        agent.space = self._replica(agent, args).name if guard.sees(agent, space) else str(space)
        earlier = self._clients.get(client)
        if earlier is not None:
            self.closed(earlier)
            self.closes.append((earlier, "the same client has attached again"))
        agent.name, agent.client = name, client
        agent.told = {} if args.get("points") else None
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
        return find_replica(self.host, space, agent)

    # -- writes ------------------------------------------------------------------------------------------------

    def _write(self, agent: Agent, request: int, name: str, args: Arguments) -> object:
        replica = writable(self._replica(agent, args))
        number = args.get("n")
        if type(number) is not int or not 0 <= number < 2**63:
            raise InvalidRequest("a write needs n, a number that the client counts up")
        if args.get("again"):
            result = self._earlier_outcome(agent, number)
            if result is not None:
                stands = (agent.client, number) not in self._uncommitted
                return self._concern(agent, request, replica, args, result, stands)
        author = check_name(args.get("agent", agent.name), "an agent")
        self._check_concern(agent, replica, args)
        if self.host.read_only:
            raise NoSpace(self.host.read_only)
        try:
            result = self._commit(agent, author, replica, name, args, number)
        except CrdtSyncError as error:
            raise shown_at(replica, error) from None
        except NotYet as not_yet:
            if not_yet.otherwise is not None and not is_known_elsewhere(
                self.host.sync.peers.values(), replica.name, not_yet.vector
            ):
                raise shown_at(replica, not_yet.otherwise) from None
            return later(
                self, agent, request, args, replica, not_yet.vector, lambda: self._handle(agent, request, name, args)
            )
        return self._concern(agent, request, replica, args, result)

    def _check_concern(self, agent: Agent, replica: Replica, args: Arguments) -> None:
        """Refuse a write concern that cannot be waited for before the write is done, not after."""
        if is_alone(args.get("w")):
            return
        holders = self.host.spaces.holders([replica.name])
        check_possible(args.get("w"), holders, self.host.sync.dials.values(), self.identity.name)
        timeout_ms(args)
        if self.waits.is_full(agent.conn):
            raise self._too_many_waits()

    def _commit(
        self, agent: Agent, author: str, replica: Replica, name: str, args: Arguments, number: int
    ) -> dict[str, Any]:
        draft = Draft(replica, self.host.now_ms, replica.node_of)
        draft.is_limited = not self.host.guard.sees_all_of(agent, replica.name)
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
            stored = pack(without_replaced(result))
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
        if is_alone(args.get("w")):
            self._answer(agent.conn, request, result, stands)
            return _LATER
        token = result["token"]
        return self._held(
            agent, request, args, {replica.name: decode_token(token)[replica.name][1]}, token, result, stands
        )

    # -- reads and waits -----------------------------------------------------------------------------------------

    def _read(self, agent: Agent, request: int, name: str, args: Arguments) -> object:
        replica = self._replica(agent, args)
        after = args.get("after")
        if after is not None and name != "text_updates":
            vector = vector_in(replica, after)
            if not covers(replica.vector, vector):
                rest = {argument: value for argument, value in args.items() if argument != "after"}
                return later(
                    self, agent, request, args, replica, vector, lambda: self._handle(agent, request, name, rest)
                )
        return self._answer_read(agent, request, replica, name, args)

    def _answer_read(self, agent: Agent, request: int, replica: Replica, name: str, args: Arguments) -> object:
        limit = self.host.guard.limit_of(agent, replica.name)
        reader = Reader(replica, self.storage, self.host.now_ms, replica.node_of, limit)
        if name == "history" and "prefix" in args:
            if not self.long_reads.add(agent.conn, request, scan_of(reader, args)):
                raise self._too_many_waits()
            return _LATER
        try:
            return Shown(replica, READS[name](reader, args))
        except Unresolved as refusal:
            raise shown_at(replica, refusal) from None

    def _wait(self, agent: Agent, request: int, args: Arguments) -> object:
        token = args.get("token")
        needed = {}
        for space in decode_token(token):
            is_own = space == CLUSTER_SPACE  # where spaces are made and dropped, which can be waited for too
            replica = self.host.replicas[space] if is_own else self._replica(agent, {"space": space})
            needed[replica.name] = vector_in(replica, token)
        holders = self.host.spaces.holders(needed)
        check_possible(args.get("w"), holders, self.host.sync.dials.values(), self.identity.name)
        return self._held(agent, request, args, needed, str(token), {})

    def _held(
        self,
        agent: Agent,
        request: int,
        args: Arguments,
        needed: dict[str, VersionVector],
        token: str,
        result: dict[str, Any],
        stands: bool = False,
    ) -> object:
        """Answer when enough nodes hold ``needed``, this one among them; ``stands``: here it is on disk already."""
        concern = Concern(
            self.host.spaces.holders(needed), self.identity.name, self.host.replicas, needed, args.get("w")
        )

        def check() -> object | None:
            held = concern.holders()
            if not concern.is_met(held):
                self.host.sync.mesh.ask(needed, self.host.now_s)
                return None
            return Done({**result, "nodes": len(held)})

        end_s = self.host.now_s + timeout_ms(args) / 1000
        wait = self.park(agent, request, end_s, needed, check, lambda: concern.unmet(token))
        wait.stands = stands
        self._held_now.append(wait)
        return _LATER

    def park(
        self,
        agent: Agent,
        request: int,
        end_s: float,
        needed: dict[str, VersionVector],
        check: Callable[[], object | None],
        expire: Callable[[], object],
    ) -> Wait:
        """Have a request wait until this node holds what it needs, then until ``check`` says what is to be answered.

        :raises QuotaExceeded: too many of its connection wait already.
        """
        wait = Wait(agent.conn, request, end_s, needed, check, expire)
        if not self.waits.add(wait):
            raise self._too_many_waits()
        return wait

    def _too_many_waits(self) -> QuotaExceeded:
        return QuotaExceeded(
            f"this connection has {self.waits.PER_AGENT_MAX:,} requests waiting already: let some of them end first"
        )

    def settle(self) -> None:
        """Answer waiting requests that are done or out of time: as many as fit into one turn."""
        self.long_reads.run(self.host.now_ms)
        size_bytes = 0
        for wait, result in self.waits.settle(self.host.now_s):
            before = len(self.replies)
            if isinstance(result, CrdtSyncError):
                self.fail(wait.conn, wait.request, result, wait.stands)
            elif isinstance(result, Done) and result.result is not _LATER:
                self._answer(wait.conn, wait.request, result.result, wait.stands)
            size_bytes += sum(len(reply.data) for reply in self.replies[before:])
            if size_bytes >= SETTLE_BYTES_MAX:
                return

    def _applied(self, space: str, writer: Writer) -> int:
        replica = self.host.replicas.get(space)
        return 0 if replica is None else replica.vector.get(writer, 0)

    # -- watches -----------------------------------------------------------------------------------------------------

    def _watch(self, agent: Agent, request: int, args: Arguments) -> object:
        replica = writable(self._replica(agent, args))
        prefix, after = args.get("prefix", ""), args.get("after")
        if type(prefix) is not str:
            raise InvalidRequest("prefix must be a string")
        if self.watches.count(agent.conn) >= WATCHES_PER_AGENT_MAX:
            raise QuotaExceeded(f"this connection has {WATCHES_PER_AGENT_MAX:,} watches already")
        self._check_watches(agent)
        vector, is_dropped = (None, False) if after is None else resumed_in(replica, after)
        self._answer(agent.conn, request, {"token": encode_token([(replica.name, replica.epoch, vector or {})])}, True)
        if args.get("states"):
            mirror = StateWatch(agent.conn, request, prefix, replica)
            mirror.is_reset = is_dropped
            mirror.limit = self.host.guard.limit_of(agent, replica.name)
            self.watches.mirrors.add(mirror, vector)
        else:
            watch = Watch(agent.conn, request, prefix, replica)
            watch.lagged = is_dropped  # a snapshot then begins with a reset
            watch.limit = self.host.guard.limit_of(agent, replica.name)
            self.watches.add(watch, vector, self.host.now_ms)
        return _LATER

    def _unwatch(self, agent: Agent, _request: int, args: Arguments) -> object:
        watch = args.get("watch")
        if type(watch) is not int:
            raise InvalidRequest("watch must be the id of the request that began the watch")
        self.watches.remove(agent.conn, watch)
        self.host.resolvers.remove(agent.conn, watch)
        return {}

    def _check_watches(self, agent: Agent) -> None:
        """Whether an agent may have one more watch or resolver, by its quota over all its connections."""
        account = agent.account
        if account is not None:
            own = [conn for conn, one in self.agents.items() if one.account is account]
            resolvers = self.host.resolvers
            account.check_room("watches", sum(self.watches.count(c) + len(resolvers.of_conn(c)) for c in own))

    def _resolver(self, agent: Agent, request: int, args: Arguments) -> object:
        self._check_watches(agent)
        return self._standing(
            agent, request, self.host.resolvers.register(agent, request, writable(self._replica(agent, args)), args)
        )

    # -- replies -----------------------------------------------------------------------------------------------------

    def _standing(self, agent: Agent, request: int, result: object) -> object:
        """Answer what concerns no disk: it holds also if the commit under way fails."""
        self._answer(agent.conn, request, result, stands=True)
        return _LATER

    def _answer(self, conn: int, request: int, result: object, stands: bool = False) -> None:
        point: bytes | None = None
        if type(result) is Shown:
            point = self._news(conn, request, result.replica)
            result = result.result
        payload = pack([request, 0, result])
        if len(payload) > AGENT_FRAME_BYTES_MAX:
            payload = pack(
                [
                    request,
                    1,
                    {"code": "too_large", "message": "the answer is too large for one reply: read it in parts"},
                ]
            )
        if point is not None:
            self.replies.append(Reply(conn, None, frame(point)))
        self.replies.append(Reply(conn, request, frame(payload), stands))

    def _news(self, conn: int, request: int, replica: Replica) -> bytes | None:
        """What a reader is told before it is answered: the point that it is shown, unless it knows that already."""
        agent = self.agents.get(conn)
        if agent is None or agent.told is None:
            return None
        point = point_of(replica)
        if agent.told.get(replica.name) == point:
            return None
        agent.told[replica.name] = point
        return pack([request, 3, [replica.name, point]])

    def _serve(self, name: str) -> Callable[[Agent, int, Arguments], object]:
        return lambda agent, _request, args: self.host.serve(name, agent, args)

    def fail(self, conn: int, request: int, error: CrdtSyncError, stands: bool = False) -> None:
        """Answer a request with an error; 0: it concerns the whole connection."""
        self.refusals[error.code] += 1
        fields = to_wire(error)
        if "current" in fields and len(pack(fields)) > AGENT_FRAME_BYTES_MAX:
            fields["current"] = None
        self.replies.append(Reply(conn, request, frame(pack([request, 1, fields])), stands))


_PLACELESS = ("wait", "unwatch", "status", "explain")
"""Requests that show nothing of a space, whatever their session has seen of it."""
