"""Numbers, bytes and short strings out of what was unpacked, each with its bounds checked.

Each reader raises ValueError, or TypeError, for what no correct program could have written.
"""

from __future__ import annotations

from typing import Any

from crdtsync.causality import SEQ_MAX, WRITER_MAX, VersionVector, Writer
from crdtsync.wire.limits import CHANGE_DEPS_MAX, NAME_CHARS_MAX, shown


def read_count(number: Any, highest: int = SEQ_MAX, lowest: int = 0) -> int:
    """An integer within these bounds."""
    if type(number) is not int or not lowest <= number <= highest:
        raise ValueError(f"{shown(number)} is not an integer from {lowest} to {highest}")
    return number


def read_text(text: Any) -> str:
    """A short string."""
    if type(text) is not str or not 1 <= len(text) <= NAME_CHARS_MAX:
        raise ValueError("not a short string")
    return text


def read_blob(data: Any, bytes_max: int, bytes_min: int = 0) -> bytes:
    """Up to so many bytes."""
    if type(data) is not bytes or not bytes_min <= len(data) <= bytes_max:
        raise ValueError("not bytes of an allowed length")
    return data


def read_vector(flat: Any) -> VersionVector:
    """A version vector in its flat form."""
    if len(flat) % 2 or len(flat) > 2 * CHANGE_DEPS_MAX:
        raise ValueError("version vector")
    return {Writer(read_count(flat[i], WRITER_MAX)): read_count(flat[i + 1]) for i in range(0, len(flat), 2)}
