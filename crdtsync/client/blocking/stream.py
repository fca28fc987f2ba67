"""One attached socket: bytes out and in, with deadlines, and no system call more than needed."""

from __future__ import annotations

import socket
from struct import pack
from time import monotonic, sleep
from typing import TYPE_CHECKING

from crdtsync.client.protocol.address import may_come, unavailable
from crdtsync.client.protocol.backoff import Backoff
from crdtsync.client.protocol.frames import ERROR, HELLO_ID, FrameReader
from crdtsync.errors import DaemonUnavailable, from_wire

if TYPE_CHECKING:
    from collections.abc import Sequence

_TICK_S = 1.0
"""The kernel's own time limit on a blocked call. Setting it for each call would double the system calls; a deadline
that is further
away is met by calling again."""
_RECEIVE_BYTES = 64 * 1024
_NO_ROOM = memoryview(b"")
HELLO_TIMEOUT_S = 30.0
"""A daemon that hangs is found out, and started anew, well before."""


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


Attached = tuple[Channel, FrameReader, object]
"""A channel, its reader, and the daemon's answer to our hello."""


def dial_when_up(paths: Sequence[str], hello: bytes, deadline: float, until: float) -> Attached:
    """As :func:`dial`; while there is no daemon it tries ``until`` that time again: one that restarts is soon back."""
    backoff = Backoff()
    while True:
        try:
            return dial(paths, hello, deadline)
        except DaemonUnavailable as error:
            left_s = until - monotonic()
            if left_s <= 0 or not may_come(error):
                raise
            sleep(min(backoff.next_s(), left_s))


def dial(paths: Sequence[str], hello: bytes, deadline: float) -> Attached:
    """Connect to the first socket that takes us and introduce ourselves.

    :raises DaemonUnavailable: none does, or the daemon hangs up.
    :raises CrdtSyncError: the daemon refuses us, with its reason.
    """
    channel = Channel(_connect(paths, deadline))
    try:
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


def _greet(channel: Channel, hello: bytes, deadline: float) -> tuple[FrameReader, object]:
    frames = FrameReader()
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
