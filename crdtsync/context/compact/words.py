"""Words of a text, and which of them tell the most: errors and negations go last when something must go."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from unicodedata import normalize

_WORD = re.compile(r"\w+", re.UNICODE)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\dA-Za-z_]+")
_ERROR_WORDS = (
    r"error|errors|exception|fail(ed|ure|s)?|fatal|panic|critical|traceback|refused|denied|timeout|timed out"
    r"|warn(ing)?|crash(ed)?|corrupt(ed)?|lost|missing|invalid"
)
_ERROR = re.compile(rf"\b({_ERROR_WORDS})\b", re.IGNORECASE)
_TELLING = re.compile(
    rf"\b({_ERROR_WORDS}|not|no|never|none|cannot|\w+n['’]t|without|except|unless|must|nicht|kein|nie|pas|jamais|не|нет|لا|لم|لن)\b"
    r"|[不没沒无無未勿]",
    re.IGNORECASE,
)
_SOLID = re.compile(r"\d|[/\\]\w|\w+\.\w{1,4}\b|[A-Z]{2,}|\w+_\w+|https?:")

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
_WORD_CHARS_MAX = 64

_COMMON = frozenset(
    _WORD.findall(
        "the a an and or of to in on at for with by from as is are was were be been it its this that these "
        "those he she they we you i not which who what when where how there here their his her our your has "
        "have had do does did will would can could should may might must than then so if but"
    )
)


def words(text: str) -> set[str]:
    """The :func:`terms` of ``text``, each once."""
    return set(terms(text))


def terms(text: str) -> Iterator[str]:
    """The words of ``text`` to search by, in order, in lower case.

    ``readFile`` is found by read, by file and by readfile; scripts that write no spaces are found by pairs of
    characters. It does not matter how a text puts its characters together, such as a syllable of Hangul of its letters.
    """
    for word in _WORD.findall(normalize("NFC", text)):
        if word.isascii() and word.isalpha() and word.islower():  # as most are: it has no parts
            yield word[:_WORD_CHARS_MAX]
        elif word.isascii() or not _CJK.search(word):
            yield word[:_WORD_CHARS_MAX].lower()
            parts = islice(_PARTS.finditer(word), 2 * _WORD_CHARS_MAX)
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


def content_words(text: str) -> set[str]:
    """The words of ``text`` but for those that every English text has."""
    return words(text) - _COMMON


def is_error(text: str) -> bool:
    """Whether ``text`` speaks of an error."""
    return _ERROR.search(text) is not None


def telling(text: str) -> Counter[str]:
    """The words by which ``text`` speaks of errors or denies something, and how often it has each."""
    return Counter(found[0].lower() for found in _TELLING.finditer(text))


def is_telling(text: str) -> bool:
    """Whether ``text`` speaks of an error, or denies something."""
    return _TELLING.search(text) is not None


def is_solid(text: str) -> bool:
    """Whether ``text`` has a number, a path, a name of code or an address: what nobody can guess."""
    return _SOLID.search(text) is not None
