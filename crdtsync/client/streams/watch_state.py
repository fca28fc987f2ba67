"""A watch without its socket: what to ask for, what came, and where to go on after the connection broke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.protocol.frames import ERROR, EVENTS, HELLO_ID, RESULT, encode_request
from crdtsync.client.protocol.seen_point import Horizon
from crdtsync.client.streams.held_events import HeldEvents
from crdtsync.client.streams.resume import Standing
from crdtsync.client.values.results import Event, event_from_wire
from crdtsync.errors import from_wire
from crdtsync.wire.kinds import PARTS, traits_of

if TYPE_CHECKING:
    from crdtsync.client.protocol.frames import Message
    from crdtsync.client.session.read_memory import ReadMemory
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.errors import Timeout

WATCH_ID = HELLO_ID + 1
_RESET = {"event": "reset"}


class WatchState:
    """The events of one watch over all its connections, in order and without a gap.

    A snapshot that was cut off cannot be gone on with: it starts again, after a ``reset`` event that says so. What else
    comes without a token waits until there is one, see :mod:`crdtsync.client.streams.held_events`.
    """

    names = ("event", "watch")
    """What comes, and of what, in messages."""

    def __init__(
        self,
        memory: ReadMemory,
        prefix: str,
        after: str | None,
        overrides: Arguments,
        horizon: Horizon | None = None,
    ) -> None:
        self.token = after
        self.standing = Standing(horizon or Horizon(), overrides.get("space"))
        self._memory = memory
        self._prefix = prefix
        self._overrides = overrides
        self._in_snapshot = False
        self._is_snapshot_begun = False
        self._is_complete = (
            after is None
        )  # whether everything of its keys has been handed over, from the first entry on
        self._held = HeldEvents(after)
        self._events = self._held.ready

    def begin_after(self, token: str) -> None:
        """Begin there, without a snapshot."""
        self.token = self._held.resume_after = token
        self._is_complete = False

    def request(self) -> bytes:
        """The frame that starts the watch, or goes on with it, on a new connection."""
        if (self._in_snapshot and self._is_snapshot_begun) or self._held.is_cut_off:
            self._held.resume_after = None
            self._events.append(_RESET)
        self._held.broken()
        arguments: Arguments = {"prefix": self._prefix, **self._overrides}
        if self._held.resume_after is not None:
            arguments["after"] = self._held.resume_after
        arguments |= self.standing.need(self._held.resume_after)
        self._in_snapshot = self._held.resume_after is None
        self._is_snapshot_begun = False
        return encode_request(WATCH_ID, "watch", arguments)

    def take(self, message: Message) -> bool:
        """Store what the daemon sent; whether this was the answer that the watch stands.

        :raises CrdtSyncError: the daemon refuses or ends the watch.
        """
        _, status, content = message
        if status == ERROR:
            raise from_wire(content)
        if status == EVENTS:
            for event in content:
                self._note(event)
        elif status == RESULT:
            self.standing.taken()
        return status == RESULT

    def nothing_came(self) -> Timeout:
        """The error for a wait that ended first."""
        what, where = self.names
        return self.standing.late(f"no {what} came in time; the {where} goes on")

    def nobody_there(self) -> Timeout:
        """The same while there is no daemon."""
        return self.standing.late(f"no daemon was there in time; the {self.names[1]} goes on when it is back")

    def next_event(self) -> Event | None:
        """The next event to hand out; None if there is none yet. The session has read what it holds."""
        if not self._events:
            return None
        event = event_from_wire(self._events.popleft())
        if event.token is not None:
            self.token = event.token
            self.standing.shown(self, event.token)
        self._is_complete |= event.event == "reset"
        remember(self._memory, event, event.token if self._is_complete else None)
        return event

    def _note(self, event: dict[str, Any]) -> None:
        self._is_snapshot_begun = True
        if event["event"] == "reset":
            self._in_snapshot = True
            self._held.resume_after = None
        elif event["event"] == "snapshot" and event.get("key") is None:
            self._in_snapshot = False
        self._held.add(event, is_snapshot=self._in_snapshot)


def remember(memory: ReadMemory, event: Event, point: str | None = None) -> None:
    """The session has read what ``event`` handed over: a value with its siblings, a part of one, or that a key is
    gone. With ``point`` (a token) it has been handed all of these keys that there was then.
    """
    for part in event.events:
        remember(memory, part, point)
    if event.key is None:
        return
    if event.event in ("delete", "expired"):
        memory.read(event.key, None)
        return
    kind = traits_of(event.kind)
    if event.version is None or not kind.is_read_by_events:
        return
    if kind.parts and event.event != "conflict" and event.op in PARTS:
        memory.saw(event.key, event.version, point)
    elif event.value is not None or not kind.parts:
        memory.read(event.key, event.version)
