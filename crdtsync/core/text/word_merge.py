"""Texts that have to be joined without a common Yjs document: by words, so that no word is ever torn."""

from __future__ import annotations

import re
from collections.abc import Sequence

from crdtsync.differences import Edit, Effort, changed_lines, changes, common_prefix
from crdtsync.wire.yjs.encoding import Steps

WORD_DIFFERENCES_MAX = 400
"""Between two blocks of lines; beyond it they count as different from end to end."""

STEPS_MAX = 40_000
"""Steps that comparing two texts may take, at 0.5 µs each; blocks that are not compared by then count as different from
end to end.
"""

WORDS_CHARS_MAX = 100_000
"""Characters of all blocks that are compared by words; beyond it the same."""

WORD_CHARS_MAX = 1000
"""Words of more may be cut, in such blocks."""

LINES_CHARS_MAX = 200
"""Where shorter blocks of lines say different things, both are kept as they are; of longer ones, what differs."""

# Words of alphabets that put spaces between them; else single characters, blanks and line ends too.
_TOKEN = re.compile(r"[0-9A-Za-z_\u00aa-\u024f\u0370-\u05ff]+|.", re.DOTALL)

_Spans = list[tuple[int, int, int, int]]


def word_edits(old: str, new: str) -> list[Edit]:
    """The edits from ``old`` to ``new``, ascending and of whole words."""
    return [(start, end, new[first:last]) for start, end, first, last in _changes(old, new)]


def union_slowly(texts: Sequence[str]) -> Steps[str]:
    """One text with the content of all: what they have in common once, what only one has beside it. One text a step.

    The union of the union of a and b with b is the union of a and b, within these bounds.
    """
    whole = ""
    for number, text in enumerate(texts):
        whole = _union(whole, text) if number else text
        yield
    return whole


def _union(one: str, other: str) -> str:
    parts: list[str] = []
    position = 0
    for start, end, first, last in _changes(one, other, readable=True):
        parts.append(one[position:start])
        parts.append(_below(one[start:end], other[first:last]))
        position = end
    return "".join((*parts, one[position:]))


def _beside(one: str, other: str) -> str:
    """Two texts one after the other, words apart from words."""
    is_apart = not one or not other or not one[-1].isalnum() or not other[0].isalnum()
    return one + other if is_apart else f"{one} {other}"


def _below(one: str, other: str) -> str:
    """The same where both are whole phrases: on lines of their own."""
    is_apart = not one or not other or one[-1].isspace() or other[0].isspace()
    are_words = all(not text or _TOKEN.fullmatch(text) for text in (one, other))
    return _beside(one, other) if is_apart or are_words else f"{one}\n{other}"


def _changes(old: str, new: str, readable: bool = False) -> _Spans:
    """Changed spans in code points: of words, within changed blocks of lines. ``readable``: of whole lines, rather than
    words of one here and there among those of the other.
    """
    found: _Spans = []
    effort, chars_left = Effort(STEPS_MAX), WORDS_CHARS_MAX
    for start, end, first, last in changed_lines(old, new, effort):
        chars_left -= end - start + last - first
        if chars_left < 0:
            found.append(_trimmed(old, new, start, end, first, last))
            continue
        old_words, new_words = _TOKEN.findall(old[start:end]), _TOKEN.findall(new[first:last])
        spans = list(changes(old_words, new_words, WORD_DIFFERENCES_MAX, effort))
        if readable and _are_two(old_words, new_words, spans):
            found.append((start, end, first, last))
            continue
        old_at, new_at = _offsets(start, old_words), _offsets(first, new_words)
        found += [(old_at[a], old_at[b], new_at[c], new_at[d]) for a, b, c, d in spans]
    return found


def _trimmed(old: str, new: str, start: int, end: int, first: int, last: int) -> tuple[int, int, int, int]:
    """The part of a long block that differs, without the same beginning and end."""
    same = common_prefix(old[start:end], new[first:last])
    for _ in range(WORD_CHARS_MAX):
        if not same or not (_is_in_word(old, start + same) or _is_in_word(new, first + same)):
            break
        same -= 1
    start, first = start + same, first + same
    same = common_prefix(old[start:end][::-1], new[first:last][::-1])
    for _ in range(WORD_CHARS_MAX):
        if not same or not (_is_in_word(old, end - same) or _is_in_word(new, last - same)):
            break
        same -= 1
    return start, end - same, first, last - same


def _is_in_word(text: str, at: int) -> bool:
    """Whether a word goes on here."""
    token = _TOKEN.match(text, at - 1, at + 1) if at else None
    return token is not None and token.end() > at


def _are_two(old: Sequence[str], new: Sequence[str], spans: _Spans) -> bool:
    """Whether one is hardly the other edited. Where one holds all of the other, it is."""
    removed = sum(_weight(old[a:b]) for a, b, _, _ in spans)
    added = sum(_weight(new[c:d]) for _, _, c, d in spans)
    if not removed or not added:
        return False
    weight = min(_weight(old), _weight(new))
    return weight <= LINES_CHARS_MAX or 2 * (_weight(old) - removed) < weight


def _weight(words: Sequence[str]) -> int:
    """Characters but blanks."""
    return sum(len(word) for word in words if not word.isspace())


def _offsets(first: int, words: Sequence[str]) -> list[int]:
    offsets = [first]
    for word in words:
        offsets.append(offsets[-1] + len(word))
    return offsets
