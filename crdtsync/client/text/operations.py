"""Every operation on texts as a plan.

Positions mean the text as this session last read it, so edits are made in its replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from crdtsync.client.operations import writes
from crdtsync.client.operations.batch import tell_of_one
from crdtsync.client.session.request_context import ALWAYS, Condition, Write
from crdtsync.client.text.replica_cache import Replicas
from crdtsync.client.values.durations import milliseconds
from crdtsync.client.values.write_result import Written
from crdtsync.errors import InvalidRequest, Refused, StaleRead

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.protocol.steps import Exchange, Steps
    from crdtsync.client.session.request_context import Arguments, Context, WriteConcern
    from crdtsync.client.text.replica import TextReplica
    from crdtsync.client.text.tree import DocumentTree, Path
    from crdtsync.client.values.results import TextUpdate

_PAGE_ITEMS_MAX = 1000
_BYTES = bytes | bytearray | memoryview


class TextOperations:
    """The plans for texts of one session. At most one plan for each key runs at a time."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._replicas = Replicas()

    def restart(self) -> None:
        """In a forked child."""
        self._replicas.restart()

    def read(self, key: str, after: str | None, timeout_s: float) -> Steps[str]:
        """Bring the replica up to date; the text, empty if there is none."""
        replica = yield from self._refresh(key, after, timeout_s)
        return replica.content

    def insert(
        self, key: str, position: int, text: str, w: WriteConcern, timeout_s: float, condition: Condition = ALWAYS
    ) -> Steps[Written]:
        """Insert at a position."""
        _check_numbers(position=position)
        changes = [(position, position, text)]
        return (yield from self._edit(key, lambda replica: replica.edit(changes), w, timeout_s, condition))

    def delete(
        self, key: str, position: int, length: int, w: WriteConcern, timeout_s: float, condition: Condition = ALWAYS
    ) -> Steps[Written]:
        """Delete from a position."""
        _check_numbers(position=position, length=length)
        changes = [(position, position + length, "")]
        return (yield from self._edit(key, lambda replica: replica.edit(changes), w, timeout_s, condition))

    def set(
        self, key: str, whole: str, w: WriteConcern, timeout_s: float, condition: Condition = ALWAYS
    ) -> Steps[Written]:
        """Make it this text, by few and small edits."""
        return (
            yield from self._edit(key, lambda replica: replica.replace_all(whole), w, timeout_s, condition, makes=True)
        )

    def apply(
        self,
        key: str,
        document: str | None,
        update: bytes,
        w: WriteConcern,
        timeout_s: float,
        condition: Condition = ALWAYS,
    ) -> Write[Written]:
        """Send an editor's own update; no replica is touched."""
        return self._context.send(writes.text_apply(self._context, key, document, update, condition), w, timeout_s)

    def apply_all(
        self,
        key: str,
        document: str | None,
        updates: bytes | Sequence[bytes],
        w: WriteConcern,
        timeout_s: float,
        condition: Condition = ALWAYS,
    ) -> Steps[Written]:
        """The same with one or several, as one change; the condition is that of the first."""
        _check_updates(updates)
        if isinstance(updates, _BYTES) or len(updates) == 1:
            update = updates if isinstance(updates, _BYTES) else updates[0]
            return (yield from self.apply(key, document, update, w, timeout_s, condition))
        context = self._context
        conditions = [condition, *[ALWAYS] * (len(updates) - 1)]
        parts = [
            writes.text_apply(context, key, document, update, wanted)
            for update, wanted in zip(updates, conditions, strict=True)
        ]

        def learn(reply: Any, token: str, _: bool) -> Written:
            return parts[-1].learn(reply["results"][-1], token, True)

        ops = [(part.operation, part.arguments) for part in parts]
        batch = Write(context, "batch", {"ops": ops}, learn, waits=parts[0].waits)
        try:
            return (yield from context.send(batch, w, timeout_s))
        except Refused as refusal:
            tell_of_one(refusal)
            raise

    def state(self, key: str) -> Exchange[TextUpdate | None]:
        """All of the text as one update; no replica is touched."""
        return self._context.call("text_read", {"key": key}, _whole)

    def document(self, key: str) -> Exchange[str | None]:
        """The name of the document that the text lives in now; None if there is no text."""
        return self._context.call(
            "text_updates", {"key": key, "limit": 1}, lambda reply: reply["document"] if reply else None
        )

    def updates(self, key: str, after: str | None) -> Exchange[tuple[list[TextUpdate], bool]]:
        """A page of edits that ``after`` does not cover, and whether there are more."""
        arguments: Arguments = {"key": key, "limit": _PAGE_ITEMS_MAX}
        if after is not None:
            arguments["after"] = after
        return self._context.call("text_updates", arguments, _page_of_updates)

    def compact(self, key: str, w: WriteConcern, timeout_s: float) -> Steps[Written]:
        """Have the daemon store the text anew, without its past."""

        def learn(reply: Any, token: str, _: bool) -> Written:
            self._context.learn_growth(key, reply)
            replica = self._replicas.get(key)
            if replica is not None:
                replica.is_left_behind = replica.document != reply["document"]
            return Written(token, key, reply)

        arguments = self._context.growth_arguments(key, {})
        write = Write(self._context, "text_compact", arguments, learn)
        return (yield from self._context.send(write, w, timeout_s))  # a step: what was read counts when it is sent

    def doc_get(
        self, key: str, path: Path, default: Any, after: str | None, timeout_s: float, sibling: str | None = None
    ) -> Steps[Any]:
        """What stands at a path of the document's map, or of that of a sibling."""
        tree, _ = yield from self._tree(key, after, timeout_s, sibling)
        return tree.get(path, default)

    def doc_set(
        self, key: str, path: Path, value: Any, w: WriteConcern, timeout_s: float, condition: Condition
    ) -> Steps[Written]:
        """Put a value at a path of it."""
        from crdtsync.client.text.tree import check

        check(value)
        return (yield from self._edit_tree(key, lambda tree: tree.set(path, value), w, timeout_s, condition))

    def doc_insert(
        self, key: str, path: Path, value: Any, w: WriteConcern, timeout_s: float, condition: Condition
    ) -> Steps[Written]:
        """Put a value into a list of it."""
        from crdtsync.client.text.tree import check

        check(value)
        return (yield from self._edit_tree(key, lambda tree: tree.insert(path, value), w, timeout_s, condition))

    def doc_delete(
        self, key: str, path: Path, w: WriteConcern, timeout_s: float, condition: Condition
    ) -> Steps[Written]:
        """Take out what stands at a path of it."""
        return (yield from self._edit_tree(key, lambda tree: tree.delete(path), w, timeout_s, condition))

    def _tree(
        self, key: str, after: str | None, timeout_s: float, sibling: str | None = None
    ) -> Steps[tuple[DocumentTree, str | None]]:
        """The document's map, and the document's name; of what is not there, an empty one and None."""
        from crdtsync.client.text.tree import DocumentTree

        arguments: Arguments = {"key": key} if sibling is None else {"key": key, "sibling": sibling}
        reply: Any = yield self._context.read_call("text_read", arguments, after, timeout_s)
        if reply is None:
            return DocumentTree(None), None
        if sibling is not None:
            return DocumentTree(reply["update"]), None
        self._context.memory.read(key, reply["version"])
        return DocumentTree(reply["update"]), reply["document"]

    def _edit_tree(
        self, key: str, edit: Callable[[DocumentTree], None], w: WriteConcern, timeout_s: float, condition: Condition
    ) -> Steps[Written]:
        from crdtsync.client.text.replica import NO_CHANGE

        tree, document = yield from self._tree(key, None, timeout_s)
        update = tree.edited(edit)
        if update is None and condition == ALWAYS:
            return (yield from self._unchanged(key, document, w, timeout_s))
        return (yield from self.apply(key, document, update or NO_CHANGE, w, timeout_s, condition))

    def _refresh(self, key: str, after: str | None, timeout_s: float) -> Steps[TextReplica]:
        replica, version = yield from self._fetch(key, self._replicas.get(key), after, timeout_s)
        self._context.memory.read(key, version)
        self._replicas.put(key, replica)
        return replica

    def _fetch(
        self, key: str, replica: TextReplica | None, after: str | None, timeout_s: float
    ) -> Steps[tuple[TextReplica, str | None]]:
        """The text and its version; ``replica`` is brought up to date if it is of that document."""
        from crdtsync.client.text.replica import TextReplica

        arguments: Arguments = {"key": key}
        if replica is not None and replica.document is not None:
            arguments |= {"document": replica.document, "state": replica.state()}
        reply: Any = yield self._context.read_call("text_read", arguments, after, timeout_s)
        if reply is None:
            return TextReplica(None, None), None
        if replica is not None and replica.document == reply["document"]:
            replica.apply(reply["update"])
        else:
            replica = TextReplica(reply["document"], reply["update"])
        return replica, reply["version"]

    def _edit(
        self,
        key: str,
        change: Callable[[TextReplica], list[bytes]],
        w: WriteConcern,
        timeout_s: float,
        condition: Condition,
        *,
        makes: bool = False,
    ) -> Steps[Written]:
        """Edit the text as it was last read. What changes nothing is no write, unless it ``makes`` the text."""
        from crdtsync.client.text.replica import NO_CHANGE

        replica = yield from self._as_last_read(key, timeout_s)
        updates = change(replica)
        if not updates and condition == ALWAYS and (replica.document is not None or not makes):
            return (yield from self._unchanged(key, replica.document, w, timeout_s))
        try:
            sent = updates or [NO_CHANGE]
            written = yield from self.apply_all(key, replica.document, sent, w, timeout_s, condition)
        except BaseException:
            # Refused, or nobody knows: either way the replica goes back to what is certain, and the next read brings
            # the rest.
            replica.roll_back()
            raise
        replica.document = replica.document or written.document
        for update in updates:
            replica.accept(update)
        return written

    def _unchanged(self, key: str, document: str | None, w: WriteConcern, timeout_s: float) -> Steps[Written]:
        """The token of what was read; with a write concern, once so many nodes hold that."""
        reply: dict[str, Any] = {"document": document}
        token = self._context.point or ""
        if token and w not in (None, 1):
            arguments: Arguments = {"token": token, "w": w, "timeout": milliseconds(timeout_s)}
            reply |= yield self._context.call("wait", arguments, waits=True)
        return Written(token, key, reply)

    def _as_last_read(self, key: str, timeout_s: float) -> Steps[TextReplica]:
        """The replica that positions refer to."""
        if self._replicas.is_forgotten(key):
            raise StaleRead(f"the text {key!r} as this session last read it is no longer remembered: read it again")
        replica = self._replicas.get(key)
        if replica is None:
            return (yield from self._refresh(key, None, timeout_s))
        if not replica.is_left_behind:
            return replica
        replica.is_left_behind = False
        fresh, version = yield from self._fetch(key, None, None, timeout_s)
        if fresh.content != replica.content:
            return replica  # others had edited it: the daemon makes edits of the old document in the new one too
        self._context.memory.read(key, version)
        self._replicas.put(key, fresh)
        return fresh


def _whole(reply: Any) -> TextUpdate | None:
    from crdtsync.client.values.results import TextUpdate

    return reply and TextUpdate(reply["update"], reply["token"], None, None, reply["document"], reset=True)


def _page_of_updates(reply: Any) -> tuple[list[TextUpdate], bool]:
    from crdtsync.client.values.results import TextUpdate

    if not reply:
        return [], False
    found = [
        TextUpdate(update, token, agent, node, reply["document"], reset=bool(reply["reset"]) and index == 0)
        for index, (update, token, agent, node) in enumerate(reply["items"])
    ]
    return found, bool(reply["more"])


def _check_updates(updates: object) -> None:
    several = [updates] if isinstance(updates, _BYTES) else updates
    if (
        isinstance(several, str)
        or not isinstance(several, Sequence)
        or not several
        or not all(isinstance(update, _BYTES) for update in several)
    ):
        raise InvalidRequest(f"an update is bytes, and several are a list of at least one, not {updates!r:.40}")


def _check_numbers(**numbers: object) -> None:
    for name, number in numbers.items():
        if type(number) is not int:
            raise InvalidRequest(f"{name} must be a whole number, not {number!r:.40}")
