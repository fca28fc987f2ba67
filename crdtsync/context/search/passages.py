"""An entry as passages: pieces of text that are found, and shown, one by one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from crdtsync.client import Entry
from crdtsync.context.view.items import text_of

PASSAGE_CHARS = 1_000
"""A passage is about so long; a line that is longer is cut."""
PASSAGES_MAX = 4_000
"""Of one key, so many are looked through: of a value of 1 MiB all, of a longer log or text the newest."""


def passages(entry: Entry) -> list[str]:
    """The passages of an entry with all its concurrent values; of a log each element begins one."""
    values = [one.value for one in (entry, *entry.siblings)]
    found: list[str] = []
    for value in values:
        parts = value if entry.kind == "log" and isinstance(value, list) else [value]
        found += chain.from_iterable(_cut(text_of(part)) for part in parts[-PASSAGES_MAX:])
    return found[-PASSAGES_MAX:]


def _cut(text: str) -> Iterable[str]:
    """``text`` in passages, at the ends of its lines where that can be."""
    passage: list[str] = []
    size = 0
    for line in text.split("\n"):
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
