"""The encoding of Yjs updates (v1): bytes in, structs and delete ranges out, within bounds that yrs does not check.

It is that of Yjs's ``UpdateEncoderV1`` over :mod:`crdtsync.wire.yjs.lib0`::

    update    := clients:uint { structs:uint client:uint clock:uint struct* }*  deletes
    deletes   := clients:uint { client:uint ranges:uint { clock:uint length:uint }* }*
    struct    := 0x00 length:uint                                               (GC: a range whose content is gone)
               | info:byte origin? right_origin? parent? content                (item)
    info      := bits 0-4 content kind, 0x20 has a map key, 0x40 has a right origin, 0x80 has an origin
    origin    := client:uint clock:uint                                         (right_origin is the same)
    parent    := ( 0x01 root name:string | 0x00 client:uint clock:uint ) key:string?    (only without any origin)

A struct covers as many clocks as its content has parts; for text these are UTF-16 code units.
:mod:`crdtsync.wire.yjs.validator` knows what the structs mean for a document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Final, TypeVar

from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import new_row
from crdtsync.wire.yjs.lib0 import (
    InvalidUpdate,
    TooManyParts,
    read_blob,
    read_count,
    read_text,
    read_uint,
    refuse,
    skip_any,
    skip_json,
)

STRUCTS_MAX: Final = 262_144  # an item of 4 bytes on the wire takes some 200 in memory
CLOCK_MAX: Final = 2**31 - 1  # exclusive end; yrs computes offsets in i32
CLIENT_MAX: Final = 2**53 - 1  # yrs cuts larger ones to 53 bits: another client's
ROOT_NAME_BYTES_MAX: Final = 1024

STEP_STRUCTS: Final = 1000  # some 10 ms, for what must not keep others waiting

SHORT_BYTES_MAX: Final = 256
BYTES_A_PART: Final = 4  # of an update: a struct takes 5 at least, a range 2
TEXT_BYTES_A_PART: Final = 5000  # to insert so many takes as long as a part

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work in steps, between which something else may be done."""

GC, DELETED, BINARY, STRING, EMBED, FORMAT, TYPE, ANY = 0, 1, 3, 4, 5, 6, 7, 8  # content kinds
Id = tuple[int, int]  # Yjs client id, clock


class Struct(NamedTuple):
    """An item, or a range whose content is gone."""

    clock: int
    end: int
    kind: int
    origin: Id | None
    right: Id | None
    parent: str | Id | None
    keyed: bool
    detail: list[int] | int  # of a string, offsets of the second halves of surrogate pairs; of a type, its number
    at: int  # its byte offset in the update
    body: int  # that of its content
    stop: int  # that of what follows it


def read_sections(data: bytes, structs_max: int | None = None) -> tuple[dict[int, list[Struct]], int]:
    """The structs of each client, and the offset of the delete set after them."""
    return at_once(read_sections_slowly(data, structs_max))


def read_sections_slowly(data: bytes, structs_max: int | None = None) -> Steps[tuple[dict[int, list[Struct]], int]]:
    """The same in steps, which take about as long each."""
    sections: dict[int, list[Struct]] = {}
    clients, at = read_count(data, 0, 5, "clients")
    structs_max = STRUCTS_MAX if structs_max is None else structs_max
    left = structs_max
    done = 0
    for _ in range(clients):
        start = at
        count, at = read_count(data, at, 2, "structs")
        (client, clock), at = read_id(data, at)
        left -= count
        if left < 0:
            refuse("there are too many structs", start, f"at most {structs_max}: split the edit", TooManyParts)
        if not count:
            refuse(f"client {client} has no structs", start, "one at least: yrs drops all that follows")
        if client in sections:
            refuse(f"client {client} occurs twice", start, "each client once")
        structs = sections[client] = []
        for number in range(done, done + count):
            struct, at = _read_struct(data, at, clock)
            structs.append(struct)
            clock = struct.end
            if number % STEP_STRUCTS == STEP_STRUCTS - 1:
                yield
        done += count
    return sections, at


def parts_at_most(update: bytes, parts_max: int) -> int:
    """To how many parts it comes to take an update in, as if the Yjs library had not to look far: one for each struct
    and for each two ranges; if these are more than ``parts_max``, no more is read.
    """
    if len(update) <= SHORT_BYTES_MAX:
        return len(update) // BYTES_A_PART
    try:
        sections, at = read_sections(update, parts_max)
        deletes, _ = at_once(read_deletes(update, at, lambda *_: None, 2 * parts_max))
    except (InvalidUpdate, IndexError):
        return parts_max + 1
    ranges = sum(map(len, deletes.values()))
    return sum(map(len, sections.values())) + ranges // 2 + len(update) // TEXT_BYTES_A_PART


def causally(sections: Mapping[int, list[Struct]], known: Mapping[int, int]) -> Iterator[tuple[int, Struct]]:
    """The structs of an update, each after what it refers to, in the order in which the Yjs library takes them: from
    the highest client on, and of others before it no more than it waits for.

    :raises InvalidUpdate: one refers to what ``known`` (by client the clock that comes next) does not have either, or
        waits for what waits for it: pycrdt would put a gap, or a circle, aside and say nothing.
    """
    if len(sections) == 1:  # as in most edits: it waits for no other
        for client, structs in sections.items():
            for struct in structs:
                _missing(client, struct, known, {}, sections)
                yield client, struct
        return
    front = {client: structs[0].clock for client, structs in sections.items()}
    done = dict.fromkeys(sections, 0)
    for highest in sorted(sections, reverse=True):
        waiting = {highest: None}  # each for the one after it
        while waiting:
            client = next(reversed(waiting))
            structs = sections[client]
            if done[client] == len(structs):
                del waiting[client]
                continue
            struct = structs[done[client]]
            missing = _missing(client, struct, known, front, sections)
            if missing in waiting:
                refuse(f"client {missing} waits for what waits for it", struct.at, "no circle")
            if missing is not None:
                waiting[missing] = None
                continue
            yield client, struct
            front[client] = struct.end
            done[client] += 1
            if len(waiting) > 1:
                del waiting[client]


def _missing(
    client: int,
    struct: Struct,
    known: Mapping[int, int],
    front: Mapping[int, int],
    sections: Mapping[int, list[Struct]],
) -> int | None:
    """The client of the first id that this struct needs and that comes later in this update, if any."""
    for needed in (struct.origin, struct.right, struct.parent):
        if needed is None or isinstance(needed, str):
            continue
        to_client, to_clock = needed
        if to_client == client:
            if to_clock >= struct.clock:
                refuse(f"clock {struct.clock} refers to {to_clock} of its own client", struct.at, "an earlier one")
        elif to_clock >= known.get(to_client, 0) and to_clock >= front.get(to_client, 0):
            if to_client not in front or to_clock >= sections[to_client][-1].end:
                refuse(f"clock {to_clock} of client {to_client} is not known", struct.at, "no gap")
            return to_client
    return None


def at_once(steps: Steps[T]) -> T:
    """Do some work without a pause, and return its outcome."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            done: T = end.value
            return done


def _read_struct(data: bytes, start: int, clock: int) -> tuple[Struct, int]:
    info = data[start]
    at = start + 1
    origin = right = parent = None
    detail: list[int] | int = 0
    kind = info & 0x1F
    if info:
        if info & 0x80:
            origin, at = read_id(data, at)
        if info & 0x40:
            right, at = read_id(data, at)
        if info < 0x40:
            parent, at = _read_parent(data, at)
            if info & 0x20:
                at = read_text(data, at)[1]
        read = _CONTENT.get(kind)
        if read is None:
            refuse(f"content kind {kind}", start, "deleted, binary, string, embed, format, type or any")
        body = at
        length, at, detail = read(data, at)
    else:
        body = at
        length, at = read_uint(data, at)
    if not length:
        refuse("a struct has length 0", start, "1 at least: yrs drops it and shifts what follows")
    end = clock + length
    if end > CLOCK_MAX:
        refuse(f"a struct ends at clock {end}", start, f"at most {CLOCK_MAX}")
    fields = (clock, end, kind, origin, right, parent, info & 0x20 != 0, detail, start, body, at)
    return new_row(Struct, fields), at


def _read_parent(data: bytes, at: int) -> tuple[str | Id, int]:
    """The type that an item without neighbours goes into: a root by name, or a nested type by the id of its item."""
    tag = data[at]
    if not tag:
        return read_id(data, at + 1)
    if tag != 1:
        refuse(f"parent tag {tag}", at, "0 (an id) or 1 (a root name)")
    start, end = read_blob(data, at + 1)
    if end - start > ROOT_NAME_BYTES_MAX:
        refuse(f"a root name has {end - start} bytes", at, f"at most {ROOT_NAME_BYTES_MAX}")
    return read_text(data, at + 1)


def read_deletes(
    data: bytes, at: int, check: Callable[[int, int, int, int], None], ranges_max: int | None = None
) -> Steps[tuple[dict[int, list[tuple[int, int]]], int]]:
    """The delete set: by client, ranges (first clock, end clock exclusive) in rising order, and the offset after it.

    ``check`` is called with the client, first clock, end clock and byte offset of each range when it has been read.
    """
    deletes: dict[int, list[tuple[int, int]]] = {}
    if not data[at]:
        return deletes, at + 1
    done = 0
    clients, at = read_count(data, at, 2, "clients")
    for _ in range(clients):
        start = at
        client, at = read_uint(data, at)
        count, at = read_count(data, at, 2, "ranges")
        if ranges_max is not None and done + count > ranges_max:
            refuse("too many ranges are deleted", start, f"at most {ranges_max}: split the edit", TooManyParts)
        if client in deletes:
            refuse(f"client {client} occurs twice", start, "each client once")
        ranges = deletes[client] = []
        end = 0
        for number in range(done, done + count):
            start = at
            clock, at = read_uint(data, at)
            length, at = read_uint(data, at)
            if clock < end or not length:
                refuse(f"deletes clock {clock}, {length} long", start, f"{end} or later, and not empty")
            end = clock + length
            check(client, clock, end, start)
            ranges.append((clock, end))
            if number % STEP_STRUCTS == STEP_STRUCTS - 1:
                yield
        done += count
    return deletes, at


def read_id(data: bytes, at: int) -> tuple[Id, int]:
    """A Yjs client id and a clock."""
    client, end = read_uint(data, at)
    if client > CLIENT_MAX:
        refuse(f"client id {client} is too high", at, f"at most {CLIENT_MAX}")
    clock = data[end]
    if clock < 0x80:
        return (client, clock), end + 1
    clock, end = read_uint(data, end)
    return (client, clock), end


# -- content: each takes (data, at) and returns the clocks that it covers, the offset after it, and pairs or a type ----

_Content = tuple[int, int, "list[int] | int"]
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")


def _deleted(data: bytes, at: int) -> _Content:
    return *read_uint(data, at), 0


def _binary(data: bytes, at: int) -> _Content:
    return 1, read_blob(data, at)[1], 0


def _string(data: bytes, at: int) -> _Content:
    text, end = read_text(data, at)
    if text.isascii():
        return len(text), end, 0
    pairs = [match.start() + before + 1 for before, match in enumerate(_ASTRAL.finditer(text))]
    return len(text) + len(pairs), end, pairs


def _embed(data: bytes, at: int) -> _Content:
    return 1, skip_json(data, at), 0


def _format(data: bytes, at: int) -> _Content:
    return 1, skip_json(data, read_text(data, at)[1]), 0


def _type(data: bytes, at: int) -> _Content:
    """Array 0, map 1, text 2, XML element 3 (with its tag), XML fragment 4, XML text 6.

    Not XML hook 5, whose name yrs does not read, nor weak link 7 and the rest, which Yjs does not know.
    """
    kind = data[at]
    if kind not in (0, 1, 2, 3, 4, 6):
        refuse(f"shared type {kind}", at, "array, map, text, XML element, XML fragment or XML text")
    return 1, (read_text(data, at + 1)[1] if kind == 3 else at + 1), kind


def _anys(data: bytes, at: int) -> _Content:
    count, at = read_count(data, at, 1, "values")
    for _ in range(count):
        at = skip_any(data, at)
    return count, at, 0


# Not 2, JSON: obsolete in Yjs, and yrs reads one string too many; 9, subdocument; 10, skip: announces a gap; 11, move.
_CONTENT: Final[dict[int, Callable[[bytes, int], _Content]]] = {
    DELETED: _deleted,
    BINARY: _binary,
    STRING: _string,
    EMBED: _embed,
    FORMAT: _format,
    TYPE: _type,
    ANY: _anys,
}
