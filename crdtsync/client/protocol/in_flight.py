"""The requests that have no answer yet: numbering, matching replies, and what to send again on a new connection.

Pure: the blocking and the asyncio client drive it. Each write has a number ``n`` that the daemon remembers for its
newest 1,024 writes of a client, so an unanswered write can be sent again without being done twice, at the same
database.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from crdtsync.client.protocol.frames import ERROR, HELLO_ID, POINT, encode_request
from crdtsync.client.protocol.seen_point import Horizon
from crdtsync.errors import (
    CrdtSyncError,
    DaemonUnavailable,
    InvalidEncoding,
    InvalidRequest,
    OutcomeUnknown,
    Timeout,
    from_wire,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from crdtsync.client.protocol.frames import Message

WAIT_GRACE_S = 2.0
"""How much longer than the daemon a client waits for the daemon's own timeout error, which knows more."""
WRITES_MAX = 1024
"""Writes in flight at a time; also how many of a client's writes the daemon remembers."""

AHEAD_MAX = 2
"""Requests that were begun and that nobody waits for yet. Their replies are parts of blobs: so few of 512 KiB do not
keep the daemon, which stops at 1 MiB that is not read, from reading what is sent meanwhile.
"""


class Pending:
    """One request on its way: filled in when its answer, or the reason that there will be none, is known."""

    __slots__ = (
        "arguments", "deadline", "done", "error", "follows", "id", "limit", "number", "operation", "result", "sent",
        "waits", "waker",
    )  # fmt: skip

    def __init__(self, operation: str, arguments: dict[str, object], *, waits: bool = False) -> None:
        self.operation = operation
        self.arguments = arguments
        self.waits = waits  # the daemon itself ends it at its `timeout`, with a better error than ours
        self.limit = inf  # when the caller's time is over
        self.deadline = inf  # when it is given up
        self.id = 0
        self.number = 0  # of a write; 0 for all else
        self.sent = False
        self.done = False
        self.result: Any = None  # the reply's shape depends on the operation
        self.error: CrdtSyncError | None = None
        self.waker: Any = None  # what the client that drives this table waits on
        self.follows: Callable[[], dict[str, list[int]]] | None = None  # the numbers of earlier writes, once sent

    def outcome(self) -> Any:
        """The result, or raise."""
        if self.error is not None:
            raise self.error
        return self.result


class InFlight:
    """The table of pending requests of one client, over all its connections, and what their answers tell of the
    causal past (``horizon``).
    """

    def __init__(self, horizon: Horizon | None = None) -> None:
        self.horizon = horizon or Horizon()
        self.pending: dict[int, Pending] = {}
        self.writes = 0
        self._next_id = HELLO_ID + 1
        self._next_number = 1
        self._database: bytes | None = None
        self._missing: Mapping[str, frozenset[str]] = {}  # what the daemon does not know; see crdtsync.wire.features
        self._version = ""
        self.node = ""
        """The name of the daemon that answered last."""

    def admit(self, pending: Pending, *, is_write: bool) -> bytes:
        """Give the request its numbers, enter it and return its frame.

        :raises InvalidRequest: the daemon is of a version that does not know it; nothing was entered.
        :raises InvalidRequest, TooLarge: it cannot be encoded; nothing was entered.
        """
        if self._missing:
            self._check_known(pending)
        request_id = self._next_id
        if is_write:
            pending.arguments["n"] = self._next_number
            if pending.follows is not None:
                pending.arguments["follows"] = pending.follows()
        if self.horizon.unconfirmed:
            self._prepare(pending)
        frame = encode_request(request_id, pending.operation, pending.arguments)
        if is_write:
            pending.number = self._next_number
            self._next_number += 1
            self.writes += 1
        pending.id = self.horizon.asked = request_id
        self._next_id = request_id + 1
        self.pending[request_id] = pending
        return frame

    def deliver(self, message: Message) -> Pending | None:
        """Match a message with what it answers; the request that is done now. Answers to abandoned requests are
        dropped.

        :raises CrdtSyncError: it concerns the whole connection, which the daemon closes.
        """
        request_id, status, content = message
        if request_id == 0 and status == ERROR:
            raise from_wire(content)
        if status == POINT:
            space, token = content
            self.horizon.told(space, token, request_id)
            return None
        pending = self.pending.get(request_id)
        if pending is None:
            return None
        if status == ERROR:
            self.horizon.failed(pending.arguments, content)
            self._finish(pending, from_wire(content))
            return pending
        pending.result = content
        if pending.number or self.horizon.unconfirmed or pending.operation == "wait":
            self.horizon.done(pending.operation, pending.arguments, content, request_id)
        pending.done = True
        del self.pending[request_id]
        if pending.number:
            self.writes -= 1
        return pending

    def abandon(self, pending: Pending) -> None:
        """Nobody waits for it any more. A write that was sent may or may not be done."""
        if not pending.done:
            self._finish(pending, None)
            pending.arguments = {}

    def give_up(self, pending: Pending) -> None:
        """Its deadline has passed."""
        self._finish(pending, timed_out(pending))

    def fail_all(self, error: CrdtSyncError) -> list[Pending]:
        """The connection will not come back.

        Writes that were sent fail as :class:`OutcomeUnknown`, all else with ``error``.
        """
        failed = list(self.pending.values())
        for pending in failed:
            unknown = pending.number and pending.sent
            self._finish(pending, _unknown(str(error)) if unknown else error)
        return failed

    def resume(self, hello: object) -> list[Pending]:
        """A connection is up, and ``hello`` is the reply to its hello. Returns the requests that failed; send
        :meth:`replay` now.

        At the database that was there before, unanswered writes will be sent again under their old numbers; at
        another one, and for writes older than the daemon remembers, nobody can tell whether they were done.
        """
        database = hello.get("database") if isinstance(hello, dict) else None
        if not isinstance(database, bytes):
            raise InvalidEncoding("the daemon answered the hello without its database id")
        reason = "too many later writes to ask again"
        oldest_known = self._next_number - WRITES_MAX
        if self._database not in (None, database):
            reason = "the daemon is back with another database"
            oldest_known = self._next_number
        self._database = database
        self.horizon.moved()
        self._learn(hello if isinstance(hello, dict) else {})
        strangers = [p for p in [*self.pending.values()] if self._missing and not self._is_known(p)]
        sent_writes = [p for p in self.pending.values() if p.number and p.sent]
        failed = [p for p in sent_writes if p.number < oldest_known]
        for pending in failed:
            self._finish(pending, _unknown(reason))
        return [*failed, *strangers]

    def _learn(self, hello: dict[str, Any]) -> None:
        from crdtsync.wire.features import missing_in

        features = hello.get("features")
        self._missing = missing_in(features if isinstance(features, list) else ())
        self._version = str(hello.get("version"))
        self.node = str(hello.get("name", ""))

    def _is_known(self, pending: Pending) -> bool:
        """Whether the daemon knows a request that is under way; else it has failed now."""
        try:
            self._check_known(pending)
        except InvalidRequest as error:
            was_sent = pending.number and pending.sent
            self._finish(pending, _unknown("the daemon is back in an older version") if was_sent else error)
            return False
        return True

    def _check_known(self, pending: Pending) -> None:
        from crdtsync.wire.features import first_missing

        missing = first_missing(self._missing, pending.operation, pending.arguments)
        if missing is not None:
            raise InvalidRequest(
                f"the daemon on this host (version {self._version}) does not know {missing} yet: upgrade it, and start "
                "it again"
            )

    def replay(self) -> Iterator[bytes]:
        """The frames to send on a new connection before anything else, in their old order."""
        for pending in list(self.pending.values()):
            if pending.done:
                continue
            if pending.number and pending.sent:
                pending.arguments["again"] = True
            self._prepare(pending)
            pending.sent = True
            yield encode_request(pending.id, pending.operation, pending.arguments)

    def _prepare(self, pending: Pending) -> None:
        if self.horizon.prepare(pending.operation, pending.arguments, pending.limit):
            pending.deadline = pending.limit + WAIT_GRACE_S

    def _finish(self, pending: Pending, error: CrdtSyncError | None) -> None:
        pending.error = error
        pending.done = True
        if self.pending.pop(pending.id, None) is not None and pending.number:
            self.writes -= 1


def _unknown(reason: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the connection broke during this write, so it may or may not be done ({reason}): read before you repeat it"
    )


def timed_out(pending: Pending) -> Timeout:
    """The error for a request whose time ran out without an answer."""
    if not pending.sent:
        return Timeout(f"no daemon was there to take this {pending.operation!r} before time ran out; it was not sent")
    if pending.number:
        return Timeout(f"no answer to this {pending.operation!r} in time: it may or may not be done")
    return Timeout(f"no answer to this {pending.operation!r} in time")


def closed() -> DaemonUnavailable:
    """The error for the use of a client after its end."""
    return DaemonUnavailable("this client is closed")
