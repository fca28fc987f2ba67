"""Operations as plans: generators that yield what they need done and get the outcome back, shared by both clients.

A plan yields a :class:`Call` (send a request, get its result or an exception thrown in), a :class:`Pause`, or a
:class:`Compute` (the caller's own function); what it returns is the operation's result. Whoever runs it owns the
socket, the clock and the threads.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from crdtsync.client.values.durations import Seconds, seconds
from crdtsync.errors import InvalidEncoding

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Call:
    """A request to the daemon.

    ``waits``: the daemon itself ends it at its ``timeout`` argument, with a better error than ours.
    """

    __slots__ = ("arguments", "is_write", "operation", "waits")

    def __init__(
        self, operation: str, arguments: dict[str, object], *, is_write: bool = False, waits: bool = False
    ) -> None:
        self.operation = operation
        self.arguments = arguments
        self.is_write = is_write
        self.waits = waits


class Pause:
    """Let others go first."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Compute:
    """Run the caller's function, which may be a coroutine function under asyncio."""

    __slots__ = ("argument", "function")

    def __init__(self, function: Callable[[Any], Any], argument: object) -> None:
        self.function = function
        self.argument = argument


Step = Call | Pause | Compute
Plan = Generator[Step, Any, T]
"""What is sent in depends on the step: a reply, whose shape the protocol gives, or what the caller's function
returned."""

WAIT_GRACE_S = 2.0
"""How much longer than the daemon a client waits for the daemon's own timeout error, which knows more."""


def limit_s(timeout: Seconds | None, default_s: float) -> float:
    """The time limit of one operation in seconds: the caller's, or the client's."""
    return default_s if timeout is None else seconds(timeout, "timeout")


class Named(Protocol):
    """A request, or what was made of it."""

    operation: str


def unfit(call: Named, missing: KeyError) -> InvalidEncoding:
    """The error for a reply without a field that its plan looked for."""
    return InvalidEncoding(
        f"the daemon's answer to {call.operation!r} has no {missing}: bring client and daemon to versions that fit"
    )
