"""Several writes as one: recorded, then sent as one change that is all or nothing and visible at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client import writes
from crdtsync.client.context import add_options
from crdtsync.client.memory import NOTHING_STORED, READ_LONG_AGO
from crdtsync.client.values import encode
from crdtsync.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.context import Arguments, Context, Seen, WriteConcern
    from crdtsync.client.durations import Seconds
    from crdtsync.client.plan import Plan
    from crdtsync.client.writes import Write


class Batch:
    """Records writes; they are done, all or none, when the ``with`` block ends without an exception.

    After the block ``token`` names the change, and ``results`` has one result for each write, in order: what the
    session's method of that name returns. At most 1,000 operations, of which each field of a merge is one, and 4 MiB.
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
        self._waits |= self._context.add_removal_context(arguments, key, seen)
        self._add_own_writes(arguments, key, seen)
        if seen != READ_LONG_AGO:
            self._written.discard(key)
        self._record("delete", arguments, lambda reply, _: self._context.learn_delete(key, reply))

    def _add_own_writes(self, arguments: Arguments, key: str, seen: Seen) -> None:
        """A session that remembers no reading of a key still knows what this batch wrote to it."""
        if seen is ... and key in self._written and arguments.get("seen") == READ_LONG_AGO:
            arguments["seen"] = NOTHING_STORED

    def append(self, key: str, value: object) -> None:
        """Record an append to a log."""
        self._written.add(key)

        def learn(reply: Any, _: str) -> int:
            self._context.learn_growth(key, reply, is_batched=True)
            return int(reply["length"])

        self._record("append", {"key": key, "value": encode(value)}, learn)

    def trim(self, key: str, keep: int) -> None:
        """Record that a log keeps only its newest ``keep`` elements."""
        self._record("trim", {"key": key, "keep": keep}, lambda reply, _: self._context.learn_trim(reply))

    def incr(self, key: str, n: int = 1) -> None:
        """Record an increment of a counter; its result is the new value."""
        self._add(writes.incr(self._context, key, n))

    def reset(self, key: str, *, if_version: str | None = None) -> None:
        """Record the resetting of a counter; its result is what it was."""
        self._add(writes.reset(self._context, key, if_version))

    def add(self, key: str, value: object) -> None:
        """Record the adding of an element to a set; its result is whether it was not there."""
        self._add(writes.add(self._context, key, value))

    def discard(self, key: str, value: object, *, seen: Seen = ...) -> None:
        """Record the removal of an element from a set; its result is whether it was there."""
        self._add(writes.discard(self._context, key, value, seen), seen)

    def merge(self, key: str, fields: dict[str, Any], *, seen: Seen = ...) -> None:
        """Record the writing of fields of a map."""
        self._add(writes.merge(self._context, key, fields, seen), seen)

    def drop(self, key: str, field: str, *, seen: Seen = ...) -> None:
        """Record the removal of a field from a map; its result is whether it was there."""
        self._add(writes.drop(self._context, key, field, seen), seen)

    def resolve(
        self, key: str, *, take: str | None = None, value: object = ..., merge: bool = False, seen: Seen = ...
    ) -> None:
        """Record the settling of a conflict."""
        self._add(writes.resolve(self._context, key, take, value, merge, seen), seen)

    def _add(self, write: Write[Any], seen: Seen = ...) -> None:
        key, arguments = str(write.arguments["key"]), write.arguments
        if write.is_growth and "seen" in arguments:
            arguments["seen"] = NOTHING_STORED  # the replies then tell what the batch wrote, and are short
        self._add_own_writes(arguments, key, seen)
        self._written.add(key)
        self._waits |= write.waits
        self._record(write.operation, arguments, lambda reply, token: write.learn(reply, token, True))

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
