"""Patterns of keys: ``*`` is one part, ``**`` any number of parts, none included; everything else is itself.

A wildcard stands for whole parts. It never reaches into the reserved keys, whose first part starts with ``_``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

from crdtsync.errors import InvalidRequest
from crdtsync.wire.limits import key_fault, shown

PATTERN_PARTS_MAX = 64
"""Parts of a pattern with wildcards: matching costs at most this many steps for each part of a key."""

ONE_PART = "*"
ANY_PARTS = "**"

_END_RANK, _LITERAL_RANK, _ONE_RANK, _ANY_RANK, _ANY_END_RANK = range(5)
_RANKS = {ONE_PART: _ONE_RANK, ANY_PARTS: _ANY_RANK}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A checked pattern; make one with :func:`check_pattern`."""

    text: str
    parts: tuple[str, ...] = field(compare=False, repr=False)
    prefix: str = field(compare=False, repr=False)
    """Every key that matches begins with this."""
    is_exact: bool = field(compare=False, repr=False)
    """It has no wildcard: it matches one key."""

    def matches(self, key: str) -> bool:
        """Whether ``key`` is one of those that the pattern means."""
        if self.is_exact:
            return key == self.text
        return key[:1] != "_" and key.startswith(self.prefix) and _matches(self.parts, key.split("/"))

    def covers(self, other: Pattern) -> bool:
        """Whether every key that ``other`` matches is one of this pattern's, as their parts tell.

        Never true without being so: rights are granted by it. It is not found out of
        a few pairs that are related in a more intricate way.
        """
        if other.is_exact:
            return self.matches(other.text)
        if self.is_exact:
            return False
        return _covers(_ordered(self.parts), _ordered(other.parts))

    def meets(self, prefix: str) -> bool:
        """Whether keys that begin with ``prefix`` may be among those that match."""
        if prefix[:1] == "_":
            return False
        own = self.text if self.is_exact else self.prefix
        return own.startswith(prefix) or (not self.is_exact and prefix.startswith(own))

    @property
    def rank(self) -> tuple[tuple[int, ...], str]:
        """The more specific one of two patterns has the lower rank.

        The first part in which they differ decides: a name is more specific than ``*``, that than ``**``; a pattern
        that ends there is more specific still, unless its last part is ``**``. Patterns that are alike in this go by
        their text, so that all nodes agree.
        """
        end = _ANY_END_RANK if self.parts[-1] == ANY_PARTS else _END_RANK
        return (*(_RANKS.get(part, _LITERAL_RANK) for part in self.parts), end), self.text


def check_pattern(text: object) -> Pattern:
    """The pattern that ``text`` is.

    :raises InvalidRequest: what is wrong with it.
    """
    fault = key_fault(text)
    if fault is not None:
        raise InvalidRequest(f"the pattern {shown(text)} {fault}")
    assert isinstance(text, str)
    parts = tuple(text.split("/"))
    if text[0] == "_":
        raise InvalidRequest(
            f"the pattern {shown(text)} is of reserved keys: a first part that starts with '_' belongs to crdtsync"
        )
    literals = 0
    while literals < len(parts) and parts[literals] not in _RANKS:
        literals += 1
    is_exact = literals == len(parts)
    faulty = next((part for part in parts if "*" in part and part not in _RANKS), None)
    if faulty is not None:
        raise InvalidRequest(
            f"the pattern {shown(text)} has {shown(faulty)}: a wildcard stands for whole parts, "
            "'*' for one and '**' for any number of them"
        )
    if not is_exact and len(parts) > PATTERN_PARTS_MAX:
        raise InvalidRequest(
            f"the pattern {shown(text)} has {len(parts)} parts; with wildcards it may have {PATTERN_PARTS_MAX}"
        )
    return Pattern(text, parts, _prefix(parts, literals), is_exact)


def check_new_pattern(text: object) -> Pattern:
    """The pattern that an agent asks for.

    None that ends with ``/``: it would match one key alone, and whoever asks for ``plan/`` means what is below it.

    :raises InvalidRequest: what is wrong with it.
    """
    pattern = check_pattern(text)
    if pattern.text.endswith("/"):
        raise InvalidRequest(
            f"{shown(pattern.text)} is the beginning of keys, and here a pattern is meant: "
            f"give {shown(pattern.text + ANY_PARTS)}"
        )
    return pattern


def _prefix(parts: tuple[str, ...], literals: int) -> str:
    prefix = "/".join(parts[:literals])
    # `a/**` means `a` too, `a/*` does not.
    needs_more = any(part != ANY_PARTS for part in parts[literals:])
    return prefix + "/" if literals and needs_more else prefix


def _ordered(pattern: tuple[str, ...]) -> tuple[str, ...]:
    """The same pattern with each run of wildcards as its ``*``, then one ``**``: ``**/*`` means what ``*/**`` means."""
    found: list[str] = []
    for is_wild, run in groupby(pattern, lambda part: part in _RANKS):
        parts = list(run)
        if is_wild:
            parts = [ONE_PART] * parts.count(ONE_PART) + [ANY_PARTS] * (ANY_PARTS in parts)
        found += parts
    return tuple(found)


def _covers(pattern: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether ``pattern`` can be laid over ``other``, part by part; ``**`` over any number of its parts.

    ``reached`` are the numbers of its own parts that can lie over what has been looked at of the other.
    """
    reached = _skipping(pattern, {0})
    for part in other:
        over: set[int] = set()
        for at in reached:
            own = pattern[at] if at < len(pattern) else None
            if own == ANY_PARTS:
                over.add(at)
            elif own is not None and part != ANY_PARTS and own in (ONE_PART, part):
                over.add(at + 1)
        reached = _skipping(pattern, over)
    return len(pattern) in reached


def _skipping(pattern: tuple[str, ...], places: set[int]) -> set[int]:
    """These places, and those behind each ``**`` that stands for nothing."""
    found = set(places)
    for place in places:
        at = place
        while at < len(pattern) and pattern[at] == ANY_PARTS:
            at += 1
            found.add(at)
    return found


def _matches(pattern: tuple[str, ...], parts: list[str]) -> bool:
    """The usual matching of wildcards, by part instead of by character.

    Only the last ``**`` is ever tried again, further on: what an earlier one might have taken, the last can take too.
    So it costs at most the product of both lengths.
    """
    at = done = 0
    any_at: int | None = None
    any_done = 0
    while done < len(parts):
        wanted = pattern[at] if at < len(pattern) else None
        if wanted == ANY_PARTS:
            any_at, any_done = at, done
            at += 1
        elif wanted is not None and wanted in (ONE_PART, parts[done]):
            at += 1
            done += 1
        elif any_at is not None:
            any_done += 1
            at, done = any_at + 1, any_done
        else:
            return False
    return all(part == ANY_PARTS for part in pattern[at:])
