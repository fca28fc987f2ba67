"""Lines in, lines without secrets out, and a count of what was found."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Any

from crdtsync.sessions.redaction.own import OwnPatterns
from crdtsync.sessions.redaction.patterns import FORMS, NAME, STEMS, VALUE, SecretForm

REDACTED = "[redacted:"
"""So a mark begins."""
_MARK = re.compile(rb"\[redacted:([a-z0-9-]{1,40}):(\d{1,9})\]")
_KEY_ENDS = re.compile(rb"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_OF_KEY = re.compile(rb"[A-Za-z0-9+/=:, -]*\r?\n?")
_ORDINARY = re.compile(
    rb"https?:|[./~${<%]|[A-Za-z]:\\|\d{4}-\d\d-\d\d|c1\.|v1\.|[A-Za-z]+$|[a-z]+(?:[_.-][a-z]+)+\d?$|\d+(?:\.\d+)*[a-z]{0,2}$"
    rb"|(?-i:[A-Za-z][a-z]*\d?(?:[A-Z][a-z]+\d?)+\.[a-z]\w*$)"
    rb"|(?:sha\d+-|none|null|true|false|undefined|process\.env|os\.environ|self\.|x{4}|\*{4}|\.{3})",
    re.IGNORECASE,
)
"""Values that stand beside telling words and are no secrets: addresses, paths, dates, words, numbers, names in code."""
_BITS_PER_CHAR_MIN = 2.75


class Redactor:
    """Takes the secrets out of the lines of one file, from its first line on.

    A secret becomes ``[redacted:KIND:N]``: N counts the secrets of its kind in this file, and marks that are in the
    file already keep theirs. So the same file gives the same lines whenever it is read, and a file that was loaded with
    marks and has grown gives the lines that it was made from.
    """

    def __init__(self, own: OwnPatterns | None = None) -> None:
        self.found: Counter[str] = Counter()
        """How many different secrets were replaced, by kind."""
        self._own = own or OwnPatterns([])
        self._marks: dict[str, str] = {}
        self._numbers: Counter[str] = Counter()
        self._in_key = False
        self._alone = Lock()

    def state(self) -> dict[str, Any]:
        """The state that another one needs to go on from here; secrets stand in it by their digests alone."""
        return {"found": self.found, "marks": self._marks, "numbers": self._numbers, "in_key": self._in_key}

    def go_on(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.found, self._marks = Counter(state["found"]), dict(state["marks"])
        self._numbers, self._in_key = Counter(state["numbers"]), bool(state["in_key"])

    def twin(self) -> Redactor:
        """Another one that goes on from here, for what is no line: the marks of the file stay as they are."""
        twin = Redactor(self._own)
        twin.go_on({**self.state(), "in_key": False})
        return twin

    def lines(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """``lines`` without secrets."""
        return map(self.line, lines)

    def text(self, text: str) -> str:
        """A text that belongs to no file, without secrets. It has lines itself, and several threads may call this."""
        with self._alone:
            self._in_key = False
            lines = text.encode("utf-8", "surrogatepass").splitlines(keepends=True)
            without_keys = b"".join(map(self._key_block, lines))
            self._in_key = False
            return self.line(without_keys).decode("utf-8", "surrogatepass")

    def line(self, line: bytes) -> bytes:
        """One line without secrets."""
        if REDACTED.encode() in line:
            for kind, number in _MARK.findall(line):
                name = kind.decode()
                self._numbers[name] = max(self._numbers[name], int(number))
        line = self._key_block(line)
        dashed = line.replace(b"_", b"-")
        for form in FORMS:
            if form.hint in dashed:
                line = form.pattern.sub(partial(self._replaced, form), line)
        line = self._beside_telling_words(line)
        number = 0
        while number < len(self._own):
            number, spans = self._own.found(line, number)
            line = self._marked(line, spans, "own")
            number += 1
        return line

    def _key_block(self, line: bytes) -> bytes:
        """A private key that goes over several lines, as it does in a text file."""
        if self._in_key and (end := _KEY_ENDS.search(line)) is None and not _OF_KEY.fullmatch(line):
            self._in_key = False
        if self._in_key:
            if end is None:
                return self._mark(line.rstrip(b"\r\n"), "private-key") + (b"\n" if line.endswith(b"\n") else b"")
            self._in_key = False
            return self._mark(line[: end.end()], "private-key") + line[end.end() :]
        start = line.rfind(b"-----BEGIN ")
        if start >= 0 and line.rstrip().endswith(b"PRIVATE KEY-----") and b"\\n" not in line[start:]:
            self._in_key = _KEY_ENDS.search(line, start) is None
        return line

    def _beside_telling_words(self, line: bytes) -> bytes:
        """Values that look like chance, after words such as "password"."""
        small = line.lower()
        found: set[tuple[int, int]] = set()
        for stem, before in STEMS.items():
            at = small.find(stem)
            while at >= 0:
                if before is None or before.search(small, max(0, at - 12), at):
                    match = VALUE.match(line, at)
                    if match is not None and _begins_word(line, at) and _looks_random(match[match.lastgroup or 0]):
                        found.add(match.span(match.lastgroup or 0))
                at = small.find(stem, at + 1)
        return self._marked(line, sorted(found), "secret")

    def _marked(self, line: bytes, spans: Iterable[tuple[int, int]], kind: str) -> bytes:
        """``line`` with marks in the place of ``spans``, which are sorted; one that begins within another is none."""
        parts, at = [], 0
        for start, end in spans:
            if start >= at:
                parts += [line[at:start], self._mark(line[start:end], kind)]
                at = end
        return b"".join([*parts, line[at:]])

    def _replaced(self, form: SecretForm, found: re.Match[bytes]) -> bytes:
        group = 1 if found.re.groups else 0
        if found[group] is None or (form.in_name and _is_within(found.string, found.start())):
            return found[0]
        start, end = found.start(group) - found.start(), found.end(group) - found.start()
        return found[0][:start] + self._mark(found[group], form.kind) + found[0][end:]

    def _mark(self, secret: bytes, kind: str) -> bytes:
        if not secret or _MARK.fullmatch(secret):
            return secret
        digest = sha256(secret.replace(b"_", b"-")).hexdigest()
        if digest not in self._marks:
            self._numbers[kind] += 1
            self.found[kind] += 1
            self._marks[digest] = f"{REDACTED}{kind}:{self._numbers[kind]}]"
        return self._marks[digest].encode()


def _is_within(line: bytes, at: int) -> bool:
    """Whether what is at ``at`` goes on from so much that this is no name."""
    return line[at - 1 : at] in (b"_", b"-") and NAME.search(line, max(0, at - 101), at) is None


def _begins_word(line: bytes, at: int) -> bool:
    """Whether the word at ``at`` is a word, or the last part of a name such as ``DB_PASSWORD`` or ``dbPassword``, and
    not a part of a name in AWS such as ``arn:aws:secretsmanager:…:secret:prod``.
    """
    before = line[at - 1 : at]
    if before == b":" and b"arn:" in line[max(0, at - 100) : at]:
        return False
    return (
        not before.isalnum()
        or line[at - 2 : at] in (b"\\n", b"\\r", b"\\t")
        or ((before.islower() or before.isdigit()) and line[at : at + 1].isupper())
        or line[at : at + 4].lower().startswith((b"key", b"pass"))
    )


def _looks_random(value: bytes) -> bool:
    """Whether nobody would choose ``value`` as a word: mixed characters, and many different ones."""
    if value.startswith(REDACTED.encode()) or _ORDINARY.match(value):
        return False
    classes = sum(re.search(kind, value) is not None for kind in (rb"[a-z]", rb"[A-Z]", rb"\d", rb"[^A-Za-z0-9]"))
    if classes < 2:
        return False
    counts = Counter(value).values()
    bits = -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
    return bits >= _BITS_PER_CHAR_MIN
