"""The edits of texts that a change in the making holds, by document, and what they come to.

A batch of 1,000 edits of one text: each is judged on top of those before it, by what an outline says of all of them. A
new copy of the outline for each edit, advanced by all before it, took 10 seconds. So there is one copy for the whole
change, each edit advances it once, and what was found out about each is kept for when it is applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.errors import InvalidValue, TooLarge
from crdtsync.wire.limits import EDIT_PARTS, MOVED_BYTES_A_PART, WORK_PARTS_MAX
from crdtsync.wire.yjs.competition import COMPARED_A_PART
from crdtsync.wire.yjs.encoding import CLOCK_MAX, read_sections
from crdtsync.wire.yjs.validator import Outline, UpdateSummary, advance, validate_update

if TYPE_CHECKING:
    from crdtsync.core.text.document import Document
    from crdtsync.core.text.forgetting import Forgotten
    from crdtsync.wire.yjs.rewriting import Inserted

DELETES_A_PART = 5
"""So many ranges that are deleted count as one part."""

CUTS_A_PART = 2
"""So many places where a deletion cuts a string in two count as one more, which takes the Yjs library longest."""

REPEATED_EDITS_MAX = 8
"""Edits of one request that may say something of the same characters: each is compared with those before it."""


class EditWork:
    """The work that the edits of one request take."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts = -EDIT_PARTS

    def parts_left(self) -> int:
        """So many parts the next edit may have: with more it is refused before it is judged, which may take as long.

        :raises TooLarge: none.
        """
        parts = max(0, self._parts + EDIT_PARTS)
        self._check(parts + 1)
        return WORK_PARTS_MAX - parts

    def add(self, summary: UpdateSummary, moved_bytes: int) -> None:
        """One more, for which the Yjs library goes through so much of the document.

        :raises TooLarge: that is more than is done in one turn.
        """
        ranges = sum(map(len, summary.deletes.values()))
        cuts = len(summary.competition.points)
        self._parts += EDIT_PARTS + summary.structs + ranges // DELETES_A_PART + cuts // CUTS_A_PART
        self._parts += moved_bytes // MOVED_BYTES_A_PART + summary.competition.compared // COMPARED_A_PART
        self._check(self._parts)

    def _check(self, parts: int) -> None:
        if parts > WORK_PARTS_MAX:
            raise TooLarge(
                f"the edits of texts in this request come to {parts:,} parts; at most {WORK_PARTS_MAX:,} fit "
                f"into one: make them in several (each edit counts as {EDIT_PARTS}, each part that it inserts as 1, "
                f"each {DELETES_A_PART} ranges that it deletes as 1, each {CUTS_A_PART} ends amid a string as 1; many "
                f"places of a long string count more, least from its beginning on, and places where much stands)"
            )


class DraftedEdits:
    """They are in ``updates``, in order, ``size_bytes`` together. ``begun``: of a compaction, which they are all of."""

    __slots__ = ("_ends", "_inserted", "_judged", "_outline", "_read", "_summaries", "begun", "size_bytes", "updates")

    def __init__(self) -> None:
        self.updates: list[bytes] = []
        self.size_bytes = 0
        self.begun: Forgotten | None = None
        self._outline: Outline | None = None
        self._summaries: list[UpdateSummary] = []  # of the first ones, by which the outline is advanced
        self._ends: dict[int, int] = {}  # by Yjs client, of what these insert
        self._judged: tuple[bytes, UpdateSummary] | None = None
        self._inserted: Inserted = {}
        self._read = 0  # so many of them are in there

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
        """The outline by which the next update of ``document`` is judged; only to be read."""
        if not self.updates:
            return document.outline()
        if self._outline is None:
            self._outline = document.outline().copy()
            for summary in self._summaries:
                advance(self._outline, summary)
        for update in self.updates[len(self._summaries) :]:
            self._note(validate_update(update, self._outline))
        return self._outline

    def inserted(self) -> Inserted:
        """The text that they insert; only to be read."""
        for update in self.updates[self._read :]:
            for client, structs in read_sections(update, CLOCK_MAX)[0].items():
                self._inserted.setdefault(client, []).extend(structs)
        self._read = len(self.updates)
        return self._inserted

    def repeated(self, summary: UpdateSummary) -> list[bytes]:
        """Those that insert what an update inserts, too, which is judged on top of them.

        :raises InvalidValue: there are too many.
        """
        if all(first >= self._ends.get(client, 0) for client, (first, _) in summary.ranges.items()):
            return []
        found = [
            update
            for update, known in zip(self.updates, self._summaries, strict=False)
            if any(
                first < known.ranges[client][1] and end > known.ranges[client][0]
                for client, (first, end) in summary.ranges.items()
                if client in known.ranges
            )
        ]
        if len(found) > REPEATED_EDITS_MAX:
            raise InvalidValue("too many edits of this request repeat each other: send each once", path="$")
        return found

    def summary(self, number: int, update: bytes) -> UpdateSummary | None:
        """The summary from judging the edit of that number, if it was judged and is this one."""
        is_known = number < len(self._summaries) and self.updates[number] == update
        return self._summaries[number] if is_known else None

    def _note(self, summary: UpdateSummary) -> None:
        self._summaries.append(summary)
        for client, (_, end) in summary.ranges.items():
            self._ends[client] = max(end, self._ends.get(client, 0))
        if self._outline is not None:
            advance(self._outline, summary)
