"""A thread that goes on beside its owner, and what else a task does otherwise. Its twin is ``aio.background``."""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

from crdtsync.client.protocol.fork import restart_in_children
from crdtsync.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable


class Background:
    """Runs a function until that returns. Whoever wants it to end tells it so, and joins it."""

    def __init__(self, run: Callable[[], None], name: str | None = None) -> None:
        self._run = run
        self._name = name
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        """Begin. The thread keeps no process from ending."""
        self._thread = threading.Thread(target=self._guarded, name=self._name, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not returned."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        """Whether who asks is within it."""
        return self._thread is threading.current_thread()

    def end(self, within_s: float) -> None:
        """Wait so long until it has returned; from within it, do nothing."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(within_s)

    ended = end

    def join(self) -> None:
        """Wait until it has returned; from within it, do nothing."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            error, self._error = self._error, None
            if error is not None:
                raise error

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self._error = error  # for who joins it
            if not isinstance(error, Exception):  # perhaps nobody does: told as of any thread
                raise


class News:
    """Wakes all who wait for something to come true, which they look at whenever there is news."""

    def __init__(self) -> None:
        self.after_fork()
        restart_in_children(self)

    def after_fork(self) -> None:
        """Also in a child, where nobody gives the lock back."""
        self._told = threading.Condition()

    def tell(self) -> None:
        """Something has changed."""
        with self._told:
            self._told.notify_all()

    def until(self, condition: Callable[[], bool], deadline: float) -> bool:
        """Wait until that is so; False: the time is over."""
        within_s = min(max(deadline - monotonic(), 0), threading.TIMEOUT_MAX)
        with self._told:
            return self._told.wait_for(condition, within_s)


def check_handler(handler: object) -> None:
    """A function that is no coroutine function.

    :raises InvalidRequest: it is something else.
    """
    import inspect

    if not callable(handler) or inspect.iscoroutinefunction(handler):
        raise InvalidRequest(f"a handler is a function (a coroutine function goes with AsyncClient), not {handler!r}")


def at_once(begin: Callable[..., object], *arguments: object) -> None:
    """Begin what its owner makes, now."""
    begin(*arguments)


def call(function: Callable[..., object], *arguments: Any) -> Any:
    """What a caller's function returns."""
    return function(*arguments)


def wake_up() -> threading.Event:
    """What one thread waits for and another one sets."""
    return threading.Event()


def woken(event: threading.Event, within_s: float | None) -> bool:
    """Wait until it is set, or the time is over; then it is not set any more. Whether it was."""
    if not event.wait(within_s):
        return False
    event.clear()
    return True
