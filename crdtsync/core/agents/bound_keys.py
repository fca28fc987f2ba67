"""Keys that go with a connection: deleted here when it ends, as far as their owner had written them.

For example, an agent claims a task and binds the key of the claim. If the agent is killed, the kernel closes its
socket, and the claim is gone on every host long before its time is over. If another agent has written to the key
meanwhile, its value stays: the version names exactly what goes. Later values that the agent itself writes to the key
go, too.

A daemon that stops deletes nothing: its agents attach again, and bind their keys anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

from crdtsync.core.agents.space_requests import writable
from crdtsync.core.crdt.read_context import covered
from crdtsync.core.replica.space_draft import SpaceDraft
from crdtsync.core.replica.write_operations import WRITES
from crdtsync.errors import QuotaExceeded
from crdtsync.wire.limits import check_key
from crdtsync.wire.tokens import decode_version

if TYPE_CHECKING:
    from crdtsync.core.access.agent import Agent
    from crdtsync.core.agents.dispatcher import Dispatcher
    from crdtsync.core.kinds.arguments import Arguments
    from crdtsync.core.replica.replica import Replica

BOUND_KEYS_MAX = 1000
"""Keys bound by one connection: they go with one change a space."""
STEP_MAX = 4093
"""By up to so much, a small part of a millisecond, the clocks of nodes part that have seen the same."""


class BoundKeys:
    """The bound keys of all connections: by space and key the version that goes."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._by_conn: dict[int, dict[tuple[str, str], str]] = {}

    def bind(self, agent: Agent, _request: int, args: Arguments) -> dict[str, object]:
        """Let what ``version`` covers of ``key`` go with the connection, in place of what was bound of it before;
        without a version, nothing. ``clock`` of the result: a hybrid time that all that this node has seen in the space
        comes before, and all that it writes from now on behind. Two nodes that have seen the same are told different
        ones, as good as always.
        """
        replica = writable(self._dispatcher.replica_of(agent, args))
        key, version = check_key(args.get("key")), args.get("version")
        result: dict[str, object] = {"clock": self.clock(replica)}
        if version is None:
            self._by_conn.get(agent.conn, {}).pop((replica.name, key), None)
            return result
        decode_version(version)
        self.check(agent, replica.name, key)
        self.keep(agent, replica.name, key, str(version))
        return result

    def clock(self, replica: Replica) -> int:
        """A time for who binds a key; see :meth:`bind`."""
        replica.clock.last += 1 + crc32(self._dispatcher.node.identity.node.encode()) % STEP_MAX
        return replica.clock.last

    def timed(self, replica: Replica | None, args: Arguments, result: dict[str, Any]) -> dict[str, Any]:
        """The answer to a write; if it binds its key, with a time behind all that has come until now. It has the
        write's own time as ``alone`` if nothing else lives under the key now, and what came from elsewhere is earlier:
        somebody may have had the key there, and given it back since.
        """
        if replica is None or not args.get("bind") or "version" not in result:
            return result
        written = decode_version(result["version"])
        is_alone = [entry.dot for entry in replica.entries.held(args["key"])] == [*written.dots]
        is_latest = written.hlc > replica.clock.heard
        return {**result, "clock": self.clock(replica), "alone": written.hlc if is_alone and is_latest else 0}

    def write(self, agent: Agent, replica: Replica, key: object) -> None:
        """A write is to bind its key: let its time be one that no other node gives to a write of that moment.

        :raises QuotaExceeded: one key more than a connection may have.
        """
        self.check(agent, replica.name, key)
        replica.clock.tick(self._dispatcher.node.now_ms)
        self.clock(replica)

    def check(self, agent: Agent, space: str, key: object) -> None:
        """Refuse to bind one key more than a connection may have.

        :raises QuotaExceeded: it would.
        """
        bound = self._by_conn.get(agent.conn, {})
        if (space, key) not in bound and len(bound) >= BOUND_KEYS_MAX:
            raise QuotaExceeded(f"this connection has {BOUND_KEYS_MAX:,} keys bound to it already: release some first")

    def keep(self, agent: Agent, space: str, key: str, version: str) -> None:
        """Bind a key."""
        self._by_conn.setdefault(agent.conn, {})[space, key] = version

    def wrote(self, agent: Agent, space: str, key: object, version: str) -> None:
        """An agent has set a key, and so has this ``version`` of it."""
        bound = self._by_conn.get(agent.conn)
        if bound and (space, key) in bound:
            bound[space, str(key)] = version

    def did(self, agent: Agent, replica: Replica, name: str, args: Arguments, result: dict[str, Any]) -> None:
        """An agent has done a write. If nothing is left of what was bound of a key, nothing is any more."""
        if name == "set" and args.get("bind"):
            self.keep(agent, replica.name, args["key"], result["version"])
        bound = self._by_conn.get(agent.conn)
        if not bound:
            return
        if name == "batch":
            for (part, arguments), told in zip(args["ops"], result["results"], strict=True):
                self.did(agent, replica, part, {**arguments, "bind": False}, told)
        elif name == "set":
            self.wrote(agent, replica.name, args["key"], result["version"])
        elif name == "delete" and (replica.name, args["key"]) in bound:
            place = replica.name, args["key"]
            if not covered(replica.entries.held(args["key"]), decode_version(bound[place]), others=True):
                del bound[place]

    def repeated(self, agent: Agent, space: str, name: str, args: Arguments, result: dict[str, Any]) -> None:
        """An agent repeats a write that was done: this node may have been started anew since, and bind nothing. The
        repeated request may differ from the first.
        """
        version = result.get("version")
        if name == "set" and args.get("bind") and type(version) is str:
            key = check_key(args.get("key"))
            self.check(agent, space, key)
            self.keep(agent, space, key, version)

    def move(self, conn: int, to: int) -> None:
        """The same client has attached again."""
        bound = self._by_conn.pop(conn, None)
        if bound:
            self._by_conn[to] = bound

    def ended(self, agent: Agent, *, is_stopping: bool) -> None:
        """A connection is gone, and with it its keys; on a full disk they stay until their time is over."""
        bound = self._by_conn.pop(agent.conn, {})
        node = self._dispatcher.node
        if is_stopping or node.read_only:
            return
        for space in sorted({name for name, _ in bound}):
            replica = node.replicas.get(space)
            if replica is None:
                continue
            draft = SpaceDraft(replica, node.now_ms)
            for (name, key), version in sorted(bound.items()):
                if name == space:
                    WRITES["delete"](draft, {"key": key, "seen": version})
            if draft.ops:
                node.applied(replica, [replica.commit(draft.ops, agent.name, None, node.now_ms)])
