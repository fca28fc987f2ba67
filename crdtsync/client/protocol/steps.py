"""Operations as plans, shared by both clients: one request, or a generator that yields what it needs done and gets the
outcome back.

A ``get`` is one request, so its plan is an :class:`Exchange`: what to send, and what the reply means. An ``update``
takes several steps, so its plan is a generator. It yields Exchanges, a :class:`Pause`, or a :class:`Compute` (the
caller's own function), and what it returns is the operation's result. The client that runs a plan owns the socket, the
clock and the threads.

To send a generator through its steps costs as much as all else about a request (measured: 3 of 6 µs), so an Exchange is
run without one.
"""

from __future__ import annotations

from collections.abc import Generator
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from crdtsync.client.protocol.in_flight import Pending
from crdtsync.client.values.durations import Seconds, seconds
from crdtsync.errors import CrdtSyncError, InvalidEncoding

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Author(Protocol):
    """The one that asks."""

    def learn_refusal(self, arguments: dict[str, object], refusal: CrdtSyncError) -> None:
        """A request with these arguments failed."""


class Exchange(Pending, Generic[T]):
    """A request to the daemon, and what its reply means: a plan by itself, or a step of one.

    ``learn`` makes of the reply what the caller gets; without it that is the reply.
    """

    __slots__ = ("author", "learn")

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
        # All fields of a Pending as well, and no super(): one is made for every request, and that would cost 0.15 µs.
        self.operation = operation
        self.arguments = arguments
        self.waits = waits
        self.limit = self.deadline = inf
        self.id = self.number = 0
        self.sent = self.done = False
        self.result = self.error = self.waker = self.follows = None
        self.author = author
        self.learn = learn

    def __iter__(self) -> Generator[Step, Any, T]:
        """As a step: ``result = yield from call``."""
        result: T = yield self
        return result

    def outcome(self) -> T:
        """The caller's result once it is done, or raise. The author learns from it either way.

        :raises InvalidEncoding: the reply lacks something.
        """
        try:
            if self.error is None:
                return self.understand()
            self.author.learn_refusal(self.arguments, self.error)
        except KeyError as missing:
            raise unfit(self, missing) from missing
        raise self.error

    def understand(self) -> T:
        """The meaning of the reply to the caller."""
        result: T = self.result if self.learn is None else self.learn(self.result)
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


NEXT_PAGE = Compute(lambda _: None, None)
"""Between two pages of what takes several requests: the time limit begins anew, since it is for each page."""

Step = Exchange[Any] | Pause | Compute
Steps = Generator[Step, Any, T]
"""The value that is sent in depends on the step: the result that an Exchange made of its reply, or that of the caller's
function.
"""
Plan = Exchange[T] | Steps[T]


def limit_s(timeout: Seconds | None, default_s: float) -> float:
    """The time limit of one operation in seconds: the caller's, or the client's."""
    return default_s if timeout is None else seconds(timeout, "timeout")


def unfit(call: Exchange[Any], missing: KeyError) -> InvalidEncoding:
    """The error for a reply without a field that its plan looked for."""
    return InvalidEncoding(
        f"the daemon's answer to {call.operation!r} has no {missing}: bring client and daemon to versions that fit"
    )
