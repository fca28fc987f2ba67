"""The arguments of agents' requests that several operations share, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crdtsync.errors import InvalidEncoding, InvalidRequest, InvalidValue, TooLarge
from crdtsync.wire.codec import CONTAINER_PARTS, check_packed
from crdtsync.wire.limits import REQUEST_PARTS_MAX, TTL_MS_MAX, VALUE_CONTAINERS_MAX, check_value_size

Arguments = Mapping[str, Any]
Result = dict[str, Any]


class Parts:
    """How many parts the values of a request may still have: it takes half a second to look at 4 MiB of maps in each
    other, and a request is one turn.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = REQUEST_PARTS_MAX

    def look(self, packed: bytes, times: int) -> None:
        """Look at one more, of which each part counts so many ``times``.

        :raises InvalidEncoding: it cannot be stored.
        :raises TooLarge: they have too many.
        """
        self._left -= times * check_packed(packed, VALUE_CONTAINERS_MAX, self._left // times)
        if self._left < 0:
            raise TooLarge(
                f"the values in this request have too many parts (at most {REQUEST_PARTS_MAX:,}: each thing in a list "
                f"or map counts as 1, each list or map as {CONTAINER_PARTS} more): write them in several requests"
            )


def packed_argument(packed: object, parts: Parts, what: str = "value", times: int = 1) -> bytes:
    """``packed`` if it is the msgpack of a value that can be stored. Its parts count so many ``times``.

    :raises InvalidRequest: not bytes.
    :raises InvalidValue: bytes of something else.
    :raises TooLarge: over the limit of a value, or of a request.
    """
    if type(packed) is not bytes:
        raise InvalidRequest(f"{what} must be the bytes of a msgpack value")
    check_value_size(len(packed))
    try:
        parts.look(packed, times)
    except InvalidEncoding as error:
        raise InvalidValue(f"the value cannot be stored: {error.message}", path="$") from None
    return packed


def attributes(args: Arguments, parts: Parts) -> dict[str, Any] | None:
    """The attributes that a write gives its value: ``ttl``, ``confidence``, ``meta``; None if it gives none."""
    attrs: dict[str, Any] = {}
    ttl, confidence, meta = args.get("ttl"), args.get("confidence"), args.get("meta")
    if ttl is not None:
        if type(ttl) is not int or not 1 <= ttl <= TTL_MS_MAX:
            raise InvalidRequest(f"ttl must be a whole number of milliseconds from 1 to {TTL_MS_MAX:,}")
        attrs["ttl"] = ttl
    if confidence is not None:
        if type(confidence) not in (int, float) or not 0 <= confidence <= 1:
            raise InvalidRequest("confidence must be a number from 0 to 1")
        attrs["confidence"] = float(confidence)
    if meta is not None:
        attrs["meta"] = packed_argument(meta, parts, "meta")
    return attrs or None


TIMEOUT_MS_DEFAULT = 30_000
TIMEOUT_MS_MAX = 24 * 3600 * 1000
"""The longest time limit of a request."""


def timeout_ms(args: Arguments) -> int:
    """How long a request may wait.

    :raises InvalidRequest: it says something else than a time up to 24 h.
    """
    given = args.get("timeout", TIMEOUT_MS_DEFAULT)
    if type(given) is not int or not 0 <= given <= TIMEOUT_MS_MAX:
        raise InvalidRequest("timeout must be a whole number of milliseconds, up to 24 h")
    return given


def without_replaced(result: Result) -> Result:
    """A write's reply, or a batch's, without the values that it replaced or took along."""
    shorter = {name: value for name, value in result.items() if name not in ("replaced", "lost")}
    if "results" in shorter:
        shorter["results"] = [without_replaced(part) for part in shorter["results"]]
    return shorter
