"""Compaction: a document is made anew with the same characters under the same ids, and what was deleted is forgotten.

Every deletion leaves a tombstone, since somebody may insert beside it without knowing. If 100,000 words have been
replaced in a text of 10 kB, nearly all of its document is tombstones. In the new document a range of clocks stands for
each run of them (a GC struct of Yjs), and no place in the text. For example::

    old:   "Hello "  [cruel ]  [big ]  "world"          in brackets: deleted
    new:   "Hello "  "world"                            of the rest it knows that it was there

An edit that was made elsewhere, of the old document, may stand after ``cruel``. A node that applies it makes it in the
new document too, after ``Hello`` and before ``world`` (:mod:`crdtsync.core.text.places`). Ids never change. So an
insertion is there once, however it comes; a deletion holds for ever; and two nodes that compact at once begin two
documents between which edits pass likewise (:mod:`crdtsync.core.text.family`). Nothing is ever found by comparing
words.

The price is that what was typed in one piece and is now in many stays in many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crdtsync.causality import Dot, Writer
from crdtsync.core.text.document import MORE_THAN_TEXT, Document
from crdtsync.core.text.yjs_library import ROOT, text_in
from crdtsync.errors import InvalidValue
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.yjs.encoding import STEP_STRUCTS, STRING, Id, Steps
from crdtsync.wire.yjs.lib0 import written_text
from crdtsync.wire.yjs.order import Run
from crdtsync.wire.yjs.rewriting import (
    NewStruct,
    WholeText,
    units,
    written_gap,
    written_item,
    written_update,
)

CHUNK_CHARS_MAX = 128 * 1024
"""Characters of a fresh document that one operation makes."""

_NAMELESS = Dot(Writer(0), 0, 0)


class Forgotten(NamedTuple):
    """A document made anew, by these Yjs updates, which it has begun with; ``cut`` is how far it goes, by client."""

    updates: list[bytes]
    cut: dict[int, int]
    document: Document
    bytes_before: int


def forget(state: bytes, structs_max: int, chars_max: int) -> Steps[Forgotten]:
    """Make a document anew, in updates of at most so many structs and about so many characters.

    :raises InvalidValue: it holds more than text; or somebody has forged edits of it, and its text would be another.
    """
    whole = yield from WholeText.read(state, ROOT)
    if not whole.is_only_text():
        raise InvalidValue(MORE_THAN_TEXT, path="$")
    cut = whole.ends()
    shown = yield from _shown(whole)
    parts = yield from _parts(shown, cut, chars_max)
    updates: list[bytes] = []
    for chunk in _chunks(parts, structs_max, chars_max):
        updates.append(written_update(chunk))
        yield
    document = Document(_NAMELESS, lambda _: (None, []))
    for update in updates:
        yield from document.take_ahead(update)
        yield
    if document.is_to_be_counted:
        yield from document.count()
    if document.read() != (yield from text_in(state)):
        raise InvalidValue("the characters of this text stand in another order each time it is read", path="$")
    return Forgotten(updates, cut, document, len(state))


def _shown(whole: WholeText) -> Steps[list[tuple[Run, str]]]:
    """The characters that are not deleted, in the order of the text."""
    texts = yield from whole.characters()
    found: list[tuple[Run, str]] = []
    for number, (run, struct) in enumerate((yield from whole.in_order())):
        if number % STEP_STRUCTS == 0:
            yield
        if struct not in texts:
            continue
        content = units(texts[struct], run.clock - struct.clock, run.end - struct.clock)
        if found and (found[-1][0].client, found[-1][0].end) == (run.client, run.clock):
            before, earlier = found.pop()
            found.append((Run(run.client, before.clock, run.end), earlier + content))
        else:
            found.append((run, content))
    return found


def _parts(shown: list[tuple[Run, str]], cut: dict[int, int], chars_max: int) -> Steps[list[NewStruct]]:
    """The structs of the new document, client by client."""
    beside = yield from _neighbours([run for run, _ in shown])
    texts: dict[int, list[tuple[Run, str]]] = {client: [] for client in cut}
    for run, text in shown:
        texts[run.client].append((run, text))
    parts: list[NewStruct] = []
    done = 0
    yield
    for client in sorted(cut):
        reached = 0
        for run, text in sorted(texts[client]):
            if run.clock > reached:
                parts.append(NewStruct(client, reached, written_gap(run.clock - reached)))
            origin, right = beside[run]
            parts += _pieces(run, text, origin, right, chars_max)
            reached = run.end
            done += 1
            if done % STEP_STRUCTS == 0:
                yield
        if cut[client] > reached:
            parts.append(NewStruct(client, reached, written_gap(cut[client] - reached)))
    return parts


def _pieces(run: Run, text: str, origin: Id | None, right: Id | None, chars_max: int) -> Iterator[NewStruct]:
    clock = run.clock
    for start in range(0, len(text), chars_max):
        piece = text[start : start + chars_max]
        yield NewStruct(run.client, clock, written_item(STRING, origin, right, ROOT, written_text(piece)))
        clock += len(piece.encode("utf-16-le")) // 2
        origin = (run.client, clock - 1)


def _neighbours(shown: list[Run]) -> Steps[dict[Run, tuple[Id | None, Id | None]]]:
    """The neighbours of each run, had they been inserted one by one, in the order of clients and clocks.

    They are taken out in the opposite order, and each has then those neighbours that it was inserted between.
    """
    before: list[Run | None] = [None, *shown]
    after: list[Run | None] = [*shown[1:], None]
    index = {run: at for at, run in enumerate(shown)}
    found: dict[Run, tuple[Id | None, Id | None]] = {}
    yield
    for number, run in enumerate(sorted(shown, reverse=True), 1):
        if number % STEP_STRUCTS == 0:
            yield
        left, right = before[index[run]], after[index[run]]
        found[run] = left and (left.client, left.end - 1), right and (right.client, right.clock)
        if left is not None:
            after[index[left]] = right
        if right is not None:
            before[index[right]] = left
    return found


def _chunks(parts: Iterable[NewStruct], structs_max: int, chars_max: int) -> Iterator[list[NewStruct]]:
    chunk: list[NewStruct] = []
    size_bytes = 0
    for part in parts:
        if chunk and (len(chunk) == structs_max or size_bytes + len(part.data) > 3 * chars_max):
            yield chunk
            chunk, size_bytes = [], 0
        chunk.append(part)
        size_bytes += len(part.data)
    yield chunk
