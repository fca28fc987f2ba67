"""An entry as passages: pieces of text that are found, and shown, one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from crdtsync.client import Entry
from crdtsync.context.compact.words import PARTS, WORD
from crdtsync.context.view.items import text_of

PASSAGE_CHARS = 1_000
"""A passage is about so long; a line that is longer is cut."""
PASSAGES_MAX = 4_000
"""Of one key, so many are looked through: of a value of 1 MiB all, of a longer log or text the newest."""

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
_WORD_CHARS_MAX = 64


def passages(entry: Entry) -> list[str]:
    """The passages of an entry with all its concurrent values; of a log each element begins one."""
    values = [one.value for one in (entry, *entry.siblings)]
    found: list[str] = []
    for value in values:
        parts = value if entry.kind == "log" and isinstance(value, list) else [value]
        found += chain.from_iterable(_cut(text_of(part)) for part in parts[-PASSAGES_MAX:])
    return found[-PASSAGES_MAX:]


def terms(text: str) -> list[str]:
    """The words of ``text`` to search by, in order, in lower case.

    ``readFile`` is found by read, by file and by readfile; scripts that write no spaces are found by pairs of
    characters.
    """
    return list(_terms(text))


def _terms(text: str) -> Iterator[str]:
    for match in WORD.finditer(text):
        word = match[0]
        if word.isascii() or not _CJK.search(word):
            yield word[:_WORD_CHARS_MAX].lower()
            parts = islice(PARTS.finditer(word), 2 * _WORD_CHARS_MAX)
            names = [part[0][:_WORD_CHARS_MAX].lower() for part in parts]
            if len(names) > 1:
                yield from names
        else:
            yield from _pairs(word)


def _pairs(word: str) -> Iterator[str]:
    for run in re.split(f"({_CJK.pattern})", word):
        if not _CJK.fullmatch(run):
            yield from ([run[:_WORD_CHARS_MAX].lower()] if run else ())
        elif len(run) == 1:
            yield run
        else:
            yield from (run[at : at + 2] for at in range(len(run) - 1))


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
