"""An event loop whose time is simulated: it jumps to the next timer. Tasks belong to processes, which may freeze."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

STARTED_S = 1000.0


class Process:
    """What runs in one process, on a host with a clock: while it is frozen nothing of it moves; killed, never again."""

    def __init__(self, clock_s: Callable[[], float], wall_s: Callable[[], float]) -> None:
        self.clock_s = clock_s
        self.wall_s = wall_s
        self.is_frozen = self.is_dead = False
        self.thawed_s = 0.0
        self._parked: list[tuple[Context, _Call]] = []

    def run(self, call: _Call) -> None:
        """The loop has come to a call of this process."""
        if self.is_frozen:
            self._parked.append((copy_context(), call))
        else:
            call.function(*call.arguments)

    def freeze(self) -> None:
        """Stop, as by SIGSTOP."""
        self.is_frozen = True

    def thaw(self, loop: VirtualLoop) -> None:
        """Go on with all that has come due meanwhile, at once."""
        self.is_frozen, self.thawed_s = False, loop.time()
        parked, self._parked = self._parked, []
        for context, call in parked:
            if not call.handle.cancelled():
                loop.call_soon(call.function, *call.arguments, context=context)

    def kill(self) -> None:
        """End, as far as anybody can see; :meth:`thaw` lets its tasks come to their end when all is over."""
        self.is_frozen = self.is_dead = True


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class _Call:
    def __init__(self, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.function = function
        self.arguments = arguments
        self.handle: asyncio.Handle


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module's description. No file, socket or signal can be waited for."""

    def __init__(self, connect: Callable[[Any, str], Any]) -> None:
        super().__init__()
        self._now_s = STARTED_S
        self._selector = self
        self._connect = connect
        self.failure: BaseException | None = None
        """The first error of what nobody awaits: a node, a link, a timer."""

    def time(self) -> float:
        return self._now_s

    def select(self, timeout: float | None) -> list[Any]:
        """What a selector does: here time passes at once."""
        assert timeout is not None, "everybody waits, and nothing is due any more"
        self._now_s += timeout
        return []

    def _process_events(self, _event_list: list[Any]) -> None:
        pass

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if "handle" in context and self.failure is None:
            self.failure = context["exception"]
        super().call_exception_handler(context)

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        context = copy_context() if context is None else context
        process = context.get(PROCESS)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        call = _Call(callback, args)
        call.handle = super().call_soon(process.run, call, context=context)
        return call.handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = copy_context() if context is None else context
        process = context.get(PROCESS)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        call = _Call(callback, args)
        call.handle = handle = super().call_at(when, process.run, call, context=context)
        return handle

    async def create_unix_connection(self, protocol_factory: Any, path: str | None = None, **_: Any) -> Any:
        """The only way out: to the daemon of a simulated host.

        :raises ConnectionRefusedError: it is down.
        """
        assert path is not None
        protocol = protocol_factory()
        return self._connect(protocol, path), protocol
