"""Values that are easily changed on their way, to be written and compared."""

from __future__ import annotations

from typing import Any

AWKWARD: list[Any] = [
    None,
    True,
    1,
    1.0,
    -(2**63),
    2**64 - 1,
    "",
    "ä😀\x00",
    b"",
    b"\x00\xff" * 200,
    [],
    [1, [b"x"]],
    {},
    {"a": {"b": b"\x00"}, "": None},
]
"""Values that have to come back exactly."""


def typed(values: list[Any]) -> list[tuple[str, Any]]:
    """With their types: 1, 1.0 and True are equal to Python."""
    return [(type(value).__name__, value) for value in values]
