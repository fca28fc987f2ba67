"""The Yjs library, pycrdt: the door to it in the core.

pycrdt can panic (a ``BaseException``) or kill the process on hostile bytes: only updates that have passed the
structural validation of :mod:`crdtsync.wire.yjs.validator` may come here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING

from crdtsync.differences import Edit
from crdtsync.wire.yjs.encoding import STEP_STRUCTS, Steps
from crdtsync.wire.yjs.lib0 import InvalidUpdate
from crdtsync.wire.yjs.rewriting import in_pieces, joined
from crdtsync.wire.yjs.validator import RootKind

if TYPE_CHECKING:
    from pycrdt import Doc, Text

    YjsText = Doc[Text]

LONG_BYTES_MIN = 8 * 1024
"""Stored edits that are longer are looked at before the library takes them in."""
PIECES_MAX = 2000
"""An edit has at most so many."""

ROOT = "text"
MAP = "doc"
ROOTS: Mapping[str, RootKind] = {ROOT: "text", MAP: "map"}
"""The roots of a document that agents read: the text here; the map in the agent's process alone."""

NO_CHANGE = b"\0\0"
"""The Yjs update with neither insertions nor deletions."""

NO_CLOCKS = b"\0"
"""The Yjs state vector of an empty document."""


def new_doc(client: int | None = None) -> Doc[Text]:
    """An empty document."""
    from pycrdt import Doc  # noqa: PLC0415  # with the first text: many daemons hold none, and it takes 5 MB and a while

    return Doc() if client is None else Doc(client_id=client)


def text_of(doc: Doc[Text]) -> Text:
    """The text that a document holds."""
    from pycrdt import Text  # noqa: PLC0415  # as above

    return doc.get(ROOT, type=Text)


def fresh_updates(text: str, seed: bytes, chunk_chars_max: int) -> list[bytes]:
    """Yjs updates that make ``text`` in an empty document, in parts of about so many characters."""
    doc = new_doc(client_of(seed, text.encode()))
    root = text_of(doc)
    updates: list[bytes] = []
    subscription = doc.observe(lambda event: updates.append(event.update))
    for start in range(0, len(text), chunk_chars_max):
        root += text[start : start + chunk_chars_max]
    doc.unobserve(subscription)
    return updates or [NO_CHANGE]


def edited_by(state: bytes, changes: Sequence[Edit], client: int, like: bytes | None = None) -> bytes:
    """The Yjs update by which this client makes ``changes`` (of code points, ascending) to the text of a document, and
    its map say what that of the whole document ``like`` says.

    :raises InvalidRequest: the map cannot be made.
    """
    doc = new_doc(client)
    doc.apply_update(state)
    root = text_of(doc)
    content = str(root)
    updates: list[bytes] = []
    subscription = doc.observe(lambda event: updates.append(event.update))
    with doc.transaction():
        for start, end, replacement in reversed(changes):
            first = len(content[:start].encode())  # pycrdt counts positions in UTF-8 bytes
            last = first + len(content[start:end].encode())
            if last > first:
                del root[first:last]
            if replacement:
                root.insert(first, replacement)
        if like is not None:
            _make_map_like(doc, like)
    doc.unobserve(subscription)
    return b"".join(updates) or NO_CHANGE  # one transaction makes at most one update


def _make_map_like(doc: Doc[Text], like: bytes) -> None:
    from crdtsync.core.text.map_making import make_like  # noqa: PLC0415  # as above

    then = new_doc()
    then.apply_update(like)
    make_like(doc, then, MAP)


def loaded_in_steps(state: bytes, structs_max: int) -> Steps[Doc[Text]]:
    """A document of which this is the whole, of which the library takes in so many structs at a time."""
    doc = new_doc()
    with doc.transaction():  # at the end of one, the library joins what fits together, which takes long
        for group in (yield from in_pieces(state, {}, structs_max)):
            for piece in group:
                doc.apply_update(piece)
            yield
    return doc


def text_in(state: bytes) -> Steps[str]:
    """The text of a whole document."""
    return str(text_of((yield from loaded_in_steps(state, STEP_STRUCTS))))


def client_of(*parts: bytes) -> int:
    """A Yjs client id that stands for this content: 53 bits of its hash."""
    state = blake2b(digest_size=8, person=b"crdtsync-client")
    for part in parts:
        state.update(len(part).to_bytes(8, "big") + part)
    return max(1, int.from_bytes(state.digest(), "big") >> 11)


def whole_state(state: bytes | None, updates: list[bytes]) -> bytes:
    """A stored document as one update; empty if there is none."""
    if not updates:
        return state or b""
    doc = new_doc()
    for update in (*([state] if state else ()), *map(in_few, updates)):
        doc.apply_update(update)
    return doc.get_update()


def in_few(update: bytes) -> bytes:
    """A stored edit as the library takes it in soonest: it may have been made in many pieces, which fit together."""
    if len(update) > LONG_BYTES_MIN:
        with suppress(InvalidUpdate):  # there are more: it is no edit, but a state, whose pieces are joined already
            return joined(update, PIECES_MAX)
    return update


def is_panic(error: BaseException) -> bool:
    """pyo3's PanicException is a BaseException, and cannot be imported."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
