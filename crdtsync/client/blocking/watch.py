"""A watch on its own connection, for the blocking client."""

from __future__ import annotations

import os
from threading import Lock
from time import monotonic, sleep
from typing import TYPE_CHECKING, Self

from crdtsync.client.blocking.stream import Channel, dial_when_up
from crdtsync.client.protocol.backoff import Backoff
from crdtsync.client.protocol.fork import restart_in_children
from crdtsync.client.protocol.frames import FrameReader, encode_hello
from crdtsync.client.protocol.steps import limit_s
from crdtsync.client.streams.watch_state import WatchState
from crdtsync.errors import CrdtSyncError, Timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.blocking.connection import Connection
    from crdtsync.client.protocol.seen_point import Horizon
    from crdtsync.client.session.read_memory import ReadMemory
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.results import Event

_FOREVER = float("inf")


class Watch:
    """An iterator over events that goes on by itself after a broken connection. Nothing is read ahead of a slow
    consumer.

    One thread at a time iterates; any thread may :meth:`close` it, which ends the iteration.
    """

    def __init__(
        self,
        connection: Connection,
        memory: ReadMemory,
        prefix: str,
        after: str | None,
        overrides: Arguments,
        timeout: Seconds | None,
        now: Callable[[], str] | None = None,
        *,
        attach_s: float,
    ) -> None:
        self._paths = connection.paths
        self._names = (connection.agent, connection.space, connection.key)
        self._state = self._begin(memory, prefix, after, overrides, connection.horizon)
        self._timeout_s = limit_s(timeout, _FOREVER)
        self._client = os.urandom(16)
        self._backoff = Backoff()
        self._frames = FrameReader()
        self._channel: Channel | None = None
        self._closing = Lock()
        self._is_closed = False
        restart_in_children(self)
        if now is not None:
            self._state.begin_after(now())
        deadline = monotonic() + attach_s
        self._attach(deadline, deadline)

    def _begin(
        self, memory: ReadMemory, prefix: str, after: str | None, overrides: Arguments, horizon: Horizon
    ) -> WatchState:
        return WatchState(memory, prefix, after, overrides, horizon)

    @property
    def token(self) -> str | None:
        """Names all up to the event handed out last: a watch with ``after`` set to it goes on with the next."""
        return self._state.token

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def next(self, timeout: Seconds | None = None) -> Event | None:
        """The next event; None when the watch is closed.

        :raises Timeout: none came in ``timeout``, by default the watch's; the watch goes on.
        :raises CrdtSyncError: the daemon refuses the watch.
        """
        deadline = monotonic() + limit_s(timeout, self._timeout_s)
        while not self._is_closed:
            event = self._state.next_event()
            if event is not None:
                return event
            self._receive(deadline)
        return None

    def close(self) -> None:
        """End the watch; an iteration in another thread ends."""
        with self._closing:
            self._is_closed = True
            if self._channel is not None:
                self._channel.shutdown()
                self._channel.close()
                self._channel = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # A loop that was left by `break` drops its watch, and should not be warned of a socket it never saw.
        if hasattr(self, "_closing"):
            self.close()

    def after_fork(self) -> None:
        """In a child: the socket is the parent's. Go on with one of our own."""
        self._closing = Lock()
        self._client = os.urandom(16)
        self._drop()

    def _take_until(self, is_done: Callable[[], bool], deadline: float) -> bool:
        """Take what comes until that is so, or it is closed; False: the time is over."""
        try:
            while not (is_done() or self._is_closed):
                self._receive(deadline)
        except Timeout:
            return False
        return True

    def _say(self, frame: bytes, timeout_s: float) -> None:
        """Send it, unless the connection is broken."""
        channel = self._channel
        if channel is not None:
            channel.send(frame, monotonic() + timeout_s)

    def _receive(self, deadline: float) -> None:
        channel = self._channel
        if channel is None:
            self._reattach(deadline)
            return
        try:
            data = channel.receive(deadline)
            for message in self._frames.feed(data) if data else ():
                self._state.take(message)
        except CrdtSyncError as error:
            self._drop()
            self._state.standing.outlast(error)
        except BaseException:  # a signal handler's: something received may be lost, and is told again
            self._drop()
            raise
        else:
            if data is None:
                raise self._state.nothing_came()
            if not data:
                self._drop()
                return
        if self._state.standing.is_taken:
            self._backoff.reset()

    def _attach(self, deadline: float, until: float = 0.0) -> None:
        hello = encode_hello(self._client, *self._names)
        channel, self._frames, _ = dial_when_up(self._paths, hello, deadline, until)
        with self._closing:
            if self._is_closed:
                channel.close()
                return
            self._channel = channel
        try:
            channel.send(self._state.request(), deadline)
        except BaseException:
            self._drop()
            raise

    def _reattach(self, deadline: float) -> None:
        sleep(min(self._backoff.next_s(), max(deadline - monotonic(), 0)))
        if monotonic() >= deadline:
            raise self._state.nobody_there()
        try:
            self._attach(deadline)
        except CrdtSyncError as error:
            self._state.standing.outlast(error)

    def _drop(self) -> None:
        with self._closing:
            if self._channel is not None:
                self._channel.close()
                self._channel = None
