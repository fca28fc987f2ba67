"""Judges Yjs updates (v1 encoding) before pycrdt may see them: their structure, their bounds, what they refer to.

pycrdt (yrs) trusts what it is given. Hostile bytes make it raise ``PanicException`` (a BaseException), put a gap aside
without a word, or hang or die at a *later* read. So nothing reaches it that :func:`validate_update` has not passed,
at the author before the commit and at every receiver before the merge.

The encoding is that of Yjs's ``UpdateEncoderV1`` over lib0::

    update    := clients:uint { structs:uint client:uint clock:uint struct* }*  deletes
    deletes   := clients:uint { client:uint ranges:uint { clock:uint length:uint }* }*
    struct    := 0x00 length:uint                                               (GC: a range whose content is gone)
               | info:byte origin? right_origin? parent? content                (item)
    info      := bits 0-4 content kind, 0x20 has a map key, 0x40 has a right origin, 0x80 has an origin
    origin    := client:uint clock:uint                                         (right_origin is the same)
    parent    := ( 0x01 root name:string | 0x00 client:uint clock:uint ) key:string?    (only without any origin)
    string    := bytes:uint utf-8                                               uint := 7 bits a byte, lowest first

A struct covers as many clocks as its content has parts; for text these are UTF-16 code units.

An update also has to fit the document: yrs hangs on a string inside an array, panics on a value inside a text, loses
characters when an id splits a surrogate pair, and overflows the stack over nested types. An :class:`Outline` carries
what it takes to judge that. A client that splits a pair (possible in JavaScript, not through pycrdt) is refused.

Known limits. A plain mapping as ``known`` lets all of that through where it concerns what the document holds already.
A root that the outline does not declare takes any content: never read one. Neighbours in the wrong order (a right
origin that stands left of the origin) pass: replicas may then order that item differently. Time is not judged: yrs
integrates n items that compete for one place in O(n²) steps, so callers bound ``UpdateSummary.structs`` of an edit.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heappop, heappush
from typing import Final, Literal, NamedTuple, NoReturn

UPDATE_BYTES_MAX: Final = 8 * 1024 * 1024
STRUCTS_MAX: Final = 262_144  # an item of 4 bytes on the wire takes some 200 in memory
CLOCK_MAX: Final = 2**31 - 1  # exclusive end; yrs computes offsets in i32
CLIENT_MAX: Final = 2**53 - 1  # yrs cuts larger ones to 53 bits: another client's
INTEGER_MAX: Final = 2**53 - 1
ANY_DEPTH_MAX: Final = 64  # yrs recurses over values without a limit
TYPE_DEPTH_MAX: Final = 64  # and over nested types: 20,000 levels overflow an 8 MB stack
ROOT_NAME_BYTES_MAX: Final = 1024

RootKind = Literal["array", "map", "text", "xml"]
_ROOT_KINDS: Final[dict[RootKind, int]] = {"array": 0, "map": 1, "text": 2, "xml": 4}

_GC, _DELETED, _STRING, _TYPE = 0, 1, 4, 7
_Id = tuple[int, int]  # Yjs client id, clock
# Where an item lives: (its root's name or its parent's id or None if that is gone, has a key, its content is gone)
_Place = tuple[str | _Id | None, bool, bool]
_NOWHERE: Final[_Place] = (None, False, True)
_UNKNOWN: Final[_Place] = (None, False, False)


class _Struct(NamedTuple):
    clock: int
    end: int
    kind: int
    origin: _Id | None
    right: _Id | None
    parent: str | _Id | None
    keyed: bool
    detail: list[int] | int  # of a string, offsets of the second halves of surrogate pairs; of a type, its number
    at: int  # byte offset


class InvalidUpdate(ValueError):
    """The update must not reach pycrdt; the message says what is wrong, at which byte, and what was expected."""


@dataclass(slots=True)
class _Shape:
    """What later updates are judged by: where each item lives (in runs of clocks), the types, the surrogate pairs."""

    runs: dict[int, tuple[list[int], list[_Place]]] = field(default_factory=dict)
    types: dict[_Id, tuple[int, int]] = field(default_factory=dict)  # kind, depth
    pairs: dict[int, set[int]] = field(default_factory=dict)  # by client, clocks of second halves

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

    __slots__ = ("roots", "shape")

    def __init__(self, roots: Mapping[str, RootKind]) -> None:
        super().__init__()
        self.roots: dict[str | _Id | None, int] = {name: _ROOT_KINDS[kind] for name, kind in roots.items()}
        self.shape = _Shape()


@dataclass(frozen=True, slots=True)
class UpdateSummary:
    """What an update carries. ``ranges`` and ``deletes`` hold (first clock, end clock exclusive) by Yjs client id.

    ``structs`` counts what pycrdt will integrate; hostile ones cost it up to n²/6 µs (4,000: 2.6 s), so bound edits.
    """

    ranges: dict[int, tuple[int, int]]
    deletes: dict[int, list[tuple[int, int]]]
    structs: int
    shape: _Shape = field(default_factory=_Shape, repr=False, compare=False)

    @property
    def is_empty(self) -> bool:
        """True if the update neither inserts nor deletes anything."""
        return not self.ranges and not self.deletes


def validate_update(update: bytes, known: Mapping[int, int]) -> UpdateSummary:
    """Pass an update that pycrdt can safely apply to a document that holds ``known``, or raise :class:`InvalidUpdate`.

    ``known`` maps a Yjs client id to its next clock (exclusive end) in the document, and must come from updates that
    were validated and applied before, in causal order: an :class:`Outline`, or a plain mapping, which allows fewer
    checks. What the update repeats of it is harmless; what it presumes beyond it is refused.
    """
    size = len(update)
    if size > UPDATE_BYTES_MAX:
        _refuse(f"the update has {size} bytes", 0, f"at most {UPDATE_BYTES_MAX}")
    try:
        judge = _Judge(known)
        sections, at = _read_sections(update)
        judge.integrate(sections)
        deletes, at = judge.read_deletes(update, at)
    except IndexError:
        raise InvalidUpdate(f"the update ends inside a value, at byte {size}; expected more bytes") from None
    if at != size:
        _refuse(f"{size - at} bytes follow the delete set", at, "the end of the update")
    return UpdateSummary(judge.ranges, deletes, sum(map(len, sections.values())), judge.shape)


def advance(known: dict[int, int], summary: UpdateSummary) -> None:
    """Note in ``known`` that the document now holds what ``summary``, validated against it, describes."""
    if isinstance(known, Outline):
        for client, (starts, places) in summary.shape.runs.items():
            for clock, place in zip(starts, places, strict=True):
                known.shape.add(client, clock, place)
        known.shape.types |= summary.shape.types
        for client, pairs in summary.shape.pairs.items():
            known.shape.pairs.setdefault(client, set()).update(pairs)
    for client, (_, end) in summary.ranges.items():
        if end > known.get(client, 0):
            known[client] = end


def _refuse(wrong: str, at: int, expected: str) -> NoReturn:
    raise InvalidUpdate(f"{wrong}, at byte {at}; expected {expected}")


# -- lib0: each takes (data, at) and returns a value and the offset after it ------------------------------------


def _uint(data: bytes, at: int) -> tuple[int, int]:
    """``readVarUint``, only in its shortest form: yrs wraps longer ones around at 32 or 64 bits."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    end = at + 2
    while data[end - 1] >= 0x80:
        end += 1
        if end - at > 9:
            _refuse("an integer has over 9 bytes", at, "53 bits")
    if not data[end - 1]:
        _refuse("an integer is longer than it needs to be", end - 1, "the shortest form")
    return _long_uint(data[at:end]), end


@lru_cache(maxsize=1024)
def _long_uint(digits: bytes) -> int:
    """Mostly client ids: 53 random bits, of few clients and in every struct."""
    return sum((digit & 0x7F) << 7 * place for place, digit in enumerate(digits))


def _count(data: bytes, at: int, bytes_each: int, what: str) -> tuple[int, int]:
    """How many things follow: bounded by the bytes that are left, for yrs allocates for them first."""
    count, end = _uint(data, at)
    if count * bytes_each > len(data) - end:
        _refuse(f"{count} {what} are announced and {len(data) - end} bytes are left", at, "a count that fits in them")
    return count, end


def _id(data: bytes, at: int) -> tuple[_Id, int]:
    client, end = _uint(data, at)
    if client > CLIENT_MAX:
        _refuse(f"client id {client} is too high", at, f"at most {CLIENT_MAX}")
    clock = data[end]
    if clock < 0x80:
        return (client, clock), end + 1
    clock, end = _uint(data, end)
    return (client, clock), end


def _blob(data: bytes, at: int) -> tuple[int, int]:
    size, start = _uint(data, at)
    end = start + size
    if end > len(data):
        _refuse(f"{size} bytes are announced and {len(data) - start} are left", at, "a length that fits in them")
    return start, end


def _text(data: bytes, at: int) -> tuple[str, int]:
    """A string. Invalid UTF-8 (lone surrogates are that, too) is undefined behaviour in yrs, which does not check."""
    start, end = _blob(data, at)
    try:
        return data[start:end].decode(), end
    except UnicodeDecodeError as error:
        _refuse(f"invalid UTF-8 ({error.reason})", start + error.start, "UTF-8")


def _json(data: bytes, at: int) -> int:
    """A JSON text, as embeds and the values of formats are; serde_json is stricter than Python, and so is this."""
    text, end = _text(data, at)
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_int=_json_int, parse_float=_json_float)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate does not encode
    except (ValueError, RecursionError) as error:
        _refuse(f"invalid JSON ({error})", at, "JSON")
    depth = 0
    values = [value]
    while nested := [value for value in values if isinstance(value, list | dict)]:
        depth += 1
        if depth > ANY_DEPTH_MAX:
            _refuse("JSON is nested too deeply", at, f"at most {ANY_DEPTH_MAX} levels")
        values = [inner for outer in nested for inner in (outer.values() if isinstance(outer, dict) else outer)]
    return end


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _json_int(digits: str) -> float:
    if 2**63 <= int(digits) < 2**64:
        raise ValueError("an integer needs the 64th bit")
    return _json_float(digits)


def _json_float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is out of range")
    return value


def _any(data: bytes, at: int, depth: int) -> int:
    """One lib0 ``Any``: a tag from 116 to 127, then the value."""
    tag = data[at]
    if tag == 119:
        return _text(data, at + 1)[1]
    if tag == 125:
        return _signed(data, at + 1)
    if tag == 116:
        return _blob(data, at + 1)[1]
    if tag not in (117, 118):
        size = _ANY_BYTES.get(tag, 0)
        if not size:
            _refuse(f"value tag {tag}", at, "116 to 127")
        data[at + size - 1]  # or IndexError
        return at + size
    if depth >= ANY_DEPTH_MAX:
        _refuse("a value is nested too deeply", at, f"at most {ANY_DEPTH_MAX} levels")
    count, at = _count(data, at + 1, 1 if tag == 117 else 2, "values")
    for _ in range(count):
        if tag == 118:
            at = _text(data, at)[1]
        at = _any(data, at, depth + 1)
    return at


# tag and value: undefined, null, float32, float64, bigint (64 bits), false, true
_ANY_BYTES: Final = {127: 1, 126: 1, 124: 5, 123: 9, 122: 9, 121: 1, 120: 1}


def _signed(data: bytes, at: int) -> int:
    """``readVarInt``: the first byte holds 6 bits and the sign."""
    start = at
    byte = data[at]
    value = byte & 0x3F
    shift = 6
    while byte >= 0x80:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
        if value > INTEGER_MAX or shift > 62:
            _refuse("an integer has over 53 bits", start, f"at most {INTEGER_MAX}")
    return at + 1


# -- content: each takes (data, at) and returns the clocks that it covers, the offset after it, and pairs or a type ----

_Content = tuple[int, int, "list[int] | int"]
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")


def _deleted(data: bytes, at: int) -> _Content:
    return *_uint(data, at), 0


def _binary(data: bytes, at: int) -> _Content:
    return 1, _blob(data, at)[1], 0


def _string(data: bytes, at: int) -> _Content:
    text, end = _text(data, at)
    if text.isascii():
        return len(text), end, 0
    pairs = [match.start() + before + 1 for before, match in enumerate(_ASTRAL.finditer(text))]
    return len(text) + len(pairs), end, pairs


def _embed(data: bytes, at: int) -> _Content:
    return 1, _json(data, at), 0


def _format(data: bytes, at: int) -> _Content:
    return 1, _json(data, _text(data, at)[1]), 0


def _type(data: bytes, at: int) -> _Content:
    """Array 0, map 1, text 2, XML element 3 (with its tag), XML fragment 4, XML text 6.

    Not XML hook 5, whose name yrs does not read, nor weak link 7 and the rest, which Yjs does not know.
    """
    kind = data[at]
    if kind not in (0, 1, 2, 3, 4, 6):
        _refuse(f"shared type {kind}", at, "array, map, text, XML element, XML fragment or XML text")
    return 1, (_text(data, at + 1)[1] if kind == 3 else at + 1), kind


def _anys(data: bytes, at: int) -> _Content:
    count, at = _count(data, at, 1, "values")
    for _ in range(count):
        at = _any(data, at, 0)
    return count, at, 0


# Not 2, JSON: obsolete in Yjs, and yrs reads one string too many; 9, subdocument; 10, skip: announces a gap; 11, move.
_CONTENT: Final[dict[int, Callable[[bytes, int], _Content]]] = {
    _DELETED: _deleted,
    3: _binary,
    _STRING: _string,
    5: _embed,
    6: _format,
    _TYPE: _type,
    8: _anys,
}
_KEYED: Final = frozenset((_DELETED, 3, _TYPE, 8))  # values of a map, and attributes of every other type
_UNKEYED: Final = {  # by type: yrs hangs or panics over a string in an array, a value in a text, …
    0: frozenset((_DELETED, 3, _TYPE, 8)),
    1: frozenset((_DELETED,)),
    2: frozenset((_DELETED, _STRING, 5, 6, _TYPE)),
    3: frozenset((_DELETED, _TYPE)),
    4: frozenset((_DELETED, _TYPE)),
    6: frozenset((_DELETED, _STRING, 5, 6, _TYPE)),
}
_XML: Final = (3, 4)
_XML_CHILDREN: Final = (3, 6)  # yrs panics when it reads others


# -- structs, as they are written -------------------------------------------------------------------------------


def _read_sections(data: bytes) -> tuple[dict[int, list[_Struct]], int]:
    """The structs of each client."""
    sections: dict[int, list[_Struct]] = {}
    clients, at = _count(data, 0, 5, "clients")
    left = STRUCTS_MAX
    for _ in range(clients):
        start = at
        count, at = _count(data, at, 2, "structs")
        (client, clock), at = _id(data, at)
        left -= count
        if left < 0:
            _refuse("there are too many structs", start, f"at most {STRUCTS_MAX}")
        if not count:
            _refuse(f"client {client} has no structs", start, "one at least: yrs drops all that follows")
        if client in sections:
            _refuse(f"client {client} occurs twice", start, "each client once")
        structs = sections[client] = []
        for _ in range(count):
            struct, at = _read_struct(data, at, clock)
            structs.append(struct)
            clock = struct.end
    return sections, at


def _read_struct(data: bytes, start: int, clock: int) -> tuple[_Struct, int]:
    info = data[start]
    at = start + 1
    origin = right = parent = None
    detail: list[int] | int = 0
    if info:
        if info & 0x80:
            origin, at = _id(data, at)
        if info & 0x40:
            right, at = _id(data, at)
        if info < 0x40:
            parent, at = _read_parent(data, at)
            if info & 0x20:
                at = _text(data, at)[1]
        read = _CONTENT.get(info & 0x1F)
        if read is None:
            _refuse(f"content kind {info & 0x1F}", start, "deleted, binary, string, embed, format, type or any")
        length, at, detail = read(data, at)
    else:
        length, at = _uint(data, at)
    if not length:
        _refuse("a struct has length 0", start, "1 at least: yrs drops it and shifts what follows")
    end = clock + length
    if end > CLOCK_MAX:
        _refuse(f"a struct ends at clock {end}", start, f"at most {CLOCK_MAX}")
    return _Struct(clock, end, info & 0x1F, origin, right, parent, info & 0x20 != 0, detail, start), at


def _read_parent(data: bytes, at: int) -> tuple[str | _Id, int]:
    """The type that an item without neighbours goes into: a root by name, or a nested type by the id of its item."""
    tag = data[at]
    if not tag:
        return _id(data, at + 1)
    if tag != 1:
        _refuse(f"parent tag {tag}", at, "0 (an id) or 1 (a root name)")
    start, end = _blob(data, at + 1)
    if end - start > ROOT_NAME_BYTES_MAX:
        _refuse(f"a root name has {end - start} bytes", at, f"at most {ROOT_NAME_BYTES_MAX}")
    return _text(data, at + 1)


# -- what they mean for a document ------------------------------------------------------------------------------


class _Judge:
    """Follows yrs through the integration of one update."""

    __slots__ = ("base", "known", "ranges", "roots", "shape")

    def __init__(self, known: Mapping[int, int]) -> None:
        self.known = known
        self.base = known.shape if isinstance(known, Outline) else None
        self.roots: Mapping[str | _Id | None, int] = known.roots if isinstance(known, Outline) else {}
        self.shape = _Shape()
        self.ranges: dict[int, tuple[int, int]] = {}

    def integrate(self, sections: dict[int, list[_Struct]]) -> None:
        """Each struct after what it refers to; pycrdt would put a gap, or a circle, aside and say nothing."""
        front = {}
        for client, structs in sections.items():
            clock = front[client] = structs[0].clock
            self.ranges[client] = clock, structs[-1].end
            if clock > self.known.get(client, 0):
                _refuse(
                    f"client {client} starts at clock {clock}", structs[0].at, f"{self.known.get(client, 0)} at most"
                )
        done = dict.fromkeys(sections, 0)
        blocked: dict[int, list[_Id]] = {client: [] for client in sections}  # by whom they wait for: (clock, who waits)
        ready = list(sections)
        while ready:
            client = ready.pop()
            for struct in sections[client][done[client] :]:
                missing = self._missing(client, struct, front)
                if missing is not None:
                    heappush(blocked[missing[0]], (missing[1], client))
                    break
                self._integrate(client, struct)
                front[client] = struct.end
                done[client] += 1
            waiting = blocked[client]
            while waiting and waiting[0][0] < front[client]:
                ready.append(heappop(waiting)[1])
        for client, structs in sections.items():
            if done[client] < len(structs):
                _refuse(f"client {client} waits for what waits for it", structs[done[client]].at, "no circle")

    def _missing(self, client: int, struct: _Struct, front: dict[int, int]) -> _Id | None:
        """The first id that this struct needs and that comes later in this update, if any."""
        for needed in (struct.origin, struct.right, struct.parent):
            if needed is None or isinstance(needed, str):
                continue
            to_client, to_clock = needed
            if to_client == client:
                if to_clock >= struct.clock:
                    _refuse(f"clock {struct.clock} refers to {to_clock} of its own client", struct.at, "an earlier one")
            elif to_clock >= self.known.get(to_client, 0) and to_clock >= front.get(to_client, 0):
                if to_client not in front or to_clock >= self.ranges[to_client][1]:
                    _refuse(f"clock {to_clock} of client {to_client} is not known", struct.at, "no gap")
                return needed
        return None

    def _integrate(self, client: int, struct: _Struct) -> None:
        clock, end, kind, _, _, _, _, detail, at = struct
        known_end = self.known.get(client, 0)
        if end <= known_end:
            return  # yrs drops it
        parent, keyed = self._parent(struct) if kind != _GC else (None, False)
        pairs = [clock + offset for offset in detail] if isinstance(detail, list) else []
        if clock < known_end:  # yrs cuts off what it knows and ties the rest to the last that it knows, wherever it is
            before = self._at(client, known_end - 1)
            if (before[0] is not None and before[:2] != (parent, keyed)) or known_end in pairs:
                _refuse(f"the struct does not continue clock {known_end - 1}", at, "one parent, whole characters")
            clock = known_end
        self._check_content(client, struct, parent, keyed)
        self.shape.add(client, clock, (parent, keyed, kind <= _DELETED))
        if pairs:
            self.shape.pairs.setdefault(client, set()).update(pairs)

    def _check_content(self, client: int, struct: _Struct, parent: str | _Id | None, keyed: bool) -> None:
        kind, depth = (self._type(parent) if isinstance(parent, tuple) else None) or (self.roots.get(parent), 0)
        if kind is not None and struct.kind not in (_KEYED if keyed else _UNKEYED[kind]):
            _refuse(f"content kind {struct.kind} in shared type {kind}", struct.at, "what that type can hold")
        if struct.kind == _TYPE and isinstance(struct.detail, int):
            if kind in _XML and not keyed and struct.detail not in _XML_CHILDREN:
                _refuse(f"shared type {struct.detail} in shared type {kind}", struct.at, "an XML element or XML text")
            if depth >= TYPE_DEPTH_MAX:
                _refuse("shared types are nested too deeply", struct.at, f"at most {TYPE_DEPTH_MAX} levels")
            self.shape.types[client, struct.clock] = struct.detail, depth + 1

    def _parent(self, struct: _Struct) -> tuple[str | _Id | None, bool]:
        """What the item goes into, and whether under a key: as its left neighbour, else as its right one."""
        origin, right, parent = struct.origin, struct.right, struct.parent
        if origin == right:  # both None: the parent is named
            if origin is not None:
                _refuse("an item is to stand both after and before one clock", struct.at, "two neighbours")
            if not isinstance(parent, tuple) or self._type(parent):
                return parent, struct.keyed
            place = self._at(*parent)
            if not place[2] and place is not _UNKNOWN:  # yrs stops half-way
                _refuse(f"clock {parent[1]} of client {parent[0]} is no shared type", struct.at, "a parent")
            return None, False
        left_place = self._neighbour(origin, 1, struct.at) if origin else _NOWHERE
        right_place = self._neighbour(right, 0, struct.at) if right else _NOWHERE
        if left_place[0] is None:
            return right_place[:2]
        if right_place[0] is not None and left_place[:2] != right_place[:2]:
            _refuse("the neighbours of an item have different parents", struct.at, "one parent")
        return left_place[:2]

    def _neighbour(self, item: _Id, after: int, at: int) -> _Place:
        """Where a neighbour lives. yrs splits it there, and inside a surrogate pair its lengths go wrong for ever."""
        if self._splits_pair(item[0], item[1] + after):
            _refuse(f"an origin is inside a surrogate pair of client {item[0]}", at, "a place between characters")
        return self._at(*item)

    def _splits_pair(self, client: int, clock: int) -> bool:
        return clock in self.shape.pairs.get(client, ()) or (
            self.base is not None and clock in self.base.pairs.get(client, ())
        )

    def _at(self, client: int, clock: int) -> _Place:
        if clock >= self.known.get(client, 0):
            return self.shape.place(client, clock)
        return self.base.place(client, clock) if self.base is not None else _UNKNOWN

    def _type(self, item: _Id) -> tuple[int, int] | None:
        return self.shape.types.get(item) or (self.base.types.get(item) if self.base is not None else None)

    def read_deletes(self, data: bytes, at: int) -> tuple[dict[int, list[tuple[int, int]]], int]:
        """The delete set: by client, ranges in rising order, of clocks that are known or in this update."""
        deletes: dict[int, list[tuple[int, int]]] = {}
        clients, at = _count(data, at, 2, "clients")
        for _ in range(clients):
            start = at
            client, at = _uint(data, at)
            count, at = _count(data, at, 2, "ranges")
            if client in deletes:
                _refuse(f"client {client} occurs twice", start, "each client once")
            end_max = max(self.known.get(client, 0), self.ranges.get(client, (0, 0))[1])
            ranges = deletes[client] = []
            end = 0
            for _ in range(count):
                start = at
                clock, at = _uint(data, at)
                length, at = _uint(data, at)
                if clock < end or not length:
                    _refuse(f"deletes clock {clock}, {length} long", start, f"{end} or later, and not empty")
                end = clock + length
                if end > end_max:
                    _refuse(f"deletes clocks up to {end}", start, f"at most {end_max}, all that is known")
                if self._splits_pair(client, clock) or self._splits_pair(client, end):
                    _refuse("deletes half of a surrogate pair", start, "whole characters")
                ranges.append((clock, end))
        return deletes, at
