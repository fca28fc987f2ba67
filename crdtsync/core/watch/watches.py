"""All watches of a node: who began them, and which kind is told what happens.

Example: one agent watches the changes under ``plan/``, another one mirrors them. A commit sets ``plan/goal``. The node
calls ``notify`` once; the mirror is told the key's new state, the watch the change.

Where something concerns both kinds, the mirrors are told first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crdtsync.core.watch.change_watch import ChangeWatch, ChangeWatches
from crdtsync.core.watch.policy_changes import Reread
from crdtsync.core.watch.state_watch import StateWatch, StateWatches

if TYPE_CHECKING:
    from crdtsync.causality import VersionVector
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.space import Applied
    from crdtsync.core.storage.interface import Storage
    from crdtsync.core.watch.scheduler import Scheduler, Send


class Watches:
    """See the module's description."""

    def __init__(self, storage: Storage, send: Send) -> None:
        self.changes = ChangeWatches(storage, send)
        self.states = StateWatches(storage, send)
        self._kinds: tuple[Scheduler[Any], ...] = (self.states, self.changes)
        self._by_conn: dict[int, dict[int, ChangeWatch | StateWatch]] = {}

    # -- who there is --------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(map(len, self._by_conn.values()))

    def count(self, conn: int) -> int:
        """How many watches a connection has."""
        return len(self._by_conn.get(conn, ()))

    def of_conn(self, conn: int) -> list[ChangeWatch | StateWatch]:
        """The watches of a connection."""
        return list(self._by_conn.get(conn, {}).values())

    def find(self, conn: int, request: object) -> ChangeWatch | StateWatch | None:
        """The watch that a request of a connection began."""
        return self._by_conn.get(conn, {}).get(request) if isinstance(request, int) else None

    def missed(self) -> list[tuple[int, int]]:
        """Connections of watchers of changes that are behind, and how many keys each has still to be told."""
        return [(watch.conn, len(watch.dirty)) for watch in self.changes.behind]

    def _kind(self, watch: ChangeWatch | StateWatch) -> Scheduler[Any]:
        return self.states if isinstance(watch, StateWatch) else self.changes

    # -- their beginning and end ---------------------------------------------------------------------------

    def add(self, watch: ChangeWatch | StateWatch, after: VersionVector | None, now_ms: int) -> None:
        """Begin a watch; ``after`` names what the watcher has been told, None: nothing."""
        self.remove(watch.conn, watch.request)
        self._by_conn.setdefault(watch.conn, {})[watch.request] = watch
        self._kind(watch).begin(watch, after, now_ms)

    def remove(self, conn: int, request: int | None = None) -> None:
        """End one watch of a connection, or all."""
        watches = self._by_conn.get(conn, {})
        for number in list(watches) if request is None else [request]:
            watch = watches.pop(number, None)
            if watch is not None:
                self._kind(watch).discard(watch)
        if not watches:
            self._by_conn.pop(conn, None)

    def end(self, name: str) -> list[tuple[int, int]]:
        """A space is no longer here: end its watches. Returns their connections and requests."""
        audiences = (self.changes.audiences.get(name, ()), self.states.audiences.get(name, ()))
        ended = [(watch.conn, watch.request) for audience in audiences for watch in audience]
        for conn, request in ended:
            self.remove(conn, request)
        return ended

    def start_over(self, watch: ChangeWatch | StateWatch) -> None:
        """Tell a watcher everything anew: it may read more than it was told of."""
        self._kind(watch).start_over(watch)

    def moved(self, replica: Replica) -> None:
        """Another replica has taken the place of one: every watch of it starts over."""
        for kind in self._kinds:
            kind.moved(replica)

    def reload(self, replicas: dict[str, Replica]) -> None:
        """The replicas have been read anew, after a failed commit: start every watch over."""
        for replica in replicas.values():
            self.moved(replica)
            self.states.hold_back(replica)

    def set_blocked(self, conn: int, blocked: bool) -> None:
        """The connection's consumer is too slow, or has caught up."""
        for watch in self._by_conn.get(conn, {}).values():
            watch.blocked = blocked

    # -- what happens --------------------------------------------------------------------------------------

    def notify(self, name: str, applied: Sequence[Applied], durable: int, now_ms: int) -> None:
        """Tell the watchers of a space what the commit under way changes."""
        for kind in self._kinds:
            audience = kind.audiences.get(name)
            if audience:
                kind.live(audience, applied, durable, now_ms)

    def expired(self, name: str, entries: Iterable[Entry], now_ms: int) -> None:
        """Tell the watchers of a space that readers see these entries no longer."""
        entries = list(entries)
        for kind in self._kinds:
            kind.expired(name, entries, now_ms)

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
        if self.states.audiences.get(replica.name):
            self.states.retell(replica.name, reread.shown_otherwise(changed))
        return reread.read_otherwise(changed)

    def retell(self, name: str, keys: Iterable[str], is_lagging: bool = True) -> None:
        """Tell the newest state of these keys, which something else than a change of the log has brought about.

        Watchers are told that they lagged, unless nothing that happened to a key was left out; copies have been told
        by then.
        """
        keys = list(keys)
        if is_lagging:
            self.states.retell(name, keys)
        self.changes.retell(name, keys, is_lagging)

    def advance(self, durable: Mapping[str, int], now_ms: int) -> None:
        """Tell a slice to each watch that is not live. ``durable``: per space, the log position of the last commit."""
        for kind in self._kinds:
            if kind.behind:
                kind.advance(durable, now_ms)

    def has_more(self) -> bool:
        """Whether :meth:`advance` has something to do at once."""
        return any(kind.has_more() for kind in self._kinds)
