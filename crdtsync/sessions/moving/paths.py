"""Paths within a session's lines, under another home, user or directory.

A path stands in JSON as it is, with its backslashes doubled, once more so within a string of JSON, or with letters
beyond ASCII written out: each such form is looked for, and replaced by the same form of the new path. Only whole
directories count: ``/home/ann`` is not the beginning of ``/home/anna``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from crdtsync.errors import InvalidRequest
from crdtsync.sessions.saved.header import is_absolute

_REST = rb"[^\s\"'`\\<>|:;,()\[\]{}*?$&#\x00-\x1f\x7f]*"


class PathMap:
    """Rewrites paths in lines; ``rewritten`` counts each path that was found, with the one that took its place."""

    def __init__(self, pairs: Mapping[str, str]) -> None:
        self.rewritten: Counter[tuple[str, str]] = Counter()
        self._new: dict[bytes, bytes] = {}
        self.add(pairs)

    def add(self, pairs: Mapping[str, str]) -> None:
        """Rewrite these paths, too; a longer one comes before one that it begins with."""
        for old, new in pairs.items():
            if _trimmed(old) not in ("", _trimmed(new)):
                self._new.update(zip(_forms(_trimmed(old)), _forms(_trimmed(new)), strict=True))
        alternatives = b"|".join(map(_edge, sorted(self._new, key=len, reverse=True)))
        self._pattern = re.compile(b"(" + alternatives + rb")(?![A-Za-z0-9_-]|\.[A-Za-z0-9])(" + _REST + b")")

    def twin(self) -> PathMap:
        """Another one that does the same, with a count of its own."""
        twin = PathMap({})
        twin._new, twin._pattern = self._new, self._pattern
        return twin

    def __bool__(self) -> bool:
        return bool(self._new)

    def lines(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """``lines`` with the new paths."""
        if not self:
            yield from lines
            return
        for line in lines:
            yield self._pattern.sub(self._replaced, line)

    def path(self, path: str) -> str:
        """A path by itself."""
        return next(self.lines([path.encode("utf-8", "surrogateescape")])).decode("utf-8", "surrogateescape")

    def _replaced(self, found: re.Match[bytes]) -> bytes:
        new = self._new[found[1]] + found[2]
        old, told = (path.decode("utf-8", "replace").rstrip(".") for path in (found[0], new))
        self.rewritten[old, told] += 1
        return new


def parsed(maps: Iterable[str]) -> dict[str, str]:
    """``OLD=NEW`` words as a mapping; both are absolute."""
    pairs = {}
    for word in maps:
        old, sign, new = word.partition("=")
        if not (sign and is_absolute(old) and is_absolute(new)) or "/" in (old, new):
            raise InvalidRequest(f"{word!r} maps no path: write OLD=NEW with two absolute paths")
        pairs[old] = new
    return pairs


def _trimmed(path: str) -> str:
    return path.rstrip("/\\")


def _edge(path: bytes) -> bytes:
    """``path`` where a path may begin. It begins with plain characters and looks behind after them: that is quick."""
    old = re.escape(path)
    behind = (rb"(?<![A-Za-z0-9_./~-]", rb"(?<=\\[nrt]", b"(?<=file://")
    return old + b"(?:" + b"|".join(one + old + b")" for one in behind) + b")"


def _forms(path: str) -> list[bytes]:
    """How a path may be written in a line."""
    once = json.dumps(path, ensure_ascii=False)[1:-1]
    escaped = json.dumps(path)[1:-1]
    forms = [path, once, json.dumps(once, ensure_ascii=False)[1:-1], escaped, json.dumps(escaped)[1:-1]]
    return [form.encode("utf-8", "surrogateescape") for form in forms]
