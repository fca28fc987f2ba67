"""Markers: the entries of a text's key, which name its document."""

from __future__ import annotations

from crdtsync.causality import Dot, Writer
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.codec import new_row, pack, unpack

UNKNOWN_WRITER = Writer(0)
"""By whom an edit on disk is that came with others, in a snapshot."""


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
