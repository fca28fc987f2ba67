"""When a watcher is told what: the one schedule of both kinds of watches, of changes and of states.

Example: ann watches ``plan/`` and goes on after a token. She looks back, through the log, and is live from then on.
Then her socket is full: the keys of each commit are remembered. When she reads on she catches up with the newest state
of these keys, and is live again. A watcher without a token begins with a scan of all keys.

The rule: a watcher is in one of four states, and nothing that waits for one is ever a queue of events.

=============  ============  ==========  ======================  =============================  ==================
state          ``position``  ``scan``    ``dirty``               is told                        becomes
=============  ============  ==========  ======================  =============================  ==================
live           None          None        empty                   each commit as it happens      catching up
scanning       None          last key    told keys that changed  slices of the state of keys    catching up, live
looking back   of the log    None        keys that the log does  slices of the log              catching up, live
                                         not tell
catching up    None          None        keys that it missed     their newest state, in slices  live
=============  ============  ==========  ======================  =============================  ==================

From every state :meth:`Watcher.start_over` leads to scanning: where more keys are missed than may be remembered, where
the log has been cut off, where the replica is another one. Beside its state a watcher has:

- ``held``: what it had been told when it began, and what the log has brought since
- ``blocked``: its consumer's socket is full; it is told nothing, and misses what happens
- ``needs``: what it holds already and this node lost with a failed commit; until that is here again, it is told nothing
- ``lagged``: it has still to be told that it missed something

A kind of watches says what a watcher is told: :class:`~crdtsync.core.watch.change_watch.ChangeWatches` changes,
:class:`~crdtsync.core.watch.state_watch.StateWatches` states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from crdtsync.causality import covers, merge
from crdtsync.core.watch.events import event_frames
from crdtsync.core.watch.prefix_index import Audience, concerns

if TYPE_CHECKING:
    from crdtsync.causality import VersionVector
    from crdtsync.core.access.rules import Grant
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.space import Applied
    from crdtsync.core.storage.interface import Storage
    from crdtsync.wire.change import Change

Send = Callable[[int, bytes], None]

SLICE_BYTES_MAX = 512 * 1024
DIRTY_KEYS_TOTAL_MAX = 1_000_000
"""Keys that slow watchers of a kind may miss in all: each has an equal share. One takes about 100 bytes."""


class Watcher:
    """One watch of one agent connection. ``limit``: what its agent may do there, if that is not to read everything.
    The other attributes are those of the module's table.
    """

    __slots__ = (
        "blocked", "conn", "dirty", "held", "lagged", "limit", "needs", "position", "prefix", "replica", "request",
        "scan",
    )  # fmt: skip

    def __init__(self, conn: int, request: int, prefix: str, replica: Replica) -> None:
        self.conn = conn
        self.request = request
        self.prefix = prefix
        self.replica = replica
        self.blocked = False
        self.limit: Grant | None = None
        self.lagged = False
        self.held: VersionVector = {}
        self.needs: VersionVector = {}
        self.position: int | None = None
        self.scan: str | None = None
        self.dirty: OrderedDict[str, None] = OrderedDict()

    @property
    def is_behind(self) -> bool:
        """Whether there is something to tell that is not news."""
        return self.position is not None or self.scan is not None or bool(self.dirty)

    @property
    def is_waiting(self) -> bool:
        """Whether it cannot be told anything now."""
        return self.blocked or (bool(self.needs) and not covers(self.replica.vector, self.needs))

    def start_over(self, is_reset: bool) -> None:
        """Tell the state of every key, then go on live. ``is_reset``: the watcher must forget what it holds."""
        self.scan, self.position = "", None
        self.lagged = self.lagged or is_reset
        self.dirty.clear()

    def next_keys(self, keys_max: int) -> Iterator[str]:
        """The keys to be told next, taken from what is to be told: a slice of the scan, or of what was missed."""
        if self.scan is not None:
            for found, key in enumerate(self.replica.entries.keys(self.prefix, self.scan)):
                if found == keys_max:
                    return
                self.scan = key
                if concerns(self, key):
                    yield key
            self.scan = None
            return
        for _ in range(min(keys_max, len(self.dirty))):
            key, _ = self.dirty.popitem(last=False)  # of a dict it would take longer for each key gone before
            if concerns(self, key):
                yield key


Member = TypeVar("Member", bound=Watcher)


def concerned_by(keys: Iterable[str], audience: Audience[Member]) -> dict[Member, list[str]]:
    """The watchers of an audience, each with those of the keys that it is told of."""
    found: dict[Member, list[str]] = {}
    for key in keys:
        for watch in audience.of(key):
            found.setdefault(watch, []).append(key)
    return found


class Scheduler(ABC, Generic[Member]):
    """All watchers of one kind on a node. ``audiences``: by space; ``behind``: those that are not live."""

    def __init__(self, storage: Storage, send: Send) -> None:
        self._storage = storage
        self._send = send
        self.audiences: dict[str, Audience[Member]] = {}
        self.behind: dict[Member, None] = {}

    # -- what a kind of watches says -----------------------------------------------------------------------

    @abstractmethod
    def begin(self, watch: Member, after: VersionVector | None, now_ms: int) -> None:
        """Begin a watch; ``after`` names what the watcher has been told, None: nothing."""

    @abstractmethod
    def live(self, audience: Audience[Member], applied: Sequence[Applied], durable: int, now_ms: int) -> None:
        """Tell the live watchers of a space of the commit under way, and have the others miss it."""

    @abstractmethod
    def expired(self, name: str, entries: Sequence[Entry], now_ms: int) -> None:
        """Tell the watchers of a space that readers see these entries no longer."""

    @property
    @abstractmethod
    def slice_max(self) -> tuple[int, int]:
        """How many keys, and how many changes of the log, are in a slice."""

    @abstractmethod
    def _defer(self, watch: Member, keys: Sequence[str]) -> None:
        """Have a watcher miss these keys, with :meth:`_remember`."""

    @abstractmethod
    def _past(self, watch: Member, change: Change, now_ms: int) -> bytes | None:
        """The frame for a watcher that looks back, about a change of the log; None: nothing."""

    @abstractmethod
    def _looked_back(self, watch: Member, is_cut: bool, durable: int, now_ms: int) -> None:
        """A slice of the log has been told. ``is_cut``: there may be more of it."""

    @abstractmethod
    def _opening(self, watch: Member) -> list[bytes]:
        """The frames before a slice of states."""

    @abstractmethod
    def _state(self, watch: Member, key: str, now_ms: int) -> bytes | None:
        """The state of a key; None: there is none to be told."""

    @abstractmethod
    def _closing(self, watch: Member) -> list[bytes]:
        """The frames after a slice of states."""

    # -- who there is --------------------------------------------------------------------------------------

    def _enroll(self, watch: Member) -> None:
        self.audiences.setdefault(watch.replica.name, Audience()).add(watch)
        self.behind[watch] = None

    def _go_on(self, watch: Member, after: VersionVector) -> Sequence[str]:
        """Look back to what the watcher has been told. Returns the keys that may have expired since, of which the log
        does not say so yet.
        """
        replica = watch.replica
        watch.held = after
        watch.position = self._storage.position_missing(replica.id, after, replica.vector)
        return replica.entries.expiry.hidden_keys(watch.prefix, after)

    def discard(self, watch: Member) -> None:
        """A watch has ended."""
        self.audiences[watch.replica.name].discard(watch)
        self.behind.pop(watch, None)

    def start_over(self, watch: Member) -> None:
        """Tell a watcher everything anew."""
        watch.start_over(is_reset=True)
        self.behind[watch] = None

    def moved(self, replica: Replica) -> None:
        """Another replica has taken the place of one: every watch of it starts over."""
        for watch in self.audiences.get(replica.name, ()):
            watch.replica = replica
            self.start_over(watch)

    # -- telling those who are behind ----------------------------------------------------------------------

    def has_more(self) -> bool:
        """Whether there is something to tell at once."""
        return any(not watch.is_waiting for watch in self.behind)

    def advance(self, durable: Mapping[str, int], now_ms: int) -> None:
        """Tell a slice to each watch that is not live. ``durable``: per space, the log position of the last commit."""
        for watch in list(self.behind):
            if watch.is_waiting:
                continue
            if watch.position is not None:
                self._look_back(watch, watch.position, durable[watch.replica.name], now_ms)
            else:
                self._tell_states(watch, now_ms)
            if not watch.is_behind:
                del self.behind[watch]

    def _look_back(self, watch: Member, position: int, durable: int, now_ms: int) -> None:
        """Tell a slice of the log."""
        replica = watch.replica
        if not covers(watch.held, replica.floor):
            watch.start_over(is_reset=True)  # the log has been cut off below it
            return
        changes_max = self.slice_max[1]
        rows = self._storage.log(replica.id, position, SLICE_BYTES_MAX, changes_max)
        ready: list[bytes] = []
        for row in rows:
            watch.position = row.position
            if row.seq <= watch.held.get(row.writer, 0):
                continue
            change = replica.spoilt.change_of(row)
            if change is None:
                watch.start_over(is_reset=True)
                break
            merge(watch.held, {row.writer: row.seq})
            told = self._past(watch, change, now_ms)
            if watch.scan is not None:
                break  # too much is to be told anew: it starts over
            if told is not None:
                ready.append(told)
        self._emit(watch, ready)
        if watch.scan is None:
            is_cut = len(rows) == changes_max or sum(len(row.body) for row in rows) >= SLICE_BYTES_MAX
            self._looked_back(watch, is_cut, durable, now_ms)

    def _tell_states(self, watch: Member, now_ms: int) -> None:
        """Tell the newest state of a slice of the keys that are to be told."""
        ready = self._opening(watch)
        size_bytes = 0
        for key in watch.next_keys(self.slice_max[0]):
            event = self._state(watch, key, now_ms)
            if event is None:
                continue
            ready.append(event)
            size_bytes += len(event)
            if size_bytes >= SLICE_BYTES_MAX:
                break
        self._emit(watch, ready + self._closing(watch))

    def _remember(self, watch: Member, keys: Sequence[str], keys_max: int) -> None:
        """Remember keys whose newest state the watcher must be told once it can be; beyond so many, or its share of
        :data:`DIRTY_KEYS_TOTAL_MAX`, it starts over.
        """
        if len(watch.dirty) + len(keys) > min(keys_max, DIRTY_KEYS_TOTAL_MAX // (len(self.behind) or 1)):
            watch.start_over(is_reset=True)
        for key in keys:
            if watch.scan is None or key <= watch.scan:
                watch.dirty[key] = None
        if watch.is_behind:
            self.behind[watch] = None

    def _emit(self, watch: Member, events: Sequence[bytes]) -> None:
        for data in event_frames(watch.request, events):
            self._send(watch.conn, data)
