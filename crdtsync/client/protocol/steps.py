"""Operations as plans, shared by both clients: one request, or a generator that yields what it needs done and gets the
outcome back.

A ``get`` is one request, so its plan is a :class:`Call`: what to send, and what the reply means. An ``update`` takes
several steps, so its plan is a generator. It yields Calls, a :class:`Pause`, or a :class:`Compute` (the caller's own
function), and what it returns is the operation's result. The client that runs a plan owns the socket, the clock and the
threads.

To send a generator through its steps costs as much as all else about a request (measured: 3 of 6 µs), so a Call is run
without one.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from crdtsync.client.values.durations import Seconds, seconds
from crdtsync.errors import CrdtSyncError, InvalidEncoding

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Author(Protocol):
    """The one that asks."""

    def learn_refusal(self, arguments: dict[str, object], refusal: CrdtSyncError) -> None:
        """A request with these arguments failed."""


class Call(Generic[T]):
    """A request to the daemon, and what its reply means: a plan by itself, or a step of one.

    ``learn`` makes of the reply what the caller gets; without it that is the reply. ``waits``: the daemon itself ends
    it at its ``timeout`` argument, with a better error than ours.
    """

    __slots__ = ("arguments", "author", "learn", "operation", "waits")

    is_write: ClassVar[bool] = False

    def __init__(
        self,
        author: Author,
        operation: str,
        arguments: dict[str, object],
        learn: Callable[..., T] | None = None,
        *,
        waits: bool = False,
    ) -> None:
        self.author = author
        self.operation = operation
        self.arguments = arguments
        self.learn = learn
        self.waits = waits

    def __iter__(self) -> Generator[Step, Any, T]:
        """As a step: ``result = yield from call``."""
        result: T = yield self
        return result

    def outcome(self, reply: Any, error: CrdtSyncError | None) -> T:
        """The result, once there is a reply or an error. The author learns from both.

        :raises InvalidEncoding: the reply lacks something.
        """
        try:
            if error is None:
                return self._result(reply)
            self.author.learn_refusal(self.arguments, error)
        except KeyError as missing:
            raise unfit(self, missing) from missing
        raise error

    def _result(self, reply: Any) -> T:
        result: T = reply if self.learn is None else self.learn(reply)
        return result


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


Step = Call[Any] | Pause | Compute
Steps = Generator[Step, Any, T]
"""What is sent in depends on the step: what a Call made of its reply, or what the caller's function returned."""
Plan = Call[T] | Steps[T]

WAIT_GRACE_S = 2.0
"""How much longer than the daemon a client waits for the daemon's own timeout error, which knows more."""


def limit_s(timeout: Seconds | None, default_s: float) -> float:
    """The time limit of one operation in seconds: the caller's, or the client's."""
    return default_s if timeout is None else seconds(timeout, "timeout")


def unfit(call: Call[Any], missing: KeyError) -> InvalidEncoding:
    """The error for a reply without a field that its plan looked for."""
    return InvalidEncoding(
        f"the daemon's answer to {call.operation!r} has no {missing}: bring client and daemon to versions that fit"
    )
