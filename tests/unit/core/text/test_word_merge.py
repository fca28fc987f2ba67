"""Texts joined by words: what they have in common once, and never more work than is bounded."""

from __future__ import annotations

import pytest

from crdtsync.core.text import word_merge
from crdtsync.core.text.word_merge import WORDS_CHARS_MAX, union_slowly, word_edits
from crdtsync.wire.yjs.encoding import at_once

COMMON = "word " * WORDS_CHARS_MAX


def edited(text: str, changes: list[tuple[int, int, str]]) -> str:
    for start, end, replacement in reversed(changes):
        text = text[:start] + replacement + text[end:]
    return text


def test_what_is_the_same_around_a_change_in_a_long_line_stays_once() -> None:
    one, other = f"{COMMON}seven {COMMON}", f"{COMMON}seventy {COMMON}"
    assert word_edits(one, other) == [(len(COMMON), len(COMMON) + 5, "seventy")]
    assert at_once(union_slowly([one, other])) == f"{COMMON}seven seventy {COMMON}"


def test_long_lines_that_are_no_longer_compared_by_words_are_both_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what comes before, within the bound, is compared."""
    monkeypatch.setattr(word_merge, "WORDS_CHARS_MAX", 100)
    lines = ["a short line that is there\n", "the same\n", "start with " + "one " * 20 + "to the end\n"]
    others = ["a short line which is there\n", "the same\n", "start with " + "other " * 20 + "to the end\n"]
    one, other = "".join(lines), "".join(others)
    whole = at_once(union_slowly([one, other]))
    assert whole.startswith("a short line that is there\na short line which is there\nthe same\n")
    assert whole.count("start with") == whole.count("to the end") == 1
    assert (whole.count("one"), whole.count("other")) == (20, 20)
    assert edited(one, word_edits(one, whole)) == whole


def test_what_takes_too_many_steps_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_merge, "STEPS_MAX", 10)
    one = " ".join(f"w{number}" for number in range(50))
    other = " ".join(f"w{number}" if number % 2 else "x" for number in range(50))
    assert at_once(union_slowly([one, other])) == f"{one}\n{other}"
