"""Requests of agents about their node's place in the cluster: to begin one, invite, join, list and remove members.

Where only the shell can do it, such as opening a listener, a :class:`Chore` is handed to it, and its answer comes back
as a :class:`ChoreDone`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from crdtsync.core.cluster.admission import LISTEN_META, Admission
from crdtsync.core.cluster.invites import INVITE_TTL_MS_DEFAULT
from crdtsync.core.waiting.wait_queue import LATER
from crdtsync.errors import CrdtSyncError, InvalidRequest, QuotaExceeded, Refused, to_wire
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack
from crdtsync.wire.invites import Invite, check_addresses, decode_invite
from crdtsync.wire.limits import shown

if TYPE_CHECKING:
    from crdtsync.core.access.agent import Agent

CHORES_MAX = 64
"""Requests to join or to listen, at once."""
JOIN_MODES = ("", "archive")

Arguments = Mapping[str, Any]


class Chore(NamedTuple):
    """A task that only the shell can do: ``listen`` (on ``addresses``), ``join`` (by an ``invite``), make the
    ``next_key``, ``use_next_key``, or ``begin_anew`` on a database of another cluster, which has nobody in it yet.

    ``keeps_data``: what this node holds is of the cluster that it joins.
    """

    number: int
    name: str
    addresses: tuple[str, ...] = ()
    invite: Invite | None = None
    keeps_data: bool = False


class ChoreDone(NamedTuple):
    """The shell has done a chore, or could not."""

    number: int
    error: CrdtSyncError | None = None
    result: Mapping[str, Any] = MappingProxyType({})


Handler = Callable[[Any, int, Arguments], object]


class ClusterRequests:
    """Answers requests; ``chores`` are for the shell, ``replies`` for agents whose request it has done."""

    def __init__(self, fleet: Admission, space_data: Callable[[], str]) -> None:
        self._fleet = fleet
        self._space_data = space_data
        self._pending: dict[int, tuple[int, int, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {}
        self._number_last = 0
        self._is_changing = False
        self._early: list[tuple[Handler, Agent, int, Arguments]] = []
        self.chores: list[Chore] = []
        self.replies: list[tuple[int, int, bytes]] = []
        self.requests: dict[str, Handler] = {
            "cluster_init": self._once_started(self._init),
            "cluster_invite": self._once_started(self._invite),
            "cluster_join": self._once_started(self._join),
            "cluster_members": lambda _agent, _request, _args: self._members(),
            "cluster_remove": self._remove,
            "cluster_rotate_key": self._once_started(self._rotate_key),
            "forget_peer": lambda _agent, _request, args: self._fleet.forget(_named(args)),
        }

    def _once_started(self, handle: Handler) -> Handler:
        """The same, which waits until it is known what this node's key and addresses are."""

        def wait(agent: Agent, request: int, args: Arguments) -> object:
            if not self._fleet.reach.is_starting:
                return handle(agent, request, args)
            if len(self._early) >= CHORES_MAX:
                raise QuotaExceeded("the daemon is starting, and many wait for that already: try again")
            self._early.append((handle, agent, request, args))
            return LATER

        return wait

    def started(self) -> None:
        """It is known by now."""
        early, self._early = self._early, []
        for handle, agent, request, args in early:
            try:
                result = handle(agent, request, args)
            except CrdtSyncError as error:
                self.replies.append((agent.conn, request, pack([request, 1, to_wire(error)])))
            else:
                if result is not LATER:
                    self.replies.append((agent.conn, request, pack([request, 0, result])))

    def _init(self, agent: Agent, request: int, args: Arguments) -> object:
        listen = _addresses(args, "listen")
        if args.get("archive") is True and self._fleet.names_no_cluster:
            return self._later(agent, request, "begin_anew", dict, addresses=listen)
        if not listen:
            return self._fleet.init()
        return self._later(agent, request, "listen", lambda _result: self._listening(listen), addresses=listen)

    def _listening(self, listen: tuple[str, ...]) -> dict[str, Any]:
        self._fleet.metas[LISTEN_META] = pack(list(listen))
        return self._fleet.init()

    def _invite(self, _agent: Agent, _request: int, args: Arguments) -> object:
        ttl_ms, uses = args.get("ttl_ms", INVITE_TTL_MS_DEFAULT), args.get("uses", 1)
        if type(ttl_ms) is not int or type(uses) is not int:
            raise InvalidRequest("ttl_ms and uses must be whole numbers")
        return self._fleet.invite(ttl_ms, uses, _addresses(args, "addresses"), args.get("local") is True)

    def _join(self, agent: Agent, request: int, args: Arguments) -> object:
        invite = decode_invite(args.get("invite"))
        mode = args.get("mode", "")
        if mode not in JOIN_MODES:
            raise InvalidRequest(f"the mode {shown(mode)} of joining is none of {', '.join(map(repr, JOIN_MODES))}")
        summary = self._fleet.joined_already(invite)
        if summary is not None:
            return summary
        keeps_data = mode == "" and self._fleet.keeps_data(invite)
        data = "" if keeps_data else self._fleet.other_cluster() or self._space_data()
        if data and mode != "archive":
            raise Refused(
                f"{data}: join with --merge to bring it along, or with --archive to put it aside and begin anew",
                "not_empty",
            )
        listen = _addresses(args, "listen")
        return self._later(agent, request, "join", dict, addresses=listen, invite=invite, keeps_data=keeps_data)

    def _members(self) -> dict[str, Any]:
        return {**self._fleet.summary(), "members": self._fleet.listing()}

    def _remove(self, _agent: Agent, _request: int, args: Arguments) -> object:
        return self._fleet.remove(_named(args))

    def _rotate_key(self, agent: Agent, request: int, args: Arguments) -> object:
        if args.get("finish") is True:
            late = self._fleet.without_next_key() if len(self._fleet.reach.keys) > 1 else []
            return self._later(agent, request, "use_next_key", lambda _result: self._keys(late))
        self._fleet.check_is_member("this node belongs to no cluster, so nobody knows its key yet")
        return self._later(agent, request, "next_key", lambda _result: self._keys())

    def _keys(self, late: list[str] | None = None) -> dict[str, Any]:
        """``late``: who did not know the new key when it was put to use, if it was."""
        self._fleet.keep_records()
        waits_for = self._fleet.without_next_key() if late is None else late
        return {"keys": [pin for pin, _ in self._fleet.reach.keys], "waits_for": waits_for}

    def check_keys(self) -> None:
        """Once the members know the next key, use it."""
        if len(self._fleet.reach.keys) > 1 and not self._is_changing and self._fleet.may_use_next_key():
            self._is_changing = True
            self._number_last += 1
            self.chores.append(Chore(self._number_last, "use_next_key"))
        elif len(self._fleet.reach.keys) == 1:
            self._is_changing = False

    # -- chores ------------------------------------------------------------------------------------------------

    def _later(
        self,
        agent: Agent,
        request: int,
        name: str,
        then: Callable[[Mapping[str, Any]], dict[str, Any]],
        **args: Any,  # Any: the fields of a chore
    ) -> object:
        if len(self._pending) >= CHORES_MAX:
            raise QuotaExceeded(f"{CHORES_MAX} requests of this kind are under way already: let some of them end first")
        self._number_last += 1
        self._pending[self._number_last] = (agent.conn, request, then)
        self.chores.append(Chore(self._number_last, name, **args))
        return LATER

    def take_chores(self) -> list[Chore]:
        """The shell's tasks since the last call."""
        chores, self.chores = self.chores, []
        return chores

    def take_replies(self) -> list[tuple[int, int, bytes]]:
        """Replies to requests that the shell has done: connection, request and payload."""
        replies, self.replies = self.replies, []
        return replies

    def done(self, event: ChoreDone) -> None:
        """The shell says how a chore went."""
        if event.number not in self._pending:
            return
        conn, request, then = self._pending.pop(event.number)
        try:
            if event.error is not None:
                raise event.error
            self.replies.append((conn, request, pack([request, 0, then(event.result)])))
        except CrdtSyncError as error:
            self.replies.append((conn, request, pack([request, 1, to_wire(error)])))


def _named(args: Arguments) -> str:
    wanted = args.get("node")
    if type(wanted) is not str or not wanted:
        raise InvalidRequest("node must be the name of a node, or the beginning of its id")
    return wanted


def _addresses(args: Arguments, name: str) -> tuple[str, ...]:
    try:
        return check_addresses(args.get(name, []))
    except ValueError:
        raise InvalidRequest(f"{name} must be a list of a few addresses HOST:PORT") from None
