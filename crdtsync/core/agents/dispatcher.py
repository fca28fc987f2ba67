"""Agents attached to this node: their handshake, their requests, their replies.

Most requests are answered at once. Some have to wait: a read with ``after`` for changes that are on their way here, a
write with ``w="all"`` for the disks of other nodes. The requests behind them must not wait, too. So a handler returns
the answer, or it parks the request and returns ``LATER``; the request is answered when what it waits for is there, or
its time is over. Replies leave when what they show is on disk. If the commit fails, they become errors, but for those
that are true all the same (``stands``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from crdtsync.causality import VersionVector, Writer, covers
from crdtsync.core.access.agent import Agent, User
from crdtsync.core.agents.bound_keys import BoundKeys
from crdtsync.core.agents.cards import AgentCards
from crdtsync.core.agents.fast_paths import batch_plainly, read_plainly, write_plainly
from crdtsync.core.agents.frames import ReadResult, Reply, request_of
from crdtsync.core.agents.retry_replies import Outcomes
from crdtsync.core.agents.revocation import Revocation
from crdtsync.core.agents.space_requests import find_replica
from crdtsync.core.agents.vote_requests import vote_request
from crdtsync.core.agents.watch_requests import WatchRequests
from crdtsync.core.agents.write_requests import WriteRequests
from crdtsync.core.crdt.sliding import keep
from crdtsync.core.identity import OWN_AGENT
from crdtsync.core.kinds.arguments import Arguments, timeout_ms, without_replaced
from crdtsync.core.reads.as_of import AsOfRead, PastPages
from crdtsync.core.reads.history_scan import scan_of
from crdtsync.core.reads.operations import READS, Reader
from crdtsync.core.reads.sliced import LongRead, LongReads
from crdtsync.core.replica.replica import Replica
from crdtsync.core.replica.write_operations import WRITES
from crdtsync.core.waiting.missing_changes import UNHEARD_WAIT_S, is_unheard
from crdtsync.core.waiting.session_points import need_in, not_here, point_of, shown_at, vector_in
from crdtsync.core.waiting.wait_queue import LATER, Wait, WaitResult, Waits, too_many_waits
from crdtsync.core.waiting.write_concern import Concern, check_possible
from crdtsync.core.watch.watches import Watches
from crdtsync.errors import (
    CrdtSyncError,
    InvalidRequest,
    TooOld,
    UnknownSpace,
    Unresolved,
    to_wire,
)
from crdtsync.wire.codec import pack
from crdtsync.wire.features import FEATURES
from crdtsync.wire.framing import frame
from crdtsync.wire.limits import (
    AGENT_FRAME_BYTES_MAX,
    CLUSTER_SPACE,
    PROTOCOL_VERSION,
    archive_of,
    check_agent_name,
    is_space_name,
    shown,
)
from crdtsync.wire.requests import REQUESTS, WITHOUT_NEED, Form
from crdtsync.wire.tokens import decode_token

if TYPE_CHECKING:
    from crdtsync.core.access.authorizer import Authorizer
    from crdtsync.core.cluster.admission import Admission
    from crdtsync.core.cluster.records import Cluster
    from crdtsync.core.cluster.spaces import Spaces
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.resolvers.registry import Registry
    from crdtsync.core.sync.protocol import Sync

SETTLE_BYTES_MAX = 4 * 1024 * 1024
"""Answers to waiting requests in one turn."""
KEEPING = frozenset({"get", "entry", "get_many", "blob_read"})
"""Reads after which what they have read lives on, if its time to live slides."""


class Dispatcher:
    """Takes requests in, hands replies out through ``replies``; connections to close collect in ``closes``."""

    IS_SHORT = True
    """Whether plain requests take the short ways, :mod:`crdtsync.core.agents.fast_paths`; faults are planted into the
    long one.
    """

    def __init__(
        self,
        node: NodeContext,
        cluster: Cluster,
        spaces: Spaces,
        fleet: Admission,
        sync: Sync,
        authorizer: Authorizer,
        resolvers: Registry,
    ) -> None:
        self.node = node
        self.cluster = cluster
        self.spaces = spaces
        self.fleet = fleet
        self.sync = sync
        self.authorizer = authorizer
        self.resolvers = resolvers
        self.agents: dict[int, Agent] = {}
        self.replies: list[Reply] = []
        self.closes: list[tuple[int, str]] = []
        self.waits = Waits(self._applied)
        self.watches = Watches(node.storage, lambda conn, data: self.replies.append(Reply(conn, None, data)))
        self.long_reads = LongReads(self._answer_long)
        self.past_pages = PastPages(lambda: node.now_s)
        self._clients: dict[bytes, int] = {}
        self.outcomes = Outcomes(node.storage)
        self._writes = WriteRequests(self, self.outcomes)
        self._held_now: list[Wait] = []
        self.bound = BoundKeys(self)
        self.cards = AgentCards(self)
        self._others: dict[str, Callable[[Agent, int, Arguments], object]] = {
            "wait": self._wait,
            "bind": self.bound.bind,
            "show": self.cards.show,
            "shown": self.cards.shown,
            "vote": vote_request(self),
            **WatchRequests(self).requests,
        }
        self.requests = dict.fromkeys((*WRITES, *READS, *self._others), 0)
        self.refusals: Counter[str] = Counter()
        self.access_changes = Revocation(self, authorizer, cluster)
        self.is_short = self.IS_SHORT

    def add_requests(self, handlers: Mapping[str, Callable[[Agent, int, Arguments], object]]) -> None:
        """Answer these too."""
        self._others.update(handlers)
        self.requests.update(dict.fromkeys(handlers, 0))

    def check_requests(self) -> None:
        """Hold what is answered here against the one table of requests, when all that answer have been added."""
        others = set(REQUESTS) ^ set(self.requests)
        for form, answered in ((Form.READ, READS), (Form.WRITE, WRITES)):
            others |= {name for name, request in REQUESTS.items() if request.form is form} ^ set(answered)
        assert not others, f"not answered as crdtsync.wire.requests says: {', '.join(sorted(others))}"

    # -- connections ---------------------------------------------------------------------------------------

    def opened(self, conn: int, user: User, pid: int) -> None:
        """An agent attached."""
        self.agents[conn] = Agent(conn, user, pid, self.node.now_ms)

    def expel(self, conn: int, error: CrdtSyncError) -> None:
        """End a connection, and say why."""
        self.closed(conn)
        self.fail(conn, 0, error)
        self.closes.append((conn, error.message))

    def closed(self, conn: int, *, is_stopping: bool = False) -> None:
        """It is gone, and with it everything that it still waited for; ``is_stopping``: for this node stops."""
        agent = self.agents.pop(conn, None)
        if agent is not None:
            self.bound.ended(agent, is_stopping=is_stopping)
            self.authorizer.left(agent)
            if self._clients.get(agent.client) == conn:
                del self._clients[agent.client]
        self.waits.drop(conn)
        self.long_reads.drop(conn)
        self.watches.remove(conn)
        self.resolvers.remove(conn)
        self.cards.ended(conn)

    def reload(self, replicas: dict[str, Replica], error: CrdtSyncError) -> None:
        """The replicas have been read anew, after a failed commit: start over what was built on the old ones."""
        self.outcomes.clear()
        self._held_now.clear()
        for wait in self.waits.take_unsettled():
            self.fail(wait.conn, wait.request, error)
        self.past_pages.forget()
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
        for resolver in self.resolvers.end(name) if is_gone else ():
            self.fail(resolver.conn, resolver.request, UnknownSpace(f"{reason}: the resolver has ended"))

    def committed(self) -> None:
        """Replies, and writes done for agents that wait for other nodes, are on disk now."""
        self.outcomes.clear()
        for wait in self._held_now:
            wait.stands = True
        self._held_now.clear()

    # -- requests --------------------------------------------------------------------------------------------

    def received(self, conn: int, payload: bytes) -> bool:
        """Handle one frame. Returns whether it was a read, or a plain write: else anything may follow from it."""
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
                agent.account.charge(self.node.now_s, len(payload) if name in WRITES else 0)
            if name == "set" and self.is_short and write_plainly(self, agent, request, args):
                return True
            if name == "batch" and self.is_short and batch_plainly(self, agent, request, args):
                return True
            if name == "get" and self.is_short and read_plainly(self, agent, request, args):
                return True
            result = self.handle(agent, request, name, args)
        except CrdtSyncError as error:
            self.authorizer.note(agent, name, error)
            self.fail(conn, request, error)
            if name == "hello" or not agent.name:
                self.closes.append((conn, error.message))
            return False
        if result is LATER:
            return False
        self.answer(conn, request, result, stands=name in ("hello", "confirm"))
        return type(result) is ReadResult

    def handle(self, agent: Agent, request: int, name: str, args: Arguments) -> object:
        """The answer to a request; ``LATER``: it has been answered, or will be."""
        if not agent.name:
            if name != "hello":
                raise InvalidRequest("the first request of a connection must be hello")
            return self.hello(agent, args)
        if name in self.requests:
            self.authorizer.check(agent, name, args)
        if "at" in args and name in REQUESTS and "at" not in REQUESTS[name].arguments:
            raise InvalidRequest(f"{name} is about what is there now: it takes no at")
        if "need" in args and name not in WITHOUT_NEED:
            replica = self.replica_of(agent, args)
            needed = need_in(replica, args["need"])
            if not covers(replica.vector, needed):
                rest = {argument: value for argument, value in args.items() if argument != "need"}
                return self.later(
                    agent, request, args, replica, needed, lambda: self.handle(agent, request, name, rest)
                )
        if name in WRITES:
            return self._writes.handle(agent, request, name, args)
        if name in READS:
            return self._read(agent, request, name, args)
        handler = self._others.get(name)
        if handler is None:
            known = ", ".join(sorted({*WRITES, *READS, *self._others}))
            raise InvalidRequest(f"unknown operation {shown(name)}; this daemon knows {known}")
        return handler(agent, request, args)

    def hello(self, agent: Agent, args: Arguments) -> object:
        """The request ``hello``, which attaches an agent.

        The first request is ``hello``, with id 1.

        - ``client``: 16 random bytes of this client. A hello closes an older connection with the same id, with the
          requests that the older one sent and the daemon has not carried out.
        - ``agent``: the author's name: 1 to 128 printable characters, without spaces at either end.
        - ``space``: the space of requests that name no other.
        - ``key``: an [agent key](../how-to/rights.md#agents-with-keys): the connection then has that agent's rights
          and not its user's.
        - ``points``: true: send [points](#what-a-session-has-seen).

        A false or revoked key is ``not_allowed``, and so is the name of an agent with a key, or one that reads like
        it, without the key.
        """
        protocol, client = args.get("protocol"), args.get("client")
        if protocol != PROTOCOL_VERSION:
            raise InvalidRequest(
                f"protocol {shown(protocol)} is not spoken here; "
                f"this daemon speaks {PROTOCOL_VERSION}: upgrade the older side"
            )
        if type(client) is not bytes or len(client) != 16:
            raise InvalidRequest("client must be 16 random bytes")
        name = check_agent_name(args.get("agent"))
        authorizer = self.authorizer
        authorizer.admit(agent, args.get("key"))
        authorizer.check_label(agent, name)
        space = args.get("space", agent.space)
        # One who has no right there is not told whether there is such a space: it is refused with each request.
        is_told = authorizer.sees(agent, space) or not is_space_name(space)
        agent.space = self.replica_of(agent, args).name if is_told else str(space)
        earlier = self._clients.get(client)
        if earlier is not None:
            self.bound.move(earlier, agent.conn)
            self.cards.move(earlier, agent.conn)
            self.closed(earlier)
            self.closes.append((earlier, "the same client has attached again"))
        agent.name, agent.client = name, client
        agent.told = {} if args.get("points") else None
        self._clients[client] = agent.conn
        me = self.node.identity
        return {
            "protocol": PROTOCOL_VERSION,
            "version": me.version,
            "node": me.node,
            "name": me.name,
            "database": me.incarnation or me.database,
            "features": sorted(FEATURES),
        }

    def replica_of(self, agent: Agent, args: Arguments) -> Replica:
        """The space that a request is about: the one that it names, or else its agent's."""
        space = args.get("space", agent.space)
        return find_replica(self, space, agent)

    # -- reads and waits -----------------------------------------------------------------------------------------

    def _read(self, agent: Agent, request: int, name: str, args: Arguments) -> object:
        replica = self.replica_of(agent, args)
        after = args.get("after")
        if after is not None and name != "text_updates":
            vector = vector_in(replica, after)
            if not covers(replica.vector, vector):
                rest = {argument: value for argument, value in args.items() if argument != "after"}
                return self.later(
                    agent, request, args, replica, vector, lambda: self.handle(agent, request, name, rest)
                )
        return self._answer_read(agent, request, replica, name, args)

    def _answer_read(self, agent: Agent, request: int, replica: Replica, name: str, args: Arguments) -> object:
        limit = self.authorizer.limit_of(agent, replica.name)
        reader = Reader(replica, self.node.storage, self.node.now_ms, replica.node_of, limit)
        if name == "history" and "prefix" in args:
            return self.read_long(agent, request, scan_of(reader, args))
        if "at" in args:
            return self.read_long(
                agent, request, AsOfRead(replica, self.node.storage, name, args, limit, self.past_pages)
            )
        try:
            result = READS[name](reader, args)
        except Unresolved as refusal:
            raise shown_at(replica, refusal) from None
        if name in KEEPING and not replica.schemas.is_empty:
            self._keep(replica, name, args)
        return ReadResult(replica, result)

    def _keep(self, replica: Replica, name: str, args: Arguments) -> None:
        """Prolong the values that were read, if their time to live slides."""
        if self.node.read_only or archive_of(replica.name) is not None:
            return
        keys = args["keys"] if name == "get_many" else [args["key"]]
        now_ms = self.node.now_ms
        ops = keep(replica.entries, replica.schemas, keys, now_ms)
        if ops:
            self.node.applied(replica, [replica.commit(ops, OWN_AGENT, None, now_ms)])

    def read_long(self, agent: Agent, request: int, read: LongRead) -> object:
        """Answer a read that takes more than one turn when it is done."""
        if not self.long_reads.add(agent.conn, request, read):
            raise too_many_waits()
        return LATER

    def _answer_long(self, conn: int, request: int, result: object) -> None:
        if isinstance(result, CrdtSyncError):
            self.fail(conn, request, result)
        elif result is not LATER:
            self.answer(conn, request, result)

    def _wait(self, agent: Agent, request: int, args: Arguments) -> object:
        token = args.get("token")
        needed = {}
        for space in decode_token(token):
            is_own = space == CLUSTER_SPACE  # where spaces are made and dropped, which can be waited for too
            replica = self.node.replicas[space] if is_own else self.replica_of(agent, {"space": space})
            needed[replica.name] = vector_in(replica, token)
        holders = self.spaces.holders(needed)
        check_possible(args.get("w"), holders, self.sync.dials.values(), self.node.identity.name)
        return self.held(agent, request, args, needed, str(token), {})

    def held(
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
        routes = self.sync.mesh.routes
        concern = Concern(
            self.spaces.holders(needed),
            self.node.identity.name,
            self.node.replicas,
            needed,
            args.get("w"),
            lambda node: bool(routes.via(node)),
        )
        end_s = self.node.now_s + timeout_ms(args) / 1000
        written = without_replaced(result) if result else None

        def check() -> object | None:
            held = concern.holders()
            if not concern.is_met(held):
                self.sync.mesh.ask(needed)
                return None

            def done() -> WaitResult:
                replica = self.node.replicas.get(next(iter(needed), ""))
                return WaitResult(self.bound.timed(replica, args, {**result, "nodes": len(held)}))

            theirs = concern.held_there()
            if all(covers(self.node.replicas[space].vector, vector) for space, vector in theirs.items()):
                return done()
            late = self.park(agent, request, end_s, theirs, done, lambda: concern.unmet(token, written))
            late.stands = wait.stands
            if not late.stands:
                self._held_now.append(late)
            return WaitResult(LATER)

        wait = self.park(agent, request, end_s, needed, check, lambda: concern.unmet(token, written))
        wait.stands = stands
        self._held_now.append(wait)
        return LATER

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
            raise too_many_waits()
        return wait

    def later(
        self,
        agent: Agent,
        request: int,
        args: Arguments,
        replica: Replica,
        vector: VersionVector,
        then: Callable[[], object],
    ) -> object:
        """Do ``then`` when this node holds ``vector``. Until then nothing is done that a failed commit could undo.

        If nobody knows the writer of a missing change, the request waits for a moment only, since the change may be on
        its way.
        """
        node, name = self.node, replica.name
        deadline_s = node.now_s + timeout_ms(args) / 1000

        def here() -> Replica:
            return node.replicas.get(name, replica)

        def is_vain() -> bool:
            return is_unheard(here(), vector, self.spaces.holders([name]), self.sync)

        def park(end_s: float) -> object:
            self.park(agent, request, end_s, {name: vector}, lambda: WaitResult(then()), expire).stands = True
            return LATER

        def expire() -> object:
            if (vain := is_vain()) or node.now_s >= deadline_s:
                return not_here(here(), vector, self.sync.peers.values(), node.identity.name, is_vain=vain)
            return park(deadline_s)

        return park(min(deadline_s, node.now_s + UNHEARD_WAIT_S) if is_vain() else deadline_s)

    def settle(self) -> None:
        """Answer waiting requests that are done or out of time: as many as fit into one turn."""
        self.past_pages.let_go()
        self.long_reads.run(self.node.now_ms)
        size_bytes = 0
        for wait, result in self.waits.settle(self.node.now_s):
            before = len(self.replies)
            if isinstance(result, CrdtSyncError):
                self.fail(wait.conn, wait.request, result, wait.stands)
            elif isinstance(result, WaitResult) and result.result is not LATER:
                self.answer(wait.conn, wait.request, result.result, wait.stands)
            size_bytes += sum(len(reply.data) for reply in self.replies[before:])
            if size_bytes >= SETTLE_BYTES_MAX:
                return

    def deadline_s(self) -> float | None:
        """When :meth:`settle` has something to do by itself."""
        waits_s, kept_s = self.waits.deadline_s(), self.past_pages.due_s
        return waits_s if kept_s == inf else kept_s if waits_s is None else min(waits_s, kept_s)

    def _applied(self, space: str, writer: Writer) -> int:
        replica = self.node.replicas.get(space)
        return 0 if replica is None else replica.vector.get(writer, 0)

    # -- replies -----------------------------------------------------------------------------------------------------

    def answer(self, conn: int, request: int, result: object, stands: bool = False) -> None:
        """Answer a request; ``stands``: also if the commit under way fails."""
        point: bytes | None = None
        if type(result) is ReadResult:
            point = self.news(conn, request, result.replica)
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

    def news(self, conn: int, request: int, replica: Replica) -> bytes | None:
        """The point that a reader is shown, to be sent before the answer; None if it knows that already."""
        agent = self.agents.get(conn)
        if agent is None or agent.told is None:
            return None
        point = point_of(replica)
        if agent.told.get(replica.name) == point:
            return None
        agent.told[replica.name] = point
        return pack([request, 3, [replica.name, point]])

    def fail(self, conn: int, request: int, error: CrdtSyncError, stands: bool = False) -> None:
        """Answer a request with an error; 0: it concerns the whole connection."""
        self.refusals[error.code] += 1
        fields = to_wire(error)
        if "current" in fields and len(pack(fields)) > AGENT_FRAME_BYTES_MAX:
            fields["current"] = None
        self.replies.append(Reply(conn, request, frame(pack([request, 1, fields])), stands))
