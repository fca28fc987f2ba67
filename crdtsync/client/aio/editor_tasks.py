"""The background tasks of an editor: one sends what is typed, another receives what others write; and what all editors
tell of that.

:class:`AsyncEditor` is the face of it under asyncio, :class:`Editor` of one in a thread of its own.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from crdtsync.client.aio.background import AsyncNews
from crdtsync.client.aio.stream import time_limit
from crdtsync.client.aio.watch import AsyncWatch
from crdtsync.client.operations.keys import Operations
from crdtsync.client.protocol.backoff import Backoff
from crdtsync.client.protocol.fork import restart_in_children
from crdtsync.client.protocol.steps import limit_s
from crdtsync.client.text import send_updates
from crdtsync.client.text.editor_state import UNSENT_CHARS_MAX, UNSENT_EDITS_MAX, Editing
from crdtsync.errors import (
    CrdtSyncError,
    DaemonUnavailable,
    InvalidRequest,
    KindMismatch,
    OutcomeUnknown,
    Timeout,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.aio.client import AsyncSession
    from crdtsync.client.aio.connection import AsyncConnection
    from crdtsync.client.session.read_memory import ReadMemory
    from crdtsync.client.session.request_context import WriteConcern
    from crdtsync.client.text.update_queue import Segment
    from crdtsync.client.values.durations import Seconds


class Typing:
    """One text with a replica in this process, in one event loop. ``state`` is shared with whoever types, under its
    lock; ``is_busy``: it will look at that again before it rests.
    """

    def __init__(
        self,
        session: AsyncSession,
        connection: AsyncConnection,
        key: str,
        on_change: Callable[[], object] | None,
        timeout_s: float,
        memory: ReadMemory | None = None,
    ) -> None:
        self.key = key
        self.token: str | None = None
        """Names the newest change that this editor made, which is on disk; None: it has made none."""
        self._session = session
        self._connection = connection
        self._context = Operations(session.overrides, connection.horizon)
        self._context.memory = session.memory if memory is None else memory
        self._on_change = on_change
        self._timeout_s = timeout_s
        self.state = Editing()
        self._work = asyncio.Event()
        self.is_busy = False
        self._news = AsyncNews()
        self._backoff = Backoff()
        self._watch: AsyncWatch | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = 0  # so many wait in `close`
        self._told_of: str | None = None  # another document, of which the callback was told
        self.is_closed = False
        self.failure: CrdtSyncError | None = None
        """Why it ended with edits that were not sent."""
        self.is_inherited = False
        restart_in_children(self)

    async def attach(self) -> None:
        """Start it; returns when the text is here.

        :raises DaemonUnavailable: no daemon answers; the message says what to do.
        :raises KindMismatch: the key holds something else than a text.
        :raises Timeout: the text did not come in time.
        """
        self.refuse_ended()
        if self._watch is not None:
            return
        try:
            async with time_limit(self._timeout_s):
                after = await self._fetch()
                self.read_now()
                self._watch = AsyncWatch(
                    self._connection,
                    self._context.memory,
                    self.key,
                    after,
                    self._session.overrides,
                    None,
                    attach_s=self._timeout_s,
                )
                await self._watch.attach()
        except TimeoutError as late:
            if isinstance(late, CrdtSyncError):
                raise
            raise Timeout(f"the text {self.key!r} did not come in time") from None
        self._tasks = [asyncio.create_task(self._send_all()), asyncio.create_task(self._follow(self._watch))]
        with self.state.lock:
            self.state.is_open = True
            self.kick()

    # -- the text -------------------------------------------------------------------------------------------

    async def read(self, timeout: Seconds | None) -> str:
        """The text with all that others wrote."""
        state = self.state
        self.refuse_ended()
        deadline = monotonic() + limit_s(timeout, self._timeout_s)
        return await self._ask(deadline) if state.must_ask and state.error is None else self.read_now()

    def read_now(self) -> str:
        """The same without asking the daemon: where that must be done first, the text as it was before."""
        with self.state.lock:
            self.refuse_ended()
            try:
                text = self.state.read()
            except CrdtSyncError as error:
                self.state.error = error
                raise
            if not self.state.is_no_text:
                self._context.memory.read(self.key, self.state.version)
            self.kick()
        return text

    async def append(self, text: str, timeout: Seconds | None) -> None:
        """Type at the end."""
        state = self.state
        if state.error is not None or state.must_wait or timeout is not None:
            await self.have_room(timeout)
        with state.lock:
            if not state.is_open:
                self.refuse_typing()
            end = len(state.typed)
            state.typed.edit(end, end, text)
            if not self.is_busy:
                self.kick()

    async def set(self, whole: str, timeout: Seconds | None) -> None:
        """Type what makes it that text."""
        await self.have_room(timeout)
        with self.state.lock:
            if not self.state.is_open:
                self.refuse_typing()
            self.state.replace_all(whole)
            self.kick()

    async def type(self, start: int, end: int, text: str, timeout: Seconds | None) -> None:
        """Type ``text`` in the place of what is there."""
        state = self.state
        if state.error is not None or state.must_wait or timeout is not None:
            await self.have_room(timeout)
        with state.lock:
            if not state.is_open:
                self.refuse_typing()
            state.typed.edit(start, end, text)
            if not self.is_busy:
                self.kick()

    # -- sending --------------------------------------------------------------------------------------------

    def send(self) -> None:
        """Have what is typed so far sent apart from what follows. From any thread."""
        self.refuse_ended()
        with self.state.lock:
            self.state.cut()

    async def flush(self, w: WriteConcern, timeout: Seconds | None) -> str:
        """Wait until all that was typed is on disk."""
        state = self.state
        self.refuse_ended()
        deadline = monotonic() + limit_s(timeout, self._timeout_s)
        with state.lock:
            was_refused = state.error is not None
            state.error = None  # try again
            number, discards = state.typed.number, state.discards
            self.kick()

        def is_done() -> bool:
            if state.discards != discards:
                raise InvalidRequest(f"what was typed into {self.key!r} was given up by discard() meanwhile")
            # Where nothing is to be sent, asking for the text tells whether the daemon still refuses.
            return state.outbox.acknowledged >= number and not (was_refused and state.must_fetch)

        await self._until(is_done, deadline, self._unflushed)
        if self.token is not None and w not in (None, 1):
            await self._session.wait(self.token, w=w, timeout=max(deadline - monotonic(), 0))
        return self.token or self._context.point or ""

    def _unflushed(self) -> Timeout:
        return Timeout(
            f"{self.state.unsent:,} edits of {self.key!r} are not on disk yet; they are kept and sent when possible"
        )

    async def discard(self, timeout: Seconds | None) -> str:
        """Give up what is not sent."""
        self.refuse_ended()
        deadline = monotonic() + limit_s(timeout, self._timeout_s)
        with self.state.lock:
            self.state.discard()
            self._told_of = None
            self.kick()
        self._news.tell()
        return await self._ask(deadline)

    async def close(self, timeout: Seconds | None) -> None:
        """Send what is typed, wait until it is on disk, and end. It has ended when this raises an error of ours, and
        goes on when this is cancelled.
        """
        limit_s(timeout, self._timeout_s)
        if not self.is_closed:
            await self._flush_last(timeout)
            await self._end()
        if self.failure is not None:
            raise self.failure

    async def _flush_last(self, timeout: Seconds | None) -> None:
        state = self.state
        with state.lock:
            self._closing += 1
            state.is_open = False
        try:
            if state.unsent:
                await self.flush(None, timeout)
        except CrdtSyncError as error:
            if self.failure is None and state.unsent:
                self.failure = error
        finally:
            with state.lock:
                self._closing -= 1
                state.is_open = self._watch is not None and not self._closing and not self.is_closed

    # -- its life -------------------------------------------------------------------------------------------

    def kick(self) -> None:
        """There is something to do."""
        self.is_busy = True
        self._work.set()

    def after_fork(self) -> None:
        """In a child: the tasks, the connection, the lock and what is typed are the parent's."""
        self.is_inherited = True
        self.state.is_open = False
        self.state.error = InvalidRequest(f"the editor of {self.key!r} belongs to the parent process: open another one")

    def refuse_inherited(self) -> None:
        """Refuse all in a forked child, before any lock is touched, which nobody may be there to give back."""
        if self.is_inherited and self.state.error is not None:
            raise self.state.error.with_traceback(None)

    def refuse_ended(self) -> None:
        """Refuse what an editor does that goes on."""
        self.refuse_inherited()
        if self.is_closed:
            raise self._closed()

    def refuse_typing(self) -> None:
        """Refuse to type while it is not :attr:`Editing.is_open`."""
        if self._watch is None:
            raise InvalidRequest(f"the editor of {self.key!r} has not begun: use `async with`, or await attach()")
        raise self._closed()

    def _closed(self) -> DaemonUnavailable:
        return DaemonUnavailable(f"the editor of {self.key!r} is closed")

    async def have_room(self, timeout: Seconds | None) -> None:
        """Wait until more may be typed."""
        self.refuse_ended()
        deadline = monotonic() + limit_s(timeout, self._timeout_s)
        await self._until(lambda: not self.state.must_wait, deadline, self._no_room)

    def _no_room(self) -> Timeout:
        if not self.state.is_full:
            return Timeout(
                f"the text {self.key!r} has become another one, and the daemon did not say in time what it is to who "
                "reads it: this edit was not taken"
            )
        return Timeout(
            f"{self.state.unsent:,} edits of {self.key!r} are not sent yet, and only {UNSENT_EDITS_MAX:,}, or "
            f"{UNSENT_CHARS_MAX:,} characters, may be: this one was not taken"
        )

    async def _ask(self, deadline: float) -> str:
        """The text, when all that was typed is on disk and the daemon has said what the text is."""
        state = self.state
        late = Timeout(f"the daemon did not say in time what the text {self.key!r} is by now")
        with state.lock:
            state.must_fetch = True
            state.waiting += 1
            self.kick()
        try:
            while True:
                await self._until(lambda: not state.must_ask and not state.must_fetch, deadline, lambda: late)
                text = self.read_now()
                if not state.must_ask:  # another thread may have typed in this moment
                    return text
        finally:
            with state.lock:
                state.waiting -= 1
            self._news.tell()

    async def _until(self, condition: Callable[[], bool], deadline: float, late: Callable[[], Timeout]) -> None:
        def is_so() -> bool:
            if self.state.error is not None:
                raise self.state.error.with_traceback(None)
            return condition()

        if not await self._news.until(is_so, deadline):
            raise late()

    async def _send_all(self) -> None:
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                await self._send_what_there_is()
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                self._fail(CrdtSyncError(f"the editor of {self.key!r} failed: {error!r}"))
            raise

    async def _send_what_there_is(self) -> None:
        state = self.state
        while True:
            with state.lock:
                is_to_fetch = state.is_to_fetch
                parts = [] if is_to_fetch or state.error is not None else state.request()
                if not is_to_fetch and not parts:
                    self.is_busy = False
                    break
            try:
                await (self._fetch() if is_to_fetch else self._send(parts))
            except (Timeout, OutcomeUnknown):  # what may have been done makes no difference when it is done again
                await asyncio.sleep(self._backoff.next_s())
            except CrdtSyncError as error:
                self._fail(error)
            else:
                self._backoff.reset()
                self._news.tell()
        self._news.tell()

    async def _fetch(self) -> str | None:
        state, discards = self.state, self.state.discards
        with state.lock:
            plan = send_updates.fetch(self._context, self.key, state.document, state.fetching())
        try:
            found = await self._session.run(plan, send_updates.NO_LIMIT_S)
        except BaseException as error:
            with state.lock:
                if isinstance(error, KindMismatch) and state.document is None and self._watch is not None:
                    state.fetched_no_text()
                    return None
                state.not_fetched()
            if state.discards != discards and isinstance(error, CrdtSyncError):
                return None
            raise
        with state.lock:
            if state.discards != discards:  # what a replica lacks that is no longer there
                state.not_fetched()
                return None
            state.fetched(found.document, found.update, found.version)
            # Told once of each: a callback that types before it reads would be told for ever.
            is_news = state.unread > 0 and not (state.is_left_behind and found.document == self._told_of)
            self._told_of = None if state.must_ask else found.document
            state.go_on()
        if is_news:
            self._tell()
        return found.token

    async def _send(self, parts: list[Segment]) -> None:
        state, discards = self.state, self.state.discards
        try:
            plan = send_updates.send(self._context, self.key, state.document, parts)
            token, document = await self._session.run(plan, send_updates.NO_LIMIT_S)
        except BaseException as error:
            with state.lock:
                state.outbox.failed()
            if state.discards != discards and isinstance(error, CrdtSyncError):
                return  # what was refused had been given up
            raise
        with state.lock:
            self.token = token
            state.succeeded(document)

    async def _follow(self, watch: AsyncWatch) -> None:
        state = self.state
        try:
            async for event in watch:
                with state.lock:
                    is_news = state.told(event, self.key)
                    must_fetch = state.must_fetch
                    if must_fetch:
                        self.kick()
                if is_news and not must_fetch:
                    self._tell()
        except CrdtSyncError as error:
            self._fail(error)

    def _tell(self) -> None:
        self._news.tell()
        if self._on_change is None or self.is_closed or self._watch is None:
            return
        try:
            self._on_change()
        except Exception:  # whatever it is, the editor goes on
            import logging

            logging.getLogger("crdtsync").exception("the callback of the editor of %r failed", self.key)

    def _fail(self, error: CrdtSyncError) -> None:
        with self.state.lock:
            if self.state.error is None:
                self.state.error = error
        self._news.tell()

    async def hang_up(self) -> None:
        """End it and its connection, which is its own."""
        await self._end()
        self._connection.close()

    async def _end(self) -> None:
        with self.state.lock:
            self.is_closed = True
            self.state.is_open = False
            self.state.error = self._closed()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if self._watch is not None:
            self._watch.close()
        self._news.tell()
        if tasks:
            await asyncio.wait(tasks)


class BaseEditor:
    """The properties of an editor, and its immediate actions, under asyncio and among threads."""

    key: str
    _typing: Typing
    _state: Editing

    def __len__(self) -> int:
        """How many characters it has, as :attr:`shown`."""
        self._typing.refuse_inherited()
        with self._state.lock:
            return len(self._state.typed)

    @property
    def shown(self) -> str:
        """The text as it was last read, and typed since: what positions mean."""
        self._typing.refuse_inherited()
        with self._state.lock:
            return str(self._state.typed)

    @property
    def unsent(self) -> int:
        """How many edits were typed and are not known to be on disk; lost if this process dies."""
        self._typing.refuse_inherited()
        return self._state.unsent

    @property
    def unread(self) -> int:
        """How many changes by others the next ``read`` takes in."""
        self._typing.refuse_inherited()
        return self._state.unread

    @property
    def changes(self) -> int:
        """How many changes this editor has made out of what was typed."""
        self._typing.refuse_inherited()
        return self._state.outbox.changes

    @property
    def token(self) -> str | None:
        """Names the newest change that this editor made, which is on disk; None: it has made none."""
        self._typing.refuse_inherited()
        return self._typing.token

    @property
    def error(self) -> CrdtSyncError | None:
        """Why nothing is sent; None: nothing is wrong, or the daemon is away and will be back."""
        self._typing.refuse_inherited()
        return self._state.error

    def send(self) -> None:
        """Have what is typed so far sent apart from what follows, so that others see the text as it is now; without
        waiting for it. An editor sends by itself as often as the daemon takes it.
        """
        self._typing.send()
