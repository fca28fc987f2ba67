"""What the asyncio client is asked most: to read a value, and to write one.

Without options both go the short way, :mod:`crdtsync.client.session.fast_calls`; else they are plans like all other
operations.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from crdtsync.client.protocol.steps import Plan, limit_s, unfit
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from crdtsync.client.aio.connection import AsyncConnection
    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.session.request_context import Arguments, Seen, WriteConcern
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.write_result import Written

T = TypeVar("T")

_NO_OPTIONS = (None,) * 5


class AsyncPlainMethods:
    """The part of a session that reads and writes a key as a whole."""

    timeout_s: float
    _operations: Operations
    _connection: AsyncConnection

    async def run(self, plan: Plan[T], timeout_s: float) -> T:
        """Do what a plan says."""
        raise NotImplementedError

    async def _show_in_mirrors(self, arguments: Arguments, token: Any, deadline: float) -> None:
        raise NotImplementedError

    async def get(
        self, key: str, default: Any = None, *, after: str | None = None, timeout: Seconds | None = None
    ) -> Any:
        """The value of ``key``, or ``default`` if it is absent: of a counter an int, of a set or log the list of its
        elements, of a map a dict, of a text a str.

        Of several concurrent values this is the winner, and the next ``set`` supersedes it alone. With ``after`` (a
        token) it waits until this daemon holds what the token names.
        """
        timeout_s = self.timeout_s if timeout is None else limit_s(timeout, 0)
        operations, connection = self._operations, self._connection
        if after is not None:
            return await self.run(operations.get(key, default, after, timeout_s), timeout_s)
        pending = operations.begin_get(key, monotonic() + timeout_s)
        try:
            await connection.ask(pending, is_write=False)
            return operations.got(key, pending.outcome(), default)
        except CrdtSyncError as error:
            operations.learn_refusal(pending, error)
            raise
        except KeyError as missing:
            raise unfit(pending, missing) from missing
        finally:
            if not pending.done:
                connection.abandon(pending)

    async def set(
        self,
        key: str,
        value: object,
        *,
        ttl: Seconds | None = None,
        if_version: str | None = None,
        if_absent: bool = False,
        seen: Seen = ...,
        confidence: float | None = None,
        meta: dict[str, Any] | None = None,
        w: WriteConcern = None,
        timeout: Seconds | None = None,
    ) -> Written:
        """Write ``value`` and return the token of the write, a str that knows more (:class:`~crdtsync.client.Written`).

        On return it is on this node's disk; with ``w`` (a number, ``"majority"``, ``"all"``) on so many nodes'. It
        supersedes what this session last read of the key, and wrote since, and nothing newer: what it had not seen
        lives on as a sibling. A session that never read the key, if it wrote it or not, replaces the winner blindly.
        ``seen`` (a version) says instead what the author had seen; None writes blind; ``"?"`` supersedes nothing, so
        that what is there lives on as a sibling.

        :param value: None, bool, int (64 bit), float, str, bytes, or lists and dicts of them; at most 1 MiB.
        :param ttl: forget the value after this time.
        :param if_version: write only if the key is at this version (``entry.version``) on this node.
        :param if_absent: write only if the key is absent on this node.
        :param confidence: how sure the author is, 0 to 1.
        :param meta: anything to keep beside the value.
        :raises VersionMismatch: the condition is false; ``current`` is what the key holds, and counts as read.
        :raises InvalidValue: the value cannot be stored exactly; ``path`` says where.
        :raises OutcomeUnknown: the connection broke, and nobody can tell whether it is done.
        """
        timeout_s = self.timeout_s if timeout is None else limit_s(timeout, 0)
        operations, connection = self._operations, self._connection
        if if_absent or seen is not ... or (ttl, if_version, confidence, meta, w) != _NO_OPTIONS:
            plan = operations.set(
                key,
                value,
                timeout_s,
                ttl=ttl,
                if_version=if_version,
                if_absent=if_absent,
                seen=seen,
                confidence=confidence,
                meta=meta,
                w=w,
            )
            return await self.run(plan, timeout_s)
        deadline = monotonic() + timeout_s
        pending = operations.begin_set(key, value, deadline)
        try:
            await connection.ask(pending, is_write=True)
            reply = pending.outcome()
            written = operations.did_set(key, reply)
        except CrdtSyncError as error:
            operations.learn_refusal(pending, error)
            raise
        except KeyError as missing:
            raise unfit(pending, missing) from missing
        finally:
            if not pending.done:
                connection.abandon(pending)
        if connection.mirrors:
            await self._show_in_mirrors(pending.arguments, written, deadline)
        return written
