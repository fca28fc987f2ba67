"""One attached socket: bytes out and in, with deadlines, and no system call more than needed; and the connection of
what has one of its own: a watch, a mirror, a resolver. Its twin is ``aio.stream``.
"""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager, nullcontext
from struct import pack
from threading import Event, Lock, RLock
from time import monotonic, sleep
from typing import TYPE_CHECKING

from crdtsync.client.protocol.address import may_come, unavailable
from crdtsync.client.protocol.backoff import Backoff
from crdtsync.client.protocol.fork import restart_in_children
from crdtsync.client.protocol.frames import ERROR, HELLO_ID, MessageReader, encode_hello
from crdtsync.errors import CrdtSyncError, DaemonUnavailable, from_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from crdtsync.client.blocking.connection import Connection
    from crdtsync.client.protocol.frames import Message
    from crdtsync.client.streams.resume import Standing

_TICK_S = 1.0
"""The kernel's own time limit on a blocked call. Setting it for each call would double the system calls; a deadline
that is further
away is met by calling again."""
_RECEIVE_BYTES = 64 * 1024
_NO_ROOM = memoryview(b"")
HELLO_TIMEOUT_S = 30.0
"""A daemon that hangs is found out, and started anew, well before."""


class Stream:
    """A connection of its own that comes back by itself.

    Before the first it calls ``prepare``. On each new one it sends what ``request`` gives, and ``take`` is handed each
    message. Nothing is read ahead of a slow consumer. One thread receives; any may say something, or close it.
    """

    def __init__(
        self,
        connection: Connection,
        standing: Standing,
        request: Callable[[], bytes],
        take: Callable[[Message], object],
        begin_s: float,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self._paths = connection.paths
        self._names = (connection.agent, connection.space, connection.key)
        self._standing, self._request, self._take, self._begin_s = standing, request, take, begin_s
        self._prepare = prepare
        self._backoff = Backoff()
        self._frames = MessageReader()
        self._channel: Channel | None = None
        self._was_begun = False
        self._closed = Event()
        self.after_fork()
        restart_in_children(self)

    def after_fork(self) -> None:
        """In a child: the socket is the parent's, and locks may be held by nobody. Go on with ones of our own."""
        self._changing = RLock()  # a signal's handler may close it
        self._sending = Lock()
        self._is_receiving = False
        self._greeted: Channel | None = None
        closed, self._closed = self._closed.is_set(), Event()
        if closed:
            self._closed.set()
        self._client = os.urandom(16)
        self._drop()

    @property
    def is_up(self) -> bool:
        """Whether there is a connection now."""
        return self._channel is not None

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""
        return self._closed.is_set()

    def begin(self) -> None:
        """Connect, unless that was done before; a daemon that is away is waited for.

        :raises CrdtSyncError: there is none, or it refuses us.
        """
        if not self._was_begun:
            if self._prepare is not None:
                self._prepare()
                self._prepare = None
            deadline = monotonic() + self._begin_s
            self._dial(deadline, deadline)

    def receive(self, deadline: float) -> bool:
        """Take what comes next, or connect; False: the time is over.

        :raises CrdtSyncError: the daemon refuses what is asked, or ends it.
        """
        try:
            with self._changing:
                channel = self._channel
                self._is_receiving = channel is not None
            return self._dial_again(deadline) if channel is None else self._receive(channel, deadline)
        finally:
            self._is_receiving = False
            if self._closed.is_set():
                self._drop()

    def say(self, frame: Callable[[], bytes], within_s: float) -> None:
        """Send what that gives, unless the connection is broken."""
        with self._sending:
            if self._channel is not None:
                self._channel.send(frame(), monotonic() + within_s)

    def close(self) -> None:
        """End it; a thread that waits for it sees that at once."""
        with self._changing:
            self._closed.set()
            if self._greeted is not None:
                self._greeted.shutdown()
            if self._channel is not None:
                self._channel.shutdown()
                if not self._is_receiving:  # else who receives closes it: nobody is to read what has its number next
                    self._drop()

    def _receive(self, channel: Channel, deadline: float) -> bool:
        try:
            data = channel.receive(deadline)
            for message in self._frames.feed(data) if data else ():
                self._take(message)
        except BaseException as error:  # a signal handler's: something received may be lost, and is told again
            self._drop()
            if not isinstance(error, CrdtSyncError):
                raise
            self._standing.outlast(error)
        else:
            if data is None:
                return False
            if not data:
                self._drop()
        if self._standing.is_taken:
            self._backoff.reset()
        return True

    def _dial(self, deadline: float, until: float) -> None:
        hello = encode_hello(self._client, *self._names)
        channel, frames, _ = dial_when_up(self._paths, hello, deadline, until, self._greeting)
        self._was_begun = True
        with self._sending:
            with self._changing:
                if self._closed.is_set():
                    channel.close()
                    return
                self._frames, self._channel = frames, channel
            try:
                channel.send(self._request(), deadline)
            except BaseException:
                self._drop()
                raise

    @contextmanager
    def _greeting(self, channel: Channel) -> Iterator[None]:
        """While the daemon's answer to our hello is waited for: closing ends that too."""
        with self._changing:
            self._greeted = channel
            if self._closed.is_set():
                channel.shutdown()
        try:
            yield
        finally:
            with self._changing:
                self._greeted = None

    def _dial_again(self, deadline: float) -> bool:
        if self._closed.wait(min(self._backoff.next_s(), max(deadline - monotonic(), 0))):
            return True
        if monotonic() >= deadline:
            return False
        try:
            self._dial(deadline, 0.0)
        except CrdtSyncError as error:
            self._standing.outlast(error)
        return True

    def _drop(self) -> None:
        with self._changing:
            if self._channel is not None:
                self._channel.close()
                self._channel = None


class Channel:
    """A connected unix socket. One thread may send while another receives."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._receive_limit_s = self._send_limit_s = _TICK_S
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(_TICK_S))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(_TICK_S))

    def receive(self, deadline: float, room: memoryview = _NO_ROOM) -> bytes | memoryview | None:
        """The next bytes, in ``room`` if there is any; empty at the end of the connection, None when the deadline has
        passed.
        """
        while True:
            limit_s = min(deadline - monotonic(), _TICK_S)
            if limit_s <= 0:
                return None
            if limit_s != self._receive_limit_s:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(limit_s))
                self._receive_limit_s = limit_s
            try:
                return room[: self._socket.recv_into(room)] if room else self._socket.recv(_RECEIVE_BYTES)
            except OSError as error:
                if _is_thrown_in(error):
                    raise
                if not isinstance(error, BlockingIOError):
                    return b""

    def send(self, frame: bytes, deadline: float) -> bool:
        """Send all of ``frame``; False if the connection broke, which it also does when the deadline passes halfway,
        or an exception comes from outside: then nobody knows how much was sent.
        """
        try:
            try:
                sent = self._socket.send(frame)
            except OSError as error:
                if _is_thrown_in(error):
                    raise
                if not isinstance(error, BlockingIOError):
                    return False
                sent = 0
            return sent == len(frame) or self._send_rest(memoryview(frame)[sent:], deadline)
        except BaseException:
            self.shutdown()
            raise

    def _send_rest(self, rest: memoryview, deadline: float) -> bool:
        while rest:
            limit_s = min(deadline - monotonic(), _TICK_S)
            if limit_s <= 0:
                self.shutdown()
                return False
            if limit_s != self._send_limit_s:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(limit_s))
                self._send_limit_s = limit_s
            try:
                rest = rest[self._socket.send(rest) :]
            except OSError as error:
                if _is_thrown_in(error):
                    raise
                if not isinstance(error, BlockingIOError):
                    return False
        return True

    def shutdown(self) -> None:
        """End the connection; a thread that is blocked on it sees that at once."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            if _is_thrown_in(error):
                raise

    def close(self) -> None:
        """Give back the file descriptor; the connection ends when no other process holds it."""
        self._socket.close()


Attached = tuple[Channel, MessageReader, object]
"""A channel, its reader, and the daemon's answer to our hello."""


def dial_when_up(
    paths: Sequence[str],
    hello: bytes,
    deadline: float,
    until: float,
    greeting: Callable[[Channel], AbstractContextManager[object]] = nullcontext,
) -> Attached:
    """As :func:`dial`; while there is no daemon it tries ``until`` that time again: one that restarts is soon back."""
    backoff = Backoff()
    while True:
        try:
            return dial(paths, hello, deadline, greeting)
        except DaemonUnavailable as error:
            left_s = until - monotonic()
            if left_s <= 0 or not may_come(error):
                raise
            sleep(min(backoff.next_s(), left_s))


def dial(
    paths: Sequence[str],
    hello: bytes,
    deadline: float,
    greeting: Callable[[Channel], AbstractContextManager[object]] = nullcontext,
) -> Attached:
    """Connect to the first socket that takes us and introduce ourselves, within ``greeting``.

    :raises DaemonUnavailable: none does, or the daemon hangs up.
    :raises CrdtSyncError: the daemon refuses us, with its reason.
    """
    channel = Channel(_connect(paths, deadline))
    try:
        with greeting(channel):
            return channel, *_greet(channel, hello, min(deadline, monotonic() + HELLO_TIMEOUT_S))
    except BaseException:
        channel.close()
        raise


def _connect(paths: Sequence[str], deadline: float) -> socket.socket:
    failures: list[tuple[str, OSError]] = []
    for path in paths:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            limit_s = min(max(deadline - monotonic(), 0.001), HELLO_TIMEOUT_S)
            sock.setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(limit_s)
            )  # for room in the daemon's backlog
            sock.connect(path)
        except BaseException as error:
            sock.close()
            if not isinstance(error, OSError) or _is_thrown_in(error):
                raise
            failures.append((path, error))
        else:
            return sock
    raise unavailable(failures)


def _greet(channel: Channel, hello: bytes, deadline: float) -> tuple[MessageReader, object]:
    frames = MessageReader()
    if channel.send(hello, deadline):
        while data := channel.receive(deadline):
            for request_id, status, content in frames.feed(data):
                if status == ERROR:
                    raise from_wire(content)
                assert request_id == HELLO_ID, "the daemon answers only what it was asked"
                return frames, content
        if data is None:
            raise DaemonUnavailable("the daemon took the connection and did not answer in time: see its log")
    raise DaemonUnavailable("the daemon closed the connection at once: see its log")


def _is_thrown_in(error: OSError) -> bool:
    """Whether it is not the system's, but came out of a signal handler of the caller's, as a TimeoutError may: that has
    a frame of its own below the one that made the system call.
    """
    traceback = error.__traceback__
    return traceback is not None and traceback.tb_next is not None


def _timeval(seconds: float) -> bytes:
    whole = int(seconds)
    return pack("ll", whole, max(int((seconds - whole) * 1_000_000), 0 if whole else 1))
