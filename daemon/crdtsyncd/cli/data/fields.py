"""Fields of a line in a batch file, those that operations of several kinds have, and what each may hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crdtsyncd.cli.data.json_values import Value

REQUIRED = True
OPTIONAL = False


@dataclass(frozen=True, slots=True)
class LineField:
    """The values that one field of a line may hold."""

    required: bool
    wanted: str
    fits: Callable[[Value], bool]


def is_str(value: Value) -> bool:
    """Whether JSON has a string there."""
    return isinstance(value, str)


def is_count(value: Value) -> bool:
    """Whether JSON has a whole number from 0 on there."""
    return type(value) is int and value >= 0


def is_object(value: Value) -> bool:
    """Whether JSON has an object there."""
    return isinstance(value, dict)


def _is_part(value: Value) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _is_ttl(value: Value) -> bool:
    return isinstance(value, str) or (type(value) in (int, float) and value > 0)


KEY = LineField(REQUIRED, "a string", is_str)
VALUE = LineField(REQUIRED, "any value", lambda _: True)
VERSION = LineField(OPTIONAL, "a version", is_str)
IF_VERSION = {"if_version": VERSION}
FLAG = LineField(OPTIONAL, "true or false", lambda value: isinstance(value, bool))
CONDITIONS = {**IF_VERSION, "if_absent": FLAG}
REMOVAL = {**IF_VERSION, "seen": VERSION}
TTL = LineField(OPTIONAL, "a duration such as 30s, or seconds", _is_ttl)
RANK = {
    "confidence": LineField(OPTIONAL, "a number from 0 to 1", _is_part),
    "meta": LineField(OPTIONAL, "an object", is_object),
}

Operations = dict[str, tuple[str, "Mapping[str, LineField]"]]
"""Operation → the method of the client's batch and its fields, by the names that both have."""

OF_ANY_KIND: Operations = {
    "resolve": (
        "resolve",
        {
            "key": KEY,
            "take": LineField(OPTIONAL, "the dot of a value", is_str),
            "value": LineField(OPTIONAL, "any value", lambda _: True),
            "merge": LineField(OPTIONAL, "true", lambda value: value is True),
            **REMOVAL,
        },
    ),
    "del": ("delete", {"key": KEY, **REMOVAL}),
}
