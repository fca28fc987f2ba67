"""One connection for many threads, without a thread of its own.

Leader and followers: of the threads that wait for a reply one, the leader, reads the socket and hands out what comes,
the others' replies too. When it has its own it goes, and wakes another to lead. The leader also reconnects, and sends
again what has no answer.

A signal handler of the caller's may raise anywhere in here, in the main thread. That comes out as it is; if it came
where bytes may be half sent, or received and not handed out, the connection ends, and the next leader reconnects.
"""

from __future__ import annotations

import os
from threading import TIMEOUT_MAX, Condition, Lock
from time import monotonic, sleep
from typing import TYPE_CHECKING, NoReturn

from crdtsync.client.blocking.stream import Channel, dial_when_up
from crdtsync.client.protocol.backoff import Backoff
from crdtsync.client.protocol.fork import restart_in_children
from crdtsync.client.protocol.frames import MessageReader, encode_hello
from crdtsync.client.protocol.in_flight import (
    AHEAD_MAX,
    WAIT_GRACE_S,
    WRITES_MAX,
    InFlight,
    Pending,
    closed,
    timed_out,
)
from crdtsync.client.protocol.seen_point import Horizon
from crdtsync.errors import CrdtSyncError, DaemonUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crdtsync.client.blocking.mirror import Mirror


class _Torn(MessageReader):
    """In place of the reader of a connection of which something was lost: whoever reads on is told that it ended."""

    def feed(self, _data: bytes | memoryview) -> NoReturn:
        raise DaemonUnavailable("this connection was interrupted")


_TORN = _Torn()


class Connection:
    """The connection of a client and its sessions. Thread-safe, and afresh in each child process."""

    def __init__(
        self, paths: Sequence[str], agent: str, space: str, after: str | None = None, key: str | None = None
    ) -> None:
        self.paths = paths
        self.key = key
        self.agent = agent
        self.space = space
        self.horizon = Horizon(space, after)
        self.wait_s = 0.0
        """How long to wait for a daemon before the first connection."""
        self.mirrors: list[Mirror] = []
        """Of all sessions: what these write returns when its mirrors show it."""
        self._is_closed = False
        self._was_attached = False
        self._start()
        restart_in_children(self)

    def _start(self) -> None:
        self._client = os.urandom(16)
        self._backoff = Backoff()
        # Held while a frame is numbered and sent, so that numbers go out in order. Taken before `_mutex`, never
        # inside it.
        self._sending = Lock()
        self._mutex = Lock()  # guards all below; never held over a system call that can block
        self._room = Condition(self._mutex)
        self._room_wanted = False
        self._table = InFlight(self.horizon)
        self._leader: Pending | None = None
        self._followers: dict[int, Pending] = {}
        self._ahead: list[Pending] = []  # were begun, and may not be done
        self._channel: Channel | None = None
        self._frames = MessageReader()

    @property
    def node(self) -> str:
        """The name of the daemon's node, by its last answer to a hello."""
        return self._table.node

    def after_fork(self) -> None:
        """In a child: the socket is the parent's, and so is what is in flight."""
        if self._channel is not None:
            self._channel.close()  # without a shutdown, which the parent would feel
        self.horizon.restart()
        self._start()

    def ask(self, pending: Pending, deadline: float, *, is_write: bool) -> None:
        """Send a request and wait until it is done; ``deadline`` is a time of ``time.monotonic``.

        :raises Timeout: the deadline came first.
        """
        pending.limit = deadline
        pending.deadline = deadline + WAIT_GRACE_S if pending.waits else deadline
        try:
            if self._send_alone(pending, is_write=is_write):
                self._lead(pending)
                return
            while not self._send(pending, is_write=is_write):
                self._wait_for_room(pending)
            self._wait(pending)
        finally:
            self._end(pending)

    def begin(self, pending: Pending, deadline: float) -> bool:
        """Send a request that reads, for :meth:`finish` to wait for; False: not now, nothing was done."""
        with self._mutex:
            self._ahead = [one for one in self._ahead if not one.done]
            if len(self._ahead) >= AHEAD_MAX or self._channel is None:
                return False
            self._ahead.append(pending)
        pending.limit = pending.deadline = deadline
        try:
            self._send(pending, is_write=False)
        except BaseException:
            self._end(pending)
            raise
        return True

    def finish(self, pending: Pending, deadline: float) -> None:
        """Wait until a request that was begun is done; its reply may have been there for long, and nobody read it."""
        pending.limit = pending.deadline = deadline
        if not (pending.done or pending in self._ahead):  # begun by the process of which this is a child
            self.ask(pending, deadline, is_write=False)
            return
        try:
            self._wait(pending)
        finally:
            self._end(pending)

    def _wait(self, pending: Pending) -> None:
        while not pending.done:
            waker = self._enlist(pending)
            if waker is None:
                self._lead(pending)
                continue
            while not waker.acquire(timeout=_left_s(pending.deadline)) and not pending.done:
                if monotonic() >= pending.deadline:  # a new connection may have made that later
                    raise timed_out(pending)

    def _end(self, pending: Pending) -> None:
        try:
            self._leave(pending)
        except BaseException:  # a signal handler's, halfway: whoever stayed the leader would hold up all others
            self._leave(pending)
            raise

    def attach(self, timeout_s: float) -> None:
        """Connect, unless that was done before; while there is no daemon, try again for ``wait_s``.

        :raises DaemonUnavailable: nobody answers; the message says what to do. Or :meth:`close` came first.
        """
        if not self._was_attached:
            until = monotonic() + self.wait_s
            self._attach(max(monotonic() + timeout_s, until), until)
            self._was_attached = True

    def _attach(self, deadline: float, until: float = 0.0) -> None:
        """Connect, introduce ourselves and send what is in flight."""
        hello = encode_hello(self._client, self.agent, self.space, self.key, points=True)
        with self._sending:
            channel, frames, answer = dial_when_up(self.paths, hello, deadline, until)
            with self._mutex:
                if self._is_closed:
                    channel.close()
                    raise closed()
                self._wake(self._table.resume(answer))
                self._frames = frames
                self._channel = channel
            self._backoff.reset()
            for frame in self._table.replay():
                if not channel.send(frame, deadline):
                    break  # the leader will notice

    def close(self) -> None:
        """End the connection; requests in flight fail."""
        for mirror in list(self.mirrors):
            mirror.close()
        with self._mutex:
            self._is_closed = True
            channel = self._channel
        if channel is not None:  # else whoever attaches now will see that we are closed
            channel.shutdown()
            self._release()

    def _release(self) -> None:
        """Of a closed client: give back the socket, unless a leader reads from it; that one does so when it leaves."""
        with self._sending, self._mutex:
            if self._leader is None and self._channel is not None:
                self._channel.close()
                self._channel = None

    # -- sending ----------------------------------------------------------------------------------------------

    def _send_alone(self, pending: Pending, *, is_write: bool) -> bool:
        """Number and send a request, and become the leader, if nobody else has one on its way; False: somebody has.

        Nobody reads while this sends; but neither is there a reply that anybody waits for.
        """
        if self._sending.locked():
            return False
        with self._sending:  # not `acquire`: a signal handler may raise between that and a `try`
            with self._mutex:
                channel = self._channel
                if channel is None or self._table.pending or self._leader is not None:
                    return False
                frame = self._table.admit(pending, is_write=is_write)
                pending.sent = True
                self._leader = pending
            channel.send(frame, pending.deadline)  # if it breaks, the leader notices and sends it again
        return True

    def _send(self, pending: Pending, *, is_write: bool) -> bool:
        """Number and send a request; False if too many writes are in flight."""
        sending = self._sending
        if not sending.acquire(blocking=False) and not sending.acquire(timeout=_left_s(pending.deadline)):
            raise timed_out(pending)
        try:
            if self._is_closed:
                raise closed()
            with self._mutex:
                if is_write and self._table.writes >= WRITES_MAX:
                    return False
                frame = self._table.admit(pending, is_write=is_write)
                channel = self._channel
                pending.sent = channel is not None
            if channel is not None:
                channel.send(frame, pending.deadline)  # if it breaks, the leader notices and sends it again
        finally:
            sending.release()
        return True

    def _wait_for_room(self, pending: Pending) -> None:
        with self._room:
            self._room_wanted = True
            while self._table.writes >= WRITES_MAX:
                if not self._room.wait(_left_s(pending.deadline)):
                    raise timed_out(pending)

    # -- leading and following ----------------------------------------------------------------------------------

    def _enlist(self, pending: Pending) -> Lock | None:
        """Become the leader (None), or a follower that waits for this lock. None as well if it is done by now."""
        with self._mutex:
            if pending.done:
                return None
            if self._leader is None:
                self._leader = pending
                return None
            waker = Lock()
            waker.acquire()
            pending.waker = waker
            self._followers[pending.id] = pending
            return waker

    def _leave(self, pending: Pending) -> None:
        """The end of every wait, also by an exception: if nobody leads now, somebody who waits must. Repeatable."""
        with self._mutex:
            if not pending.done:
                self._table.abandon(pending)
                self._tell_room()
            if pending.waker is not None:
                self._followers.pop(pending.id, None)
            if self._leader is pending:
                self._leader = None
            if self._followers and self._leader is None:
                newest = next(reversed(self._followers))
                follower = self._followers[newest]
                del self._followers[newest]  # no call before the next one, so no signal handler comes between
                follower.waker.release()
        if self._is_closed and self._channel is not None:
            self._release()

    def _wake(self, done: Iterable[Pending]) -> None:
        for pending in done:
            follower = self._followers.get(pending.id)
            if follower is not None:
                del self._followers[pending.id]  # see `_leave`
                follower.waker.release()
        self._tell_room()

    def _tell_room(self) -> None:
        if self._room_wanted and self._table.writes < WRITES_MAX:
            self._room_wanted = False
            self._room.notify_all()

    def _lead(self, pending: Pending) -> None:
        try:
            while not pending.done:
                channel = self._channel
                if channel is None:
                    self._reattach(pending)
                    continue
                data = channel.receive(pending.deadline, self._frames.room())
                if data:
                    self._take(channel, data)
                elif data is None:
                    break
                else:
                    self._drop(channel)
        except BaseException:
            self._tear()
            raise
        if not pending.done:
            raise timed_out(pending)

    def _tear(self) -> None:
        """An exception came from outside: what was received may be lost, so what is left makes no sense."""
        self._frames = _TORN  # first, and no call: should another come now, the next leader knows all the same
        channel = self._channel
        if channel is not None:
            channel.shutdown()
        with self._mutex:
            self._wake([follower for follower in self._followers.values() if follower.done])

    def _take(self, channel: Channel, data: bytes | memoryview) -> None:
        try:
            for message in self._frames.feed(data):
                with self._mutex:
                    done = self._table.deliver(message)
                    if done is not None and (done.waker is not None or self._room_wanted):
                        self._wake((done,))
        except CrdtSyncError as error:  # about the connection as a whole: a frame that is none, or the daemon says so
            self._drop(channel)
            if not isinstance(error, DaemonUnavailable):
                self._fail_all(error)

    def _drop(self, channel: Channel) -> None:
        channel.shutdown()  # so that a thread that is blocked in sending lets go
        with self._sending, self._mutex:
            self._channel = None
            channel.close()

    def _fail_all(self, error: CrdtSyncError) -> None:
        with self._mutex:
            self._wake(self._table.fail_all(error))

    def _reattach(self, pending: Pending) -> None:
        """One attempt to come back, after a wait; failing that, the caller tries again."""
        if self._is_closed:
            self._fail_all(closed())
            return
        sleep(min(self._backoff.next_s(), _left_s(pending.deadline)))
        if monotonic() >= pending.deadline:
            raise timed_out(pending)
        try:
            self._attach(pending.deadline)
        except DaemonUnavailable:
            return
        except CrdtSyncError as error:  # it is there, and will not have us
            self._fail_all(error)


def _left_s(deadline: float) -> float:
    return min(max(deadline - monotonic(), 0), TIMEOUT_MAX)
