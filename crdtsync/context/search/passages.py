"""An entry as passages: pieces of text that are found, and shown, one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from crdtsync.client import Entry
from crdtsync.context.shared.entry import is_record
from crdtsync.context.view.items import text_of

PASSAGE_CHARS = 1_000
"""A passage is about so long; a line that is longer is cut."""
PASSAGES_MAX = 4_000
"""Passages of one key that are looked through: of a value of 1 MiB all, of a longer log or text the newest."""


Mark = tuple[int, bytes]
"""How many elements of a session's log were read, and what is needed to go on there."""


@dataclass(frozen=True, slots=True)
class Said:
    """The texts of a saved session, in the place of the value of the log of its lines: texts, each with its time
    (RFC 3339). ``mark`` is where the next reading can go on; ``is_more``: this one went on from such a mark.
    """

    texts: tuple[tuple[str, str], ...]
    mark: Mark | None
    is_more: bool = False


def passages(entry: Entry) -> list[tuple[str, str]]:
    """The passages of an entry with all its concurrent values, each with its own time, or "" for the entry's; of a log
    each element begins one. An empty one stands for an entry that says nothing: it is found by its key.
    """
    if isinstance(entry.value, Said):
        found = [(passage, time) for text, time in entry.value.texts for passage in _cut(text)]
        return found[-PASSAGES_MAX:]
    parts: list[object] = []
    for value in (one.value for one in (entry, *entry.siblings)):
        if entry.kind == "log" and isinstance(value, list):
            parts += value[-PASSAGES_MAX:]
        else:
            parts.append(value["text"] if is_record(value) else value)
    cut = list(chain.from_iterable(_cut(text_of(part)) for part in parts)) or [""]
    return [(passage, "") for passage in cut[-PASSAGES_MAX:]]


def _cut(text: str) -> Iterable[str]:
    """``text`` in passages, at the ends of its lines where that can be."""
    passage: list[str] = []
    size = 0
    for line in _encodable(text).split("\n"):
        pieces = [line[at : at + PASSAGE_CHARS] for at in range(0, max(len(line), 1), PASSAGE_CHARS)]
        for piece in pieces:
            if passage and size + len(piece) > PASSAGE_CHARS:
                yield "\n".join(passage)
                passage, size = [], 0
            passage.append(piece)
            size += len(piece) + 1
    whole = "\n".join(passage)
    if whole.strip():
        yield whole


def _encodable(text: str) -> str:
    """``text`` without half characters, which JSON can name and a program leaves that cuts a text within an emoji."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
