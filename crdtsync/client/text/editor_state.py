"""An editor without its connection: its Yjs replica, what is typed, what is to be sent, and what has come.

What is typed changes the text that its typist sees at once, and the replica when it is sent. What others wrote is
taken into both when the typist reads: until then positions mean the text as it was read last.

When the text has become another document, say by a compaction, the editor goes on in that one in a moment in which
nothing is unsent. What was typed before goes to the document in which it was typed, and the daemon, which knows where
each character stood, makes it in the newer one too. So nothing is ever found again by comparing words.
"""

from __future__ import annotations

import os
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING

from crdtsync.client.text.replica import NO_CHANGE, ROOT
from crdtsync.client.text.typed_buffer import Typed
from crdtsync.client.text.update_queue import Segment, UpdateQueue
from crdtsync.client.text.yjs import Doc, Text, TransactionEvent, merge_updates
from crdtsync.differences import edits
from crdtsync.errors import InvalidEncoding
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.yjs.state_vector import decode_state_vector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crdtsync.client.text.typed_buffer import ByteEdit
    from crdtsync.client.values.results import Event
    from crdtsync.errors import CrdtSyncError

UNSENT_EDITS_MAX = 10_000
"""Edits that are typed and not acknowledged; with more the typist waits."""

UNSENT_CHARS_MAX = 1024 * 1024
"""Code points that are typed and not acknowledged, likewise."""

UNREAD_UPDATES_MAX = 10_000
"""What others wrote that nobody has read; with more it is dropped, and fetched as a whole."""

UNREAD_BYTES_MAX = 4 * 1024 * 1024
"""Of what others wrote and nobody has read, likewise."""

ECHOES_MAX = 1000
"""Updates of its own that an editor remembers until the daemon tells it of them, not to take them for others'."""


class Incoming(NamedTuple):
    """An update by others, and the version that the text has by it."""

    update: bytes
    version: str | None


class Fresh(NamedTuple):
    """A document that is to take the place of the present one, as updates."""

    document: str | None
    parts: list[Incoming]


class Editing:
    """``lock`` is held over all use; whatever works on the replica has to stay on one thread beside that."""

    def __init__(self, client_id: Callable[[], int] | None = None) -> None:
        self.lock = Lock()
        self.document: str | None = None
        """The daemon's name for the replica's document; None: there is no text yet."""
        self.error: CrdtSyncError | None = None
        """Why nothing is sent."""
        self.is_open = False
        """Whether it may be typed into: it has begun, and its end has not."""
        self.discards = 0
        """How often what was typed was given up."""
        self.waiting = 0
        """So many readers wait for a moment in which nothing is unsent; nobody types meanwhile."""
        self.is_no_text = False
        """The key holds something of another kind, which was not read."""
        self.must_fetch = True
        """What the daemon has is to be asked for: what was told of it is not enough."""
        self.is_left_behind = False
        """The text is another document by now, and what it says is not known here."""
        self.typed = Typed()
        self.outbox = UpdateQueue(merge_updates)
        self._new_client_id = client_id or _random_client_id
        self.version: str | None = None
        """Of the text as it was read last; None: there was none."""
        self._inbox: deque[Incoming] = deque()
        self._inbox_bytes = 0
        self._fresh: Fresh | None = None
        self._ahead: list[tuple[str | None, Incoming]] | None = None  # of other documents, told while one is fetched
        self._echoes: dict[bytes, None] = {}
        self._build(())

    # -- typing ---------------------------------------------------------------------------------------------

    @property
    def unsent(self) -> int:
        """How many edits are typed and not acknowledged."""
        return self.typed.number - self.outbox.acknowledged

    @property
    def is_full(self) -> bool:
        """Whether too much is unsent."""
        return self.unsent >= UNSENT_EDITS_MAX or self.typed.chars + self.outbox.chars >= UNSENT_CHARS_MAX

    @property
    def must_wait(self) -> bool:
        """Whether the typist has to wait."""
        return self.waiting > 0 or self.is_full

    @property
    def is_done(self) -> bool:
        """Whether the daemon has on disk all that was typed."""
        return not self.outbox and self.typed.is_empty

    def replace_all(self, whole: str) -> None:
        """Type what makes the text this one, by few and small edits."""
        moved = 0
        for start, end, text in edits(str(self.typed), whole):  # in this order a daemon applies them fastest
            self.typed.edit(start + moved, end + moved, text)
            moved += len(text) - (end - start)

    # -- sending --------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """What was typed so far is not merged with what follows."""
        self.typed.cut()
        if self.typed.is_empty:
            self.outbox.cut()

    def request(self) -> list[Segment]:
        """The updates to send now, in one request to :attr:`document`; none: there is nothing to send."""
        self._settle()
        parts = self.outbox.request() if self.document is not None else self.outbox.request(1)
        for segment in parts:
            self._echoes[segment.update] = None
        while len(self._echoes) > ECHOES_MAX:
            del self._echoes[next(iter(self._echoes))]
        return parts

    def succeeded(self, document: str) -> None:
        """What was under way is on the daemon's disk."""
        self.outbox.succeeded()
        if self.document is None:
            self.document = document
            self.must_fetch = True  # somebody else may have made it a moment earlier
        self._note_done()

    def _settle(self) -> None:
        """Bring what was typed into the replica."""
        for group in self.typed.take():
            update = self._edit(group.edits)
            self.outbox.add(Segment(update, group.number, group.parts, group.chars, group.is_cut))
            self._fresh = None
        self._note_done()

    def _note_done(self) -> None:
        if self.is_done:
            self.outbox.acknowledged = self.typed.number  # edits that undid each other too

    def _edit(self, typed: Iterable[ByteEdit]) -> bytes:
        self._updates.clear()
        self._is_own = True
        with self._doc.transaction():
            _make(self._text, typed)
        self._is_own = False
        return b"".join(self._updates) or NO_CHANGE  # one transaction makes one update at most

    # -- what others write ----------------------------------------------------------------------------------

    @property
    def unread(self) -> int:
        """How many updates :meth:`read` would take in; about, where they are not told one by one."""
        return len(self._inbox) + (self.is_left_behind or self._fresh is not None)

    def told(self, event: Event, key: str) -> bool:
        """What a watch tells. Whether it is about the text, and not by this editor."""
        if event.events:
            told = [self.told(part, key) for part in event.events]  # all of them
            return any(told)
        if event.key is None:
            is_gap = event.event in ("lagged", "reset")
            self.must_fetch |= is_gap
            return is_gap
        if event.key != key:
            return False
        if event.event != "set" or event.op != "text" or type(event.value) is not bytes:
            self.must_fetch = True
        elif event.value in self._echoes:
            del self._echoes[event.value]
            return False
        elif event.document is not None and event.document == self.document:
            self._receive(Incoming(event.value, event.version))
        else:
            self._told_of_another(event.document, Incoming(event.value, event.version))
        return True

    def _told_of_another(self, document: str | None, part: Incoming) -> None:
        fresh = self._fresh
        if self._ahead is not None:
            self._ahead.append((document, part))
        elif fresh is not None and fresh.document == document and len(fresh.parts) < UNREAD_UPDATES_MAX:
            fresh.parts.append(part)
        elif self.is_left_behind and not self.must_fetch:
            self._fresh = None  # whoever reads fetches it
        else:
            self.must_fetch = True

    @property
    def is_to_fetch(self) -> bool:
        """Whether to ask for what the daemon has before more is sent. For another document it is asked in vain while
        there is more to send.
        """
        is_due = self.must_fetch and self.error is None and not self.outbox
        return is_due and (self.typed.is_empty or not self.is_left_behind)

    def fetching(self) -> bytes:
        """What the daemon has is asked for; the Yjs state vector of the replica, for all that it lacks."""
        self.must_fetch = False
        self._ahead = []
        return self._doc.get_state()

    def fetched(self, document: str | None, update: bytes | None, version: str | None) -> None:
        """What the daemon has: of the replica's document all that it lacked, else the whole of the one that is the
        text's by now; None: there is no text. It may be older than what was told meanwhile.
        """
        ahead, self._ahead = self._ahead or [], None
        self.is_no_text = False
        if document == self.document:
            self.is_left_behind = False
            self._fresh = None
            if update is not None and update != NO_CHANGE:
                self._inbox.appendleft(Incoming(update, version))
                self._inbox_bytes += len(update)
            self.must_fetch |= bool(ahead)
            return
        self.is_left_behind = True
        if not self.is_done:
            self.must_fetch = True  # in vain: what is typed here goes to the old document first
            return
        parts = [] if update is None else [Incoming(update, version)]
        parts += [part for other, part in ahead if other == document]
        self.must_fetch |= any(other != document for other, _ in ahead)
        self._fresh = Fresh(document, parts)
        if not self._inbox and _content(part.update for part in parts) == str(self._text):
            self._move()  # compacted: nobody sees a difference

    def fetched_no_text(self) -> None:
        """What the daemon has is of another kind. Nothing is read here then, and what is typed will be refused."""
        self.fetched(None, None, None)
        self.is_no_text = True

    def not_fetched(self) -> None:
        """It could not be asked for."""
        self._ahead = None
        self.must_fetch = True

    @property
    def must_ask(self) -> bool:
        """Whether a reader has to wait until the daemon has been asked."""
        return self.is_left_behind and (self._fresh is None or not self.is_done)

    def read(self, updates: int | None = None) -> str:
        """The text with all that others wrote, or so many of their updates; of the old document while :attr:`must_ask`.

        :raises InvalidEncoding: the Yjs library does not take one; the text has to be fetched anew.
        """
        if self._fresh is not None and self.is_done:
            self._move()
        elif self._inbox:
            self._settle()
            self._merge(len(self._inbox) if updates is None else updates)
        self.must_fetch |= self.must_ask
        return str(self.typed)

    def _receive(self, part: Incoming) -> None:
        self._inbox.append(part)
        self._inbox_bytes += len(part.update)
        if len(self._inbox) > UNREAD_UPDATES_MAX or (self._inbox_bytes > UNREAD_BYTES_MAX and len(self._inbox) > 1):
            self._inbox.clear()
            self._inbox_bytes = 0
            self.must_fetch = True

    def _merge(self, count: int) -> None:
        try:
            with self._doc.transaction():
                for _ in range(count):
                    part = self._inbox.popleft()
                    self._inbox_bytes -= len(part.update)
                    self._doc.apply_update(part.update)
                    self.version = part.version
            content = str(self._text)
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise InvalidEncoding(f"the daemon sent an update that the Yjs library refuses: {error}") from None
        self.typed = self._typed(content, self.typed.number)

    # -- other documents ------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Go on in the document that was fetched, if a reader waits for that: before anybody types."""
        if self.waiting and self._fresh is not None and self.is_done:
            self._move()

    def _move(self) -> None:
        """Go on in the document that was fetched."""
        assert self._fresh is not None, "asked for only then"
        assert self.is_done, "what is typed goes to the document in which it was typed"
        (self.document, parts), self._fresh = self._fresh, None
        self.version = parts[-1].version if parts else None
        self.is_left_behind = False
        self.must_fetch |= bool(self._inbox)  # late edits of the old document, which may have come after the fetch
        self._inbox.clear()
        self._inbox_bytes = 0
        self._build(part.update for part in parts)
        self.typed = self._typed(str(self._text), self.typed.number)
        self._note_done()

    def discard(self) -> None:
        """Forget what is not acknowledged; the text has to be fetched anew."""
        self.outbox.clear()
        self._echoes.clear()
        self.error = self.document = self.version = self._fresh = None
        self._inbox.clear()
        self._inbox_bytes = 0
        self._build(())
        self.typed = Typed("", self.typed.number)
        self.outbox.acknowledged = self.typed.number
        self.must_fetch = self.is_left_behind = True
        self.discards += 1

    def _build(self, updates: Iterable[bytes]) -> None:
        """A replica with a Yjs client id of its own: clocks that were used must not come again."""
        self._doc: Doc[Text] = Doc(client_id=self._new_client_id())
        self._text = self._doc.get(ROOT, type=Text)
        self._updates: list[bytes] = []
        self._is_own = False
        self._subscription = self._doc.observe(self._note)
        for update in updates:
            self._doc.apply_update(update)

    def _typed(self, text: str, number: int) -> Typed:
        """The replica's ``text``, to be typed into."""
        return Typed(text, number, sum(decode_state_vector(self._doc.get_state()).values()))

    def _note(self, event: TransactionEvent) -> None:
        if self._is_own:
            self._updates.append(event.update)


def _make(text: Text, typed: Iterable[ByteEdit]) -> None:
    for first, last, inserted in typed:
        if last > first:
            del text[first:last]
        if inserted:
            text.insert(first, inserted)


def _content(updates: Iterable[bytes]) -> str:
    doc: Doc[Text] = Doc()
    for update in updates:
        doc.apply_update(update)
    return str(doc.get(ROOT, type=Text))


def _random_client_id() -> int:
    # The Yjs library would number forked processes alike.
    return int.from_bytes(os.urandom(7), "big") >> 3
