"""Requests that go on: watches, and resolvers, which are told of conflicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from crdtsync.core.agents.space_requests import writable
from crdtsync.core.kinds.arguments import Arguments
from crdtsync.core.waiting.session_points import resumed_in
from crdtsync.core.waiting.wait_queue import LATER
from crdtsync.core.watch.change_watch import ChangeWatch
from crdtsync.core.watch.state_watch import RETELL_KEYS_MAX, StateWatch
from crdtsync.errors import InvalidRequest, QuotaExceeded
from crdtsync.wire.limits import check_prefix
from crdtsync.wire.tokens import encode_token

if TYPE_CHECKING:
    from crdtsync.core.access.agent import Agent
    from crdtsync.core.agents.dispatcher import Dispatcher

WATCHES_PER_AGENT_MAX = 1000
"""Watches of an agent's connection."""


class WatchRequests:
    """Begins and ends the watches and resolvers of the agents at a dispatcher."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._node = dispatcher.node

    @property
    def requests(self) -> Mapping[str, Callable[[Agent, int, Arguments], object]]:
        """The handlers by operation."""
        return {
            "watch": self.watch,
            "unwatch": self.unwatch,
            "confirm": self.confirm,
            "resolver": self.resolver,
            "resolver_done": self.resolver_done,
        }

    def watch(self, agent: Agent, request: int, args: Arguments) -> object:
        """Begin a watch, of what happens or of states."""
        replica = writable(self._dispatcher.replica_of(agent, args))
        prefix, after = check_prefix(args.get("prefix", "")), args.get("after")
        if self._dispatcher.watches.count(agent.conn) >= WATCHES_PER_AGENT_MAX:
            raise QuotaExceeded(f"this connection has {WATCHES_PER_AGENT_MAX:,} watches already")
        self._check_room(agent)
        vector, is_dropped = (None, False) if after is None else resumed_in(replica, after)
        begins_at = encode_token([(replica.name, replica.epoch, vector or {})])
        self._dispatcher.answer(agent.conn, request, {"token": begins_at}, stands=True)
        watch = (StateWatch if args.get("states") else ChangeWatch)(agent.conn, request, prefix, replica)
        watch.lagged = is_dropped  # a snapshot then begins with a reset
        watch.limit = self._dispatcher.authorizer.limit_of(agent, replica.name)
        self._dispatcher.watches.add(watch, vector, self._node.now_ms)
        return LATER

    def unwatch(self, agent: Agent, _request: int, args: Arguments) -> object:
        """End a watch, or a resolver."""
        watch = args.get("watch")
        if type(watch) is not int:
            raise InvalidRequest("watch must be the id of the request that began the watch")
        self._dispatcher.watches.remove(agent.conn, watch)
        self._dispatcher.resolvers.remove(agent.conn, watch)
        return {}

    def confirm(self, agent: Agent, _request: int, args: Arguments) -> object:
        """Whether a state watch has been told all that there is on disk here, and how far this node is behind others.

        The reply comes behind all that was told. ``retell``: keys whose state the watcher wants to be told again.
        """
        watches = self._dispatcher.watches
        watch, keys = watches.find(agent.conn, args.get("watch")), args.get("retell", [])
        if not isinstance(watch, StateWatch):
            raise InvalidRequest("watch must be the id of the request that began a watch with states")
        if type(keys) is not list or len(keys) > RETELL_KEYS_MAX or any(type(key) is not str for key in keys):
            raise InvalidRequest(f"retell must be a list of keys, {RETELL_KEYS_MAX:,} at most")
        replica = watch.replica
        token = None
        if not watch.is_behind:
            token = encode_token([(replica.name, replica.epoch, replica.durable_vector())])
        watches.states.retell_to(watch, keys)
        lag = watches.states.lag(replica, self._dispatcher.sync.peers.values(), self._node.now_s)
        return {"token": token, **lag}

    def _check_room(self, agent: Agent) -> None:
        """Whether an agent may have one more watch or resolver, by its quota over all its connections."""
        account = agent.account
        if account is not None:
            own = [conn for conn, one in self._dispatcher.agents.items() if one.account is account]
            resolvers = self._dispatcher.resolvers
            account.check_room(
                "watches", sum(self._dispatcher.watches.count(c) + len(resolvers.of_conn(c)) for c in own)
            )

    def resolver(self, agent: Agent, request: int, args: Arguments) -> object:
        """Register a resolver.

        Conflicts of keys that match ``pattern`` come as ``[id, 2, [conflict]]``, one at a time: an entry with its
        siblings and ``"event": "conflict"``. Values that would be too much for one event are null.

        The resolver settles it by a write with ``seen`` set to the conflict's ``version`` (``resolve``, or for fields
        of a map ``merge``). Then, or if it cannot, it sends ``resolver_done`` on the same connection; before that it is
        [asked](../how-to/resolve-conflicts.md#who-is-asked) nothing more.
        """
        self._check_room(agent)
        replica = writable(self._dispatcher.replica_of(agent, args))
        return self._standing(agent, request, self._dispatcher.resolvers.register(agent, request, replica, args))

    def resolver_done(self, agent: Agent, request: int, args: Arguments) -> object:
        """A resolver has come to an end with a case."""
        return self._standing(agent, request, self._dispatcher.resolvers.done(agent, args))

    def _standing(self, agent: Agent, request: int, result: object) -> object:
        """Answer what concerns no disk: it holds also if the commit under way fails."""
        self._dispatcher.answer(agent.conn, request, result, stands=True)
        return LATER
