"""Judges Yjs updates (v1 encoding) before pycrdt may see them: their structure, their bounds, what they refer to.

pycrdt (yrs) trusts what it is given. Hostile bytes make it raise ``PanicException`` (a BaseException), put a gap aside
without a word, or hang or die at a *later* read. So nothing reaches it that :func:`validate_update` has not passed,
at the author before the commit and at every receiver before the merge.

:mod:`crdtsync.wire.yjs.encoding` reads the structs; here they have to fit the document: yrs hangs on a string inside
an array, panics on a value inside a text, loses characters when an id splits a surrogate pair, and overflows the stack
over nested types. An :class:`Outline` carries what it takes to judge that. A client that splits a pair (possible in
JavaScript, not through pycrdt) is refused.

Known limits. A plain mapping as ``known`` lets all of that through where it concerns what the document holds already.
A root that the outline does not declare takes any content: never read one. Neighbours in the wrong order (a right
origin that stands left of the origin) pass: replicas may then order that item differently. Time is told and not judged:
callers bound ``parts`` and ``competition.steps`` of an :class:`UpdateSummary`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from crdtsync.wire.yjs.competition import CLOCK_BITS, COMPARED_A_PART, Competition, Placed, code
from crdtsync.wire.yjs.encoding import (
    ANY,
    BINARY,
    CLIENT_MAX,
    CLOCK_MAX,
    DELETED,
    EMBED,
    FORMAT,
    GC,
    ROOT_NAME_BYTES_MAX,
    STEP_STRUCTS,
    STRING,
    STRUCTS_MAX,
    TYPE,
    Id,
    Steps,
    Struct,
    at_once,
    causally,
    read_deletes,
    read_sections,
    read_sections_slowly,
)
from crdtsync.wire.yjs.lib0 import ANY_DEPTH_MAX, INTEGER_MAX, InvalidUpdate, TooManyParts, refuse
from crdtsync.wire.yjs.rewriting import Runs, as_one, runs_of, with_runs_joined

__all__ = [
    "ANY_DEPTH_MAX",
    "CLIENT_MAX",
    "CLOCK_MAX",
    "INTEGER_MAX",
    "ROOT_NAME_BYTES_MAX",
    "STRUCTS_MAX",
    "TYPE_DEPTH_MAX",
    "UPDATE_BYTES_MAX",
    "InvalidUpdate",
    "Outline",
    "RootKind",
    "UpdateSummary",
    "advance",
    "holds_only_text",
    "validate_slowly",
    "validate_update",
]

UPDATE_BYTES_MAX: Final = 8 * 1024 * 1024
COPIED_MAX: Final = 2_000_000
"""Characters that the Yjs library may copy to join the pieces of an update, 1 ms a million; beyond it they are joined
before it takes them: 1,300 of 690 characters took 650 ms.
"""
TYPE_DEPTH_MAX: Final = 64  # yrs recurses over nested types: 20,000 levels overflow an 8 MB stack

RootKind = Literal["array", "map", "text", "xml"]
_ROOT_KINDS: Final[dict[RootKind, int]] = {"array": 0, "map": 1, "text": 2, "xml": 4}

# Where an item lives: (its root's name or its parent's id or None if that is gone, has a key, its content is gone)
_Place = tuple[str | Id | None, bool, bool]
_NOWHERE: Final[_Place] = (None, False, True)
_UNKNOWN: Final[_Place] = (None, False, False)

_KEYED: Final = frozenset((DELETED, BINARY, TYPE, ANY))  # values of a map, and attributes of every other type
_UNKEYED: Final = {  # by type: yrs hangs or panics over a string in an array, a value in a text, …
    0: frozenset((DELETED, BINARY, TYPE, ANY)),
    1: frozenset((DELETED,)),
    2: frozenset((DELETED, STRING, EMBED, FORMAT, TYPE)),
    3: frozenset((DELETED, TYPE)),
    4: frozenset((DELETED, TYPE)),
    6: frozenset((DELETED, STRING, EMBED, FORMAT, TYPE)),
}
_XML: Final = (3, 4)
_XML_CHILDREN: Final = (3, 6)  # yrs panics when it reads others


@dataclass(slots=True)
class _Shape:
    """Later updates are judged by this: where each item lives (in runs of clocks), the types, the surrogate pairs."""

    runs: dict[int, tuple[list[int], list[_Place]]] = field(default_factory=dict)
    types: dict[Id, tuple[int, int]] = field(default_factory=dict)  # kind, depth
    pairs: dict[int, set[int]] = field(default_factory=dict)  # by client, clocks of second halves
    is_rich: bool = False  # there is more than characters of a text, or was when it came

    def place(self, client: int, clock: int) -> _Place:
        starts, places = self.runs[client]
        return places[bisect_right(starts, clock) - 1]

    def add(self, client: int, clock: int, place: _Place) -> None:
        starts, places = self.runs.setdefault(client, ([], []))
        if not places or places[-1] != place:
            starts.append(clock)
            places.append(place)


class Outline(dict[int, int]):
    """``known`` for one document with what it takes to judge an update fully: Yjs client id -> next clock, and a shape.

    ``roots`` declares the roots that will be read, and as what: {"text": "text"}. It must be the same on every node.
    Start empty and :func:`advance` it by each update, or by ``doc.get_update()`` of a loaded document.
    """

    __slots__ = ("competition", "roots", "shape")

    def __init__(self, roots: Mapping[str, RootKind]) -> None:
        super().__init__()
        self.roots: dict[str | Id | None, int] = {name: _ROOT_KINDS[kind] for name, kind in roots.items()}
        self.shape = _Shape()
        self.competition = Competition()

    def is_gone(self, client: int, clock: int) -> bool:
        """Whether the document holds this id and has forgotten where it stood, as all that a GC struct covers."""
        return clock < self.get(client, 0) and self.shape.place(client, clock)[0] is None

    @property
    def is_plain(self) -> bool:
        """Whether nothing but characters of the roots that are texts ever came."""
        return not self.shape.is_rich

    def gone_until(self, client: int, clock: int) -> tuple[bool, int]:
        """The same, and up to which clock (exclusive) that is so of this client."""
        starts, places = self.shape.runs[client]
        index = bisect_right(starts, clock) - 1
        return places[index][0] is None, starts[index + 1] if index + 1 < len(starts) else self[client]

    def copy(self) -> Outline:
        """One of its own, to be advanced independently."""
        twin = Outline({})
        twin.update(self)
        twin.roots = self.roots
        runs = {client: ([*starts], [*places]) for client, (starts, places) in self.shape.runs.items()}
        pairs = {client: {*clocks} for client, clocks in self.shape.pairs.items()}
        twin.shape = _Shape(runs, {**self.shape.types}, pairs, self.shape.is_rich)
        twin.competition = self.competition.copy()
        return twin


@dataclass(slots=True)
class UpdateSummary:
    """The content of an update. ``ranges`` and ``deletes`` hold (first clock, end clock exclusive) by Yjs client id.

    ``structs`` counts what it inserts, ``competition`` the steps that pycrdt may take to integrate that. ``joined`` is
    the update to give pycrdt, if that would take long to join what comes in pieces.
    """

    ranges: dict[int, tuple[int, int]]
    deletes: dict[int, list[tuple[int, int]]]
    structs: int
    joined: bytes | None = field(default=None, repr=False, compare=False)
    shape: _Shape = field(default_factory=_Shape, repr=False, compare=False)
    competition: Competition = field(default_factory=Competition, repr=False, compare=False)

    @property
    def parts(self) -> int:
        """How many things it names: what it inserts, and the ranges that it deletes."""
        return self.structs + sum(map(len, self.deletes.values()))


def validate_update(update: bytes, known: Mapping[int, int]) -> UpdateSummary:
    """Pass an update that pycrdt can safely apply to a document that holds ``known``, or raise :class:`InvalidUpdate`.

    ``known`` maps a Yjs client id to its next clock (exclusive end) in the document, and must come from updates that
    were validated and applied before, in causal order: an :class:`Outline`, or a plain mapping, which allows fewer
    checks. If the update repeats some of it, that is harmless; if it presumes more, it is refused.
    """
    return at_once(validate_slowly(update, known))


def validate_slowly(
    update: bytes,
    known: Mapping[int, int],
    *,
    is_own_state: bool = False,
    structs_max: int | None = None,
    ranges_max: int | None = None,
    work_max: int | None = None,
) -> Steps[UpdateSummary]:
    """The same in steps; ``known`` must not change meanwhile.

    ``is_own_state``: it is what pycrdt itself says that a document holds, whose size is nobody's claim. With more
    structs, or deleted ranges, than these it is refused before they are read; with more siblings to be compared than
    what is left of ``work_max`` parts, once so many are.
    """
    size = len(update)
    if size > UPDATE_BYTES_MAX and not is_own_state:
        refuse(f"the update has {size} bytes", 0, f"at most {UPDATE_BYTES_MAX}")
    try:
        judge = _Judge(known, update, is_own_state=is_own_state)
        sections, at = yield from read_sections_slowly(update, CLOCK_MAX if is_own_state else structs_max)
        structs = sum(map(len, sections.values()))
        joined: bytes | None = None
        if structs > len(sections) and not is_own_state:  # which the Yjs library has joined
            runs = yield from runs_of(sections, known)
            sections = {client: [*map(as_one, members)] for client, members in runs.items()}
            if _copied(runs) > COPIED_MAX:
                joined = with_runs_joined(update, runs, at)
        if work_max is not None:
            judge.compared_max = COMPARED_A_PART * (work_max - structs)
        yield from judge.integrate(sections)
        deletes, at = yield from read_deletes(update, at, judge.check_delete, ranges_max)
    except IndexError:
        raise InvalidUpdate(f"the update ends inside a value, at byte {size}; expected more bytes") from None
    if at != size:
        refuse(f"{size - at} bytes follow the delete set", at, "the end of the update")
    return UpdateSummary(judge.ranges, deletes, structs, joined, judge.shape, judge.competition)


def _copied(runs: Runs) -> int:
    """How many characters or values the Yjs library copies to make one item of each run."""
    return sum(
        number * (struct.end - struct.clock)
        for members in runs.values()
        for run in members
        if len(run) > 1
        for number, struct in enumerate(run)
    )


def advance(known: dict[int, int], summary: UpdateSummary) -> None:
    """Note in ``known`` that the document now holds what ``summary``, validated against it, describes."""
    if isinstance(known, Outline):
        for client, (starts, places) in summary.shape.runs.items():
            for clock, place in zip(starts, places, strict=True):
                known.shape.add(client, clock, place)
        if summary.shape.types:
            known.shape.types |= summary.shape.types
        known.shape.is_rich |= summary.shape.is_rich
        known.competition.advance(summary.competition)
        for client, pairs in summary.shape.pairs.items():
            known.shape.pairs.setdefault(client, set()).update(pairs)
    for client, (_, end) in summary.ranges.items():
        if end > known.get(client, 0):
            known[client] = end


def holds_only_text(state: bytes, root: str) -> bool:
    """Whether a document of which ``state`` is the whole holds nothing but characters, in its root of that name."""
    sections, _ = read_sections(state, CLOCK_MAX)
    return all(
        struct.kind in (GC, DELETED) or (struct.kind == STRING and not struct.keyed and struct.parent in (None, root))
        for structs in sections.values()
        for struct in structs
    )


class _Judge:
    """Follows yrs through the integration of one update."""

    __slots__ = (
        "base", "compared_max", "competition", "front", "is_own_state", "known", "ranges", "roots", "shape", "update",
    )  # fmt: skip

    def __init__(self, known: Mapping[int, int], update: bytes, *, is_own_state: bool) -> None:
        self.known = known
        self.is_own_state = is_own_state
        self.update = update
        self.compared_max = CLOCK_MAX
        self.front: dict[int, int] = {}
        self.base: _Shape | None = None
        self.roots: Mapping[str | Id | None, int] = {}
        if isinstance(known, Outline):
            self.competition, self.base, self.roots = known.competition.beside(), known.shape, known.roots
        else:
            self.competition = Competition()
        self.shape = _Shape()
        self.ranges: dict[int, tuple[int, int]] = {}

    def integrate(self, sections: dict[int, list[Struct]]) -> Steps[None]:
        """Each struct after what it refers to."""
        for client, structs in sections.items():
            clock = self.front[client] = structs[0].clock
            self.ranges[client] = clock, structs[-1].end
            if clock > self.known.get(client, 0):
                refuse(
                    f"client {client} starts at clock {clock}", structs[0].at, f"{self.known.get(client, 0)} at most"
                )
        for number, (client, struct) in enumerate(causally(sections, self.known), 1):
            self._integrate(client, struct)
            self.front[client] = struct.end
            if self.competition.compared > self.compared_max:
                refuse("too much stands at its places", struct.at, "fewer parts: split the edit", TooManyParts)
            if number % STEP_STRUCTS == 0:
                yield

    def _integrate(self, client: int, struct: Struct) -> None:
        clock, end, kind, _, _, _, _, detail, at, _, _ = struct
        known_end = self.known.get(client, 0)
        if end <= known_end:
            return  # yrs drops it
        parent, keyed = self._parent(struct) if kind != GC else (None, False)
        pairs = [clock + offset for offset in detail] if detail and isinstance(detail, list) else []
        if clock < known_end:  # yrs cuts off what it knows and ties the rest to the last that it knows, wherever it is
            before = self._at(client, known_end - 1)
            if (before[0] is not None and before[:2] != (parent, keyed)) or known_end in pairs:
                refuse(f"the struct does not continue clock {known_end - 1}", at, "one parent, whole characters")
            clock = known_end
        self._check_content(client, struct, parent, keyed)
        self.shape.add(client, clock, (parent, keyed, kind <= DELETED))
        is_text = kind == STRING and not keyed and (parent is None or self.roots.get(parent) == _ROOT_KINDS["text"])
        self.shape.is_rich |= kind > DELETED and not is_text
        self._place(client, clock, struct, parent)
        if pairs:
            self.shape.pairs.setdefault(client, set()).update(pairs)

    def _place(self, client: int, clock: int, struct: Struct, parent: str | Id | None) -> None:
        """Note where an item stands, from this clock of it on."""
        if parent is None:
            self.competition.note_gap(code((client, clock)))
            return
        item = Placed.of(client, struct, clock, parent, self.update)
        is_followed = False
        if isinstance(item.left, int):
            before, at = divmod(item.left + 1, 1 << CLOCK_BITS)
            is_followed = at < self.known.get(before, 0) or at < self.front.get(before, 0)
        self.competition.place(item, is_followed)

    def _check_content(self, client: int, struct: Struct, parent: str | Id | None, keyed: bool) -> None:
        kind, depth = (self._type(parent) if isinstance(parent, tuple) else None) or (self.roots.get(parent), 0)
        if kind is not None and struct.kind not in (_KEYED if keyed else _UNKEYED[kind]):
            refuse(f"content kind {struct.kind} in shared type {kind}", struct.at, "what that type can hold")
        if struct.kind == TYPE and isinstance(struct.detail, int):
            if kind in _XML and not keyed and struct.detail not in _XML_CHILDREN:
                refuse(f"shared type {struct.detail} in shared type {kind}", struct.at, "an XML element or XML text")
            if depth >= TYPE_DEPTH_MAX:
                refuse("shared types are nested too deeply", struct.at, f"at most {TYPE_DEPTH_MAX} levels")
            self.shape.types[client, struct.clock] = struct.detail, depth + 1

    def _parent(self, struct: Struct) -> tuple[str | Id | None, bool]:
        """The type that the item goes into, and whether under a key: as its left neighbour, else as its right one."""
        origin, right, parent = struct.origin, struct.right, struct.parent
        if origin == right:  # both None: the parent is named
            if origin is not None:
                refuse("an item is to stand both after and before one clock", struct.at, "two neighbours")
            if not isinstance(parent, tuple) or self._type(parent):
                return parent, struct.keyed
            place = self._at(*parent)
            if not place[2] and place is not _UNKNOWN:  # yrs stops half-way
                refuse(f"clock {parent[1]} of client {parent[0]} is no shared type", struct.at, "a parent")
            return None, False
        left_place = self._neighbour(origin, 1, struct.at) if origin else _NOWHERE
        right_place = self._neighbour(right, 0, struct.at) if right else _NOWHERE
        if left_place[0] is None:
            return right_place[:2]
        if right_place[0] is not None and left_place[:2] != right_place[:2]:
            refuse("the neighbours of an item have different parents", struct.at, "one parent")
        return left_place[:2]

    def _neighbour(self, item: Id, after: int, at: int) -> _Place:
        """Where a neighbour lives. yrs splits it there, and inside a surrogate pair its lengths go wrong for ever."""
        if self._splits_pair(item[0], item[1] + after):
            refuse(f"an origin is inside a surrogate pair of client {item[0]}", at, "a place between characters")
        return self._at(*item)

    def _splits_pair(self, client: int, clock: int) -> bool:
        return clock in self.shape.pairs.get(client, ()) or (
            self.base is not None and clock in self.base.pairs.get(client, ())
        )

    def _at(self, client: int, clock: int) -> _Place:
        if clock >= self.known.get(client, 0):
            return self.shape.place(client, clock)
        return self.base.place(client, clock) if self.base is not None else _UNKNOWN

    def _type(self, item: Id) -> tuple[int, int] | None:
        return self.shape.types.get(item) or (self.base.types.get(item) if self.base is not None else None)

    def check_delete(self, client: int, clock: int, end: int, at: int) -> None:
        """One may delete what is known or in this update."""
        end_max = max(self.known.get(client, 0), self.ranges.get(client, (0, 0))[1])
        if end > end_max:
            refuse(f"deletes clocks up to {end}", at, f"at most {end_max}, all that is known")
        if self._splits_pair(client, clock) or self._splits_pair(client, end):
            refuse("deletes half of a surrogate pair", at, "whole characters")
        self.competition.cut((code((client, clock)), code((client, end))), is_done=self.is_own_state)
