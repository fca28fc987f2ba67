"""Watches: every change under a prefix, in causal order, to agents that may be slow.

A watch is fed in one of three ways: from the commit under way (live), from the log (resuming after a token), or as
the newest state of keys (the first snapshot, what a slow consumer missed, what no change tells). What waits for a slow
consumer is a set of keys, never a queue of events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from crdtsync.causality import VersionVector, covers, merge
from crdtsync.core.crdt.entries import Entry
from crdtsync.core.kinds.operations import Tells
from crdtsync.core.kinds.values import concerned
from crdtsync.core.replica.replica import Applied, Replica
from crdtsync.core.storage.interface import Storage
from crdtsync.core.watch.base import Send, Watcher, Watchers
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
from crdtsync.core.watch.policy_changes import Reread
from crdtsync.core.watch.prefix_index import concerns
from crdtsync.core.watch.state_watch import StateWatch, StateWatches
from crdtsync.wire.tokens import encode_token

SLICE_KEYS_MAX = 64
SLICE_CHANGES_MAX = 64
SLICE_BYTES_MAX = 512 * 1024
DIRTY_KEYS_MAX = 100_000
RETOLD_KEYS_MAX = 10_000
"""Keys that a merged snapshot changed: beyond that a watcher of them starts over."""


class Watch(Watcher):
    """One watch of one agent connection, told every change."""

    __slots__ = ("retold", "retold_last", "snapshot")

    def __init__(self, conn: int, request: int, prefix: str, replica: Replica) -> None:
        super().__init__(conn, request, prefix, replica)
        self.snapshot = False
        self.retold: dict[str, int] = {}  # while it reads the log: the position of keys whose state it was told ahead
        self.retold_last = 0

    @property
    def told(self) -> VersionVector:
        """What the watcher has been told when no key is left to be told anew: all, or what the log has brought."""
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


class Watches(Watchers[Watch]):
    """All watches of a node."""

    IS_SHORT = True
    """Whether plain changes are told the short way, which comes to the same."""

    def __init__(self, storage: Storage, send: Send) -> None:
        super().__init__(storage, send)
        self.is_short = self.IS_SHORT
        self.mirrors = StateWatches(storage, send)

    def __len__(self) -> int:
        return super().__len__() + len(self.mirrors)

    def add(self, watch: Watch, after: VersionVector | None, now_ms: int) -> None:
        """Begin a watch; ``after`` names what the watcher has seen, None sends a snapshot first."""
        replica = watch.replica
        self._enroll(watch)
        if after is None or not covers(after, replica.floor):
            watch.start_over(is_reset=after is not None)
        else:
            watch.held = after
            watch.position = self._storage.position_missing(replica.id, after, replica.vector)
            # It may have expired since the watcher was told of it, and the log does not say so yet.
            hidden = replica.entries.expiry.hidden_keys(watch.prefix, after)
            self._defer(watch, [key for key in hidden if not replica.entries.live(key, now_ms)])

    def remove(self, conn: int, request: int | None = None) -> None:
        """End one watch of a connection, or all."""
        self.mirrors.remove(conn, request)
        super().remove(conn, request)

    def count(self, conn: int) -> int:
        """How many watches a connection has."""
        return super().count(conn) + self.mirrors.count(conn)

    def of_conn(self, conn: int) -> list[Watch | StateWatch]:
        """The watches of a connection."""
        return [*self._by_conn.get(conn, {}).values(), *self.mirrors.of_conn(conn)]

    def start_over(self, watch: Watch | StateWatch) -> None:
        """Tell a watcher everything anew: it may read more than it was told of."""
        if isinstance(watch, Watch):
            watch.start_over(is_reset=True)
            self._behind[watch] = None
        else:
            self.mirrors.start_over(watch)

    def missed(self) -> list[tuple[int, int]]:
        """Connections of watchers that are behind, and how many keys each has still to be told."""
        return [(watch.conn, len(watch.dirty)) for watch in self._behind]

    def set_blocked(self, conn: int, blocked: bool) -> None:
        """The connection's consumer is too slow, or has caught up."""
        self.mirrors.set_blocked(conn, blocked)
        super().set_blocked(conn, blocked)

    def reload(self, replicas: dict[str, Replica]) -> None:
        """The replicas have been read anew: start every watch over."""
        for replica in replicas.values():
            self.mirrors.reload(replica)
            super().moved(replica)

    def moved(self, replica: Replica) -> None:
        """Another replica has taken the place of one: every watch of it starts over."""
        self.mirrors.moved(replica)
        super().moved(replica)

    def of_space(self, name: str) -> list[tuple[int, int]]:
        """Connections and requests of the watches of a space."""
        return super().of_space(name) + self.mirrors.of_space(name)

    def end(self, name: str) -> list[tuple[int, int]]:
        """A space is no longer here: end its watches. Returns their connections and requests."""
        ended = self.of_space(name)
        for conn, request in ended:
            self.remove(conn, request)
        return ended

    # -- feeding -------------------------------------------------------------------------------------------

    def notify(self, name: str, applied: list[Applied], durable: int, now_ms: int) -> None:
        """Tell the watchers of a space what the commit under way changes."""
        self.mirrors.notify(name, applied, now_ms)
        audience = self._by_space.get(name)
        if not audience:
            return
        self._let_in(name, durable)
        replica = next(iter(audience)).replica
        shown = replica.durable_vector()
        ready: dict[Watch, list[bytes]] = {}
        ahead: set[str] = set()
        for item in applied:
            shown[item.change.writer] = item.change.seq
            units = units_of(item.change)
            found: dict[Watch, list[int]] = {}
            for number, unit in enumerate(units):
                for watch in audience.of(unit.key):
                    found.setdefault(watch, []).append(number)
            if found:
                self._tell(found, _Story(replica, item, units, shown, now_ms, ahead, self.is_short), ready)
        frames: dict[tuple[int, ...], list[bytes]] = {}
        for watch, events in ready.items():
            # Whoever is told the same gets the very same bytes: while many are slow these are held once.
            same = (watch.request, *map(id, events))
            if same not in frames:
                frames[same] = event_frames(watch.request, events)
            for data in frames[same]:
                self._send(watch.conn, data)

    def _let_in(self, name: str, durable: int) -> None:
        """Let those go on live that have read the log to its end. To the others it will bring what happens now."""
        for watch in [watch for watch in self._behind if watch.position is not None and watch.replica.name == name]:
            if watch.position is not None and watch.position >= durable and not watch.blocked and not watch.dirty:
                watch.position = None
                del self._behind[watch]

    def _tell(self, found: dict[Watch, list[int]], story: _Story, ready: dict[Watch, list[bytes]]) -> None:
        change = story.applied.change
        for watch, numbers in found.items():
            if watch.position is not None or change.seq <= watch.held.get(change.writer, 0):
                continue
            if watch.blocked or watch.is_behind:
                self._defer(watch, [story.units[number].key for number in numbers if story.event(number)])
                continue
            told = story.told(tuple(numbers))
            if told:
                ready.setdefault(watch, []).append(told)

    def expired(self, name: str, entries: Iterable[Entry], now_ms: int) -> None:
        """Tell the watchers of a space that readers see these entries no longer."""
        entries = list(entries)
        self.mirrors.retell(name, {entry.key for entry in entries})
        audience = self._by_space.get(name)
        if not audience:
            return
        replica = next(iter(audience)).replica
        token: str | None = None
        ready: dict[Watch, list[bytes]] = {}
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

    def reranked(self, replica: Replica, now_ms: int) -> set[str]:
        """The keys with siblings of which plain reads give something else now, since schemas have changed. To be called
        before :meth:`notify`, and the keys told after it: copies are then told the commit as a whole.
        """
        if not replica.schemas.is_retold:
            return set()
        changed, before = replica.schemas.take_retold()
        if not len(self):
            return set()
        reread = Reread(replica, before, now_ms)
        if len(self.mirrors):
            self.mirrors.retell(replica.name, reread.shown_otherwise(changed))
        return reread.read_otherwise(changed)

    def retell(self, name: str, keys: Iterable[str], is_lagging: bool = True) -> None:
        """Tell the newest state of these keys, which something else than a change of the log has brought about.

        Watchers are told that they lagged, unless nothing that happened to a key was left out.
        """
        keys = sorted(keys)  # told in that order
        if is_lagging:
            self.mirrors.retell(name, keys)
        audience = self._by_space.get(name)
        if not audience:
            return
        found: dict[Watch, list[str]] = {}
        for key in keys:
            for watch in audience.of(key):
                found.setdefault(watch, []).append(key)
        for watch, of_watch in found.items():
            watch.lagged = watch.lagged or is_lagging
            if len(of_watch) > RETOLD_KEYS_MAX:
                watch.start_over(is_reset=True)
            self._defer(watch, of_watch)

    def _defer(self, watch: Watch, keys: Sequence[str]) -> None:
        watch.lagged = watch.lagged or watch.blocked
        self._remember(watch, keys, DIRTY_KEYS_MAX)

    def advance(self, durable: Mapping[str, int], now_ms: int) -> None:
        """Send a slice to each watch that is not live. ``durable``: per space, the log position of the last commit."""
        self.mirrors.advance(now_ms)
        for watch in list(self._behind):
            if watch.blocked:
                continue
            if watch.position is not None:
                self._resume(watch, durable[watch.replica.name], now_ms)
            else:
                self._send_state(watch, now_ms)
            if not watch.is_behind:
                del self._behind[watch]

    def has_more(self) -> bool:
        """Whether :meth:`advance` has something to do at once."""
        return super().has_more() or self.mirrors.has_more()

    def _resume(self, watch: Watch, durable: int, now_ms: int) -> None:
        """Send a slice of the log to a watcher that went on after a token, and at its end what is to be told anew.

        Until that is told too it is not live, and what comes meanwhile comes from the log too: whole, not as a state.
        """
        replica = watch.replica
        if not covers(watch.held, replica.floor):
            watch.start_over(is_reset=True)  # the log has been cut off below it
            return
        after = watch.position
        assert after is not None
        rows = self._storage.log(replica.id, after, SLICE_BYTES_MAX, SLICE_CHANGES_MAX)
        ready: list[bytes] = []
        for row in rows:
            watch.position = after = row.position
            if row.seq <= watch.held.get(row.writer, 0):
                continue
            merge(watch.held, {row.writer: row.seq})
            change = replica.codec.decode(row.body)
            units = units_of(change)
            matching = [unit for unit in units if concerns(watch, unit.key) and _is_news(watch, unit, after)]
            for unit in units:
                if unit.key[0] == "_":
                    self._defer(watch, concerned(replica, unit.key, watch.prefix, now_ms))
            self._note_survivors(watch, matching, now_ms)
            if watch.scan is not None:
                break  # too much to tell anew: it starts over
            events = [event for unit in matching if (event := past_event(replica, change, unit)) is not None]
            if events:
                packed = [pack_event(event, watch.token) for event in events]
                ready.append(
                    packed[0] if len(units) == 1 else pack_batch(change, replica, fitting(packed), watch.token)
                )
        self._emit(watch, ready)
        if watch.scan is not None:
            return
        is_cut = len(rows) == SLICE_CHANGES_MAX or sum(len(row.body) for row in rows) >= SLICE_BYTES_MAX
        watch.retold = {key: position for key, position in watch.retold.items() if position > after}
        if not is_cut:
            watch.position = after = max(after, durable)  # a merged snapshot has a place in the log, and no row there
            if watch.dirty:
                self._send_state(watch, now_ms)
        # Not `durable`: of the commit under way this watch was told nothing.
        if after >= replica.position and not watch.dirty:
            watch.position = None

    def _note_survivors(self, watch: Watch, units: Iterable[Unit], now_ms: int) -> None:
        """Where the log does not tell all, the keys are told anew at its end."""
        for unit in units:
            known = upshot(watch.replica, unit, now_ms)
            if known is Upshot.UNKNOWN:
                self._defer(watch, [unit.key])
            elif known is Upshot.WHOLE:
                watch.dirty.pop(unit.key, None)

    def _send_state(self, watch: Watch, now_ms: int) -> None:
        """Send the newest state of some keys: a slice of the snapshot, or of what a slow consumer missed."""
        ready: list[bytes] = []
        if watch.lagged and (not watch.snapshot or watch.scan == ""):
            ready.append(plain_event("reset" if watch.snapshot else "lagged", None))
            watch.lagged = False
        size_bytes = 0
        for key in watch.next_keys(SLICE_KEYS_MAX):
            if watch.position is not None:
                watch.retold[key] = watch.retold_last = watch.replica.position
            event = state_event(watch.replica, key, now_ms, watch.snapshot)
            if watch.scan is not None and event["event"] != "snapshot":
                continue  # it has expired just now
            ready.append(pack_event(event, None if watch.snapshot else watch.token))
            size_bytes += len(ready[-1])
            if size_bytes >= SLICE_BYTES_MAX:
                break
        if watch.snapshot and watch.scan is None:
            watch.snapshot = False
            ready.append(plain_event("snapshot", watch.token))
        self._emit(watch, ready)


def _is_news(watch: Watch, unit: Unit, position: int) -> bool:
    """Whether a watcher that reads the log is to be told of a unit at ``position`` of it.

    The state of a key is told as it is in memory, with the commit under way, which the log brings only then. It must
    not go back to what came before that. Elements of logs are all told.
    """
    return position > watch.retold.get(unit.key, 0) or unit.operation.tells is Tells.ELEMENT


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
        """What a watcher of these units is told. A change of several comes as a batch, also to who sees one."""
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
