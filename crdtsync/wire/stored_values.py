"""Values that agents may store; those of another node, which may not have looked, are held against that.

The problem. The author's daemon checks each value and all that is said about it. A member that keeps to no rule sends a
value that is no msgpack, or 900 lists in each other, or a time to live that is a word. Refusing such a change would be
worse than the change: a node of an older build takes it and hands it on, and whoever refused it could take nothing more
from either.

So the change is applied, and what is wrong in it says nothing: such a value is unreadable, as one that was purged, with
its hash in its place; such an attribute is as if it had not been given. All nodes hold the same, and readers get what
any program can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crdtsync.errors import InvalidEncoding
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import check_packed
from crdtsync.wire.limits import TTL_MS_MAX


class Attributes(NamedTuple):
    """Attributes that a write may give its value; None: it does not."""

    ttl: int | None = None
    confidence: float | None = None
    meta: bytes | None = None


NO_ATTRIBUTES = Attributes()


def is_storable(packed: bytes) -> bool:
    """Whether these bytes are the msgpack of one value that an agent can store."""
    try:
        check_packed(packed)
    except InvalidEncoding:
        return False
    return True


def attributes_of(attrs: Mapping[str, Any] | None) -> Attributes:
    """The attributes of a value, as far as an agent can have given them."""
    if not attrs:
        return NO_ATTRIBUTES
    meta = attrs.get("meta")
    return Attributes(ttl_of(attrs), confidence_of(attrs), meta if type(meta) is bytes and is_storable(meta) else None)


def ttl_of(attrs: Mapping[str, Any]) -> int | None:
    """How long the value lives, without a look at the rest, which may be long."""
    ttl = attrs.get("ttl")
    return ttl if type(ttl) is int and 1 <= ttl <= TTL_MS_MAX else None


def confidence_of(attrs: Mapping[str, Any]) -> float | None:
    """How sure its author was, likewise."""
    confidence = attrs.get("confidence")
    return confidence if type(confidence) is float and 0 <= confidence <= 1 else None


def are_sound(attrs: Mapping[str, Any]) -> bool:
    """Whether all of it counts."""
    return attributes_of(attrs) == Attributes(attrs.get("ttl"), attrs.get("confidence"), attrs.get("meta"))
