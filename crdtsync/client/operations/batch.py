"""Several writes as one: recorded, then sent as one change that is all or nothing and visible at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.operations import writes
from crdtsync.client.session.read_memory import NOTHING_STORED, READ_LONG_AGO
from crdtsync.client.session.request_context import add_conditions, add_options, seen_or
from crdtsync.client.values.encoding import encode
from crdtsync.client.values.write_result import Written
from crdtsync.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.operations.writes import Write
    from crdtsync.client.protocol.steps import Plan
    from crdtsync.client.session.request_context import Arguments, Context, Seen, WriteConcern
    from crdtsync.client.values.durations import Seconds


class Batch:
    """Records writes; they are done, all or none, when the ``with`` block ends without an exception.

    After the block ``token`` names the change, and ``results`` has one result for each write, in order: what the
    session's method of that name returns. One operation that is refused refuses all: the error's ``index`` says which
    it was. At most 1,000 operations, of which each field of a merge is one, and 4 MiB.
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

    def delete(self, key: str, *, if_version: str | None = None, seen: Seen = ...) -> None:
        """Record a deletion."""
        arguments: Arguments = {"key": key}
        self._waits |= self._context.add_removal_context(arguments, key, seen_or(seen, if_version))
        self._waits |= add_conditions(arguments, if_version, False)
        self._add_own_writes(arguments, key, seen)
        if seen != READ_LONG_AGO:
            self._written.discard(key)
        self._record("delete", arguments, lambda reply, _: self._context.learn_delete(key, reply))

    def _add_own_writes(self, arguments: Arguments, key: str, seen: Seen) -> None:
        """A session that remembers no reading of a key still knows what this batch wrote to it."""
        if seen is ... and key in self._written and arguments.get("seen") == READ_LONG_AGO:
            arguments["seen"] = NOTHING_STORED

    def append(self, key: str, value: object, *, if_version: str | None = None, if_absent: bool = False) -> None:
        """Record an append to a log."""
        self._written.add(key)

        def learn(reply: Any, _: str) -> int:
            self._context.learn_growth(key, reply, is_batched=True)
            return int(reply["length"])

        arguments: Arguments = {"key": key, "value": encode(value)}
        self._waits |= add_conditions(arguments, if_version, if_absent)
        self._record("append", arguments, learn)

    def trim(self, key: str, keep: int, *, if_version: str | None = None) -> None:
        """Record that a log keeps only its newest ``keep`` elements."""
        arguments: Arguments = {"key": key, "keep": keep}
        self._waits |= add_conditions(arguments, if_version, False)
        self._record("trim", arguments, lambda reply, _: self._context.learn_trim(reply))

    def incr(self, key: str, n: int = 1, *, if_version: str | None = None, if_absent: bool = False) -> None:
        """Record an increment of a counter; its result is the new value."""
        self._add(writes.conditional(writes.incr(self._context, key, n), if_version, if_absent))

    def reset(self, key: str, *, if_version: str | None = None) -> None:
        """Record the resetting of a counter; its result is what it was."""
        self._add(writes.reset(self._context, key, if_version))

    def add(self, key: str, value: object, *, if_version: str | None = None, if_absent: bool = False) -> None:
        """Record the adding of an element to a set; its result is whether it was not there."""
        self._add(writes.conditional(writes.add(self._context, key, value), if_version, if_absent))

    def discard(self, key: str, value: object, *, if_version: str | None = None, seen: Seen = ...) -> None:
        """Record the removal of an element from a set; its result is whether it was there."""
        seen = seen_or(seen, if_version)
        self._add(writes.conditional(writes.discard(self._context, key, value, seen), if_version), seen)

    def merge(
        self,
        key: str,
        fields: dict[str, Any],
        *,
        if_version: str | None = None,
        if_absent: bool = False,
        seen: Seen = ...,
        confidence: float | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        """Record the writing of fields of a map."""
        seen = seen_or(seen, if_version)
        self._add(
            writes.conditional(writes.merge(self._context, key, fields, seen, confidence, meta), if_version, if_absent),
            seen,
        )

    def drop(self, key: str, field: str, *, if_version: str | None = None, seen: Seen = ...) -> None:
        """Record the removal of a field from a map; its result is whether it was there."""
        seen = seen_or(seen, if_version)
        self._add(writes.conditional(writes.drop(self._context, key, field, seen), if_version), seen)

    def apply_text(
        self,
        key: str,
        update: bytes,
        *,
        document: str | None = None,
        if_version: str | None = None,
        if_absent: bool = False,
    ) -> None:
        """Record a Yjs update (v1) of an editor's own document, whose text is named ``text``; its result is as of
        :meth:`Text.apply <crdtsync.client.blocking.text.Text.apply>`.

        It goes to ``document`` (the name that the text's ``updates`` showed), else to the one that is there by then,
        else it makes the text.
        """
        arguments: Arguments = {"key": key, "document": document, "update": bytes(update)}
        self._waits |= add_conditions(arguments, if_version, if_absent)

        def learn(reply: Any, token: str) -> Written:
            self._context.memory.wrote(key, reply["version"])
            return Written(token, key, reply)

        self._record("text_apply", arguments, learn)

    def resolve(
        self,
        key: str,
        *,
        take: str | None = None,
        value: object = ...,
        merge: bool = False,
        if_version: str | None = None,
        seen: Seen = ...,
    ) -> None:
        """Record the settling of a conflict."""
        seen = seen_or(seen, if_version)
        self._add(writes.conditional(writes.resolve(self._context, key, take, value, merge, seen), if_version), seen)

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
