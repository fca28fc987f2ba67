"""State watches, which keep copies of keys in other processes: what came out of each commit, not what was done.

A watch with ``"states": true`` tells every key, then after each commit of the daemon the keys that it changed, each
once, and last ``current``. A copy that is behind (new, resumed, slow) is told the newest state of what it lacks.

- ``state``: the key as it is: all fields of an entry, with ``siblings``, and then with ``winner``, a version that
  covers the winner alone. ``too_large``: the value does not fit (4 MiB; 5 MiB for a text or for all siblings) and is
  null.
- ``part``: new parts of a log, set or map, if few.
- ``delete``: there is no such key now.
- ``reset``: a ``state`` of every key follows, then ``current``. Show the old copy until then.
- ``current``: all before is what the daemon held at the moment that ``token`` names. Show it at once.

The ``op`` of a ``part`` says what ``value`` is:

- ``append``: the new elements in order; ``length`` is how many there are now, and all over that are gone from the
  beginning. ``places``: null if the new ones are last, else for each how many elements come after it; insert in this
  order.
- ``add``: elements that are the last now, in this order; ``gone``: those that are no longer there.
- ``merge``: a map of fields; ``gone``: the names of fields that are no longer there.

With ``after``, the token of a ``current``, the watch tells the keys that changed since, after a ``reset`` if the log
does not reach back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crdtsync.causality import VersionVector, covers, missing
from crdtsync.core.kinds.base import Sibling
from crdtsync.core.kinds.values import describe, describe_key, packed_value, policy_of, siblings, version_of
from crdtsync.core.replica.reader_view import flat, handed_over, value_handed_over
from crdtsync.core.watch.events import event_frames
from crdtsync.core.watch.partial_updates import part_of
from crdtsync.core.watch.prefix_index import Audience, concerns
from crdtsync.core.watch.scheduler import Scheduler, Send, Watcher, concerned_by
from crdtsync.errors import DamagedValue, TooLarge
from crdtsync.wire.codec import pack
from crdtsync.wire.tokens import encode_token, encode_version

if TYPE_CHECKING:
    from crdtsync.core.access.rules import Grant
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.peers.peer_state import Peer
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.space import Applied, Effect, SpaceState
    from crdtsync.core.storage.interface import Storage
    from crdtsync.wire.change import Change

SLICE_KEYS_MAX = 256
SLICE_CHANGES_MAX = 256
DIRTY_KEYS_MAX = 100_000
"""Keys that a slow watcher of states may miss before it starts over."""
VALUES_BYTES_MAX = 5 * 1024 * 1024
"""One key with its siblings, in one event. Beyond that the siblings are told without their values; and the key without
any, if one value alone is more.
"""
EVENT_BYTES_MAX = 7 * 1024 * 1024
"""Such an event with all that it says beside. Beyond that it says neither values nor meta."""
RETELL_KEYS_MAX = 1000
"""Keys that a watcher of states asks to be told again at once."""
LAG_AGE_S_MAX = 0.5


class StateWatch(Watcher):
    """One state watch of one agent connection: told states alone. One that ``lagged`` must forget what it holds."""

    __slots__ = ()


class StateWatches(Scheduler[StateWatch]):
    """All state watches of a node."""

    def __init__(self, storage: Storage, send: Send) -> None:
        super().__init__(storage, send)
        self._states: dict[tuple[str, str], bytes] = {}  # of keys, as told in this turn: by space and key
        self._lags: dict[str, tuple[float, dict[str, int]]] = {}

    def begin(self, watch: StateWatch, after: VersionVector | None, _now_ms: int) -> None:
        """Begin a watch; ``after`` names the state that the watcher holds, None: it holds nothing."""
        self._enroll(watch)
        replica = watch.replica
        watch.held = after or {}
        if after is None or not covers(after, replica.floor) or not covers(replica.vector, after):
            watch.start_over(is_reset=after is not None)
        else:
            self._defer(watch, self._go_on(watch, after))

    def moved(self, replica: Replica) -> None:
        """Another replica has taken the place of one: every watch of it starts over."""
        self._states.clear()
        self._lags.pop(replica.name, None)
        super().moved(replica)
        for watch in self.audiences.get(replica.name, ()):
            watch.needs = {}  # of an epoch that is gone, perhaps

    def hold_back(self, replica: Replica) -> None:
        """It has been read anew, after a failed commit. No watcher is told less than what it began with."""
        for watch in self.audiences.get(replica.name, ()):
            watch.needs = watch.held

    # -- what happens --------------------------------------------------------------------------------------

    def live(self, audience: Audience[StateWatch], applied: Sequence[Applied], _durable: int, now_ms: int) -> None:
        """Tell the watchers of a space what the commit under way makes of the keys that it changes, all at once."""
        touched: dict[str, list[Effect]] = {}
        for item in applied:
            for effect in item.effects:
                touched.setdefault(effect.op.key, []).append(effect)
        found = concerned_by(touched, audience)
        if not found:
            return
        replica = next(iter(found)).replica
        end = b""
        events: dict[str, bytes] = {}
        frames: dict[tuple[str, int, Grant | None], list[bytes]] = {}  # equal prefixes and rights see equal keys
        for watch, keys in found.items():
            if watch.blocked or watch.is_behind:
                self._defer(watch, keys)
                continue
            ready = frames.get((watch.prefix, watch.request, watch.limit))
            if ready is None:
                end = end or current_event(replica)
                for key in keys:
                    if key not in events:
                        events[key] = changed_event(replica, key, touched[key], now_ms)
                ready = event_frames(watch.request, [*(events[key] for key in keys), end])
                frames[watch.prefix, watch.request, watch.limit] = ready
            for data in ready:
                self._send(watch.conn, data)

    def expired(self, name: str, entries: Sequence[Entry], _now_ms: int) -> None:
        """Tell the watchers of a space that readers see these entries no longer."""
        self.retell(name, {entry.key for entry in entries})

    def retell(self, name: str, keys: Iterable[str]) -> None:
        """Tell the newest state of these keys, which something else than a change of the log has brought about."""
        found = concerned_by(sorted(keys), self.audiences.get(name) or Audience())
        for watch, concerned_keys in found.items():
            for key in concerned_keys:
                self._defer(watch, [key])

    def retell_to(self, watch: StateWatch, keys: Iterable[str]) -> None:
        """Tell the newest state of these keys to one who lacks it."""
        self._defer(watch, [key for key in keys if key.startswith(watch.prefix)])

    def _defer(self, watch: StateWatch, keys: Sequence[str]) -> None:
        self._remember(watch, keys, DIRTY_KEYS_MAX)

    # -- telling those who are behind ----------------------------------------------------------------------

    @property
    def slice_max(self) -> tuple[int, int]:
        """How many keys, and how many changes of the log, are in a slice."""
        return SLICE_KEYS_MAX, SLICE_CHANGES_MAX

    def advance(self, durable: Mapping[str, int], now_ms: int) -> None:
        """Tell a slice to each watch that is not live."""
        super().advance(durable, now_ms)
        self._states.clear()

    def _past(self, watch: StateWatch, change: Change, _now_ms: int) -> None:
        """Note the keys that have changed since the watcher's token. The watch defers changes of the commit under way
        and of later ones as they happen.
        """
        replica = watch.replica
        keys = {op.key for op in change.ops}
        # Not those in conflict alone: the log does not tell whether one value was read as a list before, or is now.
        keys.update(*(replica.schemas.matching(key, watch.prefix) for key in keys if key[0] == "_"))
        self._defer(watch, sorted(key for key in keys if concerns(watch, key)))

    def _looked_back(self, watch: StateWatch, is_cut: bool, _durable: int, _now_ms: int) -> None:
        if not is_cut:
            watch.position = None
            if not watch.dirty:
                self._emit(watch, [current_event(watch.replica)])

    def _opening(self, watch: StateWatch) -> list[bytes]:
        is_reset, watch.lagged = watch.lagged, False
        return [pack({"event": "reset", "key": None, "token": None})] if is_reset else []

    def _state(self, watch: StateWatch, key: str, now_ms: int) -> bytes:
        name = watch.replica.name
        event = self._states.get((name, key))
        if event is None:
            event = self._states[name, key] = whole_event(watch.replica, key, now_ms)
        return event

    def _closing(self, watch: StateWatch) -> list[bytes]:
        return [] if watch.is_behind else [current_event(watch.replica)]

    # -- how fresh it is -----------------------------------------------------------------------------------

    def lag(self, replica: Replica, peers: Iterable[Peer], now_s: float) -> dict[str, int]:
        """How far this node itself is behind the others, as far as it knows; looked at anew after half a second."""
        known = self._lags.get(replica.name)
        if known is None or now_s >= known[0] + LAG_AGE_S_MAX:
            peers = list(peers)
            lacks = [missing(replica.vector, peer.acked.get(replica.name, {})) for peer in peers]
            away = sum(peer.link is None for peer in peers)
            known = (now_s, {"lag": max(lacks, default=0), "away": away})
            self._lags[replica.name] = known
        return known[1]


# -- events --------------------------------------------------------------------------------------------------


def current_event(replica: Replica) -> bytes:
    """Says that what was told is the whole state of one moment, which the token names."""
    token = encode_token([(replica.name, replica.epoch, replica.vector)])
    return pack({"event": "current", "key": None, "token": token})


def changed_event(replica: Replica, key: str, effects: Sequence[Effect], now_ms: int) -> bytes:
    """The event for a key that a commit changed: the parts that are new, or else the whole."""
    part = None if replica.entries.policy_of(key).is_whole else part_of(replica.entries, key, effects)
    if part is None:
        return whole_event(replica, key, now_ms)
    described = describe(replica, replica.entries.held(key), replica.node_of, lambda _replica, _group: None)
    event = pack({"event": "part", "key": key, "token": None, **described, **part})
    return event if len(event) <= VALUES_BYTES_MAX else whole_event(replica, key, now_ms)


def whole_event(replica: Replica, key: str, now_ms: int) -> bytes:
    """A key as an entry, with all siblings; or that there is none."""
    live = replica.entries.live(key, now_ms)
    described = describe_key(replica, key, live, replica.node_of, _value)
    if described is None:
        return pack({"event": "delete", "key": key, "token": None})
    others = described["siblings"]
    _add_plain_read(replica, live, described)
    if len(described["value"] or b"") + sum(len(other["value"] or b"") for other in others) > VALUES_BYTES_MAX:
        for other in others:
            other["value"] = b""
    if len(described["value"] or b"") + len(described.get("shown") or b"") > VALUES_BYTES_MAX:
        described["value"] = b""
    for one in (described, *others):
        if one["value"] == b"":
            one |= {"value": None, "too_large": True}
    if described.get("too_large"):
        described.pop("shown", None)
    event = pack({"event": "state", "key": key, "token": None, **described})
    if len(event) > EVENT_BYTES_MAX:  # what it says beside the values
        for one in (described, *others):
            one |= {"value": None, "meta": None, "seen": None, "too_large": True}
        described.pop("shown", None)
        event = pack({"event": "state", "key": key, "token": None, **described})
    return event


def _add_plain_read(replica: Replica, live: list[Entry], described: dict[str, Any]) -> None:
    """Add what ``get`` returns, if that is not the whole entry: a version that covers it, and its value
    if it is all.
    """
    groups = siblings(replica.entries, live)
    policy = policy_of(replica.entries, groups)
    shown, others = handed_over(policy, groups)
    if others:
        described["winner"] = encode_version(version_of(flat(shown), flat(others)))
    if policy.is_whole:
        try:
            described["shown"] = value_handed_over(replica, policy, shown, _value)
        except (TooLarge, DamagedValue):
            described["value"] = b""


def _value(space: SpaceState, group: Sibling) -> bytes | None:
    """The value as msgpack; None: it was purged; empty: it is too large for an event, or damaged."""
    try:
        return packed_value(space, group)
    except (TooLarge, DamagedValue):
        return b""
