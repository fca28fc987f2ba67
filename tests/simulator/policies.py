"""Read policies, worked out as a reader of the documentation would: schemas, patterns, and the order of values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, NamedTuple

from crdtsync.wire.kinds import Kind

if TYPE_CHECKING:
    from tests.simulator.model import Value

PREFIX = "_schema/"
PATTERNS = ("r/1", "map/1", "mixed", "r/*", "map/*", "*/1", "**")
"""The most specific first."""
POLICIES = ("lww", "all", "max", "min", "confidence", "first", "manual")
REFUSING = ("max", "min", "confidence", "first")
RANKED = (Kind.REGISTER, Kind.MAP)
_NEWEST_FIRST = ("lww", "all", "manual")
_TYPES: tuple[Any, ...] = (type(None), bool, (int, float), str, bytes, list, dict)


class Schema(NamedTuple):
    """What applies to a key."""

    policy: str = "lww"
    refuse_lower: bool = False


UNDECLARED = Schema()


def schema_of(keys: Mapping[str, Mapping[Any, Value]], key: str) -> Schema:
    """The newest schema of the first pattern that matches and has one."""
    for pattern in PATTERNS:
        declared = list(keys.get(PREFIX + pattern, {}).values())
        if declared and _matches(pattern, key):
            newest = max(declared, key=lambda value: value.order)
            return Schema(newest.content["policy"], newest.content["refuse_lower"])
    return UNDECLARED


def _matches(pattern: str, key: str) -> bool:
    if pattern == "**":
        return not key.startswith("_")
    return re.fullmatch(pattern.replace("*", "[^/]*"), key) is not None and not key.startswith("_")


def best_first(policy: str, values: Iterable[Value]) -> list[Value]:
    """The values of one register or field in the order in which readers are shown them."""
    newest: list[Value] = sorted(values, key=lambda value: value.order, reverse=True)
    match policy:
        case "first":
            return newest[::-1]
        case "confidence":
            return sorted(newest, key=lambda value: 1 if value.confidence is None else -value.confidence)
        case "max":
            return sorted(newest, key=cmp_to_key(_by_content), reverse=True)
        case "min":
            return sorted(newest, key=cmp_to_key(_by_content))
    return newest


def _by_content(one: Value, other: Value) -> int:
    return compare(one.content, other.content)


def is_newest_first(policy: str) -> bool:
    """Whether the policy shows the newest value first, as without a schema."""
    return policy in _NEWEST_FIRST


def ranks_lower(policy: str, current: Value, later: Value) -> bool:
    """Whether a reader would go on to be shown ``current`` if ``later`` were written beside it."""
    return best_first(policy, [current, later])[0] is current


def compare(one: Any, other: Any) -> int:
    """Negative if ``one`` comes before ``other`` in the order of all values, 0 if they are equal."""
    here, there = _type(one), _type(other)
    if here != there:
        return here - there
    if isinstance(one, dict):
        return compare([[name, one[name]] for name in sorted(one)], [[name, other[name]] for name in sorted(other)])
    if isinstance(one, list):
        for mine, its in zip(one, other, strict=False):
            if order := compare(mine, its):
                return order
        return len(one) - len(other)
    return 0 if one == other else 1 if one > other else -1


def _type(value: Any) -> int:
    return next(number for number, kind in enumerate(_TYPES) if isinstance(value, kind))


def value_number(number: int) -> Any:
    """The values that are written: of all types, in another order than they are numbered, some of them equal."""
    return (number, -number, f"{number % 50}", [number % 3, number], {"v": number % 4, "n": number}, float(number % 7))[
        number % 6
    ]
