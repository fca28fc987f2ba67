"""Words of a text, and which of them tell the most: errors and negations go last when something must go."""

from __future__ import annotations

import re

WORD = re.compile(r"\w+", re.UNICODE)
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\dA-Za-z_]+")
_TELLING = re.compile(
    r"\b(error|errors|exception|fail(ed|ure|s)?|fatal|panic|critical|traceback|refused|denied|timeout|timed out"
    r"|warn(ing)?"
    r"|crash(ed)?|corrupt(ed)?|lost|missing|invalid"
    r"|not|no|never|none|cannot|can't|won't|don't|doesn't|isn't|without|except|unless|must|nicht|kein|nie|pas|jamais|не|нет)\b",
    re.IGNORECASE,
)
_SOLID = re.compile(r"\d|[/\\]\w|\w+\.\w{1,4}\b|[A-Z]{2,}|\w+_\w+|https?:")

_COMMON = frozenset(
    WORD.findall(
        "the a an and or of to in on at for with by from as is are was were be been it its this that these "
        "those he she they we you i not which who what when where how there here their his her our your has "
        "have had do does did will would can could should may might must than then so if but"
    )
)


def words(text: str) -> set[str]:
    """The words of ``text`` in lower case; names in code also by their parts: ``readFile`` is read, file, readfile."""
    found: set[str] = set()
    for word in WORD.findall(text):
        found.add(word.lower())
        parts = PARTS.findall(word)
        if len(parts) > 1:
            found.update(part.lower() for part in parts)
    return found


def content_words(text: str) -> set[str]:
    """The words of ``text`` but for those that every English text has."""
    return words(text) - _COMMON


def is_telling(text: str) -> bool:
    """Whether ``text`` speaks of an error, or denies something."""
    return _TELLING.search(text) is not None


def is_solid(text: str) -> bool:
    """Whether ``text`` has a number, a path, a name of code or an address: what nobody can guess."""
    return _SOLID.search(text) is not None
