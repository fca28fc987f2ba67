"""Patterns of keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.errors import InvalidRequest
from crdtsync.wire.patterns import PATTERN_PARTS_MAX, Pattern, check_pattern
from tests.examples import examples


@pytest.mark.parametrize(
    "pattern, matching, others",
    [
        ("plan", ["plan"], ["plan/a", "plans", "pla", "_plan"]),
        ("plan/*", ["plan/a", "plan/"], ["plan", "plan/a/b", "plans/a", "other/a"]),
        ("plan/**", ["plan", "plan/a", "plan/a/b"], ["plans", "plans/a", "other/plan"]),
        ("*", ["plan", "a"], ["plan/a", "_schema"]),
        ("**", ["plan", "plan/a/b"], ["_schema", "_schema/plan"]),
        ("**/status", ["status", "a/status", "a/b/status"], ["a/status/b", "statuses", "_a/status"]),
        ("a/*/c", ["a/b/c", "a//c"], ["a/c", "a/b/b/c"]),
        ("a/**/c", ["a/c", "a/b/c", "a/b/b/c", "a/c/c"], ["a/c/d", "b/c", "ac"]),
        ("**/a/**/b", ["a/b", "x/a/b", "a/a/x/b/b", "a/b/a/b"], ["b/a", "a", "a/b/x"]),
        ("*/**", ["a", "a/b"], ["_a", "_a/b"]),
        ("**/*", ["a", "a/b"], ["_a"]),
        ("é/*", ["é/ü"], ["e/ü"]),
    ],
)
def test_a_wildcard_stands_for_whole_parts(pattern: str, matching: list[str], others: list[str]) -> None:
    """``*`` is one part, ``**`` any number, also none; neither reaches into reserved keys."""
    checked = check_pattern(pattern)
    assert [key for key in [*matching, *others] if checked.matches(key)] == matching
    assert all(key.startswith(checked.prefix) for key in matching)


@pytest.mark.parametrize(
    "pattern, words",
    [
        ("", "must not be empty"),
        (7, "must be a string"),
        ("a\n", "control character"),
        ("x" * 1025, "longer than"),
        ("_schema/a", "reserved"),
        ("_*", "reserved"),
        ("plan-*", "whole parts"),
        ("a/***", "whole parts"),
        ("a/**b/*", "whole parts"),
        ("/".join(["a"] * PATTERN_PARTS_MAX) + "/*", "65 parts"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern: object, words: str) -> None:
    """The message says what is wrong."""
    with pytest.raises(InvalidRequest, match=re.escape(words)):
        check_pattern(pattern)


def test_an_exact_key_may_have_any_number_of_parts() -> None:
    """Every key that a user may write, but those with an asterisk, is a pattern."""
    key = "/".join(["a"] * 300)
    assert check_pattern(key).matches(key)


def ranked(patterns: Iterable[Pattern], key: str) -> list[Pattern]:
    """Those that match, the most specific one first."""
    return sorted((pattern for pattern in patterns if pattern.matches(key)), key=lambda pattern: pattern.rank)


@pytest.mark.parametrize(
    "key, expected",
    [
        ("plan/goal", "plan/goal"),
        ("plan/other", "plan/*"),
        ("plan", "plan/**"),
        ("plan/a/b", "plan/**"),
        ("other/goal", "*/goal"),
        ("x/y/z/goal", "**/goal"),
        ("x", "*"),
        ("x/y/z", "**"),
    ],
)
def test_the_most_specific_pattern_wins(key: str, expected: str) -> None:
    """A name before ``*`` before ``**``, from the left, in whatever order they were written."""
    texts = ["plan/goal", "plan/*", "plan/**", "*/goal", "**/goal", "*", "**"]
    for order in (texts, texts[::-1]):
        assert ranked(map(check_pattern, order), key)[0].text == expected


def test_patterns_that_are_alike_go_by_their_text() -> None:
    """So that every node decides the same."""
    one, other = check_pattern("**/a/**"), check_pattern("**/b/**")
    assert ranked([other, one], "b/a") == ranked([one, other], "b/a") == [one, other]
    assert ranked([one, other], "c") == []


_PART = st.sampled_from(["a", "b", "", "*", "**"])


@examples(100)
@given(st.lists(_PART, min_size=1, max_size=6), st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=6))
def test_matching_is_what_the_definition_says(pattern: list[str], parts: list[str]) -> None:
    """Compared with trying every number of parts for every ``**``."""
    text, key = "/".join(pattern), "/".join(parts)
    if not text or not key:
        return
    runs = [[["*"] * count for count in range(len(parts) + 1)] if part == "**" else [[part]] for part in pattern]
    expected = any(
        len(plain) == len(parts) and all(want in ("*", have) for want, have in zip(plain, parts, strict=True))
        for choice in product(*runs)
        if (plain := [part for run in choice for part in run])
    )
    assert check_pattern(text).matches(key) == expected
