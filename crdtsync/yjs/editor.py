"""The traffic between one editor and the daemon.

The editor's edits go to the daemon in order; those that come while a write is under way are the next one. The
editor gets what the daemon has on disk, its own edits too, which change nothing there.

A Yjs document cannot be taken back. So where the key's text is another document than the editor's (it was deleted, or
two hosts made it at once and the other one won), the editor is sent away with :data:`REPLACED`: merged, the two would
show everything twice. A compaction is no such thing: it keeps the names of all characters, so an editor goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from crdtsync.client.text.yjs import get_state, get_update
from crdtsync.errors import (
    CrdtSyncError,
    DaemonUnavailable,
    InvalidEncoding,
    NoSpace,
    NotAllowed,
    QuotaExceeded,
    Timeout,
    TooLarge,
    UnknownSpace,
)
from crdtsync.yjs import messages
from crdtsync.yjs.messages import NO_CHANGE, AskAwareness, Awareness, Edit, Lacks

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection

    from crdtsync.client import AsyncSession, Event, TextUpdate
    from crdtsync.yjs.carets import Viewer

REPLACED = 4409
"""The code with which an editor is sent away that has another document: the page is to be loaded again."""


class _ReplacedError(CrdtSyncError):
    """The editor's document is not the key's."""


# Providers do not come again after 4400 to 4499 (y-websocket's shouldReconnect).
_CODES: dict[type[CrdtSyncError], int] = {
    _ReplacedError: REPLACED,
    NotAllowed: 4403,
    UnknownSpace: 4404,
    TooLarge: 4413,
    NoSpace: 4503,
    QuotaExceeded: 4503,
    DaemonUnavailable: 4503,
    Timeout: 4503,
    CrdtSyncError: 4400,
}
_REASON_BYTES_MAX = 123  # RFC 6455, 5.5

UNWRITTEN_MAX = 256
"""Edits of an editor that wait to be written; with more it is not listened to until there are fewer."""

WRITE_EDITS_MAX = 32
"""Edits in one write: the daemon judges each on top of those before it."""

WRITE_BYTES_MAX = 8 * 1024
"""Bytes of edits in one write, if they are several: so many have fewer parts than the daemon takes in one request."""

_NOTHING = b"\0"  # the state vector of an empty document
_ENDS = frozenset(("delete", "expired", "reset"))


class Editor:
    """One editor of one key, for as long as its connection lasts."""

    def __init__(
        self, socket: ServerConnection, session: AsyncSession, key: str, carets: Viewer, *, read_only: bool
    ) -> None:
        self._socket = socket
        self._session = session
        self._key = key
        self._carets = carets
        self._may_write = not read_only
        self._has_met = False
        self._text = session.text(key)
        self._unwritten: deque[bytes] = deque()
        self._has_edits = asyncio.Event()
        self._has_room = asyncio.Event()
        self._clients: set[int] = set()  # some whose edits the document holds

    async def run(self) -> None:
        """Serve it until it goes, or cannot be served any longer; then its connection is closed."""
        after = await self._session.now()
        whole = await self._text.state()
        self._note(whole)
        parts = (self._listen(), self._write(), self._follow(after), self._tell_carets())
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- from the editor ------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        async for data in self._socket:
            match messages.decoded(data) if isinstance(data, bytes) else None:
                case Lacks(state):
                    await self._answer(state)
                case Edit(update):
                    await self._take(update)
                case Awareness(carets):
                    self._carets.show(carets)
                case AskAwareness():
                    self._carets.tell_all()

    async def _answer(self, state: bytes) -> None:
        """Send what the editor lacks, and at first ask for what the daemon lacks."""
        whole = await self._text.state()
        held = get_state(whole.update) if whole else _NOTHING
        theirs = messages.clients(state)
        if theirs and theirs.isdisjoint(messages.clients(held)):
            raise _ReplacedError(f"this editor has another document than {self._key!r} is: load the page again")
        try:
            lacks = get_update(whole.update, state) if whole else NO_CHANGE
        except ValueError as error:
            raise InvalidEncoding(f"not a Yjs state vector: {error}") from None
        await self._socket.send(messages.answering(lacks))
        if not self._has_met:
            self._has_met = True
            await self._socket.send(messages.asking(held))

    async def _take(self, update: bytes) -> None:
        if not self._has_met:
            raise InvalidEncoding("an edit before sync step 1")
        if update == NO_CHANGE:
            return
        if not self._may_write:
            await self._deny("this server lets nobody write")
            return
        self._unwritten.append(update)
        self._has_edits.set()
        while len(self._unwritten) > UNWRITTEN_MAX:
            self._has_room.clear()
            await self._has_room.wait()

    async def _write(self) -> None:
        """Write what the editor has sent."""
        while True:
            await self._has_edits.wait()
            self._has_edits.clear()
            while self._unwritten:
                edits = self._next_edits()
                self._has_room.set()
                try:
                    await self._text.apply(edits)
                except NotAllowed as error:
                    self._may_write = False  # its later edits build on this one
                    await self._deny(error.message)

    def _next_edits(self) -> list[bytes]:
        """The edits that go into one write. The first edit of a key makes the document that the others are of."""
        edits = [self._unwritten.popleft()]
        size_bytes = len(edits[0])
        while self._text.document and self._unwritten and len(edits) < WRITE_EDITS_MAX:
            size_bytes += len(self._unwritten[0])
            if size_bytes > WRITE_BYTES_MAX:
                break
            edits.append(self._unwritten.popleft())
        return edits

    async def _deny(self, reason: str) -> None:
        await self._socket.send(messages.denying(reason))

    # -- to the editor --------------------------------------------------------------------------------------

    async def _follow(self, after: str) -> None:
        """Send all edits after a token, as they come."""
        async with self._session.watch(self._key, after=after) as watch:
            async for event in watch:
                if event.key not in (None, self._key):
                    continue
                async for update in self._text.updates(after=after):
                    after = update.token
                    self._note(update)
                    await self._socket.send(messages.editing(update.update))
                if _may_end(event) and self._clients and await self._text.state() is None:
                    raise _ReplacedError(f"{self._key!r} was deleted: load the page again")

    async def _tell_carets(self) -> None:
        while True:
            await self._socket.send(messages.showing(await self._carets.news()))

    def _note(self, update: TextUpdate | None) -> None:
        if update is None or (self._clients and not update.reset):
            return
        found = messages.clients(get_state(update.update))
        if self._clients and self._clients.isdisjoint(found):
            raise _ReplacedError(f"{self._key!r} is another document by now: load the page again")
        self._clients |= found


def _may_end(event: Event) -> bool:
    return event.event in _ENDS or any(_may_end(part) for part in event.events)


def ending(error: CrdtSyncError) -> tuple[int, str]:
    """The code and reason with which a connection is closed."""
    code = (
        REPLACED
        if isinstance(error, _ReplacedError)
        else next(_CODES[of] for of in type(error).__mro__ if of in _CODES)
    )
    return code, error.message.encode()[:_REASON_BYTES_MAX].decode(errors="ignore")
