"""Values of the client as JSON for a browser, whatever agents wrote."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

SAFE_INT = (1 << 53) - 1  # JavaScript rounds larger numbers
BYTES_SHOWN = 256
_INT = re.compile(r"-?[0-9]{1,20}")
_OURS = re.compile(r"\$+(?:int|float|bytes|cut)")
"""Names that mean something to the page, and what they become where an agent wrote them."""


def number(given: dict[str, Any]) -> Any:
    """A large number or an agent's names as they were before :func:`written`: for :func:`json.loads`, as
    ``object_hook``.
    """
    match given:
        case {"$int": str(digits)} if len(given) == 1 and _INT.fullmatch(digits):
            return int(digits)
    return {name[1:] if name.startswith("$$") and _OURS.fullmatch(name) else name: one for name, one in given.items()}


def written(value: Any) -> Any:  # as below
    """The same of what agents wrote: their ``$int`` becomes ``$$int``, so that the page takes it for no number."""
    return _json(value, lambda name: f"${name}" if _OURS.fullmatch(name) else name)


def plain(value: Any) -> Any:  # anything that a key can hold, and the client's own results
    """``value`` as JSON has it. A value that JSON lacks becomes an object with one name that begins with ``$``."""
    return _json(value, str)


def _json(value: Any, named: Callable[[str], str]) -> Any:
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if -SAFE_INT <= value <= SAFE_INT else {"$int": str(value)}
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case bytes():
            return {"$bytes": len(value), "hex": value[:BYTES_SHOWN].hex()}
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case dict():
            return {named(str(name)): _json(inner, named) for name, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_json(inner, named) for inner in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {one.name: _json(getattr(value, one.name), named) for one in dataclasses.fields(value)}
    return str(value)
