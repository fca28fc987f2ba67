"""Resolvers: agents that settle the conflicts of keys that match a pattern, each asked once per connected side.

The live node with the lowest id that has a matching resolver attached asks. A node goes on to its next resolver when
one fails, and tells its peers when none is left, or none that answers; then the next node asks. If a node stays silent
altogether, the next one asks after the time that its resolver may take. An answer is a write like any other, so what
two sides answer that do not see each other are siblings again, and asked about again.

Nothing waits here but keys: what a resolver is shown is read when its turn comes.
:mod:`crdtsync.core.resolvers.conflict_queue` keeps them, :mod:`crdtsync.core.peers.resolver_gossip` knows the resolvers
of other nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from crdtsync.core.alarm_catalogue import RESOLVER_FAILED
from crdtsync.core.crdt.timer_heap import Timeline
from crdtsync.core.kinds.arguments import Arguments
from crdtsync.core.replica.replica import Replica
from crdtsync.core.resolvers.conflict_queue import START_GRACE_S, ConflictQueue
from crdtsync.core.space import Applied
from crdtsync.errors import InvalidRequest, QuotaExceeded
from crdtsync.wire.limits import shown
from crdtsync.wire.patterns import Pattern, check_new_pattern
from crdtsync.wire.peer.gossip import (
    RESOLVER_TAKEOVER_MS_MAX,
    RESOLVERS_KEYS_MAX,
    RESOLVERS_PATTERNS_MAX,
    HandledKey,
    ResolvedPattern,
    Resolvers,
)

if TYPE_CHECKING:
    from crdtsync.core.access.agent import Agent
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.sync.protocol import Sync

RESOLVER_TAKEOVER_MS = 30_000
"""How long a resolver may take over one conflict before another is asked, unless it says otherwise."""
RESOLVERS_PER_AGENT_MAX = 100
"""Resolvers of an agent's connection."""
TURN_BYTES_MAX = 4 * 1024 * 1024
"""The conflicts that resolvers are shown in one turn."""
REASON_CHARS_MAX = 300


class Resolver:
    """One resolver of one agent connection.

    ``key`` is the conflict that it has been asked about and has not yet said to be done with, until ``deadline_s``;
    ``is_stuck``: that has passed.
    """

    __slots__ = (
        "agent", "answered", "asked", "conn", "failed", "is_blocked", "is_stuck", "key", "pattern", "request", "space",
        "takeover_ms", "turn",
    )  # fmt: skip

    def __init__(self, agent: Agent, request: int, space: str, pattern: Pattern, takeover_ms: int) -> None:
        self.conn = agent.conn
        self.agent = agent.name
        self.request = request
        self.space = space
        self.pattern = pattern
        self.takeover_ms = takeover_ms
        self.key: str | None = None
        self.is_blocked = False
        self.is_stuck = False
        self.turn = 0
        self.asked = self.answered = self.failed = 0

    @property
    def is_idle(self) -> bool:
        """Whether it can be asked something now."""
        return self.key is None and not self.is_blocked

    @property
    def id(self) -> tuple[int, int]:
        """Names it on this node."""
        return self.conn, self.request


class Registry:
    """All resolvers of a node. :meth:`run` is called in every turn, and when :meth:`deadline_s` has come.

    ``tell`` sends events to an agent: its connection, its request, and they; it returns how many bytes that is.
    """

    def __init__(self, node: NodeContext, sync: Sync, tell: Callable[[int, int, list[dict[str, Any]]], int]) -> None:
        self._tell = tell
        self._node = node
        self._sync = sync
        self._begin_s = node.now_s + START_GRACE_S if sync.peers else 0.0
        self._by_conn: dict[int, dict[int, Resolver]] = {}
        self._queues: dict[str, ConflictQueue] = {}
        self._deadlines: Timeline[Resolver] = Timeline()
        self._turns = 0
        self._unsent: list[Resolver] = []
        self._is_changed = False

    def __len__(self) -> int:
        return sum(map(len, self._by_conn.values()))

    def __iter__(self) -> Iterator[Resolver]:
        return (one for _, of_conn in sorted(self._by_conn.items()) for one in of_conn.values())

    @property
    def has_queues(self) -> bool:
        """Whether there is, or was, a resolver on this node."""
        return bool(self._queues)

    def of_conn(self, conn: int) -> list[Resolver]:
        """The resolvers of a connection."""
        return list(self._by_conn.get(conn, {}).values())

    # -- requests ----------------------------------------------------------------------------------------------

    def register(self, agent: Agent, request: int, replica: Replica, args: Arguments) -> dict[str, Any]:
        """The request ``resolver``: conflicts of matching keys come as its events from now on."""
        pattern = check_new_pattern(args.get("pattern"))
        takeover_ms = args.get("takeover", RESOLVER_TAKEOVER_MS)
        if type(takeover_ms) is not int or not 1 <= takeover_ms <= RESOLVER_TAKEOVER_MS_MAX:
            raise InvalidRequest(
                f"takeover must be a whole number of milliseconds, from 1 to {RESOLVER_TAKEOVER_MS_MAX:,}"
            )
        if len(self._by_conn.get(agent.conn, ())) >= RESOLVERS_PER_AGENT_MAX:
            raise QuotaExceeded(f"this connection has {RESOLVERS_PER_AGENT_MAX} resolvers already")
        patterns = {(one.space, one.pattern) for one in self}
        if (replica.name, pattern) not in patterns and len(patterns) >= RESOLVERS_PATTERNS_MAX:
            raise QuotaExceeded(f"this node has resolvers for {RESOLVERS_PATTERNS_MAX} patterns already")
        resolver = Resolver(agent, request, replica.name, pattern, takeover_ms)
        self.remove(agent.conn, request)
        self._by_conn.setdefault(agent.conn, {})[request] = resolver
        queue = self._queues.get(replica.name)
        if queue is None:
            queue = self._queues[replica.name] = ConflictQueue(self._node, self._sync, replica.name, self._begin_s)
        queue.add(resolver)
        self._is_changed = True
        return {"pattern": pattern.text, "takeover": takeover_ms}

    def done(self, agent: Agent, args: Arguments) -> dict[str, Any]:
        """The request ``resolver_done``: a resolver has finished with what it was asked, or says why it cannot."""
        resolver = self._by_conn.get(agent.conn, {}).get(_number(args.get("resolver")))
        if resolver is None:
            raise InvalidRequest("resolver must be the id of the request that began a resolver, on this connection")
        key, error = args.get("key"), args.get("error")
        if resolver.key is None or key != resolver.key:
            raise InvalidRequest(f"this resolver was not asked about {shown(key)}, or has said already that it is done")
        if error is not None and type(error) is not str:
            raise InvalidRequest("error must be a sentence")
        queue = self._queues[resolver.space]
        self._deadlines.discard(resolver)
        resolver.key = None
        if resolver.is_stuck:
            resolver.is_stuck = False
            self._is_changed = True
            queue.recheck()
        settled = queue.done(resolver, resolver_key := str(key))
        if error is None and not settled:
            error = "it said to be done and the conflict is there as it was"
        if error is None:
            resolver.answered += 1
            self._node.alarms.clear(RESOLVER_FAILED, _scope(resolver))
        else:
            self._failed(resolver, resolver_key, error[:REASON_CHARS_MAX])
        return {"settled": settled}

    def remove(self, conn: int, request: int | None = None) -> None:
        """End one resolver of a connection, or all."""
        of_conn = self._by_conn.get(conn, {})
        for number in list(of_conn) if request is None else [request]:
            resolver = of_conn.pop(number, None)
            if resolver is None:
                continue
            self._deadlines.discard(resolver)
            queue = self._queues[resolver.space]
            queue.discard(resolver)
            if queue.is_unused:
                queue.close()
                del self._queues[resolver.space]
            if not any(_scope(one) == _scope(resolver) for one in self):
                self._node.alarms.clear(RESOLVER_FAILED, _scope(resolver))
            self._is_changed = True
        if not of_conn:
            self._by_conn.pop(conn, None)

    def end(self, space: str) -> list[Resolver]:
        """A space is no longer here: end its resolvers."""
        ended = [one for one in self if one.space == space]
        self._unsent = [one for one in self._unsent if one.space != space]
        for resolver in ended:
            self.remove(resolver.conn, resolver.request)
        return ended

    def moved(self, space: str) -> None:
        """A space has begun anew: what was in conflict is gone."""
        if space in self._queues:
            self._queues[space].rescan()

    def set_blocked(self, conn: int, blocked: bool) -> None:
        """The connection's consumer is too slow, or has caught up."""
        for resolver in self._by_conn.get(conn, {}).values():
            resolver.is_blocked = blocked

    def committed(self) -> None:
        """The questions of this turn go out."""
        self._unsent.clear()

    def reload(self) -> None:
        """The replicas have been read anew, and what was asked in this turn did not go out."""
        for resolver in self._unsent:
            if resolver.key is not None:
                self._deadlines.discard(resolver)
                self._queues[resolver.space].unasked(resolver, resolver.key)
                resolver.key = None
        self._unsent.clear()
        for queue in self._queues.values():
            queue.rescan()

    # -- what happens ------------------------------------------------------------------------------------------

    def notify(self, space: str, applied: Iterable[Applied]) -> None:
        """Changes have been applied, with the commit under way."""
        queue = self._queues.get(space)
        if queue is not None:
            queue.applied(applied)

    def touched(self, space: str, keys: Iterable[str]) -> None:
        """Something else than a change of the log has changed these keys."""
        queue = self._queues.get(space)
        if queue is not None:
            queue.touched(keys)

    def run(self) -> None:
        """Look at what has changed, ask who is to be asked, and tell the peers."""
        node, news = self._node, self._sync.resolver_news
        is_other = news.refresh(node.now_s)
        if self._queues:
            self._expire()
            for _, queue in sorted(self._queues.items()):
                if is_other:
                    queue.recheck()
                queue.look()
                self._is_changed |= queue.take_changed()
            if not node.read_only:
                self._serve()
        if self._is_changed:
            self._is_changed = False
            news.set_own(self._own())
        news.tell(node.now_s)

    def deadline_s(self) -> float | None:
        """When :meth:`run` has something to do by itself."""
        due = [self._deadlines.next_due(), self._sync.resolver_news.deadline_s()]
        due += [queue.deadline_s(self._node.now_s, not self._node.read_only) for queue in self._queues.values()]
        return min((moment for moment in due if moment is not None), default=None)

    def _expire(self) -> None:
        while (resolver := self._deadlines.take(self._node.now_s)) is not None:
            assert resolver.key is not None
            resolver.is_stuck = self._is_changed = True
            queue = self._queues[resolver.space]
            queue.recheck()
            if not queue.done(resolver, resolver.key):
                self._failed(resolver, resolver.key, f"no answer came within {resolver.takeover_ms / 1000:g} s")

    def _failed(self, resolver: Resolver, key: str, why: str) -> None:
        resolver.failed += 1
        self._queues[resolver.space].failed(resolver, key)
        alarms, text = self._node.alarms, resolver.pattern.text
        alarms.journal("resolver_failed", space=resolver.space, pattern=text, agent=resolver.agent, key=key, reason=why)
        alarms.raise_once(
            RESOLVER_FAILED,
            _scope(resolver),
            f"space {resolver.space}: the resolver for {text!r} of {resolver.agent} failed on {key!r}: {why}",
        )

    def _serve(self) -> None:
        size_bytes = 0
        for queue in self._queues.values():
            for resolver, key, event in queue.next_asks():
                self._turns += 1
                resolver.turn, resolver.key = self._turns, key
                resolver.asked += 1
                self._unsent.append(resolver)
                self._deadlines.add(resolver, self._node.now_s + resolver.takeover_ms / 1000)
                size_bytes += self._tell(resolver.conn, resolver.request, [event])
                if size_bytes >= TURN_BYTES_MAX:
                    return

    def _own(self) -> Resolvers:
        """The resolvers here, for other nodes."""
        takeovers: dict[tuple[str, str], int] = {}
        for one in self:
            if not one.is_stuck:
                place = (one.space, one.pattern.text)
                takeovers[place] = max(one.takeover_ms, takeovers.get(place, 0))
        keys: list[HandledKey] = []
        for name, queue in sorted(self._queues.items()):
            keys += [HandledKey(name, key, asked) for key, asked in queue.handled.items()]
        patterns = tuple(ResolvedPattern(*place, takeover_ms) for place, takeover_ms in sorted(takeovers.items()))
        return Resolvers(self._node.identity.node, patterns, tuple(keys[:RESOLVERS_KEYS_MAX]))

    # -- status ------------------------------------------------------------------------------------------------

    def status(self) -> list[dict[str, Any]]:
        """The resolvers of this node, then what is known of others."""
        here = [
            {
                "node": self._node.identity.node,
                "space": one.space,
                "pattern": one.pattern.text,
                "agent": one.agent,
                "state": "stuck" if one.is_stuck else ("idle" if one.key is None else "busy"),
                "waiting": self._queues[one.space].waiting_count(one.pattern),
                "asked": one.asked,
                "answered": one.answered,
                "failed": one.failed,
            }
            for one in self
        ]
        unknown = dict.fromkeys(("agent", "state", "waiting", "asked", "answered", "failed"))
        there = [
            {"node": node, "space": space, "pattern": pattern, **unknown}
            for node, known in sorted(self._sync.resolver_news.nodes.items())
            for space, pattern, _ in known.message.patterns
        ]
        return here + there


def _scope(resolver: Resolver) -> str:
    return f"{resolver.space} {resolver.pattern.text}"


def _number(number: object) -> int:
    return number if type(number) is int else 0
