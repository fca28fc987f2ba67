"""Those who are told what becomes of keys: what watches of both kinds, of changes and of states, have in common."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from crdtsync.causality import covers
from crdtsync.core.watch.events import event_frames
from crdtsync.core.watch.prefix_index import Audience, concerns

if TYPE_CHECKING:
    from crdtsync.causality import VersionVector
    from crdtsync.core.access.rules import Grant
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.storage.interface import Storage

Send = Callable[[int, bytes], None]

DIRTY_KEYS_TOTAL_MAX = 1_000_000
"""Keys that slow watchers of a kind may miss in all: each has an equal share. One takes about 100 bytes."""


class Watcher:
    """One watch of one agent connection.

    ``held``: what it had been told when it began; ``position``: how far it has read the log, None: to its end;
    ``scan``: the last key that its snapshot has told, None: all; ``dirty``: keys whose newest state is to be told.
    ``lagged``: it has still to be told that it missed something. ``limit``: what its agent may do there, if that is
    not to read everything. ``needs``: what it holds already and this node lost with a failed commit; until that is here
    again, it is told nothing.
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
        """The keys to be told next, taken from what is to be told: a slice of the snapshot, or of what was missed."""
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


class Watchers(Generic[Member]):
    """All of one kind on a node, by connection and by space; ``_behind``: those to whom something else than news is to
    be told.
    """

    def __init__(self, storage: Storage, send: Send) -> None:
        self._storage = storage
        self._send = send
        self._by_conn: dict[int, dict[int, Member]] = {}
        self._by_space: dict[str, Audience[Member]] = {}
        self._behind: dict[Member, None] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_conn.values()))

    def _enroll(self, watch: Member) -> None:
        self.remove(watch.conn, watch.request)
        self._by_conn.setdefault(watch.conn, {})[watch.request] = watch
        self._by_space.setdefault(watch.replica.name, Audience()).add(watch)
        self._behind[watch] = None

    def remove(self, conn: int, request: int | None = None) -> None:
        """End one watch of a connection, or all."""
        watches = self._by_conn.get(conn, {})
        for number in list(watches) if request is None else [request]:
            watch = watches.pop(number, None)
            if watch is not None:
                self._by_space[watch.replica.name].discard(watch)
                self._behind.pop(watch, None)
        if not watches:
            self._by_conn.pop(conn, None)

    def count(self, conn: int) -> int:
        """How many watches a connection has."""
        return len(self._by_conn.get(conn, ()))

    def of_space(self, name: str) -> list[tuple[int, int]]:
        """Connections and requests of the watches of a space."""
        return [(watch.conn, watch.request) for watch in self._by_space.get(name, ())]

    def set_blocked(self, conn: int, blocked: bool) -> None:
        """The connection's consumer is too slow, or has caught up."""
        for watch in self._by_conn.get(conn, {}).values():
            watch.blocked = blocked

    def moved(self, replica: Replica) -> None:
        """Another replica has taken the place of one: every watch of it starts over."""
        for watch in self._by_space.get(replica.name, ()):
            watch.replica = replica
            watch.start_over(is_reset=True)
            self._behind[watch] = None

    def has_more(self) -> bool:
        """Whether there is something to tell at once."""
        return any(not watch.is_waiting for watch in self._behind)

    def _remember(self, watch: Member, keys: Sequence[str], keys_max: int) -> None:
        """Remember keys whose newest state the watcher must be told once it can be; beyond so many, or its share of
        :data:`DIRTY_KEYS_TOTAL_MAX`, it starts over.
        """
        if len(watch.dirty) + len(keys) > min(keys_max, DIRTY_KEYS_TOTAL_MAX // (len(self._behind) or 1)):
            watch.start_over(is_reset=True)
        for key in keys:
            if watch.scan is None or key <= watch.scan:
                watch.dirty[key] = None
        if watch.is_behind:
            self._behind[watch] = None

    def _emit(self, watch: Member, events: Sequence[bytes]) -> None:
        for data in event_frames(watch.request, events):
            self._send(watch.conn, data)
