"""How a message stands in its array: worked out from what its fields are declared to hold, for both ways.

For example, ``nodes: Annotated[frozenset[NodeId], Several(LINKS_MAX)]`` is one element of the array: a sorted list of
node ids. To read it takes a list with no more items than that, each of which :data:`NodeId` reads.

A record in a message, such as ``Held``, is an array of its own. In both, elements after the known ones are ignored, and
a field at the end that an older version did not know is what it is by default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from sys import modules
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.peer.fields import Flat, Several


class FieldCodec(NamedTuple):
    """Both ways between what a field holds and what stands for it in the array. ``read`` checks every bound."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


@cache
def layout_of(cls: Any) -> FieldCodec:
    """The codec of a message, or of a record in one: all its fields, in order."""
    names = vars(modules[cls.__module__])  # `get_type_hints` takes three times as long, just when two hosts meet
    fields = [_of_field(eval(cls.__annotations__[name], names)) for name in cls._fields]  # noqa: S307  # our own words
    least = len(fields) - len(cls._field_defaults)

    def write(held: Any) -> list[object]:
        return [field.write(part) for field, part in zip(fields, held, strict=True)]

    def read(plain: Any) -> Any:
        if len(_items(plain)) < least:
            raise ValueError("a part is missing")
        return cls(*[field.read(part) for field, part in zip(fields, plain, strict=False)])

    return FieldCodec(write, read)


def _of_field(hint: Any, size: Several | None = None) -> FieldCodec:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        plain, form = inner
        if isinstance(form, Several):
            return _of_field(plain, form)
        return FieldCodec(form.write if isinstance(form, Flat) else _as_it_is, form.read)
    if origin in (Union, UnionType):
        return _either([_of_field(one) for one in inner])
    if origin is Mapping:
        return _map(_of_field(inner[0]), _of_field(inner[1]), size)
    if origin in (list, tuple, frozenset):
        return _list(origin, _of_field(inner[0]), size)
    return FieldCodec(_as_it_is, _read_flag) if hint is bool else layout_of(hint)


def _list(make: Callable[[Any], Any], item: FieldCodec, size: Several | None) -> FieldCodec:
    order = sorted if make is frozenset else list

    def write(held: Any) -> list[object]:
        return order([item.write(one) for one in held])

    def read(plain: Any) -> Any:
        return make([item.read(one) for one in _items(plain, size)])

    return FieldCodec(write, read)


def _map(key: FieldCodec, value: FieldCodec, size: Several | None) -> FieldCodec:
    """A list of pairs, in order of the keys."""

    def write(held: Mapping[Any, Any]) -> list[object]:
        return [[key.write(name), value.write(of)] for name, of in sorted(held.items())]

    def read(plain: Any) -> dict[Any, Any]:
        return {key.read(name): value.read(of) for name, of in _items(plain, size)}

    return FieldCodec(write, read)


def _either(choices: list[FieldCodec]) -> FieldCodec:
    """The first of them that can read it does. They are written as they are."""

    def read(plain: Any) -> Any:
        for choice in choices[:-1]:
            with suppress(ValueError, TypeError):
                return choice.read(plain)
        return choices[-1].read(plain)

    return FieldCodec(_as_it_is, read)


def _items(plain: Any, size: Several | None = None) -> list[Any]:
    if type(plain) is not list:
        raise TypeError("not a list")
    if size is not None and not size.least <= len(plain) <= size.most:
        raise ValueError(f"{len(plain):,} items where {size.least:,} to {size.most:,} may be")
    return plain


def _as_it_is(held: Any) -> Any:
    return held


def _read_flag(plain: Any) -> bool:
    if type(plain) is not bool:
        raise ValueError("neither true nor false")
    return plain
