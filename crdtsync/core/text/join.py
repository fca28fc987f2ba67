"""Where two documents of one text become one: compaction, the merge of siblings, and what was edited too late.

A document that takes another one in says so, and up to which edits (:mod:`crdtsync.core.text.lineage`). An edit
beyond that revives the old document as a sibling. The node of its author then brings it over as a difference of texts,
each node its own edits, so that none is brought twice. When all are over the sibling goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import combinations, groupby
from typing import TYPE_CHECKING, NamedTuple

from crdtsync.causality import Dot, VersionVector, covers, merge
from crdtsync.core.crdt.entries import Entry
from crdtsync.core.text.document import Document
from crdtsync.core.text.lineage import (
    LINEAGE,
    Lineage,
    attributes_of,
    by_document,
    document_of,
    join,
    lineage_of,
)
from crdtsync.core.text.marker import UNKNOWN_WRITER
from crdtsync.core.text.word_merge import three_way, union, word_edits
from crdtsync.core.text.yjs_library import NO_CHANGE, fresh_updates
from crdtsync.errors import InvalidRequest, InvalidValue
from crdtsync.wire.change import Kind, Op, value_hash
from crdtsync.wire.codec import pack
from crdtsync.wire.limits import CHANGE_OPS_MAX, check_value_size

if TYPE_CHECKING:
    from crdtsync.core.kinds.base import Sibling
    from crdtsync.core.replica.change_draft import Draft
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.storage.interface import DocumentUpdate

CHUNK_CHARS_MAX = 128 * 1024
"""Characters of a fresh document that one operation makes."""

ROWS_MAX = CHANGE_OPS_MAX + 1000
"""Edits of a document that are read from disk at a time: more than one change can hold."""


class Compaction(NamedTuple):
    """What compacting a text has led to; the same document if there was nothing to gain."""

    document: Dot
    bytes_before: int
    bytes_after: int


def text_op(
    key: str, sub: str | None, document: Dot | None, update: bytes, removes: Sequence[Dot], **attrs: object
) -> Op:
    """An edit of a document; of a new one for None."""
    value = pack([None if document is None else list(document), update])
    check_value_size(len(value))
    return Op(key, sub, Kind.TEXT, value, value_hash(value), tuple(removes), attrs or None)


def compact(draft: Draft, key: str, group: Sibling) -> Compaction:
    """Begin a new document with the text of this one.

    :raises InvalidValue: it holds more than text.
    """
    old = document_of(group[-1])
    document = _settled(draft, old)
    bytes_before = len(document.state())
    updates = fresh_updates(document.read(), pack(list(old)), CHUNK_CHARS_MAX)
    bytes_after = sum(map(len, updates))
    if bytes_after >= bytes_before:
        return Compaction(old, bytes_before, bytes_before)
    fresh = begin_anew(draft, key, group, updates)
    return Compaction(fresh, bytes_before, bytes_after)


def begin_anew(draft: Draft, key: str, group: Sibling, updates: Sequence[bytes]) -> Dot:
    """A new document, made by these Yjs updates, in the place of the one that ``group`` names."""
    replica = draft.replica
    old = document_of(group[-1])
    lineage = {old: edits_of(replica, old)} | _still_held(replica, lineage_of(group))
    fresh = draft.own_dot()
    removes = [entry.dot for entry in _naming(draft.held(key), old)]
    draft.add(text_op(key, LINEAGE, None, updates[0], removes, **attributes_of(lineage)))
    previous: list[Dot] = []
    for update in updates[1:]:
        dot = draft.own_dot()
        draft.add(text_op(key, None, fresh, update, previous))
        previous = [dot]
    return fresh


def merge_siblings(draft: Draft, key: str, groups: list[Sibling]) -> None:
    """Join documents, the winner first, into the winner's: what they have in common once, the rest of each beside it.

    :raises InvalidValue: one of them holds more than text.
    """
    replica = draft.replica
    documents = [_settled(draft, document_of(group[-1])) for group in groups]
    winner, *others = documents
    text = winner.read()
    # in order of the documents' names, so that all nodes join the same texts to the same text
    whole = union([document.read() for document in sorted(documents, key=lambda document: document.dot)])
    lineage: Lineage = {other.dot: edits_of(replica, other.dot) for other in others}
    for group in groups:
        join(lineage, _still_held(replica, lineage_of(group)))
    lineage.pop(winner.dot, None)
    gone = [entry for group in groups for entry in group]
    update = winner.edited(word_edits(text, whole))
    draft.add(text_op(key, LINEAGE, winner.dot, update, [entry.dot for entry in gone], **attributes_of(lineage)))


def edit_absorbed(draft: Draft, key: str, old: Dot, update: bytes) -> bool:
    """An agent of this host edits a document that it does not know to have been replaced: do both, the edit, so that
    its next one finds it there, and the same to the text that there is now.

    False: that text does not have all that this node did to the document before; or there is none.
    """
    replica = draft.replica
    groups = by_document(draft.held(key))
    if old in groups:
        return False
    earlier = _own_edits_of(replica, old)
    targets = [d for d, group in groups.items() if old in (taken := lineage_of(group)) and covers(taken[old], earlier)]
    if not targets:
        return False
    target = max(targets)
    before = draft.document(old)
    after = draft.document(old, update)
    here = draft.document(target)
    for document in (after, here):
        document.check_plain()
    text = here.read()
    brought = here.edited(word_edits(text, three_way(before.read(), text, after.read())))
    here.check(brought)
    edit = draft.own_dot()
    lineage = lineage_of(groups[target])
    join(lineage, {old: {edit.writer: edit.seq}})
    removes = [edit, *(entry.dot for entry in groups[target])]
    ops = [
        text_op(key, None, old, update, ()),
        text_op(key, LINEAGE, target, brought, removes, **attributes_of(_still_held(replica, lineage))),
    ]
    for op in ops:
        draft.add(op)
    return True


# -- what was edited too late --------------------------------------------------------------------------------


def bring_over(replica: Replica, key: str) -> Op | None:
    """What this node has to do so that siblings of ``key`` become one that need not be two; None: nothing."""
    groups = by_document(replica.entries.held(key))
    if len(groups) < 2:
        return None
    work = _Work(replica, key, groups)
    for old in sorted(groups):
        targets = [d for d in sorted(groups) if old in work.lineages[d] and d not in work.lineages[old]]
        op = work.replay(old, targets[-1]) if targets else None
        if op is not None:
            return op
    for other, target in work.related():
        return work.reconcile(other, target)  # of three, two at a time: what two of them share must not come twice
    return None


class _Work:
    """The live documents of one key, and what they have taken in."""

    def __init__(self, replica: Replica, key: str, groups: dict[Dot, list[Entry]]) -> None:
        self.replica = replica
        self.key = key
        self.groups = groups
        self.lineages = {document: lineage_of(group) for document, group in groups.items()}

    def replay(self, old: Dot, target: Dot) -> Op | None:
        """Bring this node's late edits of ``old`` over to ``target``, and let go of ``old`` when all are over."""
        covered = self.lineages[target][old]
        is_whole = _is_whole(self.replica, old)
        if not is_whole and not _tells_own(self.replica, old, covered):
            return None
        late = [row for row in _rows(self.replica, old, 0) if _is_beyond(row, covered)]
        own = [row for row in late if self.replica.is_own(row.dot.writer)]
        is_complete = len(own) == len(late) and (is_whole or covers(covered, self.replica.floor))
        if not own and not (is_complete and any(self.replica.is_own(e.dot.writer) for e in self.groups[old])):
            return None
        lineage = {old: _vector_of(row.dot for row in own)}
        here = self._plain(target)
        text = merged = here.read()
        if own:
            self._plain(old)
            for before, after in self._own_edits(old, own[0].position, {row.dot for row in own}):
                merged = three_way(before, merged, after)
        return self._take_in(lineage, here, word_edits(text, merged), old if is_complete else None)

    def _own_edits(self, old: Dot, first: int, own: set[Dot]) -> Iterator[tuple[str, str]]:
        """The text before and after each run of own late edits, as they stand in this node's log."""
        document = self._as_of(old, first - 1)
        rows = list(_rows(self.replica, old, first - 1))
        while rows[-1].dot not in own:
            rows.pop()
        for is_own, run in groupby(rows, key=lambda row: row.dot in own):
            before = document.read() if is_own else ""
            for row in run:
                document.apply(row.update)
            if is_own:
                yield before, document.read()

    def related(self) -> Iterator[tuple[Dot, Dot]]:
        """Pairs of documents that took in the same one and not each other, the lower one first."""
        for target, other in combinations(sorted(self.groups, reverse=True), 2):
            one, two = self.lineages[target], self.lineages[other]
            if one.keys() & two.keys() and target not in two and other not in one:
                yield other, target

    def reconcile(self, other: Dot, target: Dot) -> Op | None:
        """Two documents that took in the same one, on two hosts at once: the node that made the lower one joins them.

        Relative to what both began with, so that nothing comes twice.
        """
        shared = [document for document in self.lineages[target] if document in self.lineages[other]]
        if not self.replica.is_own(other.writer) or not _is_whole(self.replica, shared[0]):
            return None
        here, there = self._plain(target), self._plain(other)
        base = self._as_both_saw(shared[0], self.lineages[target][shared[0]], self.lineages[other][shared[0]])
        lineage = {other: edits_of(self.replica, other)}
        join(lineage, self.lineages[other])
        text = here.read()
        return self._take_in(lineage, here, word_edits(text, three_way(base, text, there.read())), other)

    def _as_both_saw(self, document: Dot, one: VersionVector, other: VersionVector) -> str:
        """A text with nothing in it that only one of two has taken in: that would look as if the other had deleted it.

        What both have taken in and cannot stand without such an edit is left out too; it may then come twice.
        """
        rows = list(_rows(self.replica, document, 0))
        unshared = [row for row in rows if _is_beyond(row, one) or _is_beyond(row, other)]
        if not unshared:
            return self.replica.documents.get(document).read()
        skipped = {row.dot for row in unshared}
        base = self._as_of(document, unshared[0].position - 1)
        for row in rows:
            if row.position >= unshared[0].position and row.dot not in skipped:
                with suppress(InvalidValue):
                    base.apply(row.update)
        return base.read()

    def _take_in(self, lineage: Lineage, here: Document, edits: list[tuple[int, int, str]], old: Dot | None) -> Op:
        gone = [*self.groups[here.dot]]
        if old is not None:
            gone += self.groups[old]
            join(lineage, self.lineages[old])
        join(lineage, self.lineages[here.dot])
        lineage.pop(here.dot, None)
        update = here.edited(edits) if edits else NO_CHANGE
        here.check(update)
        attrs = attributes_of(_still_held(self.replica, lineage))
        return text_op(self.key, LINEAGE, here.dot, update, [entry.dot for entry in gone], **attrs)

    def _plain(self, dot: Dot) -> Document:
        document = self.replica.documents.get(dot)
        document.check_plain()
        return document

    def _as_of(self, dot: Dot, position: int) -> Document:
        """A document as it was after a change of this node's log.

        :raises InvalidRequest: what is on disk no longer tells.
        """
        if not _begins(self.replica, dot) and not self.replica.storage.has_state(self.replica.id, dot, position):
            raise InvalidRequest("the document's past is no longer held")
        return Document(dot, lambda _: self.replica.storage.document_as_of(self.replica.id, dot, position))


def edits_of(replica: Replica, document: Dot) -> VersionVector:
    """Which edits of a document this node holds, as a vector; it may name more writers than edited it."""
    if not _is_whole(replica, document):
        return dict(replica.vector)
    vector = replica.storage.document_edits(replica.id, document)
    merge(vector, _vector_of(replica.texts.uncommitted(document)))
    return vector


def _own_edits_of(replica: Replica, document: Dot) -> VersionVector:
    """Up to where this node's writers have edited a document, or may have."""
    vector = replica.storage.document_edits(replica.id, document)
    merge(vector, _vector_of(replica.texts.uncommitted(document)))
    if not _is_whole(replica, document):
        merge(vector, replica.floor)
    return {writer: seq for writer, seq in vector.items() if replica.is_own(writer)}


def _is_whole(replica: Replica, document: Dot) -> bool:
    """Whether every edit of a document is still on disk by itself, or waits to be."""
    uncommitted = replica.texts.uncommitted(document)
    if not _begins(replica, document) and document not in uncommitted:
        return False
    return UNKNOWN_WRITER not in replica.storage.document_edits(replica.id, document) and not any(
        dot.writer == UNKNOWN_WRITER for dot in uncommitted
    )


def _begins(replica: Replica, document: Dot) -> bool:
    """Whether its first edit is still there: then no edit has been trimmed."""
    rows = replica.storage.document_updates(replica.id, document, 0, 1)
    return bool(rows) and rows[0].dot == document


def _tells_own(replica: Replica, document: Dot, covered: VersionVector) -> bool:
    """Whether what is on disk tells all edits of this node's own beyond ``covered``."""
    own_floor = {writer: seq for writer, seq in replica.floor.items() if replica.is_own(writer)}
    return _begins(replica, document) or covers(covered, own_floor)


def _rows(replica: Replica, document: Dot, after: int) -> Iterator[DocumentUpdate]:
    """The edits of a document after a log position, from disk."""
    while True:
        rows = replica.storage.document_updates(replica.id, document, after, ROWS_MAX)
        last = rows[-1].position if len(rows) == ROWS_MAX else None  # of a change that may be cut off here
        yield from (row for row in rows if row.position != last and row.update != NO_CHANGE)
        if last is None:
            return
        after = last - 1


def _is_beyond(row: DocumentUpdate, covered: VersionVector) -> bool:
    return row.dot.seq > covered.get(row.dot.writer, 0)


def _vector_of(dots: Iterable[Dot]) -> VersionVector:
    vector: VersionVector = {}
    for dot in dots:
        merge(vector, {dot.writer: dot.seq})
    return vector


def _settled(draft: Draft, dot: Dot) -> Document:
    """A document that may be replaced: of plain text, and not edited by the same batch."""
    if draft.has_edits(dot):
        raise InvalidRequest("this batch edits the text too: compact or merge it in a request of its own")
    document = draft.replica.documents.get(dot)
    document.check_plain()
    return document


def _naming(held: Sequence[Entry], document: Dot) -> list[Entry]:
    return by_document(held).get(document, [])


def _still_held(replica: Replica, lineage: Lineage) -> Lineage:
    """Without documents that this node has dropped: their edits are too old to come."""
    return {document: edits for document, edits in lineage.items() if replica.documents.exists(document)}
