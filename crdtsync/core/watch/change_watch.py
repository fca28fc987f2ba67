"""Watches: every change under a prefix, in causal order, to agents that may be slow.

Example: ann watches ``plan/`` and bob sets ``plan/goal``: she is told who wrote what, with a token that she can go on
after. If she cannot be told at once, she is told the newest state of the key later. Which of the two, and when, says
:mod:`crdtsync.core.watch.scheduler`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from crdtsync.causality import VersionVector, covers
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.kinds.operations import Tells
from crdtsync.core.kinds.values import concerned
from crdtsync.core.replica.replica import Replica
from crdtsync.core.space import Applied
from crdtsync.core.storage.interface import Storage
from crdtsync.core.watch.event_size import fitting
from crdtsync.core.watch.events import (
    Unit,
    Upshot,
    event_frames,
    hidden_event,
    live_event,
    pack_batch,
    pack_event,
    past_event,
    plain_event,
    plain_live_event,
    state_event,
    units_of,
    upshot,
)
from crdtsync.core.watch.prefix_index import Audience, concerns
from crdtsync.core.watch.scheduler import Scheduler, Send, Watcher, concerned_by
from crdtsync.wire.change import Change
from crdtsync.wire.tokens import encode_token

SLICE_KEYS_MAX = 64
SLICE_CHANGES_MAX = 64
DIRTY_KEYS_MAX = 100_000
"""Keys that a slow watcher may miss before it starts over."""
RETOLD_KEYS_MAX = 10_000
"""Keys that a merged snapshot changed: beyond that a watcher of them starts over."""


class ChangeWatch(Watcher):
    """One watch of one agent connection, told every change."""

    __slots__ = ("retold", "retold_last", "snapshot")

    def __init__(self, conn: int, request: int, prefix: str, replica: Replica) -> None:
        super().__init__(conn, request, prefix, replica)
        self.snapshot = False
        self.retold: dict[str, int] = {}  # while it reads the log: the position of keys whose state it was told ahead
        self.retold_last = 0

    @property
    def told(self) -> VersionVector:
        """The changes that the watcher has been told of once no key is left to be told anew: all, or those that the log
        has brought.
        """
        return self.replica.vector if self.position is None else self.held

    @property
    def token(self) -> str | None:
        """Names :attr:`told`, where that is what this node held at one moment, batches whole.

        It is not, and there is no going on from there, while keys wait to be told, or were told with what the log has
        still to tell of others.
        """
        is_ahead = self.position is not None and self.retold_last > self.position
        return None if self.dirty or is_ahead else _token(self.replica, self.told)

    def start_over(self, is_reset: bool) -> None:
        """Send the state of every key, then go on live. ``is_reset``: the watcher must forget what it holds."""
        super().start_over(is_reset)
        self.snapshot = True
        self.retold.clear()


class ChangeWatches(Scheduler[ChangeWatch]):
    """All watches of changes of a node."""

    IS_SHORT = True
    """Whether plain changes are told the short way, which comes to the same."""

    def __init__(self, storage: Storage, send: Send) -> None:
        super().__init__(storage, send)
        self._owed: dict[ChangeWatch, str] = {}  # whose last event had no token, with its key
        self.is_short = self.IS_SHORT

    def begin(self, watch: ChangeWatch, after: VersionVector | None, now_ms: int) -> None:
        """Begin a watch; ``after`` names what the watcher has been told, None sends a snapshot first."""
        self._enroll(watch)
        replica = watch.replica
        if after is None or not covers(after, replica.floor):
            watch.start_over(is_reset=after is not None)
        else:
            hidden = self._go_on(watch, after)
            self._defer(watch, [key for key in hidden if not replica.entries.live(key, now_ms)])

    # -- what happens --------------------------------------------------------------------------------------

    def live(self, audience: Audience[ChangeWatch], applied: Sequence[Applied], durable: int, now_ms: int) -> None:
        """Tell the live watchers of a space of the commit under way, and have the others miss it."""
        replica = next(iter(audience)).replica
        self._let_in(replica.name, durable)
        shown = replica.durable_vector()
        ready: dict[ChangeWatch, list[bytes]] = {}
        ahead: set[str] = set()
        for item in applied:
            shown[item.change.writer] = item.change.seq
            units = units_of(item.change)
            found: dict[ChangeWatch, list[int]] = {}
            for number, unit in enumerate(units):
                for watch in audience.of(unit.key):
                    found.setdefault(watch, []).append(number)
            if found:
                self._tell(found, _Story(replica, item, units, shown, now_ms, ahead, self.is_short), ready)
        frames: dict[tuple[int, ...], list[bytes]] = {}
        for watch, events in ready.items():
            # Watchers of the same events share the same bytes: while many are slow these are held once.
            same = (watch.request, *map(id, events))
            if same not in frames:
                frames[same] = event_frames(watch.request, events)
            for data in frames[same]:
                self._send(watch.conn, data)

    def _let_in(self, name: str, durable: int) -> None:
        """Let those go on live that have read the log to its end. To the others it will bring what happens now."""
        for watch in [watch for watch in self.behind if watch.position is not None and watch.replica.name == name]:
            if watch.position is not None and watch.position >= durable and not watch.blocked and not watch.dirty:
                watch.position = None
                del self.behind[watch]

    def _tell(self, found: dict[ChangeWatch, list[int]], story: _Story, ready: dict[ChangeWatch, list[bytes]]) -> None:
        change = story.applied.change
        for watch, numbers in found.items():
            if watch.position is not None or change.seq <= watch.held.get(change.writer, 0):
                continue
            if watch.blocked or watch.is_behind:
                self._defer(watch, [story.units[number].key for number in numbers if story.event(number)])
                continue
            told = story.told(tuple(numbers))
            if told:
                self._owed.pop(watch, None)
                ready.setdefault(watch, []).append(told)

    def expired(self, name: str, entries: Sequence[Entry], now_ms: int) -> None:
        """Tell the watchers of a space that readers see these entries no longer."""
        audience = self.audiences.get(name)
        if not audience:
            return
        replica = next(iter(audience)).replica
        token: str | None = None
        ready: dict[ChangeWatch, list[bytes]] = {}
        for key, entry in {entry.key: entry for entry in entries}.items():
            event = b""
            for watch in audience.of(key):
                if watch.blocked or watch.is_behind:
                    self._defer(watch, [key])
                    continue
                token = token or _token(replica, replica.durable_vector())
                event = event or pack_event(hidden_event(replica, entry, now_ms), token)
                ready.setdefault(watch, []).append(event)
        for watch, events in ready.items():
            self._emit(watch, events)

    def retell(self, name: str, keys: Iterable[str], is_lagging: bool) -> None:
        """Tell the newest state of these keys. ``is_lagging``: something that happened to one has been left out."""
        found = concerned_by(sorted(keys), self.audiences.get(name) or Audience())
        for watch, concerned_keys in found.items():
            watch.lagged = watch.lagged or is_lagging
            if len(concerned_keys) > RETOLD_KEYS_MAX:
                watch.start_over(is_reset=True)
            self._defer(watch, concerned_keys)

    def discard(self, watch: ChangeWatch) -> None:
        """A watch has ended."""
        super().discard(watch)
        self._owed.pop(watch, None)

    def has_more(self) -> bool:
        """Whether there is something to tell at once."""
        return super().has_more() or any(self._is_due(watch) for watch in self._owed)

    def advance(self, durable: Mapping[str, int], now_ms: int) -> None:
        """Tell a slice to each watch that is not live; and who is live now, and was told something without a token,
        gets one: until then there is no going on from what it was told.
        """
        super().advance(durable, now_ms)
        for watch in [watch for watch in self._owed if self._is_due(watch)]:
            replica, key = watch.replica, self._owed.pop(watch)
            event = state_event(replica, key, now_ms, False)
            self._emit(watch, [pack_event(event, _token(replica, replica.durable_vector()))])

    @staticmethod
    def _is_due(watch: ChangeWatch) -> bool:
        return not watch.is_behind and not watch.is_waiting

    def _token_of(self, watch: ChangeWatch, key: str) -> str | None:
        """The token of an event of a watch that is not live; if there is none, a token is owed."""
        token = watch.token
        if token is None:
            self._owed[watch] = key
        else:
            self._owed.pop(watch, None)
        return token

    def _defer(self, watch: ChangeWatch, keys: Sequence[str]) -> None:
        watch.lagged = watch.lagged or watch.blocked
        self._remember(watch, keys, DIRTY_KEYS_MAX)

    # -- telling those who are behind ----------------------------------------------------------------------

    @property
    def slice_max(self) -> tuple[int, int]:
        """How many keys, and how many changes of the log, are in a slice."""
        return SLICE_KEYS_MAX, SLICE_CHANGES_MAX

    def _past(self, watch: ChangeWatch, change: Change, now_ms: int) -> bytes | None:
        replica = watch.replica
        units = units_of(change)
        matching = [unit for unit in units if concerns(watch, unit.key) and _is_news(watch, unit)]
        for unit in units:
            if unit.key[0] == "_":
                self._defer(watch, concerned(replica, unit.key, watch.prefix, now_ms))
        self._note_survivors(watch, matching, now_ms)
        if watch.scan is not None:
            return None
        events = [event for unit in matching if (event := past_event(replica, change, unit)) is not None]
        if not events:
            return None
        token = self._token_of(watch, matching[-1].key)
        packed = [pack_event(event, token) for event in events]
        return packed[0] if len(units) == 1 else pack_batch(change, replica, fitting(packed), token)

    def _note_survivors(self, watch: ChangeWatch, units: Iterable[Unit], now_ms: int) -> None:
        """Where the log does not tell all, the keys are told anew at its end."""
        for unit in units:
            known = upshot(watch.replica, unit, now_ms)
            if known is Upshot.UNKNOWN:
                self._defer(watch, [unit.key])
            elif known is Upshot.WHOLE:
                watch.dirty.pop(unit.key, None)

    def _looked_back(self, watch: ChangeWatch, is_cut: bool, durable: int, now_ms: int) -> None:
        """At the end of the log tell what is to be told anew.

        Until that is told too the watcher is not live, and what comes meanwhile comes from the log too: whole, not as a
        state.
        """
        assert watch.position is not None
        after = watch.position
        watch.retold = {key: position for key, position in watch.retold.items() if position > after}
        if not is_cut:
            watch.position = after = max(after, durable)  # a merged snapshot has a place in the log, and no row there
            if watch.dirty:
                self._tell_states(watch, now_ms)
        # Not `durable`: of the commit under way this watch was told nothing.
        if after >= watch.replica.position and not watch.dirty:
            watch.position = None

    def _opening(self, watch: ChangeWatch) -> list[bytes]:
        if not watch.lagged or (watch.snapshot and watch.scan != ""):
            return []
        watch.lagged = False
        return [plain_event("reset" if watch.snapshot else "lagged", None)]

    def _state(self, watch: ChangeWatch, key: str, now_ms: int) -> bytes | None:
        if watch.position is not None:
            watch.retold[key] = watch.retold_last = watch.replica.position
        event = state_event(watch.replica, key, now_ms, watch.snapshot)
        if watch.scan is not None and event["event"] != "snapshot":
            return None  # it has expired just now
        return pack_event(event, None if watch.snapshot else self._token_of(watch, key))

    def _closing(self, watch: ChangeWatch) -> list[bytes]:
        if not watch.snapshot or watch.scan is not None:
            return []
        watch.snapshot = False
        self._owed.pop(watch, None)
        return [plain_event("snapshot", watch.token)]


def _is_news(watch: ChangeWatch, unit: Unit) -> bool:
    """Whether a watcher that reads the log is to be told of a unit where it is now.

    The state of a key is told as it is in memory, with the commit under way, which the log brings only then. It must
    not go back to what came before that. Elements of logs are all told.
    """
    return (watch.position or 0) > watch.retold.get(unit.key, 0) or unit.operation.tells is Tells.ELEMENT


class _Story:
    """One change as watchers are told it: encoded when the first of them is to be told, and once for all."""

    def __init__(
        self,
        replica: Replica,
        applied: Applied,
        units: list[Unit],
        shown: VersionVector,
        now_ms: int,
        ahead: set[str],
        is_short: bool,
    ) -> None:
        self.applied = applied
        self.units = units
        self._replica = replica
        self._now_ms = now_ms
        self._ahead = ahead
        self._is_short = is_short
        self._token = _token(replica, shown)
        self._events: dict[int, bytes] = {}
        self._told: dict[tuple[int, ...], bytes] = {}

    def event(self, number: int) -> bytes:
        """The event of one unit; empty: it changed nothing that a reader could see."""
        event = self._events.get(number)
        if event is None:
            event = self._events[number] = self._plain_event(number) or self._event(number)
        return event

    def _plain_event(self, number: int) -> bytes | None:
        is_plain = self._is_short and self.units[number].key not in self._ahead
        return plain_live_event(self._replica, self.applied, self._token) if is_plain else None

    def _event(self, number: int) -> bytes:
        event = live_event(self._replica, self.applied, self.units[number], self._now_ms, self._ahead)
        return b"" if event is None else pack_event(event, self._token)

    def told(self, numbers: tuple[int, ...]) -> bytes:
        """The frame for a watcher of these units. A change of several comes as a batch, also to a watcher that sees
        one.
        """
        if len(self.units) == 1:
            return self.event(0)
        told = self._told.get(numbers)
        if told is None:
            events = [event for number in numbers if (event := self.event(number))]
            told = pack_batch(self.applied.change, self._replica, fitting(events), self._token) if events else b""
            self._told[numbers] = told
        return told


def _token(replica: Replica, vector: VersionVector) -> str:
    return encode_token([(replica.name, replica.epoch, vector)])
