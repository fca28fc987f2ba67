"""Genuine editing sessions of real pycrdt documents: several replicas that edit at once, in every way."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any, Final

import pycrdt

from crdtsync.wire.yjs.validator import RootKind

ROOTS: Final[dict[str, type]] = {
    "text": pycrdt.Text,
    "array": pycrdt.Array,
    "map": pycrdt.Map,
    "xml": pycrdt.XmlFragment,
}
KINDS: Final[dict[str, RootKind]] = {"text": "text", "array": "array", "map": "map", "xml": "xml"}
SCRAPS: Final = ("a", "word ", "é", "日本語", "😀", "👩‍👩‍👧", "e\u0301", "😀😀", "x😀y", "\n", "\x00", "<b>&amp;")


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


def attempt(read: Callable[[], object]) -> None:
    """Do it. Ordinary exceptions are answers; a PanicException is a BaseException and passes through."""
    with contextlib.suppress(Exception):
        read()


def edit_all(doc: Any, rng: random.Random) -> None:
    """Edit a document in every way, and clear it."""
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
        attempt(lambda edit=edit: edit(roots, rng))  # type: ignore[misc]
    text = roots["text"]
    for _ in range(30):
        attempt(lambda: text.insert(_index(text, rng), "z"))
    attempt(text.clear)
    attempt(roots["array"].clear)
    attempt(roots["map"].clear)
