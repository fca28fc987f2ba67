"""How an edit of a document is made in a newer document of the same text: under the same ids, beside what that has not
forgotten.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from crdtsync.core.text.document import AT_ONCE_BYTES_MAX
from crdtsync.core.text.places import Places
from crdtsync.core.text.yjs_library import ROOT
from crdtsync.errors import CrdtSyncError, InvalidValue
from crdtsync.wire.yjs.encoding import CLOCK_MAX, GC, at_once, read_sections
from crdtsync.wire.yjs.lib0 import InvalidUpdate
from crdtsync.wire.yjs.rewriting import forwarded
from crdtsync.wire.yjs.state_vector import encode_state_vector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from crdtsync.core.text.document import Document
    from crdtsync.core.text.family import Member
    from crdtsync.wire.yjs.encoding import Id, Steps, Struct
    from crdtsync.wire.yjs.rewriting import Inserted


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
    cut = member.began_with()

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

    def right(item: Id | None, left: Id | None, done: Inserted) -> Id | None:
        """What was inserted after the compaction may stand before ``left`` here. Then it goes before what that was to
        stand before.
        """
        item = item and neighbour(item, Places.right)
        while item and _is_later(item, cut) and not (left and _is_later(left, cut)):
            struct = _struct_at(item, done) or _struct_at(item, newer.inserted) or _read(item, newer, cut)
            origin = struct.origin if item[1] == struct.clock else (item[0], item[1] - 1)
            if struct.kind == GC or origin == left:
                break
            item = struct.right
        return item

    try:
        return forwarded(update, outline, partial(neighbour, side=Places.left), right, ROOT)
    except InvalidUpdate as error:
        raise InvalidValue(f"an edit of a text that has been compacted: {error}", path="$") from None


def _is_later(item: Id, cut: Mapping[int, int]) -> bool:
    return item[1] >= cut.get(item[0], 0)


def _struct_at(item: Id, inserted: Inserted) -> Struct | None:
    client, clock = item
    structs = inserted.get(client, [])
    index = bisect_right(structs, clock, key=lambda struct: struct.clock) - 1
    return structs[index] if index >= 0 and clock < structs[index].end else None


def _read(item: Id, document: Document, cut: Mapping[int, int]) -> Struct:
    """Read what this client has inserted since the document began, as far as it was not read before."""
    client, _ = item
    structs = document.inserted.setdefault(client, [])
    known = {**document.clocks(), client: structs[-1].end if structs else cut.get(client, 0)}
    sections, _ = read_sections(document.updates_after(encode_state_vector(known)), CLOCK_MAX)
    structs += sections.get(client, [])
    struct = _struct_at(item, document.inserted)
    if struct is None:
        raise InvalidUpdate(f"nobody knows clock {item[1]} of client {client}")
    return struct


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
