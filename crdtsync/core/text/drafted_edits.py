"""The edits of one document that a change in the making holds.

A batch of 1,000 edits of one text: each is judged on top of those before it, by what an outline says of all of them. A
new copy of the outline for each edit, advanced by all before it, took 10 seconds. So there is one copy for the whole
change, each edit advances it once, and what was found out about each is kept for when it is applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.wire.yjs.validator import Outline, UpdateSummary, advance, validate_update

if TYPE_CHECKING:
    from crdtsync.core.text.document import Document


class DraftedEdits:
    """They are in ``updates``, in order, ``size_bytes`` together."""

    __slots__ = ("_judged", "_outline", "_summaries", "size_bytes", "updates")

    def __init__(self) -> None:
        self.updates: list[bytes] = []
        self.size_bytes = 0
        self._outline: Outline | None = None
        self._summaries: list[UpdateSummary] = []  # of the first ones, by which the outline is advanced
        self._judged: tuple[bytes, UpdateSummary] | None = None

    def add(self, update: bytes) -> None:
        """One more, which :meth:`~crdtsync.core.text.document.Document.check` has passed."""
        judged = self._judged
        if judged is not None and judged[0] == update and len(self._summaries) == len(self.updates):
            self._note(judged[1])
        self.updates.append(update)
        self.size_bytes += len(update)

    def note_judged(self, update: bytes, summary: UpdateSummary) -> None:
        """An update was judged by :meth:`outline`, and may be added next."""
        self._judged = update, summary

    def outline(self, document: Document) -> Outline:
        """What the next update of ``document`` is judged by; only to be read."""
        if not self.updates:
            return document.outline()
        if self._outline is None:
            self._outline = document.outline().copy()
            for summary in self._summaries:
                advance(self._outline, summary)
        for update in self.updates[len(self._summaries) :]:
            self._note(validate_update(update, self._outline))
        return self._outline

    def summary(self, number: int, update: bytes) -> UpdateSummary | None:
        """What judging the edit of that number has found, if it was judged and is this one."""
        is_known = number < len(self._summaries) and self.updates[number] == update
        return self._summaries[number] if is_known else None

    def _note(self, summary: UpdateSummary) -> None:
        self._summaries.append(summary)
        if self._outline is not None:
            advance(self._outline, summary)
