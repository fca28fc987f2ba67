"""Every write as a request: sent alone or in a batch.

Each says what goes to the daemon, and what its reply teaches the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from crdtsync.client.session.read_memory import NOTHING_STORED, READ_LONG_AGO
from crdtsync.client.session.request_context import ALWAYS, AdditiveWrite, Condition, Write, add_conditions, add_options
from crdtsync.client.values.encoding import encode, encode_fields
from crdtsync.client.values.write_result import Written
from crdtsync.errors import InvalidRequest, InvalidValue

if TYPE_CHECKING:
    from crdtsync.client.session.request_context import Arguments, Context, Seen
    from crdtsync.client.values.durations import Seconds

T = TypeVar("T")

INCREMENT_MAX = 1 << 53
"""The largest step of a counter, up or down."""


def conditional(write: Write[T], if_version: str | None, if_absent: bool = False) -> Write[T]:
    """The same write, done only if its key is at this version, or absent."""
    write.waits |= add_conditions(write.arguments, if_version, if_absent)
    return write


def set_value(
    context: Context,
    key: str,
    value: object,
    *,
    ttl: Seconds | None = None,
    if_version: str | None = None,
    if_absent: bool = False,
    seen: Seen = ...,
    confidence: float | None = None,
    meta: dict[str, Any] | None = None,
    bind: bool = False,
) -> Write[Written]:
    """Write a register."""
    arguments: Arguments = {"key": key, "value": encode(value)}
    if bind:
        arguments["bind"] = True
    add_options(arguments, ttl, confidence, meta)
    informed, waits = context.add_context(arguments, key, if_version, if_absent, seen)

    def learn(reply: Any, token: str, _: bool) -> Written:
        context.memory.wrote(key, reply["version"], as_read=informed)
        return Written(token, key, reply)

    return Write(context, "set", arguments, learn, waits=waits)


def delete(context: Context, key: str, seen: Seen) -> Write[bool]:
    """Delete a key; whether it existed."""
    arguments: Arguments = {"key": key}
    add_options(arguments, None, None, None)
    waits = context.add_removal_context(arguments, key, seen)

    def learn(reply: Any, _: str, __: bool) -> bool:
        context.memory.wrote(key, None)
        return bool(reply["existed"])

    return Write(context, "delete", arguments, learn, waits=waits)


def touch(context: Context, key: str, ttl: Seconds | None) -> Write[bool]:
    """Give a register another time to live; whether it was there. A session that had read it has read what is there
    now.
    """
    arguments = context.growth_arguments(key, {})
    add_options(arguments, ttl, None, None)

    def learn(reply: Any, _: str, __: bool) -> bool:
        version = reply.get("version")
        if version is not None:
            context.memory.wrote(key, version)
        return bool(reply["existed"])

    return Write(context, "touch", arguments, learn)


def append(
    context: Context,
    key: str,
    value: object,
    ttl: Seconds | None = None,
    confidence: float | None = None,
    meta: dict[str, Any] | None = None,
) -> Write[int]:
    """Append to a log; its new length."""

    def learn(reply: Any, _: str, is_batched: bool) -> int:
        context.learn_growth(key, reply, is_batched=is_batched)
        return int(reply["length"])

    arguments = context.growth_arguments(key, {"value": encode(value)})
    add_options(arguments, ttl, confidence, meta)
    return AdditiveWrite(context, "append", arguments, learn)


def trim(context: Context, key: str, keep: int) -> Write[int]:
    """Keep a log's newest elements; how many were removed. A version read before covers what is left of it."""
    return Write(context, "trim", {"key": key, "keep": keep}, lambda reply, _, __: int(reply["removed"]))


def remove(context: Context, key: str, dot: str) -> Write[bool]:
    """Remove one element of a log; whether it was there. A version read before covers what is left of it."""
    arguments: Arguments = {"key": key, "dot": dot}
    return Write(context, "remove", arguments, lambda reply, _, __: bool(reply["existed"]), waits=True)


def incr(context: Context, key: str, n: object) -> Write[int]:
    """Add to a counter; its new value."""
    if type(n) is not int or abs(n) > INCREMENT_MAX:
        shown = repr(n) if type(n) in (int, float, bool) else f"a {type(n).__qualname__}"
        raise InvalidValue(f"a counter takes whole numbers from -2^53 to 2^53, not {shown}", path="$")

    def learn(reply: Any, _: str, is_batched: bool) -> int:
        context.learn_growth(key, reply, is_batched=is_batched)
        return int(reply["value"])

    arguments = context.growth_arguments(key, {"by": n})
    add_options(arguments, None, None, None)
    return AdditiveWrite(context, "incr", arguments, learn)


def incr_to(context: Context, key: str, totals: tuple[str, int, int]) -> Write[int]:
    """Count up to what a fork has counted under a name, and not beyond if it is done again; the new value."""
    write = incr(context, key, 0)
    del write.arguments["by"]
    write.arguments["totals"] = [*totals]
    return write


def reset(context: Context, key: str, if_version: str | None) -> Write[int]:
    """Set a counter back to 0; what it was."""
    arguments = context.growth_arguments(key, {})
    if if_version is not None:
        arguments["if_version"] = if_version

    def learn(reply: Any, _: str, is_batched: bool) -> int:
        context.learn_growth(key, reply, is_batched=is_batched)
        return int(reply["value"] or 0)

    return AdditiveWrite(context, "reset", arguments, learn, waits=if_version is not None)


def add(context: Context, key: str, value: object) -> Write[bool]:
    """Add to a set; whether it was not there before."""

    def learn(reply: Any, _: str, is_batched: bool) -> bool:
        context.learn_growth(key, reply, is_batched=is_batched)
        return bool(reply["added"])

    arguments = context.growth_arguments(key, {"value": encode(value)})
    add_options(arguments, None, None, None)
    return AdditiveWrite(context, "add", arguments, learn)


def discard(context: Context, key: str, value: object, seen: Seen) -> Write[bool]:
    """Remove from a set what its author had seen of an element; whether there was something."""
    return _removal(context, "discard", key, {"value": encode(value)}, seen)


def drop(context: Context, key: str, field: str, seen: Seen) -> Write[bool]:
    """Remove from a map what its author had seen of a field; whether there was something."""
    return _removal(context, "drop", key, {"field": field}, seen)


def _removal(context: Context, operation: str, key: str, arguments: Arguments, seen: Seen) -> Write[bool]:
    """A version read before still covers what is left of the key."""
    arguments = {"key": key, **arguments}
    add_options(arguments, None, None, None)
    waits = context.add_removal_context(arguments, key, seen)
    return Write(context, operation, arguments, lambda reply, _, __: bool(reply["existed"]), waits=waits)


def merge(
    context: Context,
    key: str,
    fields: dict[str, Any],
    seen: Seen,
    confidence: float | None = None,
    meta: dict[str, Any] | None = None,
    if_field_absent: bool = False,
) -> Write[Written]:
    """Write fields of a map."""
    arguments: Arguments = {"key": key, "fields": encode_fields(fields)}
    add_options(arguments, None, confidence, meta)
    if if_field_absent:
        arguments["if_field_absent"] = True
    informed, waits = context.add_context(arguments, key, None, False, seen)

    def learn(reply: Any, token: str, is_batched: bool) -> Written:
        context.learn_growth(key, reply, is_batched=is_batched, as_read=informed)
        return Written(token, key, {**reply, "replaced": None, "replaced_fields": reply.get("replaced")})

    return Write(context, "merge", arguments, learn, waits=waits)


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
    return Write(context, "resolve", arguments, learn, waits=waits)


def text_apply(
    context: Context, key: str, document: str | None, update: bytes, condition: Condition = ALWAYS
) -> Write[Written]:
    """Edit a text by a Yjs update."""
    arguments: Arguments = {"key": key, "document": document, "update": bytes(update)}

    def learn(reply: Any, token: str, _: bool) -> Written:
        context.memory.wrote(key, reply["version"])
        return Written(token, key, reply)

    return Write(context, "text_apply", arguments, learn, waits=add_conditions(arguments, *condition))
