"""Markers: the entries of a text's key, which name its document; and the operations that write them, which edit it."""

from __future__ import annotations

from crdtsync.causality import Dot, Writer
from crdtsync.core.crdt.entry import Entry
from crdtsync.errors import InvalidEncoding
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import Change, Op
from crdtsync.wire.codec import new_row, pack, unpack
from crdtsync.wire.kinds import Kind

UNKNOWN_WRITER = Writer(0)
"""By whom an edit on disk is that came with others, in a snapshot."""

_TEXT = int(Kind.TEXT)


class Edit(NamedTuple):
    """An operation of a change. ``is_beginning``: it is of a document that the change makes."""

    dot: Dot
    op: Op
    document: Dot
    is_beginning: bool
    update: bytes


def check_marker(plain: object) -> tuple[Dot | None, bytes]:
    """``(document, update)`` of a text operation's value; document None: this operation creates it.

    :raises InvalidEncoding: another shape.
    """
    match plain:
        case [None, bytes(update)]:
            return None, update
        case [[int(writer), int(seq), int(n)], bytes(update)]:
            return new_row(Dot, (writer, seq, n)), update
    raise InvalidEncoding("a text operation's value is [document, update]")


def stored_value(value: bytes | None, dot: Dot) -> bytes:
    """The stored value of a text operation with this dot: it names the document."""
    named = unpack(value or b"")[0]
    return pack(list(dot) if named is None else named)


def named_document(value: bytes | None) -> Dot:
    """The document that the stored value of a marker names."""
    writer, seq, n = unpack(value or b"")
    document: Dot = new_row(Dot, (writer, seq, n))
    return document


def is_edit_of(op: Op, document: Dot) -> bool:
    """Whether an operation edits this document, which is there already."""
    try:
        return op.kind == _TEXT and op.value is not None and check_marker(unpack(op.value))[0] == document
    except InvalidEncoding:
        return False


def edits_of(change: Change) -> dict[int, Edit]:
    """The edits of texts in a change, by operation."""
    found: dict[int, Edit] = {}
    for n, op in enumerate(change.ops):
        if op.kind == _TEXT and op.value is not None:
            try:
                named, update = check_marker(unpack(op.value))
            except InvalidEncoding:
                continue
            dot = new_row(Dot, (change.writer, change.seq, n))
            document = named or dot
            found[n] = new_row(Edit, (dot, op, document, document[:2] == dot[:2], update))
    return found


def marker_of(edit: Edit) -> Entry:
    """The entry that an edit leaves, as far as it tells of documents."""
    op = edit.op
    return Entry(0, edit.dot, op.key, op.sub, int(op.kind), 0, "", pack(list(edit.document)), b"", op.attrs)
