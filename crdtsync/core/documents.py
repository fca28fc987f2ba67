"""Texts as Yjs documents: the only door to pycrdt in the core.

pycrdt can panic (a ``BaseException``) or kill the process on hostile bytes, so every update passes the structural
validation of
:mod:`crdtsync.wire.yjs` first. After any exception from an apply the replica in memory is never used again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pycrdt import Doc, Text

from crdtsync.causality import Dot
from crdtsync.errors import InvalidEncoding, InvalidValue
from crdtsync.wire.state_vector import decode_state_vector
from crdtsync.wire.yjs import InvalidUpdate, Outline, UpdateSummary, advance, validate_update

ROOT = "text"
STATE_EVERY_UPDATES = 1000
"""How many edits are stored one by one before the whole document is stored again."""

EDIT_STRUCTS_MAX = 2000
"""Parts of one edit: hostile ones cost the Yjs library quadratic time, about 0.7 s for so many."""

Load = Callable[[Dot], tuple[bytes | None, list[bytes]]]


class Document:
    """One Yjs document, loaded from disk at its first use."""

    def __init__(self, dot: Dot, load: Load) -> None:
        self.dot = dot
        self._load = load
        self._doc: Doc[Text] | None = None
        self._outline = Outline({ROOT: "text"})
        self._uncommitted: list[bytes] = []
        self.updates_since_state = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever applied to it."""
        self._loaded()
        return not self._outline

    def check(self, update: bytes) -> UpdateSummary:
        """Refuse an update that is not acceptable on top of what the document holds.

        :raises InvalidValue: malformed, or it refers to edits that the document does not hold.
        """
        self._loaded()
        try:
            summary = validate_update(update, self._outline)
        except InvalidUpdate as error:
            raise InvalidValue(f"not an acceptable Yjs update: {error}", path="$") from None
        if summary.structs > EDIT_STRUCTS_MAX:
            raise InvalidValue(
                f"an edit of {summary.structs:,} parts; at most {EDIT_STRUCTS_MAX:,} fit: split it", path="$"
            )
        return summary

    def apply(self, update: bytes) -> None:
        """Take in an update; the document is as it was if this raises.

        :raises InvalidValue: see :meth:`check`; or the Yjs library could not take it.
        """
        summary = self.check(update)
        self._apply(self._loaded(), update)
        advance(self._outline, summary)
        self._uncommitted.append(update)
        self.updates_since_state += 1

    def undo(self) -> None:
        """Take back the update applied last, which was not committed."""
        self._uncommitted.pop()
        self._doc = None

    def read(self) -> str:
        """The text."""
        return str(self._loaded().get(ROOT, type=Text))

    def updates_after(self, state: bytes | None) -> bytes:
        """What a replica with Yjs state vector ``state`` lacks; all of it for None.

        :raises InvalidValue: not a state vector.
        """
        doc = self._loaded()
        if state is None:
            return doc.get_update()
        try:
            decode_state_vector(state)
        except InvalidUpdate as error:
            raise InvalidValue(f"not a Yjs state vector: {error}", path="$") from None
        return doc.get_update(state)

    def state(self) -> bytes:
        """The whole document as one update, to be stored; starts a new count of ``updates_since_state``."""
        self.updates_since_state = 0
        return self._loaded().get_update()

    def committed(self) -> None:
        """What was applied is on disk: a reload will find it there."""
        self._uncommitted.clear()

    def _loaded(self) -> Doc[Text]:
        if self._doc is None:
            state, updates = self._load(self.dot)
            doc: Doc[Text] = Doc()
            for update in (*([state] if state else ()), *updates, *self._uncommitted):
                doc.apply_update(update)
            self.updates_since_state = len(updates)
            self._outline = Outline({ROOT: "text"})
            advance(self._outline, validate_update(doc.get_update(), self._outline))
            self._doc = doc
        return self._doc

    def _apply(self, doc: Doc[Text], update: bytes) -> None:
        try:
            doc.apply_update(update)
        except BaseException as error:
            self._doc = None  # half applied: never read it again
            if not _is_panic(error):
                raise
            raise InvalidValue(f"the Yjs library refuses this update: {error}", path="$") from None


def _is_panic(error: BaseException) -> bool:
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


class Documents:
    """The documents of one space, by the dot of the marker that created them."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._open: dict[Dot, Document] = {}
        self._dirty: set[Dot] = set()

    def get(self, dot: Dot) -> Document:
        """The document of that name; an empty one if nothing is known of it."""
        document = self._open.get(dot)
        if document is None:
            document = self._open[dot] = Document(dot, self._load)
        return document

    def exists(self, dot: Dot) -> bool:
        """Whether any edit of that document was ever applied here."""
        return not self.get(dot).is_empty

    def apply(self, dot: Dot, update: bytes) -> None:
        """Take in an edit; see :meth:`Document.apply`."""
        self.get(dot).apply(update)
        self._dirty.add(dot)

    def undo(self, dot: Dot) -> None:
        """See :meth:`Document.undo`."""
        self.get(dot).undo()

    def states_due(self) -> Iterable[Document]:
        """Documents edited since the last commit that are due to be stored as a whole."""
        return [d for dot in sorted(self._dirty) if (d := self.get(dot)).updates_since_state >= STATE_EVERY_UPDATES]

    def committed(self) -> None:
        """The batch is on disk."""
        for dot in self._dirty:
            self._open[dot].committed()
        self._dirty.clear()


def check_marker(plain: object) -> tuple[Dot | None, bytes]:
    """``(document, update)`` of a text operation's value; document None: this operation creates it.

    :raises InvalidEncoding: another shape.
    """
    match plain:
        case [None, bytes(update)]:
            return None, update
        case [[int(writer), int(seq), int(n)], bytes(update)]:
            return Dot(writer, seq, n), update  # type: ignore[arg-type]
    raise InvalidEncoding("a text operation's value is [document, update]")
