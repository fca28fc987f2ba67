"""Which older documents of a key a text's document has taken in, and which edits of each.

A document that takes in another, by a compaction or a merge, says so in an entry of its own: one with the sub
``lineage`` beside the markers, which ordinary edits leave alone. What it lists of an older document is a version
vector: edits of it beyond that, which somebody made without knowing, are still to be brought over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from crdtsync.causality import Dot, VersionVector, Writer, flatten, merge
from crdtsync.core.crdt.entries import Entry
from crdtsync.core.text.marker import named_document
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.change import Kind

LINEAGE = "lineage"
"""The ``sub`` of the entry that tells a document's lineage."""

ABSORBS = "absorbs"
"""The attribute in which it does: ``[[writer, seq, n, [writer, seq, …]], …]``, the newest first."""

ANCESTORS_MAX = 16
"""Older documents that a lineage lists; edits of still older ones stay conflicts for people."""

Lineage = dict[Dot, VersionVector]


def document_of(entry: Entry) -> Dot:
    """The document that a text's marker names."""
    return named_document(entry.value)


def by_document(held: Iterable[Entry]) -> dict[Dot, list[Entry]]:
    """The text entries of a key, by the document that they name."""
    groups: dict[Dot, list[Entry]] = {}
    for entry in held:
        if entry.kind == Kind.TEXT:
            groups.setdefault(document_of(entry), []).append(entry)
    return groups


def lineage_of(group: Iterable[Entry]) -> Lineage:
    """What the entries of one document say that it has taken in. Another's careless bytes count as nothing."""
    found: Lineage = {}
    for entry in group:
        if entry.sub == LINEAGE and entry.attrs:
            join(found, _decoded(entry.attrs.get(ABSORBS)))
    return found


def join(lineage: Lineage, other: Mapping[Dot, VersionVector]) -> None:
    """Note in ``lineage`` what ``other`` covers too."""
    for document, edits in other.items():
        merge(lineage.setdefault(document, {}), edits)


def attributes_of(lineage: Lineage) -> dict[str, Any]:
    """The attributes of the entry that tells it."""
    newest = list(lineage.items())[:ANCESTORS_MAX]
    return {ABSORBS: [[*document, flatten(edits)] for document, edits in newest]}


def _decoded(plain: object) -> Lineage:
    try:
        return {_dot(writer, seq, n): _vector(flat) for writer, seq, n, flat in plain}  # type: ignore[attr-defined]
    except (TypeError, ValueError, InvalidEncoding):
        return {}


def _dot(writer: object, seq: object, n: object) -> Dot:
    if type(writer) is int and type(seq) is int and type(n) is int:
        return Dot(Writer(writer), seq, n)
    raise InvalidEncoding("not a dot")


def _vector(flat: Any) -> VersionVector:
    if not all(type(number) is int for number in flat):
        raise InvalidEncoding("not a vector")
    return dict(zip(map(Writer, flat[::2]), flat[1::2], strict=True))
