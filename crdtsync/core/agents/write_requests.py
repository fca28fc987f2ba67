"""Writes of agents: once each, refused before they are done or not at all, answered when enough nodes hold them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from crdtsync.causality import VersionVector
from crdtsync.core.agents.retry_replies import Outcomes
from crdtsync.core.agents.space_requests import writable
from crdtsync.core.crdt.read_context import NotYet
from crdtsync.core.kinds.arguments import Arguments, timeout_ms
from crdtsync.core.kinds.schema_check import schema_version
from crdtsync.core.reads.as_of import RestoreRead
from crdtsync.core.reads.checkpoint_check import Summing
from crdtsync.core.replica.space_draft import SpaceDraft
from crdtsync.core.replica.write_operations import WRITES
from crdtsync.core.text.document_cache import NotReady
from crdtsync.core.waiting.missing_changes import is_known_elsewhere
from crdtsync.core.waiting.session_points import shown_at
from crdtsync.core.waiting.wait_queue import LATER, WaitResult, too_many_waits
from crdtsync.core.waiting.write_concern import check_possible, is_alone
from crdtsync.errors import CrdtSyncError, InvalidRequest, NoSpace, Timeout
from crdtsync.wire.codec import pack
from crdtsync.wire.limits import check_agent_name, check_key
from crdtsync.wire.requests import Right
from crdtsync.wire.tokens import decode_token, encode_token

if TYPE_CHECKING:
    from crdtsync.core.access.agent import Agent
    from crdtsync.core.agents.dispatcher import Dispatcher
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.replica.restore import Past


FREEING = frozenset({"delete", "purge", "trim"})
"""Those that free disk, at once or when history forgets: they may use the reserve."""


class WriteRequests:
    """Carries out the writes of agents."""

    def __init__(self, dispatcher: Dispatcher, outcomes: Outcomes) -> None:
        self._dispatcher = dispatcher
        self._node = dispatcher.node
        self._outcomes = outcomes

    def handle(self, agent: Agent, request: int, name: str, args: Arguments) -> object:
        """Answer a write, now or, with a write concern, when enough nodes hold it."""
        replica = writable(self._dispatcher.replica_of(agent, args))
        number = args.get("n")
        if type(number) is not int or not 0 <= number < 2**63:
            raise InvalidRequest("a write needs n, a number that the client counts up")
        if args.get("again"):
            result = self._outcomes.earlier(agent.client, number)
            if result is not None:
                stands = self._outcomes.is_committed(agent.client, number)
                self._dispatcher.bound.repeated(agent, replica.name, name, args, result)
                return self._concern(agent, request, replica, args, result, stands)
        author = check_agent_name(args.get("agent", agent.name))
        self._check_concern(agent, replica, args)
        if self._node.read_only and not (self._node.can_free and name in FREEING):
            raise NoSpace(self._node.read_only)
        if name == "restore":
            return self._restore(agent, request, author, replica, args, number)
        if name == "checkpoint_set" and not replica.entries.is_summed:
            summing = Summing(replica, lambda: self._dispatcher.handle(agent, request, name, args))
            return self._dispatcher.read_long(agent, request, summing)
        try:
            result = self._commit(agent, author, replica, name, args, number)
        except CrdtSyncError as error:
            raise shown_at(replica, error) from None
        except NotYet as not_yet:
            if not_yet.otherwise is not None and not is_known_elsewhere(
                self._dispatcher.sync.peers.values(), replica.name, not_yet.vector
            ):
                raise shown_at(replica, not_yet.otherwise) from None
            return self._dispatcher.later(
                agent,
                request,
                args,
                replica,
                not_yet.vector,
                lambda: self._dispatcher.handle(agent, request, name, args),
            )
        except NotReady as not_ready:
            return self._when_ready(agent, request, replica, name, args, not_ready)
        return self._concern(agent, request, replica, args, result)

    def _when_ready(
        self, agent: Agent, request: int, replica: Replica, name: str, args: Arguments, not_ready: NotReady
    ) -> object:
        """Do a write when a text that it edits is ready for that, or is made anew: a long one takes some turns. Edits
        wait in line. If it then waits for another text, what is left of its timeout counts on.
        """
        node = self._node
        end_s = node.now_s + timeout_ms(args) / 1000

        def check() -> object | None:
            here = node.replicas.get(replica.name)
            if here is not None and not node.read_only and not not_ready.is_over(here.documents):
                return None
            left_ms = max(0, round(1000 * (end_s - node.now_s)))
            return WaitResult(self._dispatcher.handle(agent, request, name, {**args, "timeout": left_ms}))

        def expire() -> object:
            return Timeout("a text that this edits could not be made ready for it in that time; nothing was done")

        self._dispatcher.park(agent, request, end_s, {}, check, expire).stands = True
        return LATER

    def _check_concern(self, agent: Agent, replica: Replica, args: Arguments) -> None:
        """Refuse a write concern that cannot be waited for before the write is done, not after."""
        if is_alone(args.get("w")):
            return
        holders = self._dispatcher.spaces.holders([replica.name])
        check_possible(
            args.get("w"), holders, self._dispatcher.sync.dials.values(), self._dispatcher.node.identity.name
        )
        timeout_ms(args)
        if self._dispatcher.waits.is_full(agent.conn):
            raise too_many_waits()

    def _restore(
        self, agent: Agent, request: int, author: str, replica: Replica, args: Arguments, number: int
    ) -> object:
        """Find out what was there, then write it."""

        def right_on(key: str) -> Right:
            if agent.everywhere >= Right.WRITE:
                return agent.everywhere
            return self._dispatcher.authorizer.grant(agent, replica.name).on(key)

        def then(here: Replica, past: Past) -> object:
            if self._node.read_only:
                raise NoSpace(self._node.read_only)
            try:
                result = self._commit(agent, author, here, "restore", args, number, past)
            except NotReady as not_ready:
                return self._when_ready(agent, request, here, "restore", args, not_ready)
            return self._concern(agent, request, here, args, result)

        read = RestoreRead(replica, self._dispatcher.node.storage, args, right_on, then)
        return self._dispatcher.read_long(agent, request, read)

    def _commit(
        self,
        agent: Agent,
        author: str,
        replica: Replica,
        name: str,
        args: Arguments,
        number: int,
        past: Past | None = None,
    ) -> dict[str, Any]:
        if name == "set" and args.get("bind"):
            self._dispatcher.bound.write(agent, replica, check_key(args.get("key")))
        draft = SpaceDraft(replica, self._node.now_ms)
        draft.past = past
        if name not in ("restore", "bring_back"):
            draft.author = author
            draft.schema_version = schema_version(args)
        draft.own = self._outcomes.versions(agent.client, args.get("follows"))
        draft.is_limited = not self._dispatcher.authorizer.sees_all_of(agent, replica.name)
        draft.check_made = partial(self._dispatcher.authorizer.check_made, agent, replica.name)
        try:
            result = WRITES[name](draft, args)
        except NotReady:
            replica.documents.awaited.update(dict.fromkeys(draft.edits))  # else each would go while another is read
            raise
        if draft.author is not None and not replica.schemas.is_empty:
            gone = replica.caps.keep(draft)
            if name == "append":
                result["length"] -= gone.get(args["key"], 0)
        if draft.ops:
            idempotency = agent.client[:8] + number.to_bytes(8, "big")
            applied = replica.commit(draft.ops, author, idempotency, self._node.now_ms, draft.edits)
            draft.finish(applied)
            point: VersionVector = {applied.change.writer: applied.change.seq}
            self._node.applied(replica, [applied])
        else:
            point = replica.vector
        result["token"] = encode_token([(replica.name, replica.epoch, point)])
        self._dispatcher.bound.did(agent, replica, name, args, result)
        outcome = self._outcomes.remember(agent.client, number, result, pack(result), self._node.now_ms)
        self._node.ledger.batch.outcomes.append(outcome)
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
            self._dispatcher.answer(agent.conn, request, self._dispatcher.bound.timed(replica, args, result), stands)
            return LATER
        token = result["token"]
        return self._dispatcher.held(
            agent, request, args, {replica.name: decode_token(token)[replica.name][1]}, token, result, stands
        )
