"""Watches: every change under a prefix, in causal order, to agents that may be slow.

A watch is fed in one of three ways: from the commit under way (live), from the log (resuming after a token), or as
the newest state of keys (the first snapshot, and what a slow consumer missed). What waits for a slow consumer is a
set of keys, never a queue of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from crdtsync.causality import Dot, VersionVector, hlc_ms, merge
from crdtsync.core.documents import check_marker
from crdtsync.core.replica import Applied, Replica
from crdtsync.core.storage import Storage
from crdtsync.core.values import describe, kind_name, packed_value, siblings, version_of
from crdtsync.errors import CrdtSyncError, InvalidEncoding
from crdtsync.wire.change import Change, Kind, Op, RemoveRange
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.framing import frame
from crdtsync.wire.tokens import Version, encode_dot, encode_token, encode_version

SLICE_KEYS_MAX = 64
SLICE_CHANGES_MAX = 64
SLICE_BYTES_MAX = 512 * 1024
FRAME_BYTES_MAX = 1024 * 1024
DIRTY_KEYS_MAX = 100_000

Event = dict[str, Any]
Send = Callable[[int, bytes], None]


class Watch:
    """One watch of one agent connection."""

    __slots__ = (
        "blocked",
        "conn",
        "dirty",
        "held",
        "lagged",
        "position",
        "prefix",
        "replica",
        "request",
        "scan",
        "snapshot",
    )

    def __init__(self, conn: int, request: int, prefix: str, replica: Replica) -> None:
        self.conn = conn
        self.request = request
        self.prefix = prefix
        self.replica = replica
        self.blocked = False
        self.lagged = False
        self.held: VersionVector = {}
        self.position: int | None = None
        self.scan: str | None = None
        self.snapshot = False
        self.dirty: dict[str, None] = {}

    @property
    def is_live(self) -> bool:
        """Whether events may be sent as they happen."""
        return not self.blocked and self.position is None and self.scan is None and not self.dirty

    @property
    def told(self) -> VersionVector:
        """What the watcher has been told when no key is left to be told anew: all, or what the log has brought."""
        return self.replica.vector if self.position is None else self.held

    def start_snapshot(self) -> None:
        """Send the state of every key, then go on live."""
        self.scan, self.snapshot = "", True
        self.dirty.clear()


class Watches:
    """All watches of a node."""

    def __init__(self, storage: Storage, send: Send) -> None:
        self._storage = storage
        self._send = send
        self._watches: dict[tuple[int, int], Watch] = {}

    def __len__(self) -> int:
        return len(self._watches)

    def add(self, watch: Watch, after: VersionVector | None) -> None:
        """Begin a watch; ``after`` names what the watcher has seen, None sends a snapshot first."""
        if after is None:
            watch.start_snapshot()
        else:
            watch.held = after
            watch.position = self._storage.position_missing(watch.replica.id, after, watch.replica.vector)
        self._watches[watch.conn, watch.request] = watch

    def remove(self, conn: int, request: int | None = None) -> None:
        """End one watch of a connection, or all."""
        for key in [key for key in self._watches if key[0] == conn and request in (None, key[1])]:
            del self._watches[key]

    def count(self, conn: int) -> int:
        """How many watches a connection has."""
        return sum(1 for key in self._watches if key[0] == conn)

    def set_blocked(self, conn: int, blocked: bool) -> None:
        """The connection's consumer is too slow, or has caught up."""
        for watch in self._watches.values():
            if watch.conn == conn:
                watch.blocked = blocked

    def reload(self, replicas: dict[str, Replica]) -> None:
        """The replicas have been read anew: start every watch over."""
        for watch in self._watches.values():
            watch.replica = replicas[watch.replica.name]
            self._emit(watch, [_plain_event("reset", None)])
            watch.position = None
            watch.start_snapshot()

    # -- feeding -------------------------------------------------------------------------------------------

    def notify(self, name: str, applied: list[Applied], durable: int, now_ms: int) -> None:
        """Tell the watchers of a space what the commit under way changes."""
        watches = [watch for watch in self._watches.values() if watch.replica.name == name]
        if not watches:
            return
        replica = watches[0].replica
        shown = replica.durable_vector()
        encoded: list[tuple[Change, list[tuple[str, bytes]], bytes]] = []
        for item in applied:
            shown[item.change.writer] = item.change.seq
            events = _live_events(replica, item, now_ms)
            token = encode_token([(name, replica.epoch, shown)])
            encoded.append(
                (item.change, [(event["key"], _pack_event(event, token)) for event in events], token.encode())
            )
        for watch in watches:
            if watch.position is not None:
                if watch.position < durable or watch.blocked or watch.dirty:
                    continue  # the log will bring it
                watch.position = None
            self._feed(watch, encoded)

    def _feed(self, watch: Watch, encoded: list[tuple[Change, list[tuple[str, bytes]], bytes]]) -> None:
        ready: list[bytes] = []
        for change, events, token in encoded:
            if change.seq <= watch.held.get(change.writer, 0):
                continue
            matching = [(key, data) for key, data in events if key.startswith(watch.prefix)]
            if not matching:
                continue
            if not watch.is_live:
                self._defer(watch, [key for key, _ in matching])
            elif len(change.ops) == 1:
                ready.append(matching[0][1])
            else:
                ready.append(_pack_batch(change, watch.replica, [data for _, data in matching], token.decode()))
        self._emit(watch, ready)

    def _defer(self, watch: Watch, keys: list[str]) -> None:
        """Remember which keys changed while the consumer could not be told."""
        watch.lagged = watch.lagged or watch.blocked
        if len(watch.dirty) + len(keys) > DIRTY_KEYS_MAX:
            watch.lagged = True
            watch.start_snapshot()
        for key in keys:
            if watch.scan is None or key <= watch.scan:
                watch.dirty[key] = None

    def advance(self, now_ms: int) -> None:
        """Send a slice to each watch that is not live."""
        for watch in list(self._watches.values()):
            if watch.blocked or watch.is_live:
                continue
            if watch.position is not None:
                self._resume(watch, now_ms)
            else:
                self._send_state(watch, now_ms)

    def has_more(self) -> bool:
        """Whether :meth:`advance` has something to do at once."""
        return any(not watch.blocked and not watch.is_live for watch in self._watches.values())

    def _resume(self, watch: Watch, now_ms: int) -> None:
        """Send a slice of the log to a watcher that went on after a token, and at its end what is to be told anew.

        Until that is told too it is not live, and what comes meanwhile comes from the log too: whole, not as a state.
        """
        assert watch.position is not None
        replica = watch.replica
        rows = self._storage.log(replica.id, watch.position, SLICE_BYTES_MAX, SLICE_CHANGES_MAX)
        ready: list[bytes] = []
        for row in rows:
            watch.position = row.position
            if row.seq <= watch.held.get(row.writer, 0):
                continue
            merge(watch.held, {row.writer: row.seq})
            change = replica.codec.decode(row.body)
            events = [
                _past_event(replica, change, n, op)
                for n, op in enumerate(change.ops)
                if op.key.startswith(watch.prefix)
            ]
            if not events:
                continue
            _note_survivors(watch, events)
            # While keys wait to be told anew there is no point at which to go on without them.
            token = None if watch.dirty else encode_token([(replica.name, replica.epoch, watch.held)])
            packed = [_pack_event(event, token) for event in events]
            ready.append(packed[0] if len(change.ops) == 1 else _pack_batch(change, replica, packed, token))
        self._emit(watch, ready)
        is_cut = len(rows) == SLICE_CHANGES_MAX or sum(len(row.body) for row in rows) >= SLICE_BYTES_MAX
        if watch.dirty and not is_cut:
            self._send_state(watch, now_ms)
        # Not `durable`: of the commit under way this watch was told nothing.
        if watch.position >= replica.position and not watch.dirty:
            watch.position = None

    def _send_state(self, watch: Watch, now_ms: int) -> None:
        """Send the newest state of some keys: a slice of the snapshot, or of what a slow consumer missed."""
        ready: list[bytes] = []
        if watch.lagged and (not watch.snapshot or watch.scan == ""):
            ready.append(_plain_event("reset" if watch.snapshot else "lagged", None))
            watch.lagged = False
        size_bytes = 0
        for key in self._next_keys(watch):
            event = _state_event(watch.replica, key, now_ms, watch.snapshot)
            done = not watch.snapshot and not watch.dirty
            token = encode_token([(watch.replica.name, watch.replica.epoch, watch.told)]) if done else None
            ready.append(_pack_event(event, token))
            size_bytes += len(ready[-1])
            if size_bytes >= SLICE_BYTES_MAX:
                break
        if watch.snapshot and watch.scan is None:
            watch.snapshot = False
            token = None if watch.dirty else encode_token([(watch.replica.name, watch.replica.epoch, watch.told)])
            ready.append(_plain_event("snapshot", token))
        self._emit(watch, ready)

    def _next_keys(self, watch: Watch) -> Iterator[str]:
        if watch.scan is not None:
            for found, key in enumerate(watch.replica.entries.keys(watch.prefix, watch.scan)):
                if found == SLICE_KEYS_MAX:
                    return
                watch.scan = key
                yield key
            watch.scan = None
            return
        for _ in range(min(SLICE_KEYS_MAX, len(watch.dirty))):
            key = next(iter(watch.dirty))
            del watch.dirty[key]
            yield key

    def _emit(self, watch: Watch, events: list[bytes]) -> None:
        while events:
            size_bytes = count = 0
            while count < len(events) and (not count or size_bytes + len(events[count]) <= FRAME_BYTES_MAX):
                size_bytes += len(events[count])
                count += 1
            head = b"\x93" + pack(watch.request) + b"\x02" + _array_header(count)
            self._send(watch.conn, frame(head + b"".join(events[:count])))
            events = events[count:]


# -- events ----------------------------------------------------------------------------------------------


def _event(replica: Replica, change: Change, name: str, op: Op, operation: str) -> Event:
    value = op.value
    if op.kind == Kind.TEXT and value is not None:
        value = _text_update(value)
    return {
        "event": name,
        "key": op.key,
        "kind": kind_name(op.kind),
        "value": value,
        "op": operation,
        "agent": change.agent,
        "node": replica.node_of(change.writer),
        "time": hlc_ms(change.hlc),
    }


def _text_update(value: bytes) -> bytes | None:
    try:
        return pack(check_marker(unpack(value))[1])
    except InvalidEncoding:
        return None


def _operation(op: Op) -> str:
    if op.value_hash is None:
        return "trim" if isinstance(op.removes, RemoveRange) and op.removes.bound is not None else "delete"
    return {Kind.LOG: "append", Kind.TEXT: "text"}.get(op.kind, "set")  # type: ignore[call-overload, no-any-return]


def _live_events(replica: Replica, applied: Applied, now_ms: int) -> list[Event]:
    events: list[Event] = []
    for effect in applied.effects:
        if effect.added is None and not effect.removed:
            continue
        operation = _operation(effect.op)
        live = replica.entries.live(effect.op.key, now_ms)
        groups = siblings(replica.entries, live)
        event = _event(replica, applied.change, "delete" if not live else "set", effect.op, operation)
        if effect.added is not None:
            event["version"] = encode_version(Version(dots=(effect.added.dot,), hlc=effect.added.hlc))
            event["dot"] = encode_dot(effect.added.dot)
        elif live and (operation == "delete" or groups[0][-1].kind != effect.op.kind):
            event |= {**_state_event(replica, effect.op.key, now_ms, snapshot=False), "op": operation}  # what is left
        if len(groups) > 1:
            winner = _described(replica, groups[0])
            event |= {name: winner[name] for name in ("kind", "value", "dot", "agent", "node", "time")}
            event |= {
                "event": "conflict",
                "version": encode_version(version_of(live)),
                "siblings": [_described(replica, group) for group in groups[1:]],
            }
        events.append(event)
    return events


def _described(replica: Replica, group: list[Any]) -> Event:
    return describe(replica, group, replica.node_of, _state_value)


def _note_survivors(watch: Watch, events: list[Event]) -> None:
    """The log does not tell what a delete or a trim left alive, nor which of several values wins: such keys are told
    anew at the end.
    """
    entries = watch.replica.entries
    for event in events:
        held = entries.held(event["key"])
        left = kind_name(held[-1].kind) if held else None
        is_trimmed_away = event["op"] == "trim" and left != event["kind"]
        if is_trimmed_away or (held and (event["event"] == "delete" or len(siblings(entries, held)) > 1)):
            watch.dirty[event["key"]] = None
        else:
            watch.dirty.pop(event["key"], None)


def _past_event(replica: Replica, change: Change, n: int, op: Op) -> Event:
    """An event told from the log alone: what happened, without what it did to siblings."""
    operation = _operation(op)
    event = _event(replica, change, "delete" if operation == "delete" else "set", op, operation)
    if op.value_hash is not None:
        dot = Dot(change.writer, change.seq, n)
        event["version"] = encode_version(Version(dots=(dot,), hlc=change.hlc))
        event["dot"] = encode_dot(dot)
    return event


def _state_event(replica: Replica, key: str, now_ms: int, snapshot: bool) -> Event:
    """The newest state of a key."""
    live = replica.entries.live(key, now_ms)
    groups = siblings(replica.entries, live)
    if not groups:
        return {"event": "delete", "key": key, "kind": None, "value": None, "op": "delete"}
    newest = groups[0][-1]
    event: Event = {
        "event": "snapshot" if snapshot else "set",
        "key": key,
        "kind": kind_name(newest.kind),
        "value": _state_value(replica, groups[0]),
        "op": "state",
        "version": encode_version(version_of(groups[0])),
        "dot": encode_dot(newest.dot),
        "agent": newest.agent,
        "node": replica.node_of(newest.dot.writer),
        "time": hlc_ms(newest.hlc),
    }
    if len(groups) > 1:
        event["siblings"] = [_described(replica, group) for group in groups[1:]]
        event["version"] = encode_version(version_of(live))
    return event


def _state_value(replica: Replica, group: list[Any]) -> bytes | None:
    try:
        return packed_value(replica, group)
    except CrdtSyncError:
        return None  # too large for an event: the watcher reads it in parts


def _plain_event(name: str, token: str | None) -> bytes:
    return _pack_event({"event": name, "key": None}, token)


_FIELDS = ("event", "key", "kind", "value", "op", "version", "dot", "token", "agent", "node", "time")


def _pack_event(event: Event, token: str | None) -> bytes:
    return pack({**dict.fromkeys(_FIELDS), **event, "token": token})


def _pack_batch(change: Change, replica: Replica, events: list[bytes], token: str | None) -> bytes:
    plain = {
        **dict.fromkeys(_FIELDS),
        "event": "batch",
        "op": "batch",
        "token": token,
        "agent": change.agent,
        "node": replica.node_of(change.writer),
        "time": hlc_ms(change.hlc),
    }
    head = pack(plain)
    # a map of one more item: the events, which are packed already
    return bytes([0x80 | (len(plain) + 1)]) + head[1:] + pack("events") + _array_header(len(events)) + b"".join(events)


def _array_header(count: int) -> bytes:
    return bytes([0x90 | count]) if count < 16 else b"\xdd" + count.to_bytes(4, "big")
