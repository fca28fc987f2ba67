"""How an edit of a document is made in a newer document of the same text: under the same ids, beside what that has not
forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.text.places import Places
from crdtsync.core.text.yjs_library import ROOT
from crdtsync.errors import InvalidValue
from crdtsync.wire.yjs.lib0 import InvalidUpdate
from crdtsync.wire.yjs.rewriting import forwarded
from crdtsync.wire.yjs.state_vector import encode_state_vector

if TYPE_CHECKING:
    from crdtsync.core.text.document import Document
    from crdtsync.core.text.family import Member
    from crdtsync.wire.yjs.encoding import Id


def passed(update: bytes, older: Document, newer: Document, member: Member) -> bytes:
    """An edit of ``older`` as it is to be made in ``newer``, of which ``member`` tells how it began.

    :raises InvalidValue: it cannot be made there.
    """
    outline = newer.outline()

    def places() -> Places:
        found = older.places.get(newer.dot)
        if found is None:
            found = older.places[newer.dot] = Places(older.state(), outline, member.began_with())
        return found

    def left(item: Id) -> Id | None:
        return places().left(item) if outline.is_gone(*item) else item

    def right(item: Id) -> Id | None:
        return places().right(item) if outline.is_gone(*item) else item

    try:
        return forwarded(update, outline, left, right, ROOT)
    except InvalidUpdate as error:
        raise InvalidValue(f"an edit of a text that has been compacted: {error}", path="$") from None


def missing_from(older: Document, newer: Document, member: Member) -> bytes | None:
    """All that ``newer`` lacks of ``older``, as it is to be made there; None: nothing.

    :raises InvalidValue: it cannot be made there.
    """
    held = newer.outline()
    if all(clock <= held.get(client, 0) for client, clock in older.clocks().items()) and older.read() == newer.read():
        return None
    return passed(older.updates_after(encode_state_vector(held)), older, newer, member)
