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


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef"
    "0000000049454e44ae426082"
)
"""A picture of one dot."""
