"""Several writes as one: recorded, then sent as one change that is all or nothing and visible at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.operations import writes
from crdtsync.client.session.read_memory import NOTHING_STORED, READ_LONG_AGO
from crdtsync.client.session.request_context import AdditiveWrite, Condition, Write, seen_or
from crdtsync.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crdtsync.client.protocol.steps import Steps
    from crdtsync.client.session.request_context import Context, Seen, WriteConcern
    from crdtsync.client.values.durations import Seconds
    from crdtsync.errors import Refused


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
        self._writes: list[Write[Any]] = []
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
        write = writes.set_value(
            self._context,
            key,
            value,
            ttl=ttl,
            if_version=if_version,
            if_absent=if_absent,
            seen=seen,
            confidence=confidence,
            meta=meta,
        )
        self._add(write, seen)

    def delete(self, key: str, *, if_version: str | None = None, seen: Seen = ...) -> None:
        """Record a deletion."""
        write = writes.delete(self._context, key, seen_or(seen, if_version))
        held = key in self._written
        self._add(writes.conditional(write, if_version), seen)
        if seen != READ_LONG_AGO or not held:
            self._written.discard(key)

    def touch(self, key: str, ttl: Seconds | None, *, if_version: str | None = None) -> None:
        """Record that a value lives for so long from then on; its result is whether it was there."""
        self._add(writes.conditional(writes.touch(self._context, key, ttl), if_version))

    def append(
        self,
        key: str,
        value: object,
        *,
        ttl: Seconds | None = None,
        if_version: str | None = None,
        if_absent: bool = False,
        confidence: float | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        """Record an append to a log."""
        write = writes.append(self._context, key, value, ttl, confidence, meta)
        self._add(writes.conditional(write, if_version, if_absent))

    def trim(self, key: str, keep: int, *, if_version: str | None = None) -> None:
        """Record that a log keeps only its newest ``keep`` elements."""
        self._add(writes.conditional(writes.trim(self._context, key, keep), if_version))

    def remove(self, key: str, dot: str, *, if_version: str | None = None) -> None:
        """Record the removal of one element of a log; its result is whether it was there."""
        self._add(writes.conditional(writes.remove(self._context, key, dot), if_version))

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
        if_field_absent: bool = False,
        seen: Seen = ...,
        confidence: float | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        """Record the writing of fields of a map."""
        seen = seen_or(seen, if_version)
        write = writes.merge(self._context, key, fields, seen, confidence, meta, if_field_absent)
        self._add(writes.conditional(write, if_version, if_absent), seen)

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
        self._add(writes.text_apply(self._context, key, document, update, Condition(if_version, if_absent)))

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
        if self.token is not None:
            raise InvalidRequest("this batch is done: open another one")
        key, arguments = str(write.arguments["key"]), write.arguments
        if isinstance(write, AdditiveWrite) and "seen" in arguments:
            arguments["seen"] = NOTHING_STORED  # the replies then tell what the batch wrote, and are short
        if seen is ... and key in self._written and arguments.get("seen") == READ_LONG_AGO:
            arguments["seen"] = NOTHING_STORED  # the session remembers no reading of the key; the batch wrote to it
        self._written.add(key)
        self._writes.append(write)

    @property
    def context(self) -> Context:
        """Of the session that does it."""
        return self._context

    @property
    def recorded(self) -> Sequence[Write[Any]]:
        """The operations so far."""
        return self._writes

    def take_in(self, recorded: Iterable[Write[Any]]) -> None:
        """Record what another batch of the same session has recorded."""
        for write in recorded:
            self._add(write, None)

    def commit(self, timeout_s: float) -> Steps[str | None]:
        """The plan that does it; an empty batch does nothing."""
        if not self._writes:
            return None
        ops = [(write.operation, write.arguments) for write in self._writes]
        waits = any(write.waits for write in self._writes)
        batch = Write(self._context, "batch", {"ops": ops}, self._learn, waits=waits)
        last = {str(write.arguments["key"]): index for index, write in enumerate(self._writes)}
        batch.places = tuple(last.items())
        return (yield from self._context.send(batch, self._w, timeout_s))

    def _learn(self, reply: Any, token: str, _: bool) -> str:
        self.token = token
        self.results = [
            write.learn(result, token, True) for write, result in zip(self._writes, reply["results"], strict=True)
        ]
        return token


def tell_of_one(refusal: Refused) -> int | None:
    """Leave out of a refusal which operation of the batch it was, and return that: its author made no batch."""
    index = refusal.details.pop("index", None)
    if isinstance(index, int):
        refusal.details.pop("op", None)
        refusal.message = refusal.message.partition(": ")[2].removesuffix("; nothing of the batch was done")
        refusal.args = (refusal.message,)
        return index
    return None
