"""The strict msgpack codec: exact values, bounded depth, one exception for whatever is wrong with the bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import msgpack

from crdtsync.errors import InvalidEncoding
from crdtsync.wire.limits import VALUE_DEPTH_MAX

pack: Callable[[object], bytes] = msgpack.Packer(use_bin_type=True, strict_types=True).pack
"""Encode plain values (no subclasses, no tuples). Not for values that come from users: those are checked first."""

new_row: Any = tuple.__new__
"""``new_row(Row, (…))`` is ``Row(…)`` of a NamedTuple without the call of Python's that its constructor makes:
0.1 µs and not 0.3, where a write makes ten of them. The fields are the caller's to count; mypy does not.
"""

_SCALARS = frozenset((type(None), bool, int, str, bytes))
_CONTAINERS = frozenset((list, dict))
_DECODE_ERRORS = (ValueError, OverflowError, RecursionError, msgpack.exceptions.UnpackException)


def _refuse_extension(code: int, _data: bytes) -> NoReturn:
    raise ValueError(f"msgpack extension type {code}")


def unpack(data: bytes | memoryview, strict_map_key: bool = True) -> Any:  # the shape is for the caller to check
    """Decode one msgpack object that takes up all of ``data``.

    :raises InvalidEncoding: truncated, trailing bytes, invalid UTF-8, extension types, or nesting over msgpack's
    own 1,024.
    """
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=strict_map_key, ext_hook=_refuse_extension)
    except _DECODE_ERRORS as error:
        raise InvalidEncoding(f"not valid msgpack: {error or type(error).__name__}") from None


def check_items(data: bytes, items_max: int) -> None:
    """Refuse bytes that would unpack to far more than their own size: one byte can stand for a list of 56.

    Small ones pass unread. What is wrong with the bytes otherwise is for :func:`unpack` to say.

    :raises InvalidEncoding: arrays and maps hold over ``items_max`` items in all.
    """
    if len(data) <= items_max:
        return
    reader = msgpack.Unpacker(max_buffer_size=len(data))
    reader.feed(data)
    items = left = 1
    try:
        while left and items <= items_max:
            left -= 1
            first = data[reader.tell()]
            if 0x90 <= first <= 0x9F or first in (0xDC, 0xDD):
                more = reader.read_array_header()
            elif 0x80 <= first <= 0x8F or first in (0xDE, 0xDF):
                more = 2 * reader.read_map_header()
            else:
                reader.skip()
                continue
            left += more
            items += more
    except (*_DECODE_ERRORS, IndexError):
        return
    if items > items_max:
        raise InvalidEncoding(f"over {items_max:,} items in one message")


def check_value(value: object) -> None:
    """Refuse what a stored value may not hold.

    Walks level by level, without recursion, so that hostile nesting costs nothing more than its bytes.

    :raises InvalidEncoding: another type than null, bool, int, float, str, bytes, list, map with str keys; NaN or
    infinite floats; nesting over ``VALUE_DEPTH_MAX``.
    """
    level: list[Any] = [value]
    containers_left = VALUE_DEPTH_MAX
    while level:
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind in _SCALARS:
                continue
            if not containers_left and kind in _CONTAINERS:
                raise InvalidEncoding(f"a value may nest at most {VALUE_DEPTH_MAX} deep")
            if kind is list:
                if not _SCALARS.issuperset(map(type, item)):  # most lists hold nothing else, and may be long
                    below.extend(item)
            elif kind is dict:
                _check_map_keys(item)
                below.extend(item.values())
            elif kind is float:
                if item - item != 0.0:  # true for NaN and both infinities
                    raise InvalidEncoding("a value may not hold NaN or an infinite number")
            else:
                raise InvalidEncoding(f"a value may not hold a {kind.__name__}")
        level = below
        containers_left -= 1


def _check_map_keys(mapping: dict[object, object]) -> None:
    for key in mapping:
        if type(key) is not str:
            raise InvalidEncoding("the keys of a map in a value must be strings")
