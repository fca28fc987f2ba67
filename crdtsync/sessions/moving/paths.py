"""Paths within a session's lines, under another home, user or directory.

A path stands in JSON as it is, with its backslashes doubled, once more so within a string of JSON, or with letters
beyond ASCII written out: each such form is looked for, and replaced by the same form of the new path. Only whole
directories count: ``/home/ann`` is not the beginning of ``/home/anna``. A path of Windows is also looked for as its
shells write it, ``C:/Users/ann`` and ``/c/Users/ann``, and what follows it has the separators of the new one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from crdtsync.errors import InvalidRequest
from crdtsync.sessions.saved.header import is_absolute

_WINDOWS = re.compile(r"([A-Za-z]):\\")
_MORE = rb"(?![A-Za-z0-9_-]|\.[A-Za-z0-9])"
_REST = rb"[^\s\"'`\\<>|:;,()\[\]{}*?$&#\x00-\x1f\x7f]*"


class PathMap:
    """Rewrites paths in lines; ``rewritten`` counts each path that was found, with the one that took its place."""

    def __init__(self, pairs: Mapping[str, str]) -> None:
        self.rewritten: Counter[tuple[str, str]] = Counter()
        self._new: dict[bytes, bytes] = {}
        self._separators: dict[bytes, bytes] = {}
        self.add(pairs)

    def add(self, pairs: Mapping[str, str]) -> None:
        """Rewrite these paths, too; a longer one comes before one that it begins with."""
        for old, new in pairs.items():
            if _trimmed(old) in ("", _trimmed(new)):
                continue
            for spelling in _spellings(_trimmed(old), _trimmed(new)):
                forms = _forms(spelling)
                self._new.update(zip(forms, _forms(_trimmed(new)), strict=True))
                if _WINDOWS.match(spelling) and new.startswith("/"):
                    self._separators.update(zip(forms, _forms("\\"), strict=True))
        parts = []
        for separator in dict.fromkeys((b"/", *self._separators.values())):
            olds = [old for old in self._new if self._separators.get(old, b"/") == separator]
            rest = _REST if separator == b"/" else _REST + b"(?:" + re.escape(separator) + _REST + b")*"
            alternatives = b"|".join(map(_edge, sorted(olds, key=len, reverse=True)))
            parts += [b"(" + alternatives + b")" + _MORE + b"(" + rest + b")"] if olds else []
        self._pattern = re.compile(b"|".join(parts))

    def twin(self) -> PathMap:
        """Another one that does the same, with a count of its own."""
        twin = PathMap({})
        twin._new, twin._pattern, twin._separators = self._new, self._pattern, self._separators
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
        at = found.lastindex or 0
        separator = self._separators.get(found[at - 1], b"/")
        new = self._new[found[at - 1]] + found[at].replace(separator, b"/")
        shown = (found[0].replace(separator, b"\\") if separator != b"/" else found[0], new)
        old, told = (path.decode("utf-8", "replace").rstrip(".") for path in shown)
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


def _spellings(old: str, new: str) -> list[str]:
    drive = _WINDOWS.match(old)
    if drive is None or not new.startswith("/"):
        return [old]
    letters, rest = (drive[1].upper(), drive[1].lower()), old[2:]
    slashed = rest.replace("\\", "/")
    return [f"{one}:{tail}" for one in letters for tail in (rest, slashed)] + [f"/{letters[1]}{slashed}"]


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
