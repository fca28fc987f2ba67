"""How an edit of a document is made in a newer document of the same text: under the same ids, beside what that has not
forgotten.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from crdtsync.core.text.places import Places
from crdtsync.core.text.yjs_library import ROOT
from crdtsync.errors import InvalidValue
from crdtsync.wire.yjs.lib0 import InvalidUpdate
from crdtsync.wire.yjs.rewriting import forwarded
from crdtsync.wire.yjs.state_vector import encode_state_vector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crdtsync.core.text.document import Document
    from crdtsync.core.text.family import Member
    from crdtsync.wire.yjs.encoding import Id


def passed(update: bytes, older: Document, newer: Document, member: Member) -> bytes:
    """An edit of ``older`` as it is to be made in ``newer``, of which ``member`` tells how it began.

    :raises InvalidValue: it cannot be made there.
    """
    return placed(update, newer, member, [older])


def placed(update: bytes, newer: Document, member: Member, olders: Sequence[Document]) -> bytes:
    """An edit of ``newer`` by an author who still has what that has forgotten, such as an editor with its own replica.

    ``olders`` are asked where it stood, in this order.


    :raises InvalidValue: as :func:`passed`.
    """
    outline = newer.outline()

    def neighbour(item: Id, side: Callable[[Places, Id], Id | None]) -> Id | None:
        if not outline.is_gone(*item):
            return item
        for older in olders:
            found = older.places.get(newer.dot)
            if found is None:
                found = older.places[newer.dot] = Places(older.state(), outline, member.began_with())
            if item in found:
                return side(found, item)
        raise InvalidUpdate(f"nobody knows where clock {item[1]} of client {item[0]} stood")

    try:
        left = partial(neighbour, side=Places.left)
        return forwarded(update, outline, left, partial(neighbour, side=Places.right), ROOT)
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
