"""Several writes as one: recorded, then sent as one change that is all or nothing and visible at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.context import add_options
from crdtsync.client.memory import READ_LONG_AGO
from crdtsync.client.values import encode
from crdtsync.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.context import Arguments, Context, Seen, WriteConcern
    from crdtsync.client.durations import Seconds
    from crdtsync.client.plan import Plan

_NOTHING_STORED = "v1.kwAAkA"
"""A version that covers no entry. Unlike READ_LONG_AGO it is one, so it covers what the batch itself wrote before."""


class Batch:
    """Records writes; they are done, all or none, when the ``with`` block ends without an exception.

    After the block ``token`` names the change, and ``results`` has one result for each write, in order: a
    :class:`~crdtsync.client.Written` for a set, whether it existed for a delete, the new length for an append, how
        many were removed for a trim. At most 1,000 writes and 4 MiB.
    """

    def __init__(self, context: Context, w: WriteConcern) -> None:
        self.token: str | None = None
        self.results: list[Any] = []  # one shape for each kind of write
        self._context = context
        self._w = w
        self._waits = False
        self._writes: list[tuple[str, Arguments]] = []
        self._readers: list[Callable[[Any, str], Any]] = []
        self._written: set[str] = set()  # keys that hold something of this batch

    def __len__(self) -> int:
        return len(self._writes)

    def set(
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
    ) -> None:
        """Record a write; see :meth:`Client.set <crdtsync.client.Client.set>`.

        One false condition refuses the whole batch. Without ``seen`` it replaces what this batch set before; with
        ``seen="?"`` not even that, so that one batch can write siblings.
        """
        context = self._context
        arguments: Arguments = {"key": key, "value": encode(value)}
        add_options(arguments, ttl, confidence, meta)
        informed, waits = context.add_context(arguments, key, if_version, if_absent, seen)
        self._add_own_writes(arguments, key, seen)
        self._waits |= waits
        self._written.add(key)
        self._record("set", arguments, lambda reply, token: context.learn_set(key, reply, token, informed=informed))

    def delete(self, key: str, *, seen: Seen = ...) -> None:
        """Record a deletion."""
        arguments: Arguments = {"key": key}
        self._waits |= self._context.add_delete_context(arguments, key, seen)
        self._add_own_writes(arguments, key, seen)
        if seen != READ_LONG_AGO:
            self._written.discard(key)
        self._record("delete", arguments, lambda reply, _: self._context.learn_delete(key, reply))

    def _add_own_writes(self, arguments: Arguments, key: str, seen: Seen) -> None:
        """A session that remembers no reading of a key still knows what this batch wrote to it."""
        if seen is ... and key in self._written and arguments.get("seen") == READ_LONG_AGO:
            arguments["seen"] = _NOTHING_STORED

    def append(self, key: str, value: object) -> None:
        """Record an append to a log."""
        self._written.add(key)
        self._record(
            "append", {"key": key, "value": encode(value)}, lambda reply, _: self._context.learn_append(key, reply)
        )

    def trim(self, key: str, keep: int) -> None:
        """Record that a log keeps only its newest ``keep`` elements."""
        self._record("trim", {"key": key, "keep": keep}, lambda reply, _: self._context.learn_trim(reply))

    def commit(self, timeout_s: float) -> Plan[str | None]:
        """The plan that does it; an empty batch does nothing."""
        if not self._writes:
            return None
        arguments: Arguments = {"ops": self._writes}
        reply = yield from self._context.write("batch", arguments, self._w, timeout_s, waits=self._waits)
        token: str = reply["token"]
        self.token = token
        self.results = [reader(result, token) for reader, result in zip(self._readers, reply["results"], strict=True)]
        return token

    def _record(self, operation: str, arguments: Arguments, reader: Callable[[Any, str], Any]) -> None:
        if self.token is not None:
            raise InvalidRequest("this batch is done: open another one")
        self._writes.append((operation, arguments))
        self._readers.append(reader)
