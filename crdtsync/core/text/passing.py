"""How an edit of a document is made in a newer document of the same text: under the same ids, beside what that has not
forgotten.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from crdtsync.core.text.document import AT_ONCE_BYTES_MAX
from crdtsync.core.text.places import Places
from crdtsync.core.text.yjs_library import ROOT
from crdtsync.errors import CrdtSyncError, InvalidValue
from crdtsync.wire.yjs.encoding import at_once
from crdtsync.wire.yjs.lib0 import InvalidUpdate
from crdtsync.wire.yjs.rewriting import forwarded
from crdtsync.wire.yjs.state_vector import encode_state_vector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crdtsync.core.text.document import Document
    from crdtsync.core.text.family import Member
    from crdtsync.wire.yjs.encoding import Id, Steps


class Unplaced(Exception):  # not an error: what needs it waits
    """It takes a while to find out where an edit stands in a newer document: these steps."""

    def __init__(self, steps: Steps[None]) -> None:
        super().__init__()
        self.steps = steps


def passed(update: bytes, older: Document, newer: Document, member: Member, *, may_wait: bool = False) -> bytes:
    """An edit of ``older`` as it is to be made in ``newer``, of which ``member`` tells how it began.

    :raises InvalidValue: it cannot be made there.
    :raises Unplaced: something is to be found out first, and it ``may_wait`` for that.
    """
    return placed(update, newer, member, [older], may_wait=may_wait)


def placed(
    update: bytes, newer: Document, member: Member, olders: Sequence[Document], *, may_wait: bool = False
) -> bytes:
    """An edit of ``newer`` by an author who still has what that has forgotten, such as an editor with its own replica.

    ``olders`` are asked where it stood, in this order.

    :raises InvalidValue: as :func:`passed`.
    :raises Unplaced: as :func:`passed`.
    """
    if may_wait and not newer.is_ready:
        raise Unplaced(newer.make_ready())
    outline = newer.outline()

    def neighbour(item: Id, side: Callable[[Places, Id], Id | None]) -> Id | None:
        if not outline.is_gone(*item):
            return item
        for older in olders:
            found = newer.places.get(older.dot)
            if found is None:
                state = older.state()
                steps = _find_places(older, state, newer, member)
                if may_wait and len(state) > AT_ONCE_BYTES_MAX:
                    raise Unplaced(steps)
                at_once(steps)
                found = newer.places[older.dot]
            if item in found:
                return side(found, item)
        raise InvalidUpdate(f"nobody knows where clock {item[1]} of client {item[0]} stood")

    try:
        left = partial(neighbour, side=Places.left)
        return forwarded(update, outline, left, partial(neighbour, side=Places.right), ROOT)
    except InvalidUpdate as error:
        raise InvalidValue(f"an edit of a text that has been compacted: {error}", path="$") from None


def _find_places(older: Document, state: bytes, newer: Document, member: Member) -> Steps[None]:
    newer.places[older.dot] = yield from Places.find(state, newer.outline(), member.began_with())


def find_out(attempt: Callable[[], object]) -> Steps[None]:
    """Find out, in steps, what an attempt to pass an edit on needs. What refuses it refuses it again."""
    while True:
        try:
            with suppress(CrdtSyncError, InvalidUpdate, IndexError):
                attempt()
        except Unplaced as unplaced:
            yield from unplaced.steps
        else:
            return


def missing_from(older: Document, newer: Document, member: Member, *, may_wait: bool = False) -> bytes | None:
    """All that ``newer`` lacks of ``older``, as it is to be made there; None: nothing.

    :raises InvalidValue: it cannot be made there.
    :raises Unplaced: as :func:`passed`.
    """
    held = newer.outline()
    if all(clock <= held.get(client, 0) for client, clock in older.clocks().items()) and older.read() == newer.read():
        return None
    return passed(older.updates_after(encode_state_vector(held)), older, newer, member, may_wait=may_wait)
