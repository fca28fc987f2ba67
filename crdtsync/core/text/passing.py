"""How an edit of a document is made in a newer document of the same text: under the same ids, beside what that has not
forgotten.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from crdtsync.core.text.document import AT_ONCE_BYTES_MAX
from crdtsync.core.text.judging import EDIT_STRUCTS_MAX
from crdtsync.core.text.places import Beginning, Places
from crdtsync.core.text.yjs_library import ROOT
from crdtsync.errors import CrdtSyncError, InvalidValue
from crdtsync.wire.yjs.encoding import CLOCK_MAX, GC, at_once, read_sections
from crdtsync.wire.yjs.lib0 import InvalidUpdate
from crdtsync.wire.yjs.rewriting import forwarded
from crdtsync.wire.yjs.state_vector import encode_state_vector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from crdtsync.causality import Dot
    from crdtsync.core.text.document import Document
    from crdtsync.core.text.document_cache import Documents
    from crdtsync.core.text.drafted_edits import DraftedEdits
    from crdtsync.core.text.family import Family, Member
    from crdtsync.wire.yjs.encoding import Id, Steps, Struct
    from crdtsync.wire.yjs.rewriting import Inserted


T = TypeVar("T")


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
    return placed(update, newer, member, [older.dot], lambda _: older, structs_max=CLOCK_MAX, may_wait=may_wait)


def placed(
    update: bytes,
    newer: Document,
    member: Member,
    olders: Sequence[Dot],
    get: Callable[[Dot], Document | None],
    *,
    before: DraftedEdits | None = None,
    structs_max: int = EDIT_STRUCTS_MAX,
    may_wait: bool = False,
) -> bytes:
    """An edit of ``newer``, with the edits ``before``, by an author who still has what that has forgotten, such as an
    editor with its own replica.

    ``olders``, as far as there are any, are asked where it stood, in this order.

    :raises InvalidValue: as :func:`passed`.
    :raises Unplaced: as :func:`passed`.
    """
    if may_wait and not newer.is_ready:
        raise Unplaced(newer.make_ready())
    with _refusals():
        neighbours = _Neighbours(newer, member, olders, get, before, may_wait)
        known = newer.outline() if before is None else before.outline(newer)
        return forwarded(update, known, neighbours.left, neighbours.right, ROOT, structs_max)


@contextmanager
def _refusals() -> Iterator[None]:
    """Whether the edit cannot be read or a document that it needs: it is refused."""
    try:
        yield
    except InvalidUpdate as error:
        raise InvalidValue(f"an edit of a text that has been compacted: {error}", path="$") from None
    except IndexError:
        raise InvalidValue("an edit of a text that has been compacted ends inside a value", path="$") from None


class _Neighbours:
    """The neighbours of an edit in ``newer``, for its neighbours in an older document."""

    def __init__(
        self,
        newer: Document,
        member: Member,
        olders: Sequence[Dot],
        get: Callable[[Dot], Document | None],
        before: DraftedEdits | None,
        may_wait: bool,
    ) -> None:
        self._newer = newer
        self._outline = newer.outline()
        self._member = member
        self._olders = olders
        self._get = get
        self._before = before
        self._may_wait = may_wait

    @cached_property
    def _cut(self) -> dict[int, int]:
        return self._member.began_with()

    @cached_property
    def _inserted(self) -> Inserted:
        return {} if self._before is None else self._before.inserted()

    def left(self, item: Id) -> Id | None:
        return self._held(item, Places.left)

    def right(self, item: Id, left: Id | None, done: Inserted) -> Id | None:
        """Text that stood after ``left`` may stand before it here. Then the edit goes right behind ``left``."""
        after = self._held(item, Places.right)
        if after is None or (left and self._is_later(left)) or self._is_behind(after, left, done):
            return after
        return self._beginning().after(left)

    def _held(self, item: Id, side: Callable[[Places, Id], Id | None]) -> Id | None:
        newer = self._newer
        if not self._outline.is_gone(*item):
            return item
        for dot in self._olders:
            if dot not in newer.places and (older := self._get(dot)) is not None:
                self._find(older.state(), self._find_places(older))
            places = newer.places.get(dot)
            if places is not None and item in places:
                return side(places, item)
        raise InvalidUpdate(f"nobody knows where clock {item[1]} of client {item[0]} stood")

    def _is_behind(self, item: Id, left: Id | None, done: Inserted) -> bool:
        """Whether it stands behind ``left``, which ``newer`` began with, as far as all nodes can tell."""
        if self._is_later(item):
            places = (done, self._inserted, self._newer.inserted)
            struct = next(filter(None, (_struct_at(item, there) for there in places)), None) or self._read(item)
            return struct.kind == GC or left == (struct.origin if item[1] == struct.clock else (item[0], item[1] - 1))
        return left is None or item == (left[0], left[1] + 1) or self._beginning().is_before(left, item)

    def _is_later(self, item: Id) -> bool:
        return item[1] >= self._cut.get(item[0], 0)

    def _read(self, item: Id) -> Struct:
        """Read what this client has inserted since the document began, as far as it was not read before."""
        client, clock = item
        newer = self._newer
        structs = newer.inserted.setdefault(client, [])
        known = {**newer.clocks(), client: structs[-1].end if structs else self._cut.get(client, 0)}
        sections, _ = read_sections(newer.updates_after(encode_state_vector(known)), CLOCK_MAX)
        structs += sections.get(client, [])
        struct = _struct_at(item, newer.inserted)
        if struct is None:
            raise InvalidUpdate(f"nobody knows clock {clock} of client {client}")
        return struct

    def _beginning(self) -> Beginning:
        if self._newer.beginning is None:
            self._find(self._newer.state(), self._find_beginning())
        assert self._newer.beginning is not None
        return self._newer.beginning

    def _find(self, state: bytes, steps: Steps[None]) -> None:
        if self._may_wait and len(state) > AT_ONCE_BYTES_MAX:
            raise Unplaced(steps)
        at_once(steps)

    def _find_places(self, older: Document) -> Steps[None]:
        self._newer.places[older.dot] = yield from Places.find(older.state(), self._outline, self._cut)

    def _find_beginning(self) -> Steps[None]:
        self._newer.beginning = yield from Beginning.find(self._newer.state(), self._outline, self._cut)


def _struct_at(item: Id, inserted: Inserted) -> Struct | None:
    client, clock = item
    structs = inserted.get(client, [])
    index = bisect_right(structs, clock, key=lambda struct: struct.clock) - 1
    return structs[index] if index >= 0 and clock < structs[index].end else None


def found(attempt: Callable[[], T], steps: Steps[None] | None = None) -> Steps[T]:
    """The outcome of an attempt to pass an edit on, when all that it needs has been found out, in steps.

    ``steps``: those that it is known to need first.

    :raises InvalidValue: as :func:`passed`.
    """
    while True:
        with _refusals():
            if steps is not None:
                yield from steps
                yield
            try:
                return attempt()
            except Unplaced as unplaced:
                steps = unplaced.steps


def find_out(attempt: Callable[[], object]) -> Steps[None]:
    """Find out, in steps, all that an attempt to pass an edit on needs. If the attempt is refused here, it is refused
    again.
    """
    with suppress(CrdtSyncError):
        yield from found(attempt)


def missing_from(older: Document, newer: Document, member: Member, *, may_wait: bool = False) -> bytes | None:
    """All that ``newer`` lacks of ``older``, as it is to be made there; None: nothing.

    :raises InvalidValue: it cannot be made there.
    :raises Unplaced: as :func:`passed`.
    """
    held = newer.outline()
    if all(clock <= held.get(client, 0) for client, clock in older.clocks().items()) and older.read() == newer.read():
        return None
    return passed(older.updates_after(encode_state_vector(held)), older, newer, member, may_wait=may_wait)


def find_out_after(documents: Documents, family: Family, document: Dot, update: bytes) -> Steps[None]:
    """Find out what is needed to make an edit of a document in the newer ones too."""
    older = documents.get(document)
    for dot in filter(documents.exists, family.after(document)):
        newer, member = documents.get(dot), family.members[dot]
        if older.is_ready and newer.is_ready and max(older.size_bytes, newer.size_bytes) <= AT_ONCE_BYTES_MAX:
            continue
        for _ in find_out(partial(passed, update, older, newer, member, may_wait=True)):
            documents.awaited[dot] = None  # else it may go while the next one is read
            yield


def find_out_before(documents: Documents, family: Family, newer: Document) -> Steps[None]:
    """Find out what is needed for a new document to take in edits that were made without it."""
    member = family.members[newer.dot]
    for dot in filter(documents.exists, family.before(newer.dot)):
        yield from find_out(partial(missing_from, documents.get(dot), newer, member, may_wait=True))
