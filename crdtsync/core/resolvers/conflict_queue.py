"""The conflicts of one space that resolvers of this node may be asked about: whose turn it is, and when.

The queue is a set of keys. A key is looked at when something has changed it, when its time has come, and when the
resolvers that there are have changed; many at once in slices.
"""

from __future__ import annotations

from collections import OrderedDict  # what is first in a dict costs a look at all that went before it
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from crdtsync.causality import Dot
from crdtsync.core.alarm_catalogue import CONFLICT_UNRESOLVED
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.timer_heap import Timeline
from crdtsync.core.kinds.base import Sibling
from crdtsync.core.kinds.operations import RESOLVED_ATTR
from crdtsync.core.kinds.values import describe_key, is_conflict, packed_value
from crdtsync.core.peers.resolver_gossip import NodeAhead
from crdtsync.core.replica.replica import Replica
from crdtsync.core.resolvers.backoff import RoundBackoff
from crdtsync.core.space import Applied, SpaceState
from crdtsync.errors import CrdtSyncError
from crdtsync.wire.patterns import Pattern

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.resolvers.registry import Resolver
    from crdtsync.core.sync.protocol import Sync

PENDING_MAX = 100_000
"""Conflicts kept in mind, of a space. Those beyond are found once half of these are settled."""
LOOK_KEYS_MAX = 256
"""Keys looked at in one turn."""
EVENT_BYTES_MAX = 4 * 1024 * 1024
"""Values that a resolver is shown at once; the others it has to read."""
SKIPPED_KEYS_MAX = 64
"""Keys looked at for one that an idle resolver has not failed on."""
TELL_ASKING_S = 0.5
"""How long a resolver may take before peers are told that it is at work, so that most answers cost no message."""
START_GRACE_S = 3.0
"""After the start of a node that has peers, until it asks: they may have asked already, and are still to be heard."""
GRACE_S = 2.0
"""How much longer than its resolver may take a node has, to ask its next one or to say that it has none."""
PROGRESS_FACTOR = 10
"""How many times longer the next node waits for one that goes on settling other conflicts."""
RETRY_S_MIN = 30.0
"""Until a conflict is asked about again that all resolvers of this node have failed on; doubled each time."""
RETRY_S_MAX = 3600.0
"""Until resolvers that have all failed on a conflict are asked again, at most."""
UNRESOLVED_S = 300.0
"""How old a conflict may get that a resolver is there for, before an alarm says so."""
UNRESOLVED_ALARMS_MAX = 100
"""Keys of a space whose old conflict has an alarm."""


class PendingConflict:
    """One key in conflict.

    ``dots``: of its live entries; ``since_s``: since when the nodes ahead of this one have had the time to settle it;
    ``asked``: who is being asked, about ``asked_dots``; ``failed``: who could not settle it as it is now.
    """

    __slots__ = (
        "ahead", "asked", "asked_dots", "asked_s", "attempts", "dots", "failed", "first_s", "hold_s", "retry_s",
        "since_s",
    )  # fmt: skip

    def __init__(self, now_s: float) -> None:
        self.first_s = self.since_s = now_s
        self.dots: frozenset[Dot] = frozenset()
        self.asked: Resolver | None = None
        self.asked_dots: frozenset[Dot] = frozenset()
        self.asked_s = 0.0
        self.failed: set[tuple[int, int]] = set()
        self.attempts = 0
        self.retry_s = 0.0
        self.hold_s = 0.0
        self.ahead: list[NodeAhead] = []


class ConflictQueue:
    """See the module's description. ``handled``: the keys that peers are to know of, and how many resolvers have been
    asked about each by now; 0: none of them can settle it.
    """

    def __init__(self, node: NodeContext, sync: Sync, space: str, begin_s: float) -> None:
        """``begin_s``: nobody is asked before that."""
        self._node = node
        self._sync = sync
        self._space = space
        self._begin_s = begin_s
        self._groups: dict[Pattern, list[Resolver]] = {}
        self._pending: dict[str, PendingConflict] = {}
        self._todo: OrderedDict[str, None] = OrderedDict()
        self._scan: list[str] = []
        self._waiting: dict[Pattern, OrderedDict[str, None]] = {}
        self._times: Timeline[str] = Timeline()
        self._progress_s: dict[str, float] = {}
        self._backoff = RoundBackoff(node.identity.node, space, node.alarms)
        self._alarmed: set[str] = set()
        self._is_over = False
        self._is_changed = False
        self.handled: dict[str, int] = {}

    @property
    def _replica(self) -> Replica:
        return self._node.replicas[self._space]

    # -- resolvers ---------------------------------------------------------------------------------------------

    @property
    def is_unused(self) -> bool:
        """Whether there is no resolver left."""
        return not self._groups

    def add(self, resolver: Resolver) -> None:
        """A resolver has come: it is asked about the conflicts that there are, too."""
        self._groups.setdefault(resolver.pattern, []).append(resolver)
        self.rescan()

    def discard(self, resolver: Resolver) -> None:
        """A resolver has gone, and with it what it was at work on."""
        group = self._groups[resolver.pattern]
        group.remove(resolver)
        if not group:
            del self._groups[resolver.pattern]
        if resolver.key is not None:
            self.unasked(resolver, resolver.key)
        for pending in self._pending.values():
            pending.failed.discard(resolver.id)
        self.recheck()

    def close(self) -> None:
        """Nobody is left to ask."""
        for key in list(self._pending):
            self._settle(key)
        self._backoff.close()

    def rescan(self) -> None:
        """Look at all keys that may have conflicts, in slices."""
        self.recheck()
        self._scan = list(self._replica.entries.keys_with_several)
        self._is_over = False

    def recheck(self) -> None:
        """Look again at all pending conflicts, in slices: the resolvers that there are have changed."""
        self._todo.update(dict.fromkeys(self._pending))

    # -- what happens ------------------------------------------------------------------------------------------

    def applied(self, applied: Iterable[Applied]) -> None:
        """Changes have been applied."""
        replica = self._replica
        for item in applied:
            change = item.change
            self.touched({op.key: None for op in change.ops})
            answered = {op.key for op in change.ops if op.attrs and op.attrs.get(RESOLVED_ATTR)}
            for key in filter(self._matching, answered):
                removed = [entry for effect in item.effects if effect.op.key == key for entry in effect.removed]
                self._backoff.answered(key, change, removed, self._node.now_s)
            if answered:
                origin = replica.origins.get(change.writer)
                if origin is not None and origin[0] != self._node.identity.node:
                    self._progress_s[origin[0]] = self._node.now_s

    def touched(self, keys: Iterable[str]) -> None:
        """These keys have changed."""
        plural = self._replica.entries.keys_with_several
        for key in keys:
            if key in self._pending or (key in plural and self._matching(key)):
                self._todo[key] = None

    def done(self, resolver: Resolver, key: str) -> bool:
        """A resolver has finished with a conflict, or its time is over; whether that is settled."""
        pending = self._pending.get(key)
        if pending is None:
            return True
        self._look(key)
        settled = pending.asked is not resolver
        if not settled:
            pending.asked = None
        self._todo[key] = None
        return settled

    def unasked(self, resolver: Resolver, key: str) -> None:
        """It was not asked after all."""
        pending = self._pending.get(key)
        if pending is not None and pending.asked is resolver:
            pending.asked = None
            self._todo[key] = None

    def failed(self, resolver: Resolver, key: str) -> None:
        """It could not settle it: another is asked, here or elsewhere."""
        pending = self._pending.get(key)
        if pending is not None:
            pending.failed.add(resolver.id)
            self._todo[key] = None

    def take_changed(self) -> bool:
        """Whether peers are to be told something new."""
        is_changed, self._is_changed = self._is_changed, False
        return is_changed

    # -- looking -----------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Look at a slice of the keys that something has changed for."""
        now_s = self._node.now_s
        while (key := self._times.take(now_s)) is not None:
            self._todo[key] = None
        for _ in range(min(LOOK_KEYS_MAX, len(self._todo))):
            key, _ = self._todo.popitem(last=False)
            self._look(key)
        if self._is_over and len(self._pending) <= PENDING_MAX // 2:
            self.rescan()
        for _ in range(min(LOOK_KEYS_MAX, len(self._scan))):
            key = self._scan.pop()
            if key not in self._pending and self._matching(key):
                self._look(key)
        while (quiet := self._backoff.due(now_s)) is not None:
            if quiet not in self._pending:
                self._backoff.forget(quiet)

    def deadline_s(self, now_s: float, may_ask: bool) -> float | None:
        """When there is something to do by itself."""
        if self._todo or self._scan or (may_ask and self._can_ask()):
            return now_s
        return min((due for due in (self._times.next_due(), self._backoff.next_due()) if due is not None), default=None)

    def waiting_count(self, pattern: Pattern) -> int:
        """How many conflicts wait for a resolver of this pattern."""
        return len(self._waiting.get(pattern, ()))

    def _matching(self, key: str) -> list[Pattern]:
        """The patterns that match, the most specific first."""
        found = [pattern for pattern in self._groups if pattern.matches(key)]
        return sorted(found, key=lambda pattern: pattern.rank) if len(found) > 1 else found

    def _look(self, key: str) -> None:
        replica, now_s = self._replica, self._node.now_s
        live = replica.entries.live(key, self._node.now_ms)
        matching = self._matching(key) if is_conflict(replica.entries, live) else []
        pending = self._pending.get(key)
        if not matching:
            if pending is not None:
                self._settle(key)
            return
        if pending is None:
            if len(self._pending) >= PENDING_MAX:
                self._is_over = True
                return
            pending = self._pending[key] = PendingConflict(now_s)
        if pending.asked is not None and not _is_open(replica, live, pending.asked_dots):
            pending.asked = None
        dots = frozenset(entry.dot for entry in live)
        if dots != pending.dots:
            self._news(key, pending, dots)
        self._plan(key, pending, matching)

    def _news(self, key: str, pending: PendingConflict, dots: frozenset[Dot]) -> None:
        """The conflict is another one than it was."""
        if pending.dots and not pending.dots <= dots:
            pending.since_s = self._node.now_s  # not only grown: somebody is at work
        pending.dots = dots
        pending.failed.clear()
        pending.attempts, pending.retry_s = 0, 0.0
        pending.hold_s = self._backoff.hold_s(key, dots, self._node.now_s)

    def _plan(self, key: str, pending: PendingConflict, matching: list[Pattern]) -> None:
        """Decide who is to be asked, and when."""
        now_s = self._node.now_s
        for waiting in self._waiting.values():
            waiting.pop(key, None)
        due: list[float] = []
        is_asking = pending.asked is not None
        is_told = is_asking and now_s >= pending.asked_s + TELL_ASKING_S
        is_declined = False
        if is_asking:
            if not is_told:
                due.append(pending.asked_s + TELL_ASKING_S)
        else:
            if pending.retry_s and now_s >= pending.retry_s:
                pending.failed.clear()
                pending.retry_s = 0.0
            pattern, is_declined = self._next_pattern(pending, matching)
            if is_declined and not pending.retry_s:
                pending.retry_s = now_s + min(RETRY_S_MAX, RETRY_S_MIN * 2.0 ** min(pending.attempts, 40))
                pending.attempts += 1
            due_s = max(self._turn_s(key, pending), pending.hold_s, pending.retry_s, self._begin_s)
            if pattern is not None and due_s <= now_s:
                self._waiting.setdefault(pattern, OrderedDict())[key] = None
            elif pattern is not None or is_declined:
                due.append(due_s)
        self._handle(key, len(pending.failed) + 1 if is_told else (0 if is_declined else None))
        self._watch_age(key, pending, due)
        if due:
            self._times.add(key, min(due))
        else:
            self._times.discard(key)

    def _next_pattern(self, pending: PendingConflict, matching: list[Pattern]) -> tuple[Pattern | None, bool]:
        """The most specific pattern with a resolver that is well and has not failed on this; and whether all have."""
        able = False
        for pattern in matching:
            left = [one for one in self._groups[pattern] if one.id not in pending.failed]
            if any(not one.is_stuck for one in left):
                return pattern, False
            able |= bool(left)
        return None, not able

    def _turn_s(self, key: str, pending: PendingConflict) -> float:
        """When it is this node's turn: those ahead of it have so long to settle it."""
        ahead = self._sync.resolver_news.ahead(self._space, key)
        if ahead != pending.ahead:
            pending.ahead = ahead
            pending.since_s = self._node.now_s  # whoever is next by now has all of its time before it
        if not ahead:
            return 0.0
        wait_s = sum(one.takeover_s + GRACE_S for one in ahead)
        progress_s = max(self._progress_s.get(one.node, 0.0) for one in ahead)
        since_s = max(pending.since_s, min(progress_s, pending.since_s + PROGRESS_FACTOR * wait_s))
        return since_s + wait_s

    def _handle(self, key: str, asked: int | None) -> None:
        """Note what peers are to know of a key; None: nothing."""
        if self.handled.get(key) != asked:
            self._is_changed = True
            if asked is None:
                del self.handled[key]
            else:
                self.handled[key] = asked

    def _watch_age(self, key: str, pending: PendingConflict, due: list[float]) -> None:
        """Say when a conflict gets old."""
        old_s = pending.first_s + UNRESOLVED_S
        if key in self._alarmed or len(self._alarmed) >= UNRESOLVED_ALARMS_MAX:
            return
        if self._node.now_s < old_s:
            due.append(old_s)
            return
        self._alarmed.add(key)
        self._node.alarms.raise_once(
            CONFLICT_UNRESOLVED,
            self._scope(key),
            f"space {self._space}: {key!r} has had several values for {UNRESOLVED_S / 60:.0f} minutes, and no resolver "
            "that there is for it has settled that: see crdtsync conflicts, and settle it with crdtsync resolve",
        )

    def _settle(self, key: str) -> None:
        """There is no conflict any more, or nobody for it."""
        self._pending.pop(key).asked = None
        self._backoff.settled(key, self._node.now_s)
        for waiting in self._waiting.values():
            waiting.pop(key, None)
        self._times.discard(key)
        self._handle(key, None)
        if key in self._alarmed:
            self._alarmed.discard(key)
            self._node.alarms.clear(CONFLICT_UNRESOLVED, self._scope(key))

    def _scope(self, key: str) -> str:
        return f"{self._space} {key}"

    # -- asking ------------------------------------------------------------------------------------------------

    def _can_ask(self) -> bool:
        return any(self._pair(pattern) is not None for pattern in self._waiting)

    def next_asks(self) -> Iterator[tuple[Resolver, str, dict[str, Any]]]:
        """Whom to ask about what: as many as there are idle resolvers for. The caller notes that they are busy."""
        for pattern in list(self._waiting):
            while (pair := self._pair(pattern)) is not None:
                resolver, key = pair
                event = self._ask(resolver, key)
                if event is not None:
                    yield resolver, key, event
            if not self._waiting.get(pattern):
                self._waiting.pop(pattern, None)

    def _pair(self, pattern: Pattern) -> tuple[Resolver, str] | None:
        """An idle resolver, the one asked longest ago, and a key that it has not failed on."""
        waiting = self._waiting.get(pattern)
        if not waiting:
            return None
        idle = sorted((one for one in self._groups.get(pattern, ()) if one.is_idle), key=lambda one: one.turn)
        if not idle:
            return None
        for _, key in zip(range(SKIPPED_KEYS_MAX), waiting, strict=False):
            for resolver in idle:
                if resolver.id not in self._pending[key].failed:
                    return resolver, key
        return None

    def _ask(self, resolver: Resolver, key: str) -> dict[str, Any] | None:
        """The event that asks; None: it turns out that there is nothing to ask."""
        replica, pending = self._replica, self._pending[key]
        live = replica.entries.live(key, self._node.now_ms)
        if frozenset(entry.dot for entry in live) != pending.dots:
            self._look(key)  # something has expired
            if key in self._pending:
                self._todo[key] = None
                self._waiting.get(resolver.pattern, OrderedDict()).pop(key, None)
            return None
        del self._waiting[resolver.pattern][key]
        pending.asked, pending.asked_dots, pending.asked_s = resolver, pending.dots, self._node.now_s
        self._times.add(key, self._node.now_s + TELL_ASKING_S)
        return {"event": "conflict", **_described(replica, key, live)}


def _described(replica: Replica, key: str, live: list[Entry]) -> dict[str, Any]:
    """An entry with its siblings, of which what would be too much for one event is left out."""
    described = describe_key(replica, key, live, replica.node_of, _ValueReader())
    assert described is not None
    parts = (described, *described["siblings"])
    if sum(len(part["meta"] or b"") for part in parts) > EVENT_BYTES_MAX // 2:
        for part in parts:
            part["meta"] = None
    return described


class _ValueReader:
    """Reads values until they are too much for one event; from then on they are None."""

    def __init__(self) -> None:
        self._left_bytes = EVENT_BYTES_MAX

    def __call__(self, space: SpaceState, group: Sibling) -> bytes | None:
        """One value."""
        try:
            value = packed_value(space, group)
        except CrdtSyncError:
            return None
        if value is None or len(value) > self._left_bytes:
            return None
        self._left_bytes -= len(value)
        return value


def _is_open(replica: Replica, live: list[Entry], asked: frozenset[Dot]) -> bool:
    """Whether what a resolver was shown is still in conflict, whatever came beside it."""
    return is_conflict(replica.entries, [entry for entry in live if entry.dot in asked])
