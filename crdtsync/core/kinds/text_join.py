"""Where a document takes the place of others: a compaction, the merge of siblings that somebody asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from crdtsync.causality import Dot
from crdtsync.core.text.document import CONTESTED_STEPS_MIN, Document
from crdtsync.core.text.family import LINEAGE, OLDER_MAX, attributes_of, current, families, family_of, with_fresh
from crdtsync.errors import InvalidRequest
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import check_value_size

if TYPE_CHECKING:
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.kinds.base import Sibling
    from crdtsync.core.kinds.draft import Draft
    from crdtsync.core.text.document_cache import Documents
    from crdtsync.core.text.forgetting import Forgotten


class CompactedText(NamedTuple):
    """The outcome of compacting a text; the same document if there was nothing to gain."""

    document: Dot
    bytes_before: int
    bytes_after: int


def text_op(
    key: str, sub: str | None, document: Dot | None, update: bytes, removes: Iterable[Dot], **attrs: object
) -> Op:
    """An edit of a document; of a new one for None."""
    value = pack([None if document is None else list(document), update])
    check_value_size(len(value))
    return Op(key, sub, Kind.TEXT, value, value_hash(value), tuple(removes), attrs or None)


def compact(draft: Draft, key: str, group: Sibling) -> CompactedText:
    """Begin a new document with the characters of this one, without what was deleted from it.

    :raises InvalidValue: it holds more than text.
    :raises NotReady: that takes a while, and is done first.
    """
    old = current(group)
    document = _unedited(draft, old)
    if has_many_older(draft.space.documents, draft.held(key), old) and not document.is_crowded:
        size_bytes = len(document.state())
        return CompactedText(old, size_bytes, size_bytes)
    return replace(draft, key, old, draft.space.documents.made_anew(old))


def has_many_older(documents: Documents, held: Iterable[Entry], document: Dot) -> bool:
    """Whether so many older documents of a text are held here that the next compaction waits until one is gone."""
    family = family_of(held, document)
    return family is not None and sum(map(documents.exists, family.before(document))) >= OLDER_MAX


def replace(draft: Draft, key: str, old: Dot, made: Forgotten) -> CompactedText:
    """Put what was made of a document in its place, if it is smaller, or if the old one takes long to load."""
    bytes_before, bytes_after = made.bytes_before, sum(map(len, made.updates))
    if bytes_after >= bytes_before and draft.space.documents.get(old).steps < CONTESTED_STEPS_MIN:
        return CompactedText(old, bytes_before, bytes_before)
    family = family_of(draft.held(key), old)
    assert family is not None, "it has a marker"
    fresh = draft.own_dot()
    # If this node has dropped a document, edits of it are too old to come.
    held = {dot: member for dot, member in family.members.items() if draft.space.documents.exists(dot)}
    attrs = attributes_of(with_fresh(held, fresh, made.cut)) or {}
    begin(draft, key, made.updates, [entry.dot for entry in family.entries], **attrs)
    draft.edits_of(fresh).begun = made
    return CompactedText(fresh, bytes_before, bytes_after)


def begin(draft: Draft, key: str, updates: Sequence[bytes], removes: Iterable[Dot], **attrs: object) -> None:
    """A new document, made by these Yjs updates."""
    fresh = draft.own_dot()
    draft.add(text_op(key, LINEAGE if attrs else None, None, updates[0], removes, **attrs))
    previous: list[Dot] = []
    for update in updates[1:]:
        dot = draft.own_dot()
        draft.add(text_op(key, None, fresh, update, previous))
        previous = [dot]


def merge_siblings(draft: Draft, key: str, groups: list[Sibling]) -> None:
    """Join documents, the winner first, into the winner's: what they have in common once, the rest of each beside it.

    :raises InvalidValue: one of them holds more than text.
    :raises NotReady: that takes a while, and is done first.
    """
    winner, *others = [_unedited(draft, current(group)).dot for group in groups]
    update = draft.space.documents.joined(winner, others)
    (family,) = families(groups[0])
    attrs = attributes_of(family.members)
    gone = [entry.dot for group in groups for entry in group]
    merged = text_op(key, LINEAGE if attrs else None, winner, update, gone, **(attrs or {}))
    draft.add(merged._replace(lost=0))  # which the document does not tell: it names the winner's alone


def _unedited(draft: Draft, dot: Dot) -> Document:
    if draft.has_edits(dot):
        raise InvalidRequest("this batch edits the text too: compact or merge it in a request of its own")
    return draft.space.documents.get(dot)
