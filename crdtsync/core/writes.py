"""From an agent's write requests to the operations of one change.

The rule behind everything here: *a write supersedes what its author had seen*, not what this daemon happens to
hold. What the author had seen arrives as ``seen``; a write without it is blind and replaces the winner only, as a
plain SET would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crdtsync.causality import Dot, VersionVector, Writer, merge, vector_of
from crdtsync.core.entries import Entry, covered_by
from crdtsync.core.replica import Applied, Replica
from crdtsync.core.values import Sibling, describe, describe_key, document_of, kind_name, siblings, version_of
from crdtsync.errors import (
    InvalidEncoding,
    InvalidRequest,
    InvalidValue,
    KindMismatch,
    TooLarge,
    TooManySiblings,
    VersionMismatch,
)
from crdtsync.wire.change import Kind, Op, RemoveRange, value_hash
from crdtsync.wire.codec import check_value, pack, unpack
from crdtsync.wire.limits import CHANGE_OPS_MAX, KEY_SIBLINGS_MAX, check_key, check_value_size, shown
from crdtsync.wire.tokens import Version, decode_dot, decode_version, encode_dot, encode_version

READ_LONG_AGO = "?"
Arguments = Mapping[str, Any]
Result = dict[str, Any]
Removes = tuple[Dot, ...] | RemoveRange


_NOTHING = Version()
TTL_MS_MAX = 1 << 48
REPLACED_BYTES_MAX = 2 * 1024 * 1024
OWN_DOTS_MAX = 256
"""How many own appends a version may name beside what was read, until the log is read again."""


class NotYet(Exception):  # not an error: the request waits
    """The request names changes that this node does not hold yet: ``vector`` says which."""

    def __init__(self, vector: VersionVector) -> None:
        super().__init__()
        self.vector = vector


class Draft:
    """The operations of one change in the making. Later ones see what earlier ones did."""

    def __init__(self, replica: Replica, now_ms: int, node_of: Callable[[Writer], str]) -> None:
        self.replica = replica
        self.now_ms = now_ms
        self.node_of = node_of
        self.ops: list[Op] = []
        self._keys: dict[str, list[Entry]] = {}
        self._expiring: set[str] = set()
        self._settled = 0
        self._replaced_bytes = 0
        self._versions: list[tuple[int, Result, Version]] = []

    def live(self, key: str) -> list[Entry]:
        """The entries of ``key`` as they will be after the operations so far."""
        self._settle()
        drafted = self._keys.get(key)
        if drafted is None:
            return self.replica.entries.live(key, self.now_ms)
        if key not in self._expiring:
            return drafted
        return [e for e in drafted if (expires := e.expires_ms()) is None or expires > self.now_ms]

    def held(self, key: str) -> list[Entry]:
        """The same, with those that have expired."""
        self._settle()
        drafted = self._keys.get(key)
        return self.replica.entries.held(key) if drafted is None else drafted

    def own_dot(self) -> Dot:
        """The dot that the next operation will have."""
        writer, seq = self.replica.next_dot()
        return Dot(writer, seq, len(self.ops))

    def add(self, op: Op) -> None:
        """Append an operation."""
        self.ops.append(op)

    def describe_replaced(self, winner: Sibling) -> Result:
        """What a blind write replaces. In a large batch the values that no reply could hold are left out."""
        replaced = describe(self.replica, winner, self.node_of)
        self._replaced_bytes += len(replaced["value"] or b"")
        return replaced if self._replaced_bytes <= REPLACED_BYTES_MAX else {**replaced, "value": None}

    def _settle(self) -> None:
        """Work out what the operations so far leave behind: only a batch ever asks."""
        while self._settled < len(self.ops):
            n, op = self._settled, self.ops[self._settled]
            self._settled += 1
            left = self._after(n, op)
            self._keys[op.key] = left

    def _after(self, n: int, op: Op) -> list[Entry]:
        left = self._keys.get(op.key)
        if left is None:
            left = list(self.replica.entries.held(op.key))
            if any(entry.attrs for entry in left):
                self._expiring.add(op.key)
        if op.attrs:
            self._expiring.add(op.key)
        if op.removes:
            gone = {entry.dot for entry in covered_by(left, op.removes)}
            left = [entry for entry in left if entry.dot not in gone]
        if op.value_hash is not None:
            value = op.value
            dot = Dot(*self.replica.next_dot(), n)
            if op.kind == Kind.TEXT:
                named = unpack(value or b"")[0]
                value = pack(list(dot) if named is None else named)
            left.append(Entry(0, dot, op.key, op.sub, op.kind, self._hlc(), "", value, op.value_hash, op.attrs))
        return left

    def _hlc(self) -> int:
        """About the time that the change will have: at least this."""
        return max(self.replica.clock.last + 1, self.now_ms << 16)

    def promise_version(self, result: Result, beside: Version = _NOTHING) -> None:
        """Have :meth:`finish` put the version of the operation added last, on top of ``beside``, into ``result``."""
        self._versions.append((len(self.ops) - 1, result, beside))

    def finish(self, applied: Applied) -> None:
        """Complete the results, now that the change has its numbers."""
        for n, result, beside in self._versions:
            dot = Dot(applied.change.writer, applied.change.seq, n)
            result["version"] = encode_version(
                Version((*beside.dots, dot), beside.others, beside.vector, applied.change.hlc)
            )


# -- what the author had seen ----------------------------------------------------------------------------


def _seen(draft: Draft, args: Arguments) -> tuple[Version | None, bool]:
    """The ``seen`` argument cut to what this node holds; None: blind. And whether it had to be cut."""
    text = args.get("seen", args.get("if_version"))
    if text is None:
        return None, False
    if text == READ_LONG_AGO:
        return _NOTHING, False
    version = decode_version(text)
    behind = _ahead(draft.replica, version)
    if behind and (args.get("strict") or "if_version" in args):
        raise NotYet(behind)
    draft.replica.clock.witness(version.hlc, draft.now_ms)
    return version, bool(behind)


def _ahead(replica: Replica, version: Version) -> VersionVector:
    """What the version names and this node does not hold."""
    named = vector_of(version.dots)
    merge(named, version.vector or {})
    return {writer: seq for writer, seq in named.items() if seq > replica.vector.get(writer, 0)}


def _covered(held: list[Entry], version: Version, others: bool) -> list[Entry]:
    """Those of a key's entries that the author had seen. What the same batch wrote before is no news to it either,
    unless it said that it had seen nothing.
    """
    if version is _NOTHING:
        return []
    dots = {*version.dots, *version.others} if others else {*version.dots}
    vector = version.vector or {}
    return [
        entry
        for entry in held
        if entry.dot in dots or entry.dot.seq <= vector.get(entry.dot.writer, 0) or not entry.row
    ]


def _expired(draft: Draft, key: str) -> tuple[Dot, ...]:
    held, live = draft.held(key), draft.live(key)
    if len(held) == len(live):
        return ()
    shown = {entry.dot for entry in live}
    return tuple(entry.dot for entry in held if entry.dot not in shown)


def _check_kind(draft: Draft, key: str, live: list[Entry], kind: Kind, instead: str) -> None:
    if live:
        winner = siblings(draft.replica.entries, live)[0][-1]
        if winner.kind != kind:
            raise KindMismatch(
                f"{key!r} is a {kind_name(winner.kind)}; {instead} works on a {kind_name(kind)}: "
                "use another key, or delete this one first",
                kind=kind_name(winner.kind),
            )


def _check_conditions(draft: Draft, key: str, live: list[Entry], args: Arguments) -> None:
    wanted = args.get("if_version")
    if wanted is not None:
        version = decode_version(wanted)
        behind = _ahead(draft.replica, version)
        if behind:
            raise NotYet(behind)
        if not _is_current(version, live):
            raise _mismatch(draft, key, live, "has changed since that version: read it again, then write")
    elif args.get("if_absent") and live:
        raise _mismatch(draft, key, live, "exists already")


def _is_current(version: Version, live: list[Entry]) -> bool:
    current = version_of(live)
    if version.vector is not None or current.vector is not None:
        return current.vector == version.vector and current.hlc == version.hlc
    return {*version.dots} == {*current.dots}


def _mismatch(draft: Draft, key: str, live: list[Entry], why: str) -> VersionMismatch:
    return VersionMismatch(f"{key!r} {why}", current=describe_key(draft.replica, key, live, draft.node_of))


# -- the operations ------------------------------------------------------------------------------------------


def _set(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    value = _value(args)
    live = draft.live(key)
    _check_conditions(draft, key, live, args)
    _check_kind(draft, key, live, Kind.REGISTER, "set")
    seen, behind = _seen(draft, args)
    result: Result = {"behind": behind, "replaced": None}
    beside = _NOTHING
    removes: tuple[Dot, ...] = ()
    if seen is not None:
        removes = tuple(entry.dot for entry in _covered(draft.held(key), seen, others=False))
        beside = Version(others=tuple(dot for dot in seen.others if dot not in removes))
    elif live:
        winner = siblings(draft.replica.entries, live)[0]
        removes = (winner[-1].dot,)
        result["replaced"] = draft.describe_replaced(winner)
    others = len(live) - len(covered_by(live, removes))
    if others >= KEY_SIBLINGS_MAX:
        raise TooManySiblings(
            f"{key!r} has {others} siblings already, the most that a key may have: read it, then write"
        )
    removes += _expired(draft, key)
    draft.add(Op(key, None, Kind.REGISTER, value, value_hash(value), removes, _attrs(args)))
    result["siblings"] = others
    draft.promise_version(result, beside)
    return result


def _delete(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    held = draft.held(key)
    seen, behind = _seen(draft, args)
    gone = held if seen is None else _covered(held, seen, others=True)
    for removes in _removals(gone, seen):
        draft.add(Op(key, None, gone[-1].kind, None, None, removes, None))
    return {"existed": bool(gone), "behind": behind}


def _removals(gone: list[Entry], seen: Version | None) -> list[Removes]:
    """What to write down to remove ``gone``: their dots, or, where those are many, what covers exactly them."""
    if len(gone) <= KEY_SIBLINGS_MAX:
        return [tuple(entry.dot for entry in gone)] if gone else []
    if seen is None:
        return [RemoveRange(vector_of(entry.dot for entry in gone))]
    vector = seen.vector or {}
    inside = [entry.dot for entry in gone if entry.dot.seq <= vector.get(entry.dot.writer, 0)]
    beyond = tuple(entry.dot for entry in gone if entry.dot.seq > vector.get(entry.dot.writer, 0))
    covering: list[Removes] = [RemoveRange(vector_of(inside))] if inside else []
    return [*covering, beyond] if beyond else covering


def _append(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    value = _value(args)
    live = draft.live(key)
    _check_kind(draft, key, live, Kind.LOG, "append")
    seen, behind = _seen(draft, args)
    result: Result = {"length": len(live) + 1, "behind": behind}
    draft.add(Op(key, None, Kind.LOG, value, value_hash(value), (), None))
    if seen is not None and args["seen"] != READ_LONG_AGO and len(seen.dots) < OWN_DOTS_MAX:
        draft.promise_version(result, seen)
    return result


def _trim(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    keep = args.get("keep")
    if type(keep) is not int or keep < 0:
        raise InvalidRequest("keep must be the number of elements to keep, 0 or more")
    live = draft.live(key)
    _check_kind(draft, key, live, Kind.LOG, "trim")
    logged = [entry for entry in live if entry.kind == Kind.LOG]
    gone = logged[: max(0, len(logged) - keep)]
    stored = [entry for entry in gone if entry.row]
    drafted = tuple(entry.dot for entry in gone if not entry.row)  # of this batch: their place is not known yet
    if stored:
        removes: Removes = RemoveRange(vector_of(entry.dot for entry in stored), stored[-1].order)
        if len(logged) < len(draft.held(key)):
            removes = tuple(entry.dot for entry in stored)  # a range would take siblings of other kinds with it
        draft.add(Op(key, None, Kind.LOG, None, None, removes, None))
    if drafted:
        draft.add(Op(key, None, Kind.LOG, None, None, drafted, None))
    return {"removed": len(gone), "length": len(logged) - len(gone)}


def _text_apply(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    update = args.get("update")
    if type(update) is not bytes:
        raise InvalidRequest("update must be the bytes of a Yjs update")
    check_value_size(len(update))
    live = draft.live(key)
    _check_kind(draft, key, live, Kind.TEXT, "text")
    document = _document(draft, live, args.get("document"))
    named = None if document is None else list(document)
    value = pack([named, update])
    check_value_size(len(value))
    markers = tuple(
        e.dot for e in draft.held(key) if e.kind == Kind.TEXT and document is not None and document_of(e) == document
    )
    dot = draft.own_dot()
    draft.replica.documents.get(document or dot).check(update)
    draft.add(Op(key, None, Kind.TEXT, value, value_hash(value), markers, None))
    result: Result = {"document": encode_dot(document or dot)}
    draft.promise_version(result)
    return result


def _document(draft: Draft, live: list[Entry], named: object) -> Dot | None:
    """Which document an edit is for. An author who saw no text edits the one that there is by now, if any."""
    if named is not None:
        document = decode_dot(named)
        known = any(document_of(entry) == document for entry in live if entry.kind == Kind.TEXT)
        if not known and not draft.replica.documents.exists(document):
            if document.seq <= draft.replica.vector.get(document.writer, 0):
                raise InvalidRequest(f"there never was a text {shown(named)} on this node: read the text again")
            raise NotYet({document.writer: document.seq})
        return document
    return document_of(siblings(draft.replica.entries, live)[0][-1]) if live else None


def _value(args: Arguments) -> bytes:
    value = args.get("value")
    if type(value) is not bytes:
        raise InvalidRequest("value must be the bytes of a msgpack value")
    check_value_size(len(value))
    try:
        check_value(unpack(value))
    except InvalidEncoding as error:
        raise InvalidValue(f"the value cannot be stored: {error.message}", path="$") from None
    return value


def _attrs(args: Arguments) -> dict[str, Any] | None:
    attrs: dict[str, Any] = {}
    ttl, confidence, meta = args.get("ttl"), args.get("confidence"), args.get("meta")
    if ttl is not None:
        if type(ttl) is not int or not 1 <= ttl <= TTL_MS_MAX:
            raise InvalidRequest(f"ttl must be a whole number of milliseconds from 1 to {TTL_MS_MAX:,}")
        attrs["ttl"] = ttl
    if confidence is not None:
        if type(confidence) not in (int, float) or not 0 <= confidence <= 1:
            raise InvalidRequest("confidence must be a number from 0 to 1")
        attrs["confidence"] = float(confidence)
    if meta is not None:
        attrs["meta"] = _value({"value": meta})
    return attrs or None


def _batch(draft: Draft, args: Arguments) -> Result:
    ops = args.get("ops")
    if type(ops) is not list or not ops:
        raise InvalidRequest("ops must be a list of [operation, arguments], with one at least")
    if len(ops) > CHANGE_OPS_MAX:
        raise TooLarge(f"a batch of {len(ops):,} operations; at most {CHANGE_OPS_MAX:,} fit into one")
    results = [_batched(draft, item) for item in ops]
    if len(draft.ops) > CHANGE_OPS_MAX:  # a trim may take two
        raise TooLarge(f"a batch of {len(draft.ops):,} operations; at most {CHANGE_OPS_MAX:,} fit into one")
    return {"results": results}


def _batched(draft: Draft, item: object) -> Result:
    match item:
        case [str(name), dict(arguments)] if name != "batch" and name in WRITES:
            return WRITES[name](draft, arguments)
    raise InvalidRequest(
        "each item of a batch is [operation, arguments], "
        f"the operation one of {', '.join(sorted(WRITES))} but not batch"
    )


WRITES: dict[str, Callable[[Draft, Arguments], Result]] = {
    "set": _set,
    "delete": _delete,
    "append": _append,
    "trim": _trim,
    "text_apply": _text_apply,
    "batch": _batch,
}
