"""Checkpoints as requests: points of a space's past with a name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crdtsync.client.session.request_context import Write
from crdtsync.client.values.durations import Seconds, milliseconds, seconds
from crdtsync.client.values.listing import Listing
from crdtsync.client.values.results import moment
from crdtsync.client.values.write_result import Written

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from crdtsync.client.protocol.steps import Exchange
    from crdtsync.client.session.request_context import Arguments, Context

CHECKPOINT, POLICY = "checkpoint_set", "checkpoint_policy"
"""The requests that make one of these, or delete it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint. ``keys``: how many the whole space had; ``cut``: a token of what it holds, for ``at``.

    ``whole``: whether this node can show all of it. ``ttl``: in seconds from its making, if it has an end.
    ``versions``: those that schemas had then, by pattern.
    """

    name: str
    note: str
    prefixes: list[str]
    keys: int
    cut: str
    whole: bool
    dot: str
    agent: str | None
    node: str | None
    time: datetime | None
    ttl: float | None
    versions: dict[str, int]


class Checkpoints(Listing[Checkpoint]):
    """The checkpoints of a space. ``held_bytes``: what the past that they hold back takes on this node, all of it.

    ``bytes_max``: how much it may take before the oldest is let go; None: the node has not looked yet.
    """

    __slots__ = ("bytes_max", "held_bytes")

    def __init__(
        self,
        items: Iterable[Checkpoint] = (),
        token: str | None = None,
        held_bytes: int = 0,
        bytes_max: int | None = None,
    ) -> None:
        super().__init__(items, token)
        self.held_bytes = held_bytes
        self.bytes_max = bytes_max


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """How often nodes make a checkpoint by themselves. ``every`` and ``age``: in seconds.

    ``last``: when one was made by it last, and ``count``: how many there are now.
    """

    name: str
    prefixes: list[str]
    every: float
    keep: int
    age: float | None
    last: datetime | None
    count: int
    agent: str | None
    node: str | None


@dataclass(slots=True)
class Verified:
    """The result of reading all that a checkpoint holds on this node.

    ``keys``: how many there are. ``damaged``: those that cannot be read, each with why. ``mended``: those that could
    not, until another node gave what the disk has spoilt; a part of a log, set or map that it gave before that key was
    read alone is not named. ``older``: if some are damaged, the newest older checkpoint that is whole here, or None.
    """

    keys: int = 0
    damaged: dict[str, str] = field(default_factory=dict)
    mended: list[str] = field(default_factory=list)
    older: str | None = None


def checkpoint(
    context: Context, name: str, prefixes: str | Iterable[str] | None, note: str, keep: Seconds | None
) -> Write[Written]:
    """Make one."""
    arguments: Arguments = {}
    if note:
        arguments["note"] = note
    if keep is not None:
        arguments["ttl"] = milliseconds(seconds(keep, "keep"))
    return _set(context, CHECKPOINT, name, prefixes, arguments)


def set_policy(
    context: Context, name: str, every: Seconds, prefixes: str | Iterable[str] | None, keep: int, age: Seconds | None
) -> Write[Written]:
    """Have nodes make one every so often."""
    arguments: Arguments = {"every": milliseconds(seconds(every, "every")), "keep": keep}
    if age is not None:
        arguments["age"] = milliseconds(seconds(age, "age"))
    return _set(context, POLICY, name, prefixes, arguments)


def _set(
    context: Context, operation: str, name: str, prefixes: str | Iterable[str] | None, arguments: Arguments
) -> Write[Written]:
    arguments["name"] = name
    if prefixes is not None:
        arguments["prefixes"] = [prefixes] if isinstance(prefixes, str) else list(prefixes)

    def learn(reply: Any, token: str, _: bool) -> Written:
        return Written(token, name, {"nodes": reply["nodes"]} if "nodes" in reply else {})

    return Write(context, operation, arguments, learn)


def delete(context: Context, operation: str, name: str) -> Write[bool]:
    """Delete a checkpoint, or end a policy; whether it was there."""
    arguments: Arguments = {"name": name, "remove": True}
    return Write(context, operation, arguments, lambda reply, _token, _: bool(reply["existed"]))


def checkpoints(context: Context, timeout_s: float) -> Exchange[Checkpoints]:
    """All of them."""

    def learn(reply: Any) -> Checkpoints:
        sizes = {name: reply[name] for name in ("held_bytes", "bytes_max") if name in reply}
        return Checkpoints(map(_from_wire, reply["items"]), reply["token"], **sizes)

    return context.read_call("checkpoints", {}, None, timeout_s, learn)


def _from_wire(fields: dict[str, Any]) -> Checkpoint:
    ttl = fields.get("ttl")
    known = {name: fields[name] for name in Checkpoint.__dataclass_fields__ if name not in ("time", "ttl", "versions")}
    ttl_s = None if ttl is None else ttl / 1000
    return Checkpoint(**known, time=moment(fields.get("time")), ttl=ttl_s, versions=fields.get("versions") or {})


def policies(context: Context, timeout_s: float) -> Exchange[list[CheckpointPolicy]]:
    """All of them, by name."""

    def learn(reply: Any) -> list[CheckpointPolicy]:
        return [
            CheckpointPolicy(
                **each
                | {
                    "every": each["every"] / 1000,
                    "age": None if each["age"] is None else each["age"] / 1000,
                    "last": moment(each["last"]),
                }
            )
            for each in reply.get("policies", ())
        ]

    return context.read_call("checkpoints", {}, None, timeout_s, learn)
