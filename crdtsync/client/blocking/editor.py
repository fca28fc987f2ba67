"""An editor for the blocking client: a thread of its own, with a connection of its own, sends and is told."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from contextlib import suppress
from threading import Lock, RLock, Thread, current_thread
from typing import TYPE_CHECKING, Any, Self, TypeVar

from crdtsync.client.aio.client import AsyncSession
from crdtsync.client.aio.connection import AsyncConnection
from crdtsync.client.aio.editor_tasks import BaseEditor, Typing
from crdtsync.client.protocol.steps import limit_s
from crdtsync.errors import CrdtSyncError, DaemonUnavailable, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from crdtsync.client.blocking.client import Session
    from crdtsync.client.blocking.connection import Connection
    from crdtsync.client.session.request_context import WriteConcern
    from crdtsync.client.values.durations import Seconds

T = TypeVar("T")

_JOIN_S = 10.0


class Editor(BaseEditor):
    """A text with a replica in this process. Any thread may use it.

    Typing (:meth:`insert`, :meth:`append`, :meth:`delete`, :meth:`replace`, :meth:`set`) changes that replica and
    returns; a thread sends it: one request at a time, and all that is typed meanwhile is the next one, merged into one
    change. **What was typed is not on disk until** :meth:`flush` **returns**: what :attr:`unsent` counts is lost if
    this process dies. It waits, and is sent, while the daemon is away, and is never written twice.

    Positions are Unicode code points in the text as this editor last read it and typed since: what others write is
    taken in by :meth:`read`, and by nothing else, so that no position moves under its typist. Whatever others have
    written meanwhile, all lands where its author meant it.

    When the daemon refuses what was typed (no right to write, too large, no room), that error is raised by all that
    types and by :meth:`flush`, which tries once more; nothing is lost until :meth:`discard`. When the text was
    compacted meanwhile nobody notices. When it was deleted the next :meth:`read` is empty; what is typed before that
    brings the text back, as with every edit made without knowing of a deletion.

    :meth:`close` it, or use ``with``: either sends what is left. It does not live on in a forked child.
    """

    def __init__(
        self,
        session: Session,
        connection: Connection,
        key: str,
        on_change: Callable[[], object] | None,
        timeout_s: float,
    ) -> None:
        self.key = key
        self._timeout_s = timeout_s
        self._horizon = connection.horizon
        self._space = session.overrides.get("space")
        self._has_ended = False
        self._closing = RLock()  # held by who closes; a signal's handler may close too
        self._gate = Lock()  # between what is handed to the thread and its end
        self._is_stopped = False
        self._loop = asyncio.new_event_loop()
        names = (connection.agent, connection.space, connection.horizon.token(), connection.key)
        ours = AsyncConnection(connection.paths, *names)
        ours.wait_s = timeout_s  # there was a daemon when the client attached: should it be away, it is soon back
        inner = AsyncSession(ours, timeout_s, session.overrides)
        self._typing = Typing(inner, ours, key, on_change, timeout_s, session.memory)
        self._state = self._typing.state
        self._thread = Thread(target=self._run, name=f"editor of {key!r}", daemon=True)
        self._thread.start()
        try:
            self._call(self._typing.attach())
        except BaseException:
            self._stop()
            raise

    # -- the text -------------------------------------------------------------------------------------------

    def read(self, *, timeout: Seconds | None = None) -> str:
        """The text with all that others wrote as far as it has come; positions mean this one from now on.

        It costs no round trip, unless the text has become another one meanwhile (compacted or deleted and written
        anew, with other content). Then what was typed is sent first, to the text in which it was typed, and other
        threads wait with typing until this returns. The editor's own callback does not wait: it reads the old text, and
        is called again.

        :raises Timeout: it had, and the daemon did not say in time what it is.
        """
        state = self._state
        self._typing.refuse_ended()
        if not state.must_ask and not state.unread:
            limit_s(timeout, self._timeout_s)
            return self.shown
        if current_thread() is self._thread:
            return self._typing.read_now()
        return self._call(self._typing.read(timeout))

    def insert(self, position: int, text: str, *, timeout: Seconds | None = None) -> None:
        """Insert ``text`` before the character at ``position``.

        It waits while over 10,000 edits, or a million characters, are not on disk yet, and while :meth:`read` waits.

        :raises Timeout: that took too long; this edit was not taken.
        :raises Refused: the daemon refused what was typed before; see :meth:`discard`.
        :raises InvalidRequest: there is no such place.
        """
        self._type(position, position, text, timeout)

    def append(self, text: str, *, timeout: Seconds | None = None) -> None:
        """Insert ``text`` at the end, as it was last read; raises as :meth:`insert`."""
        state = self._state
        self._make_room(timeout)
        with state.lock:
            if not state.is_open:
                self._typing.refuse_typing()
            end = len(state.typed)
            state.typed.edit(end, end, text)
            self._kick()

    def delete(self, position: int, length: int, *, timeout: Seconds | None = None) -> None:
        """Delete ``length`` characters from ``position`` on; raises as :meth:`insert`."""
        self._type(position, position + length, "", timeout)

    def replace(self, position: int, length: int, text: str, *, timeout: Seconds | None = None) -> None:
        """Put ``text`` in the place of ``length`` characters from ``position`` on; raises as :meth:`insert`."""
        self._type(position, position + length, text, timeout)

    def set(self, whole: str, *, timeout: Seconds | None = None) -> None:
        """Turn the text as it was last read into ``whole``, by small edits; raises as :meth:`insert`.

        What others wrote since then stays.
        """
        self._make_room(timeout)
        with self._state.lock:
            if not self._state.is_open:
                self._typing.refuse_typing()
            self._state.replace_all(whole)
            self._kick()

    def _type(self, start: int, end: int, text: str, timeout: Seconds | None) -> None:
        self._make_room(timeout)
        with self._state.lock:
            if not self._state.is_open:
                self._typing.refuse_typing()
            self._state.typed.edit(start, end, text)
            self._kick()

    def _make_room(self, timeout: Seconds | None) -> None:
        state = self._state
        if timeout is not None:
            limit_s(timeout, self._timeout_s)
        if state.error is None and not state.must_wait:
            return
        self._typing.refuse_ended()
        if current_thread() is not self._thread:
            self._call(self._typing.have_room(timeout))
        elif state.error is not None:
            raise state.error.with_traceback(None)
        elif state.is_full:
            raise InvalidRequest("the editor's own callback cannot wait until there is room to type more")

    # -- sending --------------------------------------------------------------------------------------------

    def flush(self, *, w: WriteConcern = None, timeout: Seconds | None = None) -> str:
        """Wait until all that was typed before is on disk; with ``w`` (a number, ``"majority"``, ``"all"``) on so many
        nodes'. Returns the token of the newest change.

        :raises Timeout: it is not in time. It is kept, and sent as soon as there is a daemon.
        :raises Refused: the daemon does not take it; see :meth:`discard`.
        """
        self._typing.refuse_ended()
        if current_thread() is self._thread:
            raise InvalidRequest("the editor's own callback cannot wait until all is sent")
        token = self._call(self._typing.flush(w, timeout))
        if self.token is not None:
            self._horizon.watched(self._space, id(self), self.token)  # the client has seen that
        return token

    def discard(self, *, timeout: Seconds | None = None) -> str:
        """Give up what was typed and is not on disk, and go on with the text as the daemon has it; that text, which is
        empty where the key holds no text by now.

        An edit on its way may still be done. Whatever this raises, what was not on disk is given up.

        :raises Timeout: the daemon did not say in time what it has.
        :raises Refused: it does not let the text be read; typing raises that too, until :meth:`flush` finds otherwise.
        """
        self._typing.refuse_ended()
        return self._call(self._typing.discard(timeout))

    def close(self, *, timeout: Seconds | None = None) -> None:
        """Send what is typed, wait until it is on disk, and end. It has ended even if this raises one of these, as it
        does again when it is called again. When it is interrupted (ctrl-C) the editor goes on: close it again.

        In a forked child it does nothing.

        :raises Timeout: what :attr:`unsent` counts is not on disk, and lost.
        :raises Refused: the daemon does not take it; likewise.
        """
        if self._typing.is_inherited:
            return
        limit_s(timeout, self._timeout_s)
        if current_thread() is self._thread:
            raise InvalidRequest("the editor's own callback cannot wait until all is sent")
        with self._closing:
            try:
                if not self._is_stopped:
                    self._call(self._typing.close(timeout))
            except CrdtSyncError:
                if self._typing.failure is None:
                    raise
            self._stop()
        if self._typing.failure is not None:
            raise self._typing.failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: object, raised: BaseException | None, _trace: object) -> None:
        try:
            self.close()
        except CrdtSyncError as error:
            if raised is None:
                raise
            raised.add_note(f"besides, {self.unsent:,} edits of {self.key!r} were not sent: {error}")

    # -- its thread -----------------------------------------------------------------------------------------

    def _kick(self) -> None:
        if not self._typing.is_busy:
            self._typing.is_busy = True
            self._loop.call_soon_threadsafe(self._typing.kick)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        with self._gate:
            if self._is_stopped:
                work.close()
                raise DaemonUnavailable(f"the editor of {self.key!r} is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise DaemonUnavailable(f"the editor of {self.key!r} is closed") from None
        except BaseException:
            future.cancel()  # this thread was interrupted, and nobody waits for it any more
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        with self._gate:
            self._is_stopped = True
        self._loop.run_until_complete(_cancel_others())  # whoever asked in the last moment is told that it is over
        self._loop.close()

    def _stop(self) -> None:
        """End the thread; once more does nothing."""
        with suppress(DaemonUnavailable):
            self._call(self._typing.hang_up())
        with suppress(RuntimeError):  # it has stopped
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_JOIN_S)
        self._has_ended = True


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
