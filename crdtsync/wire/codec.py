"""The strict msgpack codec: exact values, bounded depth, one exception for whatever is wrong with the bytes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from itertools import chain, count, islice
from math import inf, isfinite
from typing import Any, NoReturn

import msgpack

from crdtsync.errors import InvalidEncoding
from crdtsync.wire.limits import VALUE_CONTAINERS_MAX, VALUE_DEPTH_MAX

pack: Callable[[object], bytes] = msgpack.Packer(use_bin_type=True, strict_types=True).pack
"""Encode plain values (no subclasses, no tuples). Not for values that come from users: those are checked first."""

new_row: Any = tuple.__new__
"""``new_row(Row, (…))`` is ``Row(…)`` of a NamedTuple without the call of Python's that its constructor makes:
0.1 µs and not 0.3, where a write makes ten of them. The fields are the caller's to count; mypy does not.
"""

SHORT_LEVEL_ITEMS = 64
"""Items that are looked at one by one faster than all at once."""
PIECE_ITEMS = 256
"""So many items of a long list or map are unpacked and looked at together: of 400,000 maps in one value that takes half
as long as all at once, and hardly any memory instead of 80 MB. Even, since a map is as many keys as values.
"""
LONG_BYTES = 4096
"""While longer values are looked at, nothing is looked through for garbage."""
PIECES_BYTES = VALUE_CONTAINERS_MAX
"""Longer ones are looked at in pieces: a shorter one cannot have too many lists and maps."""
CONTAINER_PARTS = 8
"""As so many things that are in lists and maps counts one of these itself: so much longer it takes to look at."""

_SCALARS = frozenset((type(None), bool, int, str, bytes))
_KEYS = frozenset((str,))
_OTHER_KEYS = "the keys of a map in a value must be strings"
_NOT_FINITE = "a value may not hold NaN or an infinite number"
_DECODE_ERRORS = (ValueError, OverflowError, RecursionError, msgpack.exceptions.UnpackException)


def _refuse_extension(code: int, _data: bytes) -> NoReturn:
    raise ValueError(f"msgpack extension type {code}")


def unpack(  # the shape is for the caller to check
    data: bytes | memoryview, strict_map_key: bool = True, map_hook: Callable[[dict[Any, Any]], object] | None = None
) -> Any:
    """Decode one msgpack object that takes up all of ``data``; ``map_hook`` returns what stands for a map in it.

    :raises InvalidEncoding: truncated, trailing bytes, invalid UTF-8, extension types, or nesting over msgpack's
    own 1,024.
    """
    try:
        return msgpack.unpackb(
            data, raw=False, strict_map_key=strict_map_key, ext_hook=_refuse_extension, object_hook=map_hook
        )
    except _DECODE_ERRORS as error:
        raise _undecodable(error) from None


def _undecodable(error: Exception) -> InvalidEncoding:
    return InvalidEncoding(f"not valid msgpack: {str(error) or type(error).__name__}")


def check_items(data: bytes, items_max: int) -> None:
    """Refuse bytes that would unpack to far more than their own size: one byte can stand for a list of 56.

    Small ones pass unread. Whether anything else is wrong with the bytes, :func:`unpack` says.

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
            if _is_array(first):
                more = reader.read_array_header()
            elif _is_map(first):
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


def _is_array(first: int) -> bool:
    return 0x90 <= first <= 0x9F or first in (0xDC, 0xDD)


def _is_map(first: int) -> bool:
    return 0x80 <= first <= 0x8F or first in (0xDE, 0xDF)


def check_packed(data: bytes, containers_max: float = inf, parts_max: float = inf) -> int:
    """Refuse bytes that are not the msgpack of one value that can be stored. Returns how many parts it has: what is in
    its lists and maps, and :data:`CONTAINER_PARTS` for each of these. Over ``parts_max`` it looks no further.

    A value of 1 MiB may be 800,000 lists in each other, and is looked at wherever it comes: no Python runs for each.
    Where an agent writes one, it may be ``VALUE_CONTAINERS_MAX`` at most, which a short value cannot exceed.

    :raises InvalidEncoding: as :func:`unpack` and :func:`check_value`; over ``containers_max`` lists and maps.
    """
    if len(data) <= LONG_BYTES:
        return _check_whole(data)
    collects = gc.isenabled()
    gc.disable()  # nothing in a value is garbage, and to look for some takes longer than all the rest
    try:
        return _check_whole(data) if len(data) <= PIECES_BYTES else _check_pieces(data, containers_max, parts_max)
    finally:
        if collects:
            gc.enable()


def _check_whole(data: bytes) -> int:
    try:
        plain = msgpack.unpackb(data, raw=False, ext_hook=_refuse_extension, use_list=False)  # tuples: () costs nothing
    except _DECODE_ERRORS as error:
        raise _undecodable(error) from None
    if type(plain) in _SCALARS:
        return 0
    containers, items = _check_levels(plain, tuple)
    return items + CONTAINER_PARTS * containers


def _check_pieces(data: bytes, containers_max: float, parts_max: float) -> int:
    containers, parts = 1, CONTAINER_PARTS  # the one that each piece stands for counts once
    try:
        for piece in _pieces(data, containers_max):
            more, of_piece = _check_levels(piece, tuple)
            containers += more - 1
            parts += of_piece + CONTAINER_PARTS * (more - 1)
            if containers > containers_max:
                raise _too_many(containers_max)
            if parts > parts_max:
                break
    except InvalidEncoding:
        raise
    except _DECODE_ERRORS as error:
        raise _undecodable(error) from None
    return parts


def _pieces(data: bytes, containers_max: float) -> Iterator[tuple[object, ...]]:
    """The items of a list or a map some at a time, or what else the value is: each piece is a tuple of them. One of
    them may be nearly all of the value, so that the lists and maps are counted while they are made.
    """
    made = count(1)

    def counted(container: Any) -> Any:
        if next(made) > containers_max:
            raise _too_many(containers_max)
        return container

    hook = None if containers_max == inf else counted
    reader = msgpack.Unpacker(
        raw=False, ext_hook=_refuse_extension, use_list=False, max_buffer_size=len(data), strict_map_key=True,
        list_hook=hook, object_hook=hook,
    )  # fmt: skip
    reader.feed(data)
    if _is_array(data[0]):
        items, step = reader.read_array_header(), 1
    elif _is_map(data[0]):
        items, step = 2 * reader.read_map_header(), 2
    else:
        items, step = 1, 1
    while items:
        piece = tuple(islice(reader, min(items, PIECE_ITEMS)))
        if not piece:
            raise ValueError("incomplete input")
        if step == 2 and not _KEYS.issuperset(map(type, piece[::2])):
            raise InvalidEncoding(_OTHER_KEYS)
        yield piece
        items -= len(piece)
    if reader.tell() != len(data):
        raise ValueError("more than one value")


def _too_many(containers_max: float) -> InvalidEncoding:
    return InvalidEncoding(f"a value may hold at most {containers_max:,} lists and maps: use several keys")


def check_value(value: object) -> None:
    """Refuse what a stored value may not hold.

    :raises InvalidEncoding: another type than null, bool, int, float, str, bytes, list, map with str keys; NaN or
    infinite floats; nesting over ``VALUE_DEPTH_MAX``.
    """
    if type(value) not in _SCALARS:
        _check_levels(value, list)


def _check_levels(value: object, array: type) -> tuple[int, int]:
    """Walk level by level, without recursion, so that hostile nesting costs little more than its bytes.

    Returns how many lists and maps there are, and how much is in them.
    """
    level: list[Any] = [value]
    containers, items, containers_left = 0, 0, VALUE_DEPTH_MAX
    while level:
        if not containers_left and any(type(item) is array or type(item) is dict for item in level):
            raise InvalidEncoding(f"a value may nest at most {VALUE_DEPTH_MAX} deep")
        found, within, level = _below(level, array) if len(level) <= SHORT_LEVEL_ITEMS else _below_many(level, array)
        containers += found
        items += within
        containers_left -= 1
    return containers, items


def _below(level: list[Any], array: type) -> tuple[int, int, list[Any]]:
    """How many of a level's items are lists or maps, how much is in these, and what of that is to be looked at; the
    items are checked.
    """
    below: list[Any] = []
    containers = items = 0
    for item in level:
        kind = type(item)
        if kind in _SCALARS:
            continue
        if kind is array:
            containers += 1
            items += len(item)
            if not _SCALARS.issuperset(map(type, item)):  # most lists hold nothing else, and may be long
                below += item
        elif kind is dict:
            containers += 1
            items += 2 * len(item)
            if not _KEYS.issuperset(map(type, item)):
                raise InvalidEncoding(_OTHER_KEYS)
            below += item.values()
        elif kind is not float:
            raise InvalidEncoding(f"a value may not hold a {kind.__name__}")
        elif item - item != 0.0:  # true for NaN and both infinities
            raise InvalidEncoding(_NOT_FINITE)
    return containers, items, below


def _below_many(level: list[Any], array: type) -> tuple[int, int, list[Any]]:
    """The same without a step of Python's own for each item."""
    kinds = {*map(type, level)}
    for kind in kinds - _SCALARS - {array, dict, float}:
        raise InvalidEncoding(f"a value may not hold a {kind.__name__}")
    if float in kinds and not all(map(isfinite, [item for item in level if type(item) is float])):
        raise InvalidEncoding(_NOT_FINITE)
    below: list[Any] = []
    containers = items = 0
    if array in kinds:
        arrays: list[Any] = level if len(kinds) == 1 else [item for item in level if type(item) is array]
        containers += len(arrays)
        below += chain.from_iterable(arrays)
        items += len(below)
    if dict in kinds:
        maps: list[Any] = level if len(kinds) == 1 else [item for item in level if type(item) is dict]
        containers += len(maps)
        items -= 2 * len(below)
        if not _KEYS.issuperset(map(type, chain.from_iterable(maps))):
            raise InvalidEncoding(_OTHER_KEYS)
        below += chain.from_iterable(map(dict.values, maps))
        items += 2 * len(below)
    return containers, items, below
