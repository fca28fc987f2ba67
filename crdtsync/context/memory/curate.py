"""Which memories say the same in nearly the same words, and which have not been looked after for long; pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from crdtsync.client import Entry
from crdtsync.context.compact.words import content_words, telling
from crdtsync.context.memory.record import moment

Same = Callable[[str, str], bool]
ALIKE = 0.8
"""From this share of words in common on, two texts say the same, if no number or negation is among the others."""
_COMMON_MAX = 50  # a word in more memories than that does not make two of them worth comparing


def says_the_same(one: str, other: str) -> bool:
    """Whether two texts have nearly the same words, and the same numbers, names and negations."""
    first, second = content_words(one), content_words(other)
    if not first or not second or _solid(one) != _solid(other) or telling(one) != telling(other):
        return False
    return len(first & second) >= ALIKE * len(first | second)


def duplicates(entries: Sequence[Entry], same: Same) -> list[list[Entry]]:
    """Groups of memories that say the same, each with the one to keep first: the surest, then the oldest.

    ``same`` is asked of pairs that have an uncommon word in common. Only memories of one scope and about one thing are
    compared.
    """
    left = sorted(entries, key=_worth)
    groups: list[list[Entry]] = []
    taken: set[str] = set()
    near = _near(left)
    for entry in left:
        if entry.key in taken:
            continue
        others = [
            other for other in near[entry.key]
            if other.key not in taken and other is not entry and _place(other) == _place(entry)
            and same(entry.value["memory"], other.value["memory"])
        ]  # fmt: skip
        if others:
            groups.append([entry, *others])
            taken |= {entry.key, *(other.key for other in others)}
    return groups


def stale(entries: Sequence[Entry], older_than: timedelta, now: datetime) -> list[Entry]:
    """Those that nobody has written for so long, the oldest first."""
    written = {one.key: str(one.value.get("updated_at") or one.value["created_at"]) for one in entries}
    old = (one for one in entries if now - (moment(written[one.key]) or now) > older_than)
    return sorted(old, key=lambda one: (written[one.key], one.key))


def _near(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """For each key the later entries that share an uncommon word with it."""
    words = {entry.key: content_words(entry.value["memory"]) for entry in entries}
    times = Counter(word for found in words.values() for word in found)
    by_word: dict[str, list[Entry]] = defaultdict(list)
    near: dict[str, list[Entry]] = {}
    for entry in reversed(entries):
        rare = sorted(word for word in words[entry.key] if times[word] <= _COMMON_MAX)
        near[entry.key] = list({other.key: other for word in rare for other in reversed(by_word[word])}.values())
        for word in rare:
            by_word[word].append(entry)
    return near


def _solid(text: str) -> set[str]:
    """Numbers, and what is written like a name: two texts that differ in one of these say different things."""
    return {*re.findall(r"\w*\d[\w.,:/-]*\w|\d", text), *re.findall(r"(?<=[a-z,;] )[A-Z]\w+", text)}


def _place(entry: Entry) -> tuple[object, ...]:
    return tuple(entry.value.get(name) for name in ("user_id", "agent_id", "run_id", "about"))


def _worth(entry: Entry) -> tuple[float, str, str]:
    return (-1.0 if entry.confidence is None else -entry.confidence, str(entry.value["created_at"]), entry.key)
