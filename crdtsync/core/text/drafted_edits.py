"""The edits of one document that a change in the making holds.

A batch of 1,000 edits of one text: each is judged on top of those before it, by what an outline says of all of them. A
new copy of the outline for each edit, advanced by all before it, took 10 seconds. So there is one copy for the whole
change, and each edit advances it once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.wire.yjs.validator import Outline, advance, validate_update

if TYPE_CHECKING:
    from crdtsync.core.text.document import Document


class DraftedEdits:
    """They are in ``updates``, in order, ``size_bytes`` together."""

    __slots__ = ("_advanced", "_outline", "size_bytes", "updates")

    def __init__(self) -> None:
        self.updates: list[bytes] = []
        self.size_bytes = 0
        self._outline: Outline | None = None
        self._advanced = 0  # by so many of them

    def add(self, update: bytes) -> None:
        """One more, which :meth:`~crdtsync.core.text.document.Document.check` has passed."""
        self.updates.append(update)
        self.size_bytes += len(update)

    def outline(self, document: Document) -> Outline:
        """What the next update of ``document`` is judged by; only to be read."""
        if self._outline is None:
            self._outline = document.outline().copy()
        for update in self.updates[self._advanced :]:
            advance(self._outline, validate_update(update, self._outline))
        self._advanced = len(self.updates)
        return self._outline
