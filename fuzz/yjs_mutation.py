"""Yjs updates taken apart, changed in their structure or in their bytes, and put together again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from crdtsync.wire.yjs.validator import Outline, advance, validate_update
from fuzz.yjs_sessions import KINDS

# -- taken apart -------------------------------------------------------------------------------------------------------


@dataclass
class Struct:
    """One struct: its info byte and its fields as numbers and bytes, free to be changed."""

    info: int
    origin: list[int] | None = None
    right: list[int] | None = None
    parent: list[int] | bytes | None = None
    key: bytes | None = None
    length: int = 0
    content: bytes = b""


@dataclass
class Parts:
    """An update taken apart."""

    clients: list[tuple[list[int], list[Struct]]] = field(default_factory=list)
    deletes: list[tuple[int, list[list[int]]]] = field(default_factory=list)


class Reader:
    """Reads genuine updates only; independent of the validator that is under test."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def uint(self) -> int:
        """Next lib0 varint."""
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def blob(self) -> bytes:
        """Next length-prefixed bytes."""
        size = self.uint()
        self.at += size
        return self.data[self.at - size : self.at]

    def any(self) -> None:
        """Skip one lib0 Any."""
        tag = self.data[self.at]
        self.at += 1
        if tag in (116, 119):
            self.blob()
        elif tag in (117, 118):
            for _ in range(self.uint()):
                if tag == 118:
                    self.blob()
                self.any()
        elif tag == 125:
            self.uint()
        else:
            self.at += {124: 4, 123: 8, 122: 8}.get(tag, 0)

    def content(self, kind: int) -> bytes:
        """The bytes of one item's content."""
        start = self.at
        if kind == 6:
            self.blob()
        if kind in (3, 4, 5, 6):
            self.blob()
        elif kind == 1:
            self.uint()
        elif kind == 7:
            self.at += 1
            if self.data[self.at - 1] == 3:
                self.blob()
        elif kind == 8:
            for _ in range(self.uint()):
                self.any()
        return self.data[start : self.at]

    def struct(self) -> Struct:
        """Next struct."""
        struct = Struct(self.data[self.at])
        self.at += 1
        if not struct.info:
            struct.length = self.uint()
            return struct
        if struct.info & 0x80:
            struct.origin = [self.uint(), self.uint()]
        if struct.info & 0x40:
            struct.right = [self.uint(), self.uint()]
        if not struct.info & 0xC0:
            struct.parent = self.blob() if self.uint() else [self.uint(), self.uint()]
            if struct.info & 0x20:
                struct.key = self.blob()
        struct.content = self.content(struct.info & 0x1F)
        return struct

    def parts(self) -> Parts:
        """The whole update."""
        parts = Parts()
        for _ in range(self.uint()):
            count = self.uint()
            head = [self.uint(), self.uint()]
            parts.clients.append((head, [self.struct() for _ in range(count)]))
        for _ in range(self.uint()):
            client = self.uint()
            parts.deletes.append((client, [[self.uint(), self.uint()] for _ in range(self.uint())]))
        return parts


def uint(value: int) -> bytes:
    """A lib0 varint."""
    out = bytearray()
    value = max(0, value)
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _blob(data: bytes) -> bytes:
    return uint(len(data)) + data


def _put_struct(struct: Struct) -> bytes:
    if not struct.info:
        return b"\0" + uint(struct.length)
    out = bytes([struct.info & 0xFF])
    for present, pair in ((struct.info & 0x80, struct.origin), (struct.info & 0x40, struct.right)):
        if present:
            out += b"".join(map(uint, pair or [0, 0]))
    if not struct.info & 0xC0:
        parent = struct.parent if struct.parent is not None else b"text"
        out += b"\1" + _blob(parent) if isinstance(parent, bytes) else b"\0" + b"".join(map(uint, parent))
        if struct.info & 0x20:
            out += _blob(struct.key if struct.key is not None else b"a")
    return out + struct.content


def put(parts: Parts) -> bytes:
    """The bytes of an update."""
    out = uint(len(parts.clients))
    for (client, clock), structs in parts.clients:
        out += uint(len(structs)) + uint(client) + uint(clock) + b"".join(map(_put_struct, structs))
    out += uint(len(parts.deletes))
    for client, ranges in parts.deletes:
        out += uint(client) + uint(len(ranges)) + b"".join(uint(clock) + uint(size) for clock, size in ranges)
    return out


# -- mutation ---------------------------------------------------------------------------------------------------------

ODD_NUMBERS: Final = (0, 1, 2, 127, 128, 2**14, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 - 1, 2**53, 2**63, 2**64)
CONTENTS: Final[dict[int, tuple[bytes, ...]]] = {
    1: (b"\x01", b"\x05", b"\x00"),
    2: (b"\x01\x011", b"\x01\x011\x011"),
    3: (b"\x00", b"\x03abc"),
    4: (b"\x01a", b"\x04\xf0\x9f\x98\x80", b"\x05\xf0\x9f\x98\x80b", b"\x00", b"\x03\xed\xa0\xbd", b"\x02\xc3\xa9"),
    5: (b"\x04null", b'\x0f{"image":"a.b"}', b"\x01{", b'\x08"\\ud800"', b"\x03NaN", b"\x051e999"),
    6: (b"\x04bold\x04true", b"\x04bold\x04null", b"\x01k\x02{}", b"\x00\x00", b"\x01k\x00"),
    7: (b"\x00", b"\x01", b"\x02", b"\x03\x01p", b"\x04", b"\x05\x01h", b"\x06", b"\x07\x00\x01\x00", b"\x09", b"\x0f"),
    8: (b"\x01\x7f", b"\x02\x7e\x7d\x01", b"\x01\x75\x01\x76\x01\x01k\x7f", b"\x00", b"\x01\x7b" + b"\xff" * 8),
    9: (b"\x01g\x76\x00",),
    10: (b"\x01",),
    11: (b"\x00\x01\x00", b"\x01\x01\x00\x01\x01"),
}


class Mutator:
    """Changes updates of one session; ids it writes are mostly ones that the session knows."""

    def __init__(self, updates: list[bytes], rng: random.Random) -> None:
        self.rng = rng
        self.updates = updates
        known = Outline(KINDS)
        for update in updates:
            advance(known, validate_update(update, known))
        self.ends = known or {1: 1}

    def mutate(self, update: bytes, known: Outline) -> bytes:
        """One mutated update, sometimes only in its bytes, mostly in its structure."""
        if self.rng.random() < 0.25:
            return self._bytes(bytearray(update))
        parts = Reader(update).parts()
        for _ in range(self.rng.choice((1, 1, 1, 2, 3))):
            self.rng.choice(self._MUTATIONS)(self, parts)
        if self.rng.random() < 0.7:  # a genuine place to start from, so that more than "gap" is tried
            for head, _ in parts.clients:
                head[1] = min(head[1], known.get(head[0], 0)) if self.rng.random() < 0.5 else known.get(head[0], 0)
        return put(parts)

    def _bytes(self, data: bytearray) -> bytes:
        rng = self.rng
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(data) + 1)
            choice = rng.randrange(6)
            if choice == 0:
                data[at : at + 1] = bytes([rng.randrange(256)])
            elif choice == 1 and at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            elif choice == 2:
                del data[at : at + rng.randint(1, 4)]
            elif choice == 3:
                data[at:at] = uint(rng.choice(ODD_NUMBERS))
            elif choice == 4:
                other = rng.choice(self.updates)
                start = rng.randrange(len(other))
                data[at:at] = other[start : start + rng.randint(1, 12)]
            else:
                data[at : at + 1] = uint(rng.choice(ODD_NUMBERS))
        return bytes(data)

    def _number(self, value: int) -> int:
        if self.rng.random() < 0.1:
            return self.rng.choice(ODD_NUMBERS)
        return value + self.rng.choice((-2, -1, -1, 1, 1, 2))

    def _some_id(self) -> list[int]:
        client = self.rng.choice(sorted(self.ends))
        return [client, self.rng.randrange(self.ends[client] + 1)]

    def _struct(self, parts: Parts) -> tuple[list[int], list[Struct], int] | None:
        filled = [entry for entry in parts.clients if entry[1]]
        if not filled:
            return None
        head, structs = self.rng.choice(filled)
        return head, structs, self.rng.randrange(len(structs))

    def _change_info(self, parts: Parts) -> None:
        found = self._struct(parts)
        if found:
            _, structs, index = found
            structs[index].info ^= 1 << self.rng.choice((0, 1, 2, 3, 4, 5, 5, 6, 6, 7, 7))

    def _change_ids(self, parts: Parts) -> None:
        found = self._struct(parts)
        if not found:
            return
        _, structs, index = found
        struct = structs[index]
        pair = self._some_id()
        choice = self.rng.randrange(4)
        near = [p for p in (struct.origin, struct.right, struct.parent) if isinstance(p, list)]
        if choice == 0 and near:
            self.rng.choice(near)[1] += self.rng.choice((-1, 1))
        elif choice == 1:
            struct.origin = pair
            struct.info |= 0x80
        elif choice == 2:
            struct.right = pair
            struct.info |= 0x40
        else:
            struct.parent = self.rng.choice((pair, b"text", b"array", b"map", b"xml", b"other"))
            struct.info &= 0x3F

    def _change_content(self, parts: Parts) -> None:
        found = self._struct(parts)
        if found:
            _, structs, index = found
            kind = self.rng.choice(sorted(CONTENTS))
            structs[index].info = structs[index].info & 0xE0 | kind
            structs[index].content = self.rng.choice(CONTENTS[kind])

    def _nest(self, parts: Parts) -> None:
        found = self._struct(parts)
        if found:
            head, structs, index = found
            depth = self.rng.choice((1, 3, 30, 300))
            clock = head[1] + index
            structs[index:index] = [
                Struct(7, parent=b"array" if not level else [head[0], clock + level - 1], content=b"\0")
                for level in range(depth)
            ]

    def _splice_structs(self, parts: Parts) -> None:
        found = self._struct(parts)
        if not found:
            return
        _, structs, index = found
        choice = self.rng.randrange(5)
        if choice == 0:
            del structs[index]
        elif choice == 1:
            structs.insert(index, structs[self.rng.randrange(len(structs))])
        elif choice == 2:
            structs.insert(index, Struct(0, length=self.rng.choice((1, 2, 5, 2**20, *ODD_NUMBERS))))
        elif choice == 3:
            structs[index] = Struct(10, length=1)
        else:
            self.rng.shuffle(structs)

    def _change_head(self, parts: Parts) -> None:
        if parts.clients:
            head, _ = self.rng.choice(parts.clients)
            which = self.rng.randrange(2)
            head[which] = self._number(head[which]) if which or self.rng.random() < 0.5 else self._some_id()[0]

    def _merge_clients(self, parts: Parts) -> None:
        other = Reader(self.rng.choice(self.updates)).parts()
        parts.clients += other.clients
        parts.deletes += other.deletes
        if self.rng.random() < 0.3:
            self.rng.shuffle(parts.clients)

    def _change_deletes(self, parts: Parts) -> None:
        client, clock = self._some_id()
        size = self.rng.choice((1, 1, 1, 2, 5, self.ends[client], *ODD_NUMBERS))
        if not parts.deletes or self.rng.random() < 0.4:
            parts.deletes.append((client, [[clock, size]]))
            return
        _, ranges = self.rng.choice(parts.deletes)
        if ranges and self.rng.random() < 0.6:
            chosen = self.rng.choice(ranges)
            which = self.rng.randrange(2)
            chosen[which] = self._number(chosen[which])
        elif ranges and self.rng.random() < 0.5:
            del ranges[self.rng.randrange(len(ranges))]
        else:
            ranges.append([clock, size])

    _MUTATIONS: Final[tuple[Callable[[Mutator, Parts], None], ...]] = (
        _change_info,
        _change_ids,
        _change_ids,
        _change_ids,
        _change_content,
        _change_content,
        _nest,
        _splice_structs,
        _splice_structs,
        _change_head,
        _merge_clients,
        _change_deletes,
        _change_deletes,
    )
