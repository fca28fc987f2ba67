"""What ought to be true, worked out without the code under test: a model of a replica, and a judge of every change.

The model is the textbook observed-remove map over explicit sets: no version vectors, no ranges, no digests. The judge
learns of every change at the moment when its author makes it, with what that author's agent had read, works out what
it may remove, and holds every replica to that from then on.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from crdtsync.causality import Dot
from crdtsync.wire.change import Change, Kind, Op, RemoveRange
from crdtsync.wire.codec import unpack

ChangeId = tuple[int, int]


class Broken(AssertionError):
    """A promise was not kept."""


def require(condition: object, *what: object) -> None:
    """Raise :class:`Broken` unless ``condition`` holds. A function, so that it also runs under ``python -O``."""
    if not condition:
        raise Broken(" ".join(str(part() if callable(part) else part) for part in what))


@dataclass(frozen=True)
class Value:
    """One written value. ``content`` is a number that is used once."""

    dot: Dot
    key: str
    kind: int
    hlc: int
    content: object
    ttl_ms: int | None = None
    document: Dot | None = None

    @property
    def order(self) -> tuple[int, ...]:
        return (self.hlc, *self.dot)

    def is_live(self, now_ms: int) -> bool:
        return self.ttl_ms is None or (self.hlc >> 16) + self.ttl_ms > now_ms


@dataclass(frozen=True)
class Effect:
    """What one operation does, on every replica."""

    key: str
    removed: frozenset[Dot]
    added: Value | None


@dataclass
class Known:
    """A change as its author made it. ``clock`` is its whole causal past, itself included."""

    id: ChangeId
    hash: bytes
    hlc: int
    clock: dict[int, int]
    effects: list[Effect]
    words: list[tuple[Dot, str | None, tuple[str, ...]]]
    request: Any


@dataclass
class Sub:
    """One operation of a request, with what its agent had seen of the key: the dots, not the version string."""

    operation: str
    key: str
    mode: str = "blind"  # seen, blind, long_ago, if_version, if_absent
    content: int | None = None
    shown: frozenset[Dot] = frozenset()
    others: frozenset[Dot] = frozenset()
    keep: int = 0
    ttl_ms: int | None = None
    document: Dot | None = None
    word: str | None = None
    cut_words: tuple[str, ...] = ()
    replaced: Dot | None = None  # what the oracle saw it replace, and write, when it was done
    written: Dot | None = None


class Model:
    """What one replica ought to hold."""

    def __init__(self) -> None:
        self.vector: dict[int, int] = {}
        self.hlc_max = 0
        self.keys: dict[str, dict[Dot, Value]] = {}
        self.words: dict[Dot, tuple[set[str], set[str]]] = {}

    def held(self, key: str) -> dict[Dot, Value]:
        return self.keys.get(key, {})

    def live(self, key: str, now_ms: int) -> list[Value]:
        return sorted((v for v in self.held(key).values() if v.is_live(now_ms)), key=lambda v: v.order)

    def text(self, document: Dot) -> Counter[str]:
        added, cut = self.words.get(document, (set(), set()))
        return Counter(added - cut)

    def apply(self, known: Known) -> None:
        self.vector[known.id[0]] = known.id[1]
        self.hlc_max = max(self.hlc_max, known.hlc)
        for effect in known.effects:
            self.apply_effect(effect)
        for document, word, cut_words in known.words:
            added, cut = self.words.setdefault(document, (set(), set()))
            if word is not None:
                added.add(word)
            cut.update(cut_words)

    def apply_effect(self, effect: Effect) -> None:
        values = self.keys.setdefault(effect.key, {})
        for dot in effect.removed:
            values.pop(dot, None)
        if effect.added is not None:
            values[effect.added.dot] = effect.added
        if not values:
            del self.keys[effect.key]


def may_remove(held: Mapping[Dot, Value], sub: Sub, now_ms: int, own: ChangeId) -> frozenset[Dot]:
    """What this operation supersedes: exactly what its author had seen, of what this replica holds.

    What the same change ``own`` wrote before is no news to its author, unless it says that it has seen nothing.
    """
    known = (sub.shown | frozenset(dot for dot in held if dot[:2] == own)) & frozenset(held)
    live = sorted((value for value in held.values() if value.is_live(now_ms)), key=lambda value: value.order)
    expired = frozenset(held) - {value.dot for value in live}
    match sub.operation:
        case "set" if sub.mode in ("seen", "if_version"):
            return expired | known
        case "set" if sub.mode == "blind" and live:
            return expired | {live[-1].dot}
        case "set":
            return expired
        case "delete" if sub.mode == "seen":
            return known | (sub.others & frozenset(held))
        case "delete" if sub.mode == "blind":
            return frozenset(held)
        case "trim":
            logged = [value.dot for value in live if value.kind == Kind.LOG]
            return frozenset(logged[: max(0, len(logged) - sub.keep)])
        case "text":
            return frozenset(value.dot for value in held.values() if value.document == sub.document)
    return frozenset()


class Oracle:
    """Knows every change that any node ever made, from the moment it was made."""

    def __init__(self) -> None:
        self.changes: dict[ChangeId, Known] = {}

    def author(self, model: Model, change: Change, request: Any, now_ms: int) -> Known:
        """A node has just made ``change`` for ``request``, on top of ``model``."""
        where = f"change {change.writer}.{change.seq}"
        require(request is not None, where, "was asked for by nobody")
        require(request.change is None, where, "does a request for the second time; first in", request.change)
        require(change.hlc > model.hlc_max, where, "has a clock not above its causal past")
        request.change = (change.writer, change.seq)
        clock = {**model.vector, change.writer: change.seq}
        known = Known((change.writer, change.seq), change.hash, change.hlc, clock, [], [], request)
        draft = Model()
        draft.keys = {sub.key: dict(model.held(sub.key)) for sub in request.subs}
        draft.keys = {key: values for key, values in draft.keys.items() if values}
        ops = deque(enumerate(change.ops))
        for sub in request.subs:
            self._author_one(known, draft, model.vector, sub, ops, change, now_ms)
        require(not ops, where, "has operations that nobody asked for")
        self.changes[known.id] = known
        return known

    def _author_one(
        self,
        known: Known,
        draft: Model,
        vector: dict[int, int],
        sub: Sub,
        ops: deque[tuple[int, Op]],
        change: Change,
        now_ms: int,
    ) -> None:
        original = sub
        held = dict(draft.held(sub.key))
        live = draft.live(sub.key, now_ms)
        if sub.operation == "text" and sub.document is None and live:
            sub = replace(sub, document=live[-1].document)  # who saw no text edits the one that there is by now
        expected = may_remove(held, sub, now_ms, known.id)
        if sub.operation in ("delete", "trim") and not expected:
            return
        what = f"{sub.operation} of {sub.key} ({sub.mode}) in change {change.writer}.{change.seq}"
        require(ops and ops[0][1].key == sub.key, what, "has no operation")
        n, op = ops.popleft()
        actual = named(held, op.removes)
        while sub.operation in ("delete", "trim") and actual != expected and ops and ops[0][1].key == sub.key:
            actual |= named(held, ops.popleft()[1].removes)  # it may take several: a range and some dots
        require(actual == expected, what, "removes", sorted(actual), "where its author had seen", sorted(expected))
        self._only_applied(what, {**vector, change.writer: change.seq}, op.removes)
        if sub.mode == "if_version":
            require({v.dot for v in live} == sub.shown, what, "was done although the key had changed:", live, sub.shown)
        if sub.mode == "if_absent":
            require(not live, what, "was done although the key existed")
        if sub.operation == "set" and sub.mode == "blind":
            original.replaced = live[-1].dot if live else None
        added = self._added(sub, op, Dot(change.writer, change.seq, n), change.hlc)
        original.written = None if added is None else added.dot
        effect = Effect(sub.key, expected, added)
        known.effects.append(effect)
        draft.apply_effect(effect)
        if sub.operation == "text":
            assert added is not None
            assert added.document is not None
            known.words.append((added.document, sub.word, sub.cut_words))

    def _only_applied(self, what: str, vector: dict[int, int], removes: tuple[Dot, ...] | RemoveRange) -> None:
        """A change names nothing that its author's node did not hold: it would remove it there and not elsewhere."""
        pairs = (
            removes.vector.items() if isinstance(removes, RemoveRange) else [(dot.writer, dot.seq) for dot in removes]
        )
        require(all(seq <= vector.get(writer, 0) for writer, seq in pairs), what, "removes what its node did not hold")

    def _added(self, sub: Sub, op: Op, dot: Dot, hlc: int) -> Value | None:
        match sub.operation:
            case "set" | "append":
                kind = Kind.LOG if sub.operation == "append" else Kind.REGISTER
                require(op.kind == kind, sub.operation, "made an entry of kind", op.kind)
                require(op.value is not None and unpack(op.value) == sub.content, "another value was written")
                return Value(dot, sub.key, kind, hlc, sub.content, sub.ttl_ms)
            case "text":
                return Value(dot, sub.key, Kind.TEXT, hlc, None, None, sub.document or dot)
        return None

    def forget(self, ids: list[ChangeId]) -> None:
        """These were lost with a crash before they were on disk: they must never be seen again."""
        for change_id in ids:
            known = self.changes.pop(change_id)
            known.request.change = None

    def arrived(self, host: str, model: Model, change_id: ChangeId, change_hash: bytes) -> Known:
        """``host`` applies a change on top of ``model``: is it one that exists, and is its whole past there?"""
        known = self.changes.get(change_id)
        require(known is not None, f"{host} applied change {change_id}, which nobody has on disk")
        assert known is not None
        require(known.hash == change_hash, f"{host} applied another change {change_id} than its author made")
        writer, seq = change_id
        held = model.vector.get(writer, 0)
        require(held == seq - 1, f"{host} applied number {seq} of writer {writer} after number {held}")
        past = {w: s for w, s in known.clock.items() if w != writer}
        lacking = {w: s for w, s in past.items() if model.vector.get(w, 0) < s}
        require(not lacking, f"{host} shows change {change_id} before its causal past {lacking}")
        return known


def named(held: Mapping[Dot, Value], removes: tuple[Dot, ...] | RemoveRange) -> frozenset[Dot]:
    """Which of ``held`` an operation removes."""
    if not isinstance(removes, RemoveRange):
        return frozenset(removes) & frozenset(held)
    return frozenset(
        dot
        for dot, value in held.items()
        if dot.seq <= removes.vector.get(dot.writer, 0) and (removes.bound is None or value.order <= removes.bound)
    )
