"""Values as JSON: strict on the way in, exact on the way out and back.

JSON has no bytes, so they are written ``{"$bytes": base64}``. A map that really has the one key ``$bytes`` is written
with ``$$bytes``, one with ``$$bytes`` with three, and so on: whatever was stored comes back as it was. NaN and
infinities, which only a page can put into a document, are written as null, as JavaScript does.
"""

from __future__ import annotations

import binascii
import json
import re
from math import isfinite
from typing import Any, TypeAlias

from crdtsync.visible import is_seen

Value: TypeAlias = Any  # Any: what JSON and msgpack hold is a union too deep for a checker to be of help

_BYTES_KEY = re.compile(r"\$+bytes")
_DOUBTFUL = re.compile(r"[^\x20-\x7e\n]")


class NotStorable(ValueError):
    """The text is JSON, but stands for what no value can hold."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NotJson(NotStorable):
    """The text is not JSON; says what is wrong and at which line and column."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(f"{reason} at line {line}, column {column}")
        self.fault = reason
        self.column = column


def loads(text: str) -> Value:
    """The value that a JSON text stands for.

    Raises :class:`NotJson`, and :class:`NotStorable` for what Python would take but no value can hold: NaN and
    infinities, and an object with one key twice, of which one would be lost unseen.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        raise NotJson(_lower_first(error.msg), error.lineno, error.colno) from None
    except RecursionError:
        raise NotStorable("it is nested too deeply") from None


def dumps(value: Value, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """The JSON text of a value, on one line unless an indent is given; what cannot be seen is escaped, as JSON does."""
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, indent=indent, sort_keys=sort_keys)
    return text if text.isprintable() else _DOUBTFUL.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0] if is_seen(found[0]) else json.dumps(found[0])[1:-1]


def _object(pairs: list[tuple[str, Value]]) -> Value:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotStorable(f"the key {json.dumps(twice)} is there twice in one object")
    if len(result) == 1 and _BYTES_KEY.fullmatch(pairs[0][0]):
        return _unescaped(*pairs[0])
    return result


def _unescaped(name: str, content: Value) -> Value:
    if name != "$bytes":
        return {name[1:]: content}
    if not isinstance(content, str):
        raise NotStorable('"$bytes" must hold a base64 string (a map with that key is written with "$$bytes")')
    try:
        return binascii.a2b_base64(content, strict_mode=True)
    except (binascii.Error, ValueError):
        raise NotStorable('what "$bytes" holds is not base64') from None


def _plain(value: Value) -> Value:
    if isinstance(value, dict):
        if len(value) == 1:
            ((name, content),) = value.items()
            if isinstance(name, str) and _BYTES_KEY.fullmatch(name):
                return {f"${name}": _plain(content)}
        return {name: _plain(content) for name, content in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": binascii.b2a_base64(value, newline=False).decode("ascii")}
    return None if isinstance(value, float) and not isfinite(value) else value


def _refuse_constant(name: str) -> Value:
    raise NotStorable(f"{name} is not JSON and no value can hold it")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise NotStorable(f"{digits} is too large for a 64-bit float")
    return number


def _integer(digits: str) -> int:
    # The length first: Python refuses to convert thousands of digits, and with a sentence about itself.
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
        shown = digits if len(digits) <= 40 else f"{digits[:20]}…"
        raise NotStorable(f"the integer {shown} does not fit in 64 bits; write it as a string")
    return int(digits)


def _lower_first(message: str) -> str:
    return message[:1].lower() + message[1:].removesuffix(" at")  # where is said by whoever shows it
