"""Resolvers without their socket: the conflicts that the daemon asks about, and what answers become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crdtsync.client.protocol.frames import ERROR, encode_request
from crdtsync.client.streams.watch_state import WATCH_ID, WatchState
from crdtsync.client.values.results import Entry, Event, entry_from_wire, event_from_wire
from crdtsync.errors import CrdtSyncError, InvalidValue, Timeout

if TYPE_CHECKING:
    from crdtsync.client.protocol.frames import Message
    from crdtsync.client.protocol.seen_point import Horizon
    from crdtsync.client.session.read_memory import ReadMemory
    from crdtsync.client.session.request_context import Arguments

TAKEOVER_S = 30.0
"""How long an answer may take before another resolver is asked, unless a resolver says otherwise."""
REASON_CHARS_MAX = 300


@dataclass(frozen=True, slots=True)
class Take:
    """An answer: keep the value with this dot."""

    dot: str


@dataclass(frozen=True, slots=True)
class Merge:
    """An answer: join concurrent texts."""


@dataclass(frozen=True, slots=True)
class Decline:
    """An answer: this resolver cannot settle it; another is asked, if there is one, or this one later again."""

    reason: str


Answer = Take | Merge | Decline


@dataclass(frozen=True, slots=True)
class Conflict:
    """A key with several values, as a resolver is asked about it.

    ``entries`` are its values with their authors, the winner first; ``version`` covers them all. What would be too
    much for one message has the value None, and ``is_partial`` says so: read the key.
    """

    key: str
    kind: str
    entries: tuple[Entry, ...]
    version: str
    is_partial: bool = False

    @property
    def values(self) -> list[Any]:
        """The values alone, the winner first."""
        return [entry.value for entry in self.entries]

    @property
    def fields(self) -> frozenset[str]:
        """The names of the fields in conflict, where it is a map of which some fields have several values."""
        return frozenset(entry.field for entry in self.entries[1:] if entry.field is not None)

    def take(self, entry: Entry | str) -> Take:
        """The answer that keeps one of the values: an entry, or its dot."""
        dot = entry.dot if isinstance(entry, Entry) else entry
        if dot not in {one.dot for one in self.entries} or dot is None:
            raise InvalidValue(f"{dot!r} is not the dot of a value of {self.key!r}", path="$")
        return Take(dot)

    def merge(self) -> Merge:
        """The answer that joins concurrent texts."""
        return Merge()

    def decline(self, reason: str = "declined") -> Decline:
        """The answer that this resolver has none."""
        return Decline(reason)


class ResolverState(WatchState):
    """What one resolver is asked over all its connections; :attr:`conflict` is what came last.

    ``attachment`` counts the connections: what was asked on an earlier one the daemon asks somebody anew.
    """

    names = ("conflict", "resolver")

    def __init__(self, memory: ReadMemory, pattern: str, overrides: Arguments, horizon: Horizon | None = None) -> None:
        super().__init__(memory, pattern, None, overrides, horizon)
        self._arguments: Arguments = {"pattern": pattern, **overrides}
        self._request_last = WATCH_ID
        self.attachment = 0
        self.is_confirmed = False
        self.conflict: Conflict | None = None

    def request(self) -> bytes:
        """The frame that registers the resolver on a new connection."""
        self.attachment += 1
        self._events.clear()
        return encode_request(WATCH_ID, "resolver", {**self._arguments, **self.standing.need()})

    def done(self, key: str, error: str | None) -> bytes:
        """The frame that says that a conflict is settled, or why it is not."""
        self._request_last += 1
        arguments: Arguments = {"resolver": WATCH_ID, "key": key}
        if error is not None:
            arguments["error"] = error[:REASON_CHARS_MAX]
        return encode_request(self._request_last, "resolver_done", arguments)

    def take(self, message: Message) -> bool:
        """Store what the daemon sent; whether this was the answer that the resolver stands.

        :raises CrdtSyncError: the daemon refuses it.
        """
        request, status, _ = message
        if request not in (0, WATCH_ID):
            return False  # to be done with something: a refusal means that somebody else has been asked since
        if status == ERROR:
            return super().take(message)
        self.is_confirmed |= super().take(message)
        return self.is_confirmed

    def not_taken(self) -> Timeout:
        """The error for a daemon that has not said in time that the resolver stands."""
        return self.standing.late("the daemon did not take the resolver in time")

    def next_event(self) -> Event | None:
        """The next conflict as an event, and whole in :attr:`conflict`."""
        if not self._events:
            return None
        fields = self._events.popleft()
        self.conflict = conflict_from_wire(fields)
        return event_from_wire(fields)

    def _note(self, event: dict[str, Any]) -> None:
        self._events.append(event)


def conflict_from_wire(fields: dict[str, Any]) -> Conflict:
    """A conflict as the daemon describes it."""
    winner = entry_from_wire(fields["key"], fields)
    parts = (fields, *fields["siblings"])
    return Conflict(
        key=winner.key,
        kind=winner.kind,
        entries=(winner, *winner.siblings),
        version=fields["version"],
        is_partial=any(part["value"] is None for part in parts),
    )


def reason_of(error: Exception) -> str:
    """What the daemon is told of a failure."""
    if isinstance(error, CrdtSyncError) and not isinstance(error, Timeout):
        return error.message
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
