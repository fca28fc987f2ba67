"""A mirror for the blocking client: a thread of its own feeds it."""

from __future__ import annotations

import os
from threading import Condition, Event, Lock, Thread, current_thread
from time import monotonic
from typing import TYPE_CHECKING, Self

from crdtsync.client.blocking.stream import Channel, dial_when_up
from crdtsync.client.mirror.state import CONFIRM_INTERVAL_S, PATIENCE_S, MirrorState, report
from crdtsync.client.protocol.backoff import Backoff
from crdtsync.client.protocol.fork import restart_in_children
from crdtsync.client.protocol.frames import FrameReader, encode_hello
from crdtsync.client.protocol.steps import limit_s
from crdtsync.errors import CrdtSyncError, DaemonUnavailable, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.causality import VersionVector
    from crdtsync.client.blocking.client import Session
    from crdtsync.client.blocking.connection import Connection
    from crdtsync.client.values.durations import Seconds

_DIAL_S = 2.0
_JOIN_S = 10.0


class Mirror(MirrorState):
    """A copy of the keys that start with a prefix, in this process, as a mapping from key to value.

    To read costs a dict lookup, in any thread; only ``len``, :meth:`snapshot` and iteration look at more. What one
    change or batch did is seen whole or not at all. A write through the same client returns when it is seen here. When
    the connection breaks it goes on showing what it has, and catches up by itself. :meth:`close` it, or use ``with``:
    a thread feeds it until then. It does not live on in a forked child, where reading it raises
    :class:`~crdtsync.errors.InvalidRequest`.
    """

    def __init__(
        self,
        session: Session,
        connection: Connection,
        prefix: str,
        keys_max: int,
        bytes_max: int,
        on_change: Callable[[set[str]], object] | None,
        timeout_s: float,
    ) -> None:
        self._session = session
        self._connection = connection
        self._names = (connection.agent, connection.space, connection.key)
        self._on_change = on_change
        self._client = os.urandom(16)
        self._backoff = Backoff()
        self._frames = FrameReader()
        self._channel: Channel | None = None
        self._sending = Lock()
        self._moved = Condition()
        self._stopping = Event()
        self._confirm_due_s = 0.0
        overrides = session.overrides
        space = str(overrides.get("space", connection.space))
        super().__init__(space, session.memory, prefix, overrides, keys_max, bytes_max, connection.horizon)
        restart_in_children(self)
        self._thread = Thread(target=self._run, name=f"mirror of {prefix!r}", daemon=True)
        self._open(monotonic() + timeout_s)

    def wait(self, token: str, *, timeout: Seconds | None = None) -> None:
        """Until it shows all that ``token`` names of its space.

        :raises Timeout: it did not in time.
        """
        wanted = self.point_of(token)
        deadline = monotonic() + limit_s(timeout, self._session.timeout_s)
        if not self.shows(wanted):
            self._session.wait(token, timeout=max(deadline - monotonic(), 0))
            self.see(wanted, token, deadline)

    def close(self) -> None:
        """End it and its thread; from then on to read it raises."""
        self._finish(DaemonUnavailable(f"the mirror of {self.prefix!r} is closed"))
        if self._thread is not current_thread() and self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def after_fork(self) -> None:
        """In a child: its socket and thread are the parent's."""
        if self._channel is not None:
            self._channel.close()
        self._sending, self._moved, self._publishing = Lock(), Condition(), Lock()
        self._stopping = Event()
        self._stopping.set()
        self._connection.mirrors = []
        self.forsake(InvalidRequest(f"the mirror of {self.prefix!r} belongs to the parent process: open another one"))

    def see(self, wanted: VersionVector, token: str, deadline: float) -> None:
        """Wait until it shows ``wanted``, which the daemon holds; at once if it has ended.

        :raises Timeout: it did not in time.
        """
        if self._thread is current_thread():
            return  # its own callback: it shows that as soon as the callback returns
        with self._moved:
            if self._moved.wait_for(lambda: self.has_shown(wanted), min(PATIENCE_S, max(deadline - monotonic(), 0))):
                return
        self._ask()
        with self._moved:
            if not self._moved.wait_for(lambda: self.has_shown(wanted), max(deadline - monotonic(), 0)):
                raise self.unseen(token)

    # -- its life -------------------------------------------------------------------------------------------

    def _open(self, deadline: float) -> None:
        try:
            self._attach(deadline, deadline)
            self._thread.start()
            with self._moved:
                is_shown = self._moved.wait_for(lambda: self._token or self._error, max(deadline - monotonic(), 0))
            if self._error is not None:
                raise self._error.with_traceback(None)
            if not is_shown:
                raise self.unopened()
        except BaseException:
            self.close()
            raise
        self._connection.mirrors.append(self)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
        except CrdtSyncError as error:
            self._finish(error)
        except BaseException as error:
            self._finish(CrdtSyncError(f"the mirror of {self.prefix!r} failed: {error!r}"))
            raise
        finally:
            self._drop()

    def _turn(self) -> None:
        channel = self._channel
        if channel is None:
            self._reattach()
            return
        if self.is_confirmation_due(self._confirm_due_s):
            self._ask()
        data = channel.receive(self._confirm_due_s if self.may_confirm else monotonic() + CONFIRM_INTERVAL_S)
        if data is None:
            return
        if not data:
            self._drop()
            return
        try:
            for message in self._frames.feed(data):
                changed = self.take(message)
                if changed is not None:
                    self._tell(changed)
        except DaemonUnavailable:
            self._drop()
        if self._standing.is_taken:
            self._backoff.reset()
        with self._moved:
            self._moved.notify_all()

    def _tell(self, changed: set[str]) -> None:
        if self._on_change is None or not changed or self._stopping.is_set():
            return
        with self._moved:
            self._moved.notify_all()
        try:
            self._on_change(changed)
        except Exception as error:  # noqa: BLE001  # whatever it is, the mirror goes on
            report(self.prefix, error)

    def _ask(self) -> None:
        with self._sending:
            if self._channel is not None and self._standing.is_taken:
                self._confirm_due_s = monotonic() + CONFIRM_INTERVAL_S
                self._channel.send(self.confirmation(), monotonic() + CONFIRM_INTERVAL_S)

    def _attach(self, deadline: float, until: float = 0.0) -> None:
        hello = encode_hello(self._client, *self._names)
        channel, frames, _ = dial_when_up(self._connection.paths, hello, deadline, until)
        with self._sending:
            if self._stopping.is_set():
                channel.close()
                return
            self._frames = frames
            self._channel = channel
            channel.send(self.request(), deadline)
            self._confirm_due_s = 0.0

    def _reattach(self) -> None:
        if self._stopping.wait(self._backoff.next_s()):
            return
        try:
            self._attach(monotonic() + _DIAL_S)
        except CrdtSyncError as error:
            self._standing.outlast(error)

    def _drop(self) -> None:
        with self._sending:
            if self._channel is not None:
                self._channel.close()
                self._channel = None

    def _finish(self, error: CrdtSyncError) -> None:
        self._stopping.set()
        self._connection.mirrors = [mirror for mirror in self._connection.mirrors if mirror is not self]
        with self._sending:
            if self._channel is not None:
                self._channel.shutdown()  # the thread, which may be reading from it, sees that
        if not self._thread.is_alive():
            self._drop()
        self.end(error)
        with self._moved:
            self._moved.notify_all()
