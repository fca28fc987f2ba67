"""The values of lib0, in which Yjs writes updates and state vectors: integers, strings, JSON, ``Any``.

A function takes ``(data, at)``: a ``read_…`` returns the value and the offset after it, a ``skip_…`` the offset.
They are stricter than yrs, which wraps integers around, and allocates and recurses without a limit. They raise
:class:`InvalidUpdate`, and IndexError where the data ends inside a value: the caller says what it was reading. ::

    uint      := 7 bits a byte, lowest first, 0x80 in all but the last
    string    := bytes:uint utf-8
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Final, NoReturn

INTEGER_MAX: Final = 2**53 - 1
ANY_DEPTH_MAX: Final = 64  # yrs recurses over values without a limit
_LONG_UINT: Final = re.compile(rb"[\x80-\xff]{2,8}[\x01-\x7f]")


class InvalidUpdate(ValueError):
    """The update must not reach pycrdt; the message says what is wrong, at which byte, and what was expected."""


class TooManyParts(InvalidUpdate):
    """It inserts or deletes more than it may."""


def refuse(wrong: str, at: int, expected: str, error: type[InvalidUpdate] = InvalidUpdate) -> NoReturn:
    """Raise :class:`InvalidUpdate` in the form that all its messages have."""
    raise error(f"{wrong}, at byte {at}; expected {expected}")


def read_uint(data: bytes, at: int) -> tuple[int, int]:
    """``readVarUint``, only in its shortest form: yrs wraps longer ones around at 32 or 64 bits."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    next_byte = data[at + 1]
    if 0 < next_byte < 0x80:
        return byte - 0x80 | next_byte << 7, at + 2
    if next_byte and 0 < (last := data[at + 2]) < 0x80:  # most clocks of a long text
        return byte - 0x80 | (next_byte - 0x80) << 7 | last << 14, at + 3
    digits = _LONG_UINT.match(data, at)
    if digits is None:
        _refuse_uint(data, at)
    return _long_uint(digits[0]), digits.end()


def _refuse_uint(data: bytes, at: int) -> NoReturn:
    """It has no shortest form of at most nine bytes here."""
    end = at + 2
    while data[end - 1] >= 0x80:
        end += 1
        if end - at > 9:
            refuse("an integer has over 9 bytes", at, "53 bits")
    refuse("an integer is longer than it needs to be", end - 1, "the shortest form")


@lru_cache(maxsize=1024)
def _long_uint(digits: bytes) -> int:
    """Mostly client ids: 53 random bits, of few clients and in every struct."""
    return sum((digit & 0x7F) << 7 * place for place, digit in enumerate(digits))


def read_count(data: bytes, at: int, bytes_each: int, what: str) -> tuple[int, int]:
    """How many things follow: bounded by the bytes that are left, for yrs allocates for them first."""
    count, end = read_uint(data, at)
    if count * bytes_each > len(data) - end:
        refuse(f"{count} {what} are announced and {len(data) - end} bytes are left", at, "a count that fits in them")
    return count, end


def read_blob(data: bytes, at: int) -> tuple[int, int]:
    """Bytes with their length before them: returns where they start, and the offset after them."""
    size, start = read_uint(data, at)
    end = start + size
    if end > len(data):
        refuse(f"{size} bytes are announced and {len(data) - start} are left", at, "a length that fits in them")
    return start, end


def read_text(data: bytes, at: int) -> tuple[str, int]:
    """A string. Invalid UTF-8 (lone surrogates are that, too) is undefined behaviour in yrs, which does not check."""
    start, end = read_blob(data, at)
    try:
        return data[start:end].decode(), end
    except UnicodeDecodeError as error:
        refuse(f"invalid UTF-8 ({error.reason})", start + error.start, "UTF-8")


def written_uint(number: int) -> bytes:
    """``writeVarUint``."""
    digits = bytearray()
    while number >= 0x80:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def written_text(text: str) -> bytes:
    """A string."""
    data = text.encode()
    return written_uint(len(data)) + data


def skip_json(data: bytes, at: int) -> int:
    """A JSON text, as embeds and the values of formats are; serde_json is stricter than Python, and so is this."""
    text, end = read_text(data, at)
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_int=_json_int, parse_float=_json_float)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate does not encode
    except (ValueError, RecursionError) as error:
        refuse(f"invalid JSON ({error})", at, "JSON")
    depth = 0
    values = [value]
    while nested := [value for value in values if isinstance(value, list | dict)]:
        depth += 1
        if depth > ANY_DEPTH_MAX:
            refuse("JSON is nested too deeply", at, f"at most {ANY_DEPTH_MAX} levels")
        values = [inner for outer in nested for inner in (outer.values() if isinstance(outer, dict) else outer)]
    return end


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _json_int(digits: str) -> float:
    if 2**63 <= int(digits) < 2**64:
        raise ValueError("an integer needs the 64th bit")
    return _json_float(digits)


def _json_float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is out of range")
    return value


def skip_any(data: bytes, at: int, depth: int = 0) -> int:
    """One lib0 ``Any``: a tag from 116 to 127, then the value."""
    tag = data[at]
    if tag == 119:
        return read_text(data, at + 1)[1]
    if tag == 125:
        return _signed(data, at + 1)
    if tag == 116:
        return read_blob(data, at + 1)[1]
    if tag not in (117, 118):
        size = _ANY_BYTES.get(tag, 0)
        if not size:
            refuse(f"value tag {tag}", at, "116 to 127")
        data[at + size - 1]  # or IndexError
        return at + size
    if depth >= ANY_DEPTH_MAX:
        refuse("a value is nested too deeply", at, f"at most {ANY_DEPTH_MAX} levels")
    count, at = read_count(data, at + 1, 1 if tag == 117 else 2, "values")
    for _ in range(count):
        if tag == 118:
            at = read_text(data, at)[1]
        at = skip_any(data, at, depth + 1)
    return at


# tag and value: undefined, null, float32, float64, bigint (64 bits), false, true
_ANY_BYTES: Final = {127: 1, 126: 1, 124: 5, 123: 9, 122: 9, 121: 1, 120: 1}


def _signed(data: bytes, at: int) -> int:
    """``readVarInt``: the first byte holds 6 bits and the sign."""
    start = at
    byte = data[at]
    value = byte & 0x3F
    shift = 6
    while byte >= 0x80:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
        if value > INTEGER_MAX or shift > 62:
            refuse("an integer has over 53 bits", start, f"at most {INTEGER_MAX}")
    return at + 1
