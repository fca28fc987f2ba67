"""Where the edits of a change are made: in the documents themselves, at once; or ahead, in copies of them, in steps.

An edit of 2,000 parts takes 60 ms; 100 edits of a document that was compacted 20 times since are made in 20 newer ones
too, which takes half a second. No turn may take that long, and nobody may see a change half made. So such a change is
taken in by copies, over several turns in which other edits of these documents wait; then they take their places.

Nobody reads a document that no marker names, and yet its copy, too, takes its place with the others: a compaction, or a
snapshot for another host, may come in between and would show it before the rest of the change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from crdtsync.core.text.judging import EDIT_STRUCTS_MAX

if TYPE_CHECKING:
    from crdtsync.causality import Dot
    from crdtsync.core.text.document import Document
    from crdtsync.core.text.document_cache import Documents
    from crdtsync.wire.yjs.encoding import Steps

STEP_BYTES = 6400
"""Edits that a copy takes in in one step, some 20 ms at most; each counts as :data:`EDIT_BYTES` more."""
EDIT_BYTES = 200

COPIES_BYTES_MAX = 64 * 1024 * 1024
"""Copies in memory with what is read beside them, and one more; of other copies only their edits are."""

T = TypeVar("T")


class Stage(Protocol):
    """Where the edits of a change are made. ``may_wait``: whether what an edit needs is found out in steps."""

    may_wait: bool

    def get(self, dot: Dot) -> Document:
        """A document, to be read."""

    def exists(self, dot: Dot) -> bool:
        """Whether it is held here."""

    def apply(self, dot: Dot, update: bytes, structs_max: int = EDIT_STRUCTS_MAX) -> Steps[None]:
        """Edit it.

        :raises InvalidValue: see :meth:`crdtsync.core.text.document.Document.apply`.
        """


class AtOnce:
    """The documents themselves."""

    may_wait = False

    def __init__(self, documents: Documents) -> None:
        self.get = documents.get
        self.exists = documents.exists
        self._documents = documents

    def apply(self, dot: Dot, update: bytes, structs_max: int = EDIT_STRUCTS_MAX) -> Steps[None]:
        """See :class:`Stage`."""
        self._documents.apply(dot, update, structs_max)
        yield from ()


class Ahead:
    """``copies`` of them, of which those used last are in memory."""

    may_wait = True

    def __init__(self, documents: Documents) -> None:
        self.copies: dict[Dot, Document] = {}
        self._documents = documents
        self._looked_at: set[Dot] = set()
        self._read: dict[Dot, Document] = {}  # that are not edited, and were not in memory
        self._in_memory: dict[Dot, int] = {}  # in so many bytes, the one not used for longest first
        self._bytes = 0
        self._step_bytes = 0
        documents.unchanged.clear()

    @property
    def is_valid(self) -> bool:
        """Whether none of the documents that were looked for has come, gone or been edited meanwhile."""
        return self._looked_at <= self._documents.unchanged

    def get(self, dot: Dot) -> Document:
        """See :class:`Stage`."""
        self._look_at(dot)
        if dot not in self.copies and self._documents.is_open(dot):
            return self._documents.get(dot)
        if dot not in self.copies and dot not in self._read:
            self._read[dot] = self._documents.from_disk(dot)
        self._use(dot)
        return self.copies[dot] if dot in self.copies else self._read[dot]

    def exists(self, dot: Dot) -> bool:
        """See :class:`Stage`."""
        self._look_at(dot)
        return dot in self.copies or self._documents.exists(dot)

    def apply(self, dot: Dot, update: bytes, structs_max: int = EDIT_STRUCTS_MAX) -> Steps[None]:
        """See :class:`Stage`."""
        if dot not in self.copies:
            self._look_at(dot)
            read = self._read.pop(dot, None)
            self.copies[dot] = (yield from self._documents.twin(dot)) if read is None else read
        if not self.copies[dot].is_ready:
            yield from self.copies[dot].make_ready()
        yield from self.copies[dot].take_ahead(update, structs_max)
        self._use(dot)
        self._step_bytes += EDIT_BYTES + len(update)
        if self._step_bytes > STEP_BYTES:
            self._step_bytes = 0
            yield

    def _use(self, dot: Dot) -> None:
        """Have this one in memory, and let go of others beyond the bound."""
        self._bytes -= self._in_memory.pop(dot, 0)
        self._in_memory[dot] = (self.copies[dot] if dot in self.copies else self._read[dot]).loaded_bytes()
        self._bytes += self._in_memory[dot]
        while self._bytes > COPIES_BYTES_MAX and len(self._in_memory) > 1:
            oldest = next(iter(self._in_memory))
            self._bytes -= self._in_memory.pop(oldest)
            if self._read.pop(oldest, None) is None:
                self.copies[oldest].let_go()

    def _look_at(self, dot: Dot) -> None:
        if dot not in self._looked_at:
            self._looked_at.add(dot)
            self._documents.unchanged.add(dot)
