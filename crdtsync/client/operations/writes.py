"""Writes of counters, sets and maps, and the settling of conflicts, as requests: sent alone or in a batch.

Each says what goes to the daemon, and what its reply teaches the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from crdtsync.client.session.read_memory import NOTHING_STORED, READ_LONG_AGO
from crdtsync.client.session.request_context import add_conditions, add_options
from crdtsync.client.values.encoding import encode, encode_fields
from crdtsync.client.values.write_result import Written
from crdtsync.errors import InvalidRequest, InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.session.request_context import Arguments, Context, Seen

T = TypeVar("T")

INCREMENT_MAX = 1 << 53
"""The largest step of a counter, up or down."""


class Write(Generic[T]):
    """One write operation.

    ``learn`` makes of its reply, its token and whether it was part of a batch what the caller gets; the session
    remembers what it told. ``waits``: the daemon may wait before it does it. ``is_growth``: ``seen`` is there only to
    be told the version with the new part.
    """

    __slots__ = ("arguments", "is_growth", "learn", "operation", "waits")

    def __init__(
        self,
        operation: str,
        arguments: Arguments,
        learn: Callable[[Any, str, bool], T],
        *,
        waits: bool = False,
        is_growth: bool = False,
    ) -> None:
        self.operation = operation
        self.arguments = arguments
        self.learn = learn
        self.waits = waits
        self.is_growth = is_growth


def conditional(write: Write[T], if_version: str | None, if_absent: bool = False) -> Write[T]:
    """The same write, done only if its key is at this version, or absent."""
    write.waits |= add_conditions(write.arguments, if_version, if_absent)
    return write


def incr(context: Context, key: str, n: object) -> Write[int]:
    """Add to a counter; its new value."""
    if type(n) is not int or abs(n) > INCREMENT_MAX:
        shown = repr(n) if type(n) in (int, float, bool) else f"a {type(n).__qualname__}"
        raise InvalidValue(f"a counter takes whole numbers from -2^53 to 2^53, not {shown}", path="$")

    def learn(reply: Any, _: str, is_batched: bool) -> int:
        context.learn_growth(key, reply, is_batched=is_batched)
        return int(reply["value"])

    return Write("incr", context.growth_arguments(key, {"by": n}), learn, is_growth=True)


def reset(context: Context, key: str, if_version: str | None) -> Write[int]:
    """Set a counter back to 0; what it was."""
    arguments = context.growth_arguments(key, {})
    if if_version is not None:
        arguments["if_version"] = if_version

    def learn(reply: Any, _: str, is_batched: bool) -> int:
        context.learn_growth(key, reply, is_batched=is_batched)
        return int(reply["value"] or 0)

    return Write("reset", arguments, learn, waits=if_version is not None, is_growth=True)


def add(context: Context, key: str, value: object) -> Write[bool]:
    """Add to a set; whether it was not there before."""

    def learn(reply: Any, _: str, is_batched: bool) -> bool:
        context.learn_growth(key, reply, is_batched=is_batched)
        return bool(reply["added"])

    return Write("add", context.growth_arguments(key, {"value": encode(value)}), learn, is_growth=True)


def discard(context: Context, key: str, value: object, seen: Seen) -> Write[bool]:
    """Remove from a set what its author had seen of an element; whether there was something."""
    return _removal(context, "discard", key, {"value": encode(value)}, seen)


def drop(context: Context, key: str, field: str, seen: Seen) -> Write[bool]:
    """Remove from a map what its author had seen of a field; whether there was something."""
    return _removal(context, "drop", key, {"field": field}, seen)


def _removal(context: Context, operation: str, key: str, arguments: Arguments, seen: Seen) -> Write[bool]:
    """What had been read still covers what is left of it."""
    arguments = {"key": key, **arguments}
    waits = context.add_removal_context(arguments, key, seen)
    return Write(operation, arguments, lambda reply, _, __: bool(reply["existed"]), waits=waits)


def merge(
    context: Context,
    key: str,
    fields: dict[str, Any],
    seen: Seen,
    confidence: float | None = None,
    meta: dict[str, Any] | None = None,
) -> Write[Written]:
    """Write fields of a map."""
    arguments: Arguments = {"key": key, "fields": encode_fields(fields)}
    add_options(arguments, None, confidence, meta)
    informed, waits = context.add_context(arguments, key, None, False, seen)

    def learn(reply: Any, token: str, is_batched: bool) -> Written:
        context.learn_growth(key, reply, is_batched=is_batched, as_read=informed)
        return Written(token, key, {**reply, "replaced": None, "replaced_fields": reply.get("replaced")})

    return Write("merge", arguments, learn, waits=waits)


def resolve(context: Context, key: str, take: str | None, value: object, merge: bool, seen: Seen) -> Write[Written]:
    """Make one value of a key's siblings.

    :raises InvalidRequest: not exactly one of ``take``, ``value`` (``...`` for none) and ``merge`` is given.
    """
    if (take is not None) + (value is not ...) + bool(merge) != 1:
        raise InvalidRequest("resolve takes exactly one of take, value and merge")
    arguments: Arguments = {"key": key}
    if take is not None:
        arguments["take"] = take
    elif merge:
        arguments["merge"] = True
    else:
        arguments["value"] = encode(value)
    waits = context.add_removal_context(arguments, key, seen)
    if arguments.get("seen") == READ_LONG_AGO:
        arguments["seen"] = NOTHING_STORED  # it was absent

    def learn(reply: Any, token: str, is_batched: bool) -> Written:
        context.learn_growth(key, reply, is_batched=is_batched, as_read=isinstance(seen, str))
        return Written(token, key, reply)

    waits |= take is not None  # that value may still be on its way
    return Write("resolve", arguments, learn, waits=waits)
