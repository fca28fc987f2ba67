"""Which documents are one text: a document, those that were made of it by compaction, and those made of these.

A compaction says so in an entry of its own: one with the sub ``lineage`` beside the markers, which ordinary edits leave
alone. It lists the new document and those before it, each with its *generation* (how many compactions it took) and, if
a compaction made it, its *cut*: how much it began with. For example, Ann and Bob compact the document 1 of ``notes`` at
once, on two hosts, and somebody compacts Bob's::

    1  ──  Ann's 2           generation 1
     └───  Bob's 3  ──  4    generations 1, 2

The text is that of the document highest in generation, then in name: 4. An edit of any of them is made in all that are
higher (:mod:`crdtsync.core.replica.text_edits`), so none is ever too late, and all markers are those of one value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from crdtsync.causality import Dot, Writer
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.text.marker import named_document
from crdtsync.errors import InvalidEncoding
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.kinds import Kind
from crdtsync.wire.yjs.lib0 import InvalidUpdate
from crdtsync.wire.yjs.state_vector import decode_state_vector, encode_state_vector

LINEAGE = "lineage"
"""The ``sub`` of the entry that tells a document's family."""

FAMILY = "family"
"""The attribute in which it does: ``[[writer, seq, n, generation, cut], …]``, the newest first."""

MEMBERS_MAX = 64
"""Documents that a family lists; edits of still older ones are conflicts for people."""

OLDER_MAX = 6
"""Older documents of a text that are held here; with so many it is compacted only if it is crowded. A late edit is
made in each document that is newer than its own, in one turn.
"""

CUT_BYTES_MAX = 256 * 1024
"""All cuts that a family lists; with more it lists fewer documents."""


class Member(NamedTuple):
    """A document of a family. ``cut`` is a Yjs state vector, empty for one that no compaction made."""

    generation: int
    cut: bytes

    def began_with(self) -> dict[int, int]:
        """For each Yjs client the clock that came next when the document was begun."""
        return decode_state_vector(self.cut) if self.cut else {}


Members = dict[Dot, Member]


class Family:
    """Entries of one key that are markers of one text, in causal order, and its documents."""

    def __init__(self, entry: Entry) -> None:
        self.entries = [entry]
        self.members = members_of(entry)
        self._in_order: tuple[Members, list[Dot]] = {}, []

    def join(self, other: Family) -> None:
        """Both are one."""
        self.entries += other.entries
        self.members = _joined(self.members, other.members)

    @property
    def current(self) -> Dot:
        """The document that is the text now."""
        return max({named_document(entry.value) for entry in self.entries}, key=self.place)

    def after(self, document: Dot) -> list[Dot]:
        """Those in which an edit of this document is made too, the oldest first."""
        in_order = self.in_order()
        return in_order[in_order.index(document) + 1 :]

    def before(self, document: Dot) -> list[Dot]:
        """Those whose edits are made in this one too, the oldest first."""
        in_order = self.in_order()
        return in_order[: in_order.index(document)]

    def in_order(self) -> list[Dot]:
        """All, the oldest first."""
        if self._in_order[0] is not self.members:
            places = sorted([(member.generation, dot) for dot, member in self.members.items()])
            self._in_order = self.members, [dot for _, dot in places]
        return self._in_order[1]

    def place(self, document: Dot) -> tuple[int, Dot]:
        """By which the documents of a family are in order."""
        return self.members[document].generation, document


def families(held: Iterable[Entry]) -> list[Family]:
    """The text entries of a key, by the text of which they are markers."""
    found: list[Family] = []
    for entry in held:
        if entry.kind != Kind.TEXT:
            continue
        if not _tells_members(entry):  # nothing is new in it, mostly
            name = named_document(entry.value)
            known = next((other for other in found if name in other.members), None)
            if known is not None:
                known.entries.append(entry)
                found.remove(known)
                found.append(known)
                continue
        family = Family(entry)
        apart: list[Family] = []
        for other in found:
            if other.members.keys().isdisjoint(family.members):
                apart.append(other)
            else:
                other.join(family)
                family = other
        found = [*apart, family]
    for family in found:
        family.entries.sort(key=lambda entry: entry.order)
    return found


def family_of(held: Iterable[Entry], document: Dot) -> Family | None:
    """The family of a document, if it has a marker or one of the family lists it."""
    return of_document(document, families(held))


def of_document(document: Dot, texts: Iterable[Family]) -> Family | None:
    """The same, if these are all that the key holds."""
    return next((family for family in texts if document in family.members), None)


def current(group: Iterable[Entry]) -> Dot:
    """The document that is the text of which these are markers."""
    group = [*group]
    if len(group) == 1:
        return named_document(group[0].value)
    members: Members = {}
    named: set[Dot] = set()
    for entry in group:
        members = _joined(members, members_of(entry))
        named.add(named_document(entry.value))
    return max(named, key=lambda dot: (members[dot].generation, dot))


def _joined(members: Members, others: Members) -> Members:
    """The members that both name; a marker alone says nothing of how its document came about."""
    return {**members, **{dot: member for dot, member in others.items() if member.generation or dot not in members}}


def members_of(entry: Entry) -> Members:
    """The members that an entry names, of the family of its document. Another's careless bytes count as nothing."""
    alone = {named_document(entry.value): Member(0, b"")}
    return alone | _listed(entry) if _tells_members(entry) else alone


def _tells_members(entry: Entry) -> bool:
    return entry.attrs is not None and FAMILY in entry.attrs


@lru_cache(maxsize=16)
def _listed(entry: Entry) -> Members:
    """Each edit of a text reads its family several times, and of one that was compacted 62 times these are 62 cuts."""
    try:
        plain = (entry.attrs or {})[FAMILY]
        return {_dot(writer, seq, n): _member(generation, cut) for writer, seq, n, generation, cut in plain}
    except (TypeError, ValueError, InvalidEncoding, InvalidUpdate):
        return {}


def attributes_of(members: Mapping[Dot, Member]) -> dict[str, Any] | None:
    """The attributes of the entry that tells it; the newest ones. None: the document is alone."""
    listed: list[list[object]] = []
    left_bytes = CUT_BYTES_MAX
    for dot, member in sorted(members.items(), key=lambda item: (item[1].generation, item[0]), reverse=True):
        left_bytes -= len(member.cut)
        if len(listed) == MEMBERS_MAX or (listed and left_bytes < 0):
            break
        listed.append([*dot, member.generation, member.cut])
    return {FAMILY: listed} if len(listed) > 1 else None


def with_fresh(members: Members, fresh: Dot, cut: Mapping[int, int]) -> Members:
    """The family when a compaction has made ``fresh``."""
    generation = max(member.generation for member in members.values()) + 1
    return {fresh: Member(generation, encode_state_vector(cut)), **members}


def _dot(writer: object, seq: object, n: object) -> Dot:
    if type(writer) is int and type(seq) is int and type(n) is int:
        return Dot(Writer(writer), seq, n)
    raise InvalidEncoding("not a dot")


def _member(generation: object, cut: object) -> Member:
    if type(generation) is int and type(cut) is bytes:
        if cut:
            decode_state_vector(cut)
        return Member(generation, cut)
    raise InvalidEncoding("not a document of a family")
