"""How long a text, how large its document, and how much work that, may become by an edit of an agent of this host.

Merging refuses nothing: edits of several hosts, made at once, may add up to more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.text.document import DOCUMENT_BYTES_MAX, ITEMS_MAX
from crdtsync.errors import InvalidValue, TooLarge
from crdtsync.wire.limits import TEXT_BYTES_MAX, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.causality import Dot
    from crdtsync.core.text.document import Document
    from crdtsync.core.text.drafted_edits import DraftedEdits
    from crdtsync.wire.yjs.validator import UpdateSummary


class TextLengths:
    """The lengths of the documents that one draft edits."""

    __slots__ = ("_tried",)

    def __init__(self) -> None:
        self._tried: dict[Dot, tuple[int, Document]] = {}  # with so many edits of the draft

    def check(
        self,
        key: str,
        update: bytes,
        summary: UpdateSummary,
        held: Document,
        edits: DraftedEdits,
        copied: Callable[[Dot], Document],
    ) -> None:
        """Refuse an edit that makes a text longer than it may be; one that makes it no longer is always allowed.

        ``held``: its document, ``edits``: what the draft has done to that so far, ``copied``: a copy of it with these.

        :raises TooLarge: nothing was done.
        """
        if summary.ranges and held.is_contested:
            raise TooLarge(
                f"so many edits of the text {shown(key)} compete for the same places that each host would take long to "
                f"load it: {_way_out(held, deleting=False)}go on in another key"
            )
        items = held.items_with(summary)
        if items > (ITEMS_MAX if summary.ranges else 2 * ITEMS_MAX):
            raise TooLarge(
                f"with this edit the text {shown(key)} would be in {items:,} pieces, with what was deleted from it; at "
                f"most {ITEMS_MAX:,} may be edited, and {2 * ITEMS_MAX:,} by deleting: {_way_out(held)}go on in "
                "another key"
            )
        size_bytes = edits.size_bytes + held.bytes_with(update, DOCUMENT_BYTES_MAX)
        if size_bytes > DOCUMENT_BYTES_MAX and summary.ranges:
            raise TooLarge(
                f"the text {shown(key)} takes {size_bytes:,} bytes with what was deleted from it; at most "
                f"{DOCUMENT_BYTES_MAX:,} may be edited: {_way_out(held)}go on in another key"
            )
        # An update has at least the bytes that it inserts: mostly nobody needs to know how many these are.
        if size_bytes <= TEXT_BYTES_MAX or not summary.ranges:
            return
        if edits.size_bytes + held.text_bytes() + len(update) <= TEXT_BYTES_MAX:
            return
        document, count = held.dot, len(edits.updates)
        known = self._tried.get(document)
        tried = known[1] if known is not None and known[0] == count else copied(document)
        before_bytes = tried.text_bytes()
        after_bytes = tried.text_bytes_with(summary.joined or update)
        if before_bytes < after_bytes > TEXT_BYTES_MAX:
            self._tried.pop(document, None)
            raise TooLarge(
                f"with this edit the text {shown(key)} would have {after_bytes:,} bytes of UTF-8; at most "
                f"{TEXT_BYTES_MAX:,} fit into one: delete some of it first, or go on in another key"
            )
        self._tried[document] = (count + 1, tried)


def _way_out(held: Document, *, deleting: bool = True) -> str:
    """What makes room in a document. One that holds more than a text is never compacted; what was deleted from it
    counts until it is loaded anew, which is once nobody has used it for a minute.
    """
    try:
        held.check_plain()
    except InvalidValue:
        return "delete parts of it and leave it alone for a minute, or " if deleting else ""
    return "compact it, or "
