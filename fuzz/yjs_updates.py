"""Structure-aware fuzzing of ``crdtsync.wire.yjs``: what the validator passes, pycrdt must survive.

Genuine updates come from random editing sessions of real pycrdt documents. They are mutated (bytes, varints, fields of
structs, splices), and whatever the validator accepts is applied in a worker process, to a document that holds a prefix
of the session, and then read and edited in every way. It fails on: a panic, a dead worker, more than a second, more
than 64 MB of growth, and a document that does not hold what the validator said it would.

    python fuzz/yjs_updates.py --inputs 2000 --seed 1

prints one summary; the exit status is 1 if anything was found, with the seed and the updates in hex.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import random
import re
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pycrdt

from crdtsync.wire.yjs import InvalidUpdate, Outline, RootKind, advance, validate_update

ROOTS: Final[dict[str, type]] = {
    "text": pycrdt.Text,
    "array": pycrdt.Array,
    "map": pycrdt.Map,
    "xml": pycrdt.XmlFragment,
}
KINDS: Final[dict[str, RootKind]] = {"text": "text", "array": "array", "map": "map", "xml": "xml"}
JOB_SECONDS_MAX: Final = 1.0
GROWTH_BYTES_MAX: Final = 64 * 1024 * 1024
JOBS_PER_WORKER: Final = 2000
SCRAPS: Final = ("a", "word ", "é", "日本語", "😀", "👩‍👩‍👧", "e\u0301", "😀😀", "x😀y", "\n", "\x00", "<b>&amp;")


# -- genuine sessions ---------------------------------------------------------------------------------------------


class Replica:
    """A pycrdt document, the updates that its own edits made, and how far it has followed the others."""

    def __init__(self, client_id: int, rng: random.Random) -> None:
        self.rng = rng
        self.doc: Any = pycrdt.Doc(client_id=client_id)
        self.roots = {name: self.doc.get(name, type=kind) for name, kind in ROOTS.items()}
        self.made: list[bytes] = []
        self.applied = 0
        self._local = False
        self._subscription = self.doc.observe(self._note)
        self.undo = pycrdt.UndoManager(scopes=[self.roots["text"], self.roots["array"]], capture_timeout_millis=0)

    def _note(self, event: pycrdt.TransactionEvent) -> None:
        if self._local:
            self.made.append(bytes(event.update))

    def receive(self, update: bytes) -> None:
        """Apply another replica's update."""
        self.doc.apply_update(update)

    def edit(self, only_text: bool = False) -> None:
        """One local transaction of one to three random edits."""
        self._local = True
        try:
            with self.doc.transaction():
                for _ in range(self.rng.choice((1, 1, 1, 2, 3))):
                    edit = _edit_text if only_text else self.rng.choice(_EDITS)
                    edit(self.roots, self.rng)
            if self.rng.random() < 0.05:
                self.rng.choice((self.undo.undo, self.undo.redo))()
        finally:
            self._local = False


def session(rng: random.Random, edits: int, only_text: bool = False) -> list[bytes]:
    """The updates of two to four replicas that edit concurrently, in one causal order."""
    ids = rng.sample(range(1, 2 ** rng.choice((3, 32, 53))), rng.randint(2, 4))
    replicas = [Replica(client_id, rng) for client_id in ids]
    updates: list[bytes] = []
    for _ in range(edits):
        replica = rng.choice(replicas)
        if rng.random() < 0.4:
            for update in updates[replica.applied :]:
                replica.receive(update)
            replica.applied = len(updates)
        replica.edit(only_text)
        if replica.made:
            updates += replica.made
            replica.made.clear()
    return updates


def _value(rng: random.Random, depth: int = 0) -> Any:
    scalars: tuple[Any, ...] = (None, True, False, 0, -1, 1.5, 2**40, 1e300, "s", rng.choice(SCRAPS), b"\x00\xff")
    if depth < 3 and rng.random() < 0.3:
        if rng.random() < 0.5:
            return [_value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
        return {rng.choice("abc"): _value(rng, depth + 1) for _ in range(rng.randint(0, 3))}
    return rng.choice(scalars)


def _scrap(rng: random.Random) -> str:
    return "".join(rng.choice(SCRAPS) for _ in range(rng.randint(1, 3)))


def _index(text: Any, rng: random.Random) -> int:
    """A position between two characters or embeds. pycrdt counts UTF-8 bytes, and splits a character unasked."""
    sizes: list[int] = []
    for chunk, _ in text.diff():
        sizes += [len(char.encode()) for char in chunk] if isinstance(chunk, str) else [1]
    return sum(sizes[: rng.randint(0, len(sizes))])


def _edit_text(roots: dict[str, Any], rng: random.Random) -> None:
    text = roots["text"]
    choice = rng.random()
    first, last = sorted((_index(text, rng), _index(text, rng)))
    if choice < 0.55 or first == last:
        text.insert(first, _scrap(rng), {"bold": True} if rng.random() < 0.1 else None)
    elif choice < 0.8:
        del text[first:last]
    elif choice < 0.95:
        text.format(first, last, {rng.choice(("bold", "link")): rng.choice((True, None, "http://x/é", {"deep": [1]}))})
    else:
        text.insert_embed(first, {"embed": _value(rng)})  # not a str: diff() would not tell it from text


def _nested(rng: random.Random) -> Any:
    kind = rng.choice((pycrdt.Text, pycrdt.Array, pycrdt.Map))
    if kind is pycrdt.Text:
        return pycrdt.Text(_scrap(rng))
    if kind is pycrdt.Array:
        return pycrdt.Array([_value(rng), pycrdt.Map({"k": _value(rng)})])
    return pycrdt.Map({"k": _value(rng), "t": pycrdt.Text("nested 😀"), "a": pycrdt.Array([1, 2])})


def _edit_array(roots: dict[str, Any], rng: random.Random) -> None:
    array = roots["array"]
    size = len(array)
    index = rng.randint(0, size)
    if size and rng.random() < 0.3:
        del array[rng.randrange(size)]
        return
    inner = array[index] if index < size else None
    if isinstance(inner, pycrdt.Text):
        inner.insert(_index(inner, rng), _scrap(rng))
    elif isinstance(inner, pycrdt.Array):
        inner.append(_value(rng))
    elif isinstance(inner, pycrdt.Map):
        inner[rng.choice("kta")] = _value(rng)
    else:
        array.insert(index, _nested(rng) if rng.random() < 0.4 else _value(rng))


def _edit_map(roots: dict[str, Any], rng: random.Random) -> None:
    shared = roots["map"]
    key = rng.choice(("a", "b", "clé", "😀"))
    if key in shared and rng.random() < 0.3:
        del shared[key]
    else:
        shared[key] = _nested(rng) if rng.random() < 0.3 else _value(rng)


def _edit_xml(roots: dict[str, Any], rng: random.Random) -> None:
    children = roots["xml"].children
    size = len(children)
    choice = rng.random()
    if size and choice < 0.2:
        del children[rng.randrange(size)]
    elif size and choice < 0.5:
        child = children[rng.randrange(size)]
        if isinstance(child, pycrdt.XmlElement):
            child.attributes[rng.choice(("id", "class"))] = rng.choice(SCRAPS)
        elif isinstance(child, pycrdt.XmlText):
            child.insert(0, _scrap(rng))
    elif choice < 0.75:
        children.insert(rng.randint(0, size), pycrdt.XmlText(_scrap(rng)))
    else:
        element = pycrdt.XmlElement("p", {"id": "1"}, [pycrdt.XmlText("in"), pycrdt.XmlElement("br")])
        children.insert(rng.randint(0, size), element)


_EDITS: Final = (_edit_text, _edit_text, _edit_array, _edit_map, _edit_xml)


# -- updates taken apart --------------------------------------------------------------------------------------------


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


# -- mutation -----------------------------------------------------------------------------------------------------

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


# -- the worker: applies and reads -----------------------------------------------------------------------------------


def _state(doc: Any) -> dict[int, int]:
    reader = Reader(doc.get_state())
    return {client: clock for client, clock in ((reader.uint(), reader.uint()) for _ in range(reader.uint())) if clock}


def _attempt(read: Callable[[], object]) -> None:
    """Ordinary exceptions are answers; a PanicException is a BaseException and passes through."""
    with contextlib.suppress(Exception):
        read()


def _read_all(doc: Any) -> None:
    for name, kind in ROOTS.items():
        root: Any = doc.get(name, type=kind)
        for read in (str, len, list, dict, repr, lambda r: r.to_py(), lambda r: r.diff(), lambda r: list(r.children)):
            _attempt(lambda read=read, root=root: read(root))  # type: ignore[misc]
    _attempt(lambda: [str(value) for value in doc.values()])
    _attempt(lambda: pycrdt.Snapshot.from_doc(doc).encode())
    _attempt(lambda: doc.get_update(b"\x00"))
    _attempt(lambda: doc.get_update(doc.get_state()))


def _edit_all(doc: Any, rng: random.Random) -> None:
    roots = {name: doc.get(name, type=kind) for name, kind in ROOTS.items()}
    for edit in (
        _edit_text,
        _edit_text,
        _edit_text,
        _edit_array,
        _edit_array,
        _edit_map,
        _edit_map,
        _edit_xml,
        _edit_xml,
    ):
        _attempt(lambda edit=edit: edit(roots, rng))  # type: ignore[misc]
    text = roots["text"]
    for _ in range(30):
        _attempt(lambda: text.insert(_index(text, rng), "z"))
    _attempt(text.clear)
    _attempt(roots["array"].clear)
    _attempt(roots["map"].clear)


def run_job(updates: Iterable[bytes], seed: int) -> str:
    """Apply accepted updates to one document and read it after each. Returns what was found, or ''."""
    doc: Any = pycrdt.Doc(client_id=2**52 + 1)
    roots = {name: doc.get(name, type=kind) for name, kind in ROOTS.items()}
    subscriptions = [root.observe_deep(lambda events: [str(event) for event in events]) for root in roots.values()]
    known = Outline(KINDS)
    note = ""
    for update in updates:
        summary = validate_update(update, known)
        try:
            doc.apply_update(update)
        except Exception as error:  # noqa: BLE001
            note = f"refused by pycrdt: {type(error).__name__}: {re.sub(r'[0-9]+', 'N', str(error))}"
            break
        advance(known, summary)
        if _state(doc) != known:
            return f"mismatch: the document holds {_state(doc)}, the validator says {known}"
    _read_all(doc)
    copy: Any = pycrdt.Doc()
    whole = doc.get_update()
    try:
        advance(Outline(KINDS), validate_update(whole, Outline(KINDS)))
    except InvalidUpdate as error:
        note = note or f"unfaithful: get_update() is refused: {re.sub(r'[0-9]+', 'N', str(error))}"
    copy.apply_update(whole)
    if not note and str(copy.get("text", type=pycrdt.Text)) != str(roots["text"]):
        note = "unfaithful: the text changes by a reload"
    pycrdt.merge_updates(*updates)
    _edit_all(doc, random.Random(seed))
    _read_all(doc)
    copy.apply_update(doc.get_update(copy.get_state()))
    _read_all(copy)
    for root, subscription in zip(roots.values(), subscriptions, strict=True):
        root.unobserve(subscription)
    return note


def worker() -> None:
    """Read jobs from stdin, a JSON line each; answer each with a line on stdout."""
    sys.setrecursionlimit(10_000)
    for line in sys.stdin:
        seed, *updates = json.loads(line)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            found = run_job([bytes.fromhex(update) for update in updates], seed)
        except BaseException as error:  # noqa: BLE001
            found = f"panic: {type(error).__name__}: {error}"
        growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        if growth > GROWTH_BYTES_MAX:
            found = f"growth: {growth} bytes"
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


class Worker:
    """One worker process at a time, replaced when it dies or after many jobs; killed by its pid."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.jobs = 0

    def run(self, updates: list[bytes], seed: int) -> str:
        """What the worker found in this job, or ''."""
        if self.process is None or self.jobs >= JOBS_PER_WORKER:
            self.stop()
            command = [sys.executable, str(Path(__file__).resolve()), "--worker"]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            self.jobs = 0
            self._ask([], 0, 10.0)  # imports are not part of the time limit
        self.jobs += 1
        return self._ask(updates, seed, JOB_SECONDS_MAX)

    def _ask(self, updates: list[bytes], seed: int, seconds: float) -> str:
        process = self.process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        answer = ""
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps([seed, *(update.hex() for update in updates)]) + "\n")
            process.stdin.flush()
            if not select.select([process.stdout], [], [], seconds)[0]:
                self.stop()
                return f"hang: more than {seconds} s"
            answer = process.stdout.readline()
        if not answer:
            status = self.stop()
            return f"crash: the worker ended with {signal.Signals(-status).name if status < 0 else status}"
        return str(json.loads(answer))

    def stop(self) -> int:
        """End the worker, by its pid. Returns its exit status, negative for a signal."""
        process, self.process = self.process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.kill()
        with contextlib.suppress(BrokenPipeError):
            process.communicate()
        return process.returncode


# -- the run ---------------------------------------------------------------------------------------------------------


@dataclass
class Totals:
    """What a run has seen."""

    inputs: int = 0
    accepted: int = 0
    jobs: int = 0
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    notes: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[str] = field(default_factory=list)


def _reason(error: InvalidUpdate) -> str:
    return re.sub(r"\([^)]*\)|[0-9]+", "N", str(error).split(", at byte")[0])[:60]


def attempts(rng: random.Random) -> Iterator[tuple[Mutator, list[bytes], int]]:
    """Sessions without end, each with a number of mutations to try on it."""
    while True:
        updates = session(rng, rng.randint(2, 25), only_text=rng.random() < 0.4)
        if updates:
            yield Mutator(updates, rng), updates, 60


def one_history(mutator: Mutator, updates: list[bytes], rng: random.Random, totals: Totals) -> list[bytes]:
    """A prefix of a session, one to three mutated updates, and what of the rest still fits. Only accepted ones."""
    known = Outline(KINDS)
    history = updates[: rng.randint(0, len(updates))]
    rest = updates[len(history) :]
    for update in history:
        advance(known, validate_update(update, known))
    mutated = 0
    for _ in range(rng.choice((1, 1, 2, 3))):
        base = rng.choice(rest[:2] or updates)
        if rng.random() < 0.2:
            base = pycrdt.merge_updates(*(rest[: rng.randint(1, 5)] or updates))
        candidate = mutator.mutate(base, known)
        totals.inputs += 1
        try:
            summary = validate_update(candidate, known)
        except InvalidUpdate as error:
            totals.refused[_reason(error)] += 1
            continue
        totals.accepted += 1
        mutated += 1
        advance(known, summary)
        history.append(candidate)
    if not mutated:
        return []
    for update in rest if rng.random() < 0.5 else []:
        try:
            advance(known, validate_update(update, known))
        except InvalidUpdate:
            continue
        history.append(update)
    return history


def fuzz(inputs: int, seed: int, seconds: float) -> Totals:
    """Run until ``inputs`` mutated updates have been tried or the time is over."""
    totals = Totals()
    rng = random.Random(seed)
    deadline = time.monotonic() + seconds
    runner = Worker()
    try:
        for mutator, updates, count in attempts(rng):
            for _ in range(count):
                if totals.inputs >= inputs or time.monotonic() > deadline or len(totals.failures) >= 20:
                    return totals
                history = one_history(mutator, updates, rng, totals)
                if not history:
                    continue
                totals.jobs += 1
                job_seed = rng.randrange(2**32)
                found = runner.run(history, job_seed)
                if found.startswith(("refused by pycrdt", "unfaithful")):
                    totals.notes[found] += 1
                elif found:
                    hexes = " ".join(update.hex() for update in history)
                    totals.failures.append(f"{found}\n  seed {seed}, job seed {job_seed}, updates: {hexes}")
    finally:
        runner.stop()
    return totals


def report(totals: Totals, seconds: float) -> None:
    """Print the summary."""
    print(f"{totals.inputs} inputs, {totals.accepted} accepted, {totals.jobs} histories applied, {seconds:.0f} s")
    for reason, count in totals.refused.most_common():
        print(f"  refused {count:7}  {reason}")
    for note, count in totals.notes.most_common(20):
        print(f"  note    {count:7}  {note}")
    kinds = collections.Counter(failure.split(":")[0] for failure in totals.failures)
    print("found: " + (", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing"))
    for failure in totals.failures:
        print(failure)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--inputs", type=int, default=100_000, help="mutated updates to try")
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, which is printed")
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop after this time")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker()
        return 0
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    started = time.monotonic()
    totals = fuzz(arguments.inputs, seed, arguments.seconds)
    report(totals, time.monotonic() - started)
    return 1 if totals.failures else 0


if __name__ == "__main__":
    sys.exit(main())
