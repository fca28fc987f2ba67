"""What the client gives as JSON for a browser, whatever agents wrote."""

from __future__ import annotations

import dataclasses
import math
import re
from datetime import datetime, timedelta
from typing import Any

SAFE_INT = (1 << 53) - 1  # JavaScript rounds larger numbers
BYTES_SHOWN = 256
_INT = re.compile(r"-?[0-9]{1,20}")


def number(given: dict[str, Any]) -> Any:
    """What :func:`plain` made of a large number, a number again: for :func:`json.loads`, as ``object_hook``."""
    match given:
        case {"$int": str(digits)} if len(given) == 1 and _INT.fullmatch(digits):
            return int(digits)
    return given


def plain(value: Any) -> Any:  # anything that a key can hold, and the client's own results
    """``value`` as JSON has it. What JSON lacks becomes an object with one name that begins with ``$``."""
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
            return {str(name): plain(inner) for name, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(inner) for inner in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    return str(value)
