"""What has changed since a token: a watch of states that ends when the daemon has told all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crdtsync.client.protocol.frames import encode_request
from crdtsync.client.streams.watch_state import WATCH_ID, WatchState
from crdtsync.client.values.results import Event, event_from_wire

if TYPE_CHECKING:
    from crdtsync.client.protocol.seen_point import Horizon
    from crdtsync.client.session.read_memory import ReadMemory
    from crdtsync.client.session.request_context import Arguments


@dataclass(frozen=True, slots=True)
class Changes:
    """Keys that have changed, and keys that are gone, each sorted.

    ``token`` names the state that this is of: ask for what comes later with ``after`` set to it. ``is_all``: the
    daemon could not tell the difference (there was no ``after``, or its log does not reach back so far), so
    ``changed`` are all keys that there are, and whatever else the caller knows of is gone.
    """

    changed: list[str]
    gone: list[str]
    token: str
    is_all: bool


class ChangesState(WatchState):
    """One such question, over all its connections; a connection that breaks has told nothing."""

    names = ("answer", "question")

    def __init__(
        self,
        memory: ReadMemory,
        prefix: str,
        after: str | None,
        overrides: Arguments,
        horizon: Horizon | None = None,
    ) -> None:
        super().__init__(memory, prefix, after, overrides, horizon)
        self._arguments: Arguments = {"prefix": prefix, "states": True, **overrides}
        if after is not None:
            self._arguments["after"] = after
        self._is_there: dict[str, bool] = {}
        self._is_all = False
        self.changes: Changes | None = None

    def request(self) -> bytes:
        """The frame that asks, on a new connection."""
        self._begin_anew(is_all="after" not in self._arguments)
        return encode_request(WATCH_ID, "watch", {**self._arguments, **self.standing.need()})

    def next_event(self) -> Event | None:
        """What ended the answer, which is in :attr:`changes` then."""
        return event_from_wire(self._events.popleft()) if self._events else None

    def _begin_anew(self, *, is_all: bool) -> None:
        self._is_there = {}
        self._is_all = is_all

    def _note(self, event: dict[str, Any]) -> None:
        name = event["event"]
        if self.changes is not None:
            return
        if name == "reset":
            self._begin_anew(is_all=True)
        elif name in ("state", "part"):
            self._is_there[event["key"]] = True
        elif name == "delete":
            self._is_there[event["key"]] = False
        elif name == "current":
            changed = sorted(key for key, is_there in self._is_there.items() if is_there)
            gone = sorted(key for key, is_there in self._is_there.items() if not is_there)
            self.changes = Changes(changed, gone, event["token"], self._is_all)
            self.standing.shown(self, event["token"])
            self._events.append(event)
