"""Values to msgpack and back, exactly: what could not be given back as it was is refused, with its path."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, NoReturn

from msgpack import unpackb

from crdtsync.client.values.packer import packb, succeeds
from crdtsync.errors import InvalidEncoding, InvalidValue, TooLarge
from crdtsync.wire.limits import VALUE_BYTES_MAX, VALUE_DEPTH_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SCALARS = frozenset((type(None), bool, int, float, str, bytes, bytearray))
_CONTAINERS = frozenset((dict, list, tuple))
_STORABLE = _SCALARS | _CONTAINERS
_STR = frozenset((str,))
# The first two bytes of every NaN and infinity in msgpack; strings of bytes may hold them too, hence the closer look.
_NOT_FINITE = (b"\xcb\x7f", b"\xcb\xff")
_PACK_ERRORS = (ValueError, TypeError, OverflowError)  # UnicodeEncodeError is a ValueError

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_PATH_KEY_CHARS_MAX = 40
_PATH_CHARS_MAX = 120  # in what an error says


def encode(value: object, root: str = "$") -> bytes:
    """The msgpack encoding of ``value``; ``root`` is its own path in what an error says.

    It may hold None, bool, int (-2^63 … 2^64-1), float (no NaN, no infinity), str, bytes, bytearray, list, tuple
    (kept as a list) and dict with str keys, nested at most 64 deep; subclasses of these are refused, for they would
    come back as something else.

    :raises InvalidValue: it holds something else; ``path`` says where.
    :raises TooLarge: over 1 MiB.
    """
    kind = type(value)
    if kind not in _SCALARS and not (kind in _CONTAINERS and _is_plain(value, VALUE_DEPTH_MAX)):
        _refuse(value, root)
    try:
        packed = packb(value)
    except _PACK_ERRORS:
        if succeeds(packb, value):
            raise
        _refuse(value, root)
    if kind is not str and (_NOT_FINITE[0] in packed or _NOT_FINITE[1] in packed):
        _check(value, root)
    if len(packed) > VALUE_BYTES_MAX:
        where = "" if root == "$" else f" at {root}"
        raise TooLarge(
            f"the value{where} takes {len(packed):,} bytes; one key holds at most {VALUE_BYTES_MAX:,}: "
            "store it in parts, or as a blob (Client.put_blob, crdtsync blob put)"
        )
    return packed


def encode_fields(fields: object) -> dict[str, bytes]:
    """The fields of a map, each value encoded by itself.

    :raises InvalidValue: not a dict with str keys, or a value cannot be stored; ``path`` says which.
    :raises TooLarge: one of them is over 1 MiB.
    """
    if type(fields) is not dict:
        raise InvalidValue(f"the fields of a map are given as a dict, not as {type(fields).__qualname__}", path="$")
    fault = _key_fault(fields)
    if fault is not None:
        raise InvalidValue(f"the fields cannot be stored: at $ {fault}", path="$")
    return {name: encode(value, _path_of("$", name)) for name, value in fields.items()}


def decode(packed: bytes) -> Any:  # Any: what the key holds is for its users to know
    """The value that ``packed`` encodes.

    :raises InvalidEncoding: not one whole value.
    """
    try:
        return unpackb(packed, ext_hook=_refuse_extension)
    except Exception as error:  # ValueError, StackError, OutOfData and others happen
        if succeeds(_unpack, packed):
            raise
        raise InvalidEncoding(f"the daemon sent a value that is not valid msgpack: {error!r}") from None


def _unpack(packed: bytes) -> None:
    unpackb(packed, ext_hook=_refuse_extension)


def plain(value: Any) -> Any:  # Any: what the key holds is for its users to know
    """A value of the protocol: bytes are msgpack, and a log is a list of them."""
    if type(value) is bytes:
        return decode(value)
    return [plain(item) for item in value] if type(value) is list else value


def elements_of(found: list[Any]) -> dict[bytes, Any]:
    """The elements of a set, each by what tells it apart."""
    return {packb(_in_order(item)): item for item in found}


def _in_order(plain: Any) -> Any:
    """The same value with the keys of its maps sorted: equal elements are one, whoever wrote them."""
    if type(plain) is dict:
        return {key: _in_order(plain[key]) for key in sorted(plain)}
    if type(plain) is list:
        return [_in_order(item) for item in plain]
    return plain


def _refuse_extension(code: int, _data: bytes) -> NoReturn:
    raise ValueError(f"extension type {code}")


def _is_plain(container: Any, depth_left: int) -> bool:
    """Whether all types in ``container`` can be stored; one pass, in C where it can be."""
    if depth_left == 0:
        return False
    if type(container) is dict:
        if container and {*map(type, container)} != _STR:
            return False
        container = container.values()
    kinds = {*map(type, container)}
    if kinds <= _SCALARS:
        return True
    if not kinds <= _STORABLE:
        return False
    return all(_is_plain(item, depth_left - 1) for item in container if type(item) in _CONTAINERS)


def _refuse(value: object, root: str) -> NoReturn:
    _check(value, root)
    raise InvalidValue("the value cannot be stored exactly", path=root)


def _check(value: object, root: str) -> None:
    """Raise for the first part of ``value`` that cannot be stored."""
    for path, part, depth in _parts(value, root):
        fault = _fault(part, depth)
        if fault is not None:
            shown = path if len(path) <= _PATH_CHARS_MAX else f"{path[:_PATH_CHARS_MAX]}…"
            raise InvalidValue(f"the value cannot be stored exactly: at {shown} {fault}", path=path)


def _parts(value: object, root: str) -> Iterator[tuple[str, object, int]]:
    """Every part of ``value`` with its path and the number of containers that it makes or lies in, outside in."""
    waiting: list[tuple[str, object, int]] = [(root, value, 0)]
    while waiting:
        path, part, outside = waiting.pop()
        depth = outside + (type(part) in _CONTAINERS)
        yield path, part, depth
        waiting.extend((below, child, depth) for below, child in reversed(list(_children(path, part))))


def _children(path: str, part: object) -> Iterable[tuple[str, object]]:
    if isinstance(part, dict):
        return ((_path_of(path, key), child) for key, child in part.items())
    if isinstance(part, list | tuple):
        return ((f"{path}[{index}]", child) for index, child in enumerate(part))
    return ()


def _path_of(path: str, key: object) -> str:
    return f"{path}.{str(key)[:_PATH_KEY_CHARS_MAX]}"


def _fault(part: Any, depth: int) -> str | None:
    kind = type(part)
    if kind not in _STORABLE:
        return f"is a {kind.__qualname__}; allowed are None, bool, int, float, str, bytes, list and dict"
    if depth > VALUE_DEPTH_MAX:
        return f"nesting is deeper than {VALUE_DEPTH_MAX}"
    if kind is int and not _INT_MIN <= part <= _INT_MAX:
        return "is an integer of more than 64 bits"
    if kind is float and not isfinite(part):
        return f"is {part}; only finite numbers can be stored"
    if kind is str and _has_surrogate(part):
        return "is a str with a lone surrogate, which UTF-8 cannot hold"
    if kind is dict:
        return _key_fault(part)
    return None


def _key_fault(mapping: dict[object, object]) -> str | None:
    for key in mapping:
        if type(key) is not str:
            return f"has the key {key!r}, a {type(key).__qualname__}; keys must be str"
        if _has_surrogate(key):
            return "has a key with a lone surrogate, which UTF-8 cannot hold"
    return None


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
