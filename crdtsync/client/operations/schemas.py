"""Schemas and purges as requests: what is declared of the keys of a pattern."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from crdtsync.client.session.request_context import Write
from crdtsync.client.values.durations import milliseconds, seconds
from crdtsync.client.values.encoding import encode
from crdtsync.client.values.listing import Listing
from crdtsync.client.values.write_result import Written
from crdtsync.errors import InvalidRequest

if TYPE_CHECKING:
    from crdtsync.client.protocol.steps import Exchange
    from crdtsync.client.session.request_context import Arguments, Context
    from crdtsync.client.values.results import Purge, Schema


def schema_set(
    context: Context,
    pattern: str,
    policy: str | None,
    refuse_lower: bool,
    history: bool | int | timedelta,
    rules: dict[str, Any],  # Any: those of the method, as they were given
) -> Write[Written]:
    """Declare what holds for the keys of a pattern; a policy of None removes what is declared."""
    arguments: Arguments = {"pattern": pattern}
    if policy is None:
        arguments["remove"] = True
    else:
        arguments |= {"policy": policy, "refuse_lower": refuse_lower}
        if history is not True:
            arguments["history"] = _history(history)
        json, ttl, writers = (rules.pop(name) for name in ("json_schema", "ttl", "writers"))
        if json is not None:
            arguments["json"] = encode(json)
        if ttl is not None:
            arguments["ttl"] = milliseconds(seconds(ttl, "ttl"))
        if isinstance(writers, str):
            raise InvalidRequest(f"writers are a list of names, as in [{writers!r}]")
        if writers is not None:
            arguments["writers"] = [*writers]
        arguments |= {name: said for name, said in rules.items() if said is not None}

    def learn(reply: Any, token: str, _: bool) -> Written:
        return Written(token, pattern, {name: reply[name] for name in ("existed", "nodes") if name in reply})

    return Write(context, "schema_set", arguments, learn)


def _history(history: bool | int | timedelta) -> object:
    """The cap as requests have it."""
    if history is False:
        return False
    cap = {"bytes": history}
    if isinstance(history, timedelta):
        cap = {"age_ms": round(history / timedelta(milliseconds=1))}
    if any(type(most) is not int or most < 1 for most in cap.values()):
        raise InvalidRequest(f"history is True, False, so many bytes or a timedelta, not {history!r}")
    return cap


def schemas(context: Context, choice: Arguments, after: str | None, timeout_s: float) -> Exchange[Listing[Schema]]:
    """The schemas of a space; ``choice``: that of a ``pattern``, or the one that applies to a ``key``."""
    from crdtsync.client.values.results import schema_from_wire

    def learn(reply: Any) -> Listing[Schema]:
        return Listing(map(schema_from_wire, reply["items"]), reply["token"])

    return context.read_call("schemas", choice, after, timeout_s, learn)


def purge(context: Context, pattern: str) -> Write[Written]:
    """Have every host forget what the keys of a pattern hold and held."""

    def learn(reply: Any, token: str, _: bool) -> Written:
        return Written(token, pattern, {name: reply[name] for name in ("removed", "more", "nodes") if name in reply})

    return Write(context, "purge", {"pattern": pattern}, learn)


def purges(context: Context, pattern: str | None, after: str | None, timeout_s: float) -> Exchange[Listing[Purge]]:
    """The purges of a space, or that of a pattern."""
    from crdtsync.client.values.results import purge_from_wire

    def learn(reply: Any) -> Listing[Purge]:
        return Listing(map(purge_from_wire, reply["items"]), reply["token"])

    return context.read_call("purges", {} if pattern is None else {"pattern": pattern}, after, timeout_s, learn)
