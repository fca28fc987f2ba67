"""A rule for texts, such as one that takes out secrets, applied to what LangGraph has encoded.

LangGraph encodes a message as its class and its fields, as msgpack within msgpack. So texts are found at any depth, and
no object is made for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ormsgpack

Rule = Callable[[str], str]

CLASSES = frozenset(range(6))  # extensions that hold (module, class, what it is made of, …)
ARRAY = 6
OPTIONS = ormsgpack.OPT_NON_STR_KEYS


def redacted(rule: Rule, kind: str, data: bytes) -> bytes:
    """What was encoded, with the rule applied to each text in it, but for the keys of dicts.

    :raises ValueError: it cannot be looked into: it is a pickle, or encrypted.
    """
    if kind in ("null", "bytes", "bytearray"):
        return data
    if kind != "msgpack":
        message = f"a rule cannot look into what is encoded as {kind!r}"
        raise ValueError(message)
    return _packed(_applied(rule, _unpacked(data)))


def _packed(value: Any) -> bytes:
    data: bytes = ormsgpack.packb(value, option=OPTIONS)
    return data


def _unpacked(data: bytes) -> Any:
    return ormsgpack.unpackb(data, ext_hook=_Extension, option=OPTIONS)


class _Extension:
    def __init__(self, tag: int, data: bytes) -> None:
        self.tag = tag
        self.data = data


def _applied(rule: Rule, value: Any) -> Any:
    if isinstance(value, str):
        return rule(value)
    if isinstance(value, dict):
        return {key: _applied(rule, each) for key, each in value.items()}
    if isinstance(value, list):
        return [_applied(rule, each) for each in value]
    if isinstance(value, _Extension):
        return ormsgpack.Ext(value.tag, value.data if value.tag == ARRAY else _within(rule, value))
    return value


def _within(rule: Rule, extension: _Extension) -> bytes:
    found = _unpacked(extension.data)
    if extension.tag in CLASSES:
        module, name, made_of, *more = found
        found = [module, name, _applied(rule, made_of), *more]
    else:
        found = _applied(rule, found)
    return _packed(found)
