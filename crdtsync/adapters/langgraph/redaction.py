"""A rule for texts (``crdtsync.adapters.redaction``) applied to what LangGraph has encoded.

LangGraph encodes a message as its class and its fields, as msgpack within msgpack. So texts are found at any depth, and
no object is made for it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import ormsgpack

from crdtsync.adapters.redaction import Rule, redacted

CLASSES = frozenset(range(6))  # extensions that hold (module, class, what it is made of, …)
ARRAY = 6
OPTIONS = ormsgpack.OPT_NON_STR_KEYS


def redacted_encoding(rule: Rule, kind: str, data: bytes, name: str = "") -> bytes:
    """The encoded value, with the rule applied to each text in it, but for the keys of dicts.

    :raises ValueError: it cannot be looked into: it is a pickle, or encrypted.
    """
    if kind == "null":
        return data
    if kind in ("bytes", "bytearray"):
        return bytes(redacted(rule, data, name))
    if kind != "msgpack":
        message = f"a rule cannot look into what is encoded as {kind!r}"
        raise ValueError(message)
    return _packed(redacted(rule, _unpacked(data), name, partial(_within, rule)))


def _packed(value: Any) -> bytes:
    data: bytes = ormsgpack.packb(value, option=OPTIONS)
    return data


def _unpacked(data: bytes) -> Any:
    return ormsgpack.unpackb(data, ext_hook=_Extension, option=OPTIONS)


class _Extension:
    def __init__(self, tag: int, data: bytes) -> None:
        self.tag = tag
        self.data = data


def _within(rule: Rule, value: Any) -> Any:
    if not isinstance(value, _Extension):
        return None
    if value.tag == ARRAY:
        return ormsgpack.Ext(value.tag, value.data)
    found = _unpacked(value.data)
    within = partial(_within, rule)
    if value.tag in CLASSES:
        module, name, made_of, *more = found
        found = [module, name, redacted(rule, made_of, within=within), *more]
    else:
        found = redacted(rule, found, within=within)
    return ormsgpack.Ext(value.tag, _packed(found))
