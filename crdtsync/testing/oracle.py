"""What ought to be true, worked out without the code under test: the judge of every change.

It learns of every change at the moment when its author makes it, with what that author's agent had read, works out
what it may remove and must write, and holds every replica to that from then on. What a replica then ought to hold and
to show is in :mod:`crdtsync.testing.model`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from crdtsync.causality import Dot, Writer
from crdtsync.testing.model import (
    Broken,
    ChangeId,
    Edit,
    Effect,
    Increment,
    Known,
    Model,
    Tally,
    Value,
    count,
    elements,
    groups,
    identity,
    in_order,
    require,
)
from crdtsync.testing.policies import Schema, best_first, ranks_lower
from crdtsync.wire.change import Change, Kind, Op, RemoveRange
from crdtsync.wire.codec import unpack

DAEMON = "crdtsyncd"
"""The name under which a node makes changes that no agent asked for."""
LINEAGE = "lineage"
"""The name of entries that tell what a text's document has taken in."""


@dataclass
class Sub:
    """One operation of a request, with what its agent had seen of the key: the dots, not the version string."""

    operation: str
    key: str
    mode: str = "blind"  # seen, blind, long_ago, if_version, if_absent
    content: Any = None  # what is written; of merge {field: value}; of incr by how much; of drop the field
    shown: frozenset[Dot] = frozenset()
    others: frozenset[Dot] = frozenset()
    keep: int = 0
    ttl_ms: int | None = None
    document: Dot | None = None
    word: str | None = None
    cut_words: tuple[str, ...] = ()
    take: Dot | None = None
    replaced: Any = None  # what the oracle saw it replace, and write, when it was done
    written: tuple[Dot, ...] = ()
    before: Any = None  # of a counter: its value before; of a set: whether the element was there
    after: Any = None  # of a counter: its value; of a set: how many elements it has
    existed: bool = False  # whether a reader saw something of what was removed
    confidence: float | None = None

    @property
    def seen(self) -> frozenset[Dot]:
        return self.shown | self.others


@dataclass
class Case:
    """One change under judgement: what its author's replica holds, and the operations not yet accounted for."""

    known: Known
    change: Change
    draft: Model
    vector: dict[int, int]
    now_ms: int
    ops: deque[tuple[int, Op]]
    cuts: set[str]
    schema: Callable[[str], Schema]
    sub: Sub = field(init=False)

    def begin(self, sub: Sub) -> None:
        self.sub = sub
        self.held = dict(self.draft.held(sub.key))
        self.live = self.draft.live(sub.key, self.now_ms)
        self.expired = frozenset(self.held) - {value.dot for value in self.live}
        self.own = frozenset(dot for dot in self.held if dot[:2] == self.known.id)

    def __str__(self) -> str:
        return (
            f"{self.sub.operation} of {self.sub.key} ({self.sub.mode}) in change {self.known.id[0]}.{self.known.id[1]}"
        )

    @property
    def has_op(self) -> bool:
        return bool(self.ops) and self.ops[0][1].key == self.sub.key

    def take_op(self) -> tuple[Dot, Op]:
        require(self.has_op, self, "has no operation")
        n, op = self.ops.popleft()
        writer, seq = self.known.id
        removes = op.removes
        pairs = (
            removes.vector.items() if isinstance(removes, RemoveRange) else [(dot.writer, dot.seq) for dot in removes]
        )
        # A change names nothing that its author's node did not hold: it would remove it there and not elsewhere.
        vector = {**self.vector, writer: seq}
        require(all(s <= vector.get(w, 0) for w, s in pairs), self, "removes what its node did not hold")
        return Dot(Writer(writer), seq, n), op

    def add(self, dot: Dot, op: Op, kind: Kind, content: Any, **more: Any) -> Value:
        """The value that an operation has written."""
        require(op.kind == kind, self, "made an entry of kind", op.kind)
        return Value(dot, self.sub.key, kind, self.change.hlc, content, sub=op.sub, **more)

    def add_text(self, dot: Dot, op: Op) -> Value:
        """The marker that an edit of a document has written."""
        document, update = unpack(op.value or b"")
        edit = Edit(self.sub.key, dot if document is None else Dot(*document), update)
        self.known.edits.append(edit)
        self.draft.texts.add(edit)
        return self.add(dot, op, Kind.TEXT, None, document=edit.document)

    def first(self, values: list[Value]) -> Value | None:
        """The one that readers are shown of the live values of a register or field."""
        return best_first(self.schema(self.sub.key).policy, values)[0] if values else None

    def check_rank(self, values: list[Value], later: Value) -> None:
        """A write that ranks lower than what readers are shown is refused where a schema says so."""
        schema, first = self.schema(self.sub.key), self.first(values)
        is_lower = schema.refuse_lower and first is not None and ranks_lower(schema.policy, first, later)
        require(not is_lower, self, "was done although it ranks lower than", first)

    def check_removes(
        self, actual: frozenset[Dot], wanted: frozenset[Dot], optional: frozenset[Dot] = frozenset()
    ) -> None:
        require(
            wanted <= actual <= wanted | optional,
            self,
            "removes",
            sorted(actual),
            "where its author had seen",
            sorted(wanted),
        )

    def done(self, removed: frozenset[Dot], added: Value | None, by: str = "") -> None:
        effect = Effect(self.sub.key, removed, added, by or self.sub.operation, self.sub.mode)
        self.known.effects.append(effect)
        self.draft.apply_effect(effect)
        self.held = dict(self.draft.held(self.sub.key))
        if added is not None:
            self.sub.written += (added.dot,)

    @property
    def length(self) -> int:
        """How many elements the set has now."""
        return len(elements(value for value in self.held.values() if value.dot not in self.expired))

    def covered(self, candidates: Iterable[Value], blind: frozenset[Dot], others: bool = False) -> frozenset[Dot]:
        """Which of ``candidates`` the author had seen; ``blind``: what a session takes that never read the key.

        What the same change wrote before is no news to its author, unless it says that it has seen nothing.
        """
        match self.sub.mode:
            case "seen" | "if_version":
                seen = self.sub.seen if others else self.sub.shown
                return frozenset(value.dot for value in candidates if value.dot in seen | self.own)
            case "blind":
                return blind
        return frozenset()


# -- the operations: what each may remove and must write ---------------------------------------------------------


def _set(case: Case) -> None:
    sub, live = case.sub, case.live
    registers = [value for value in live if value.kind == Kind.REGISTER]
    first = case.first(registers)
    winner = frozenset({first.dot} if first else ())
    dot, op = case.take_op()
    actual = named(case.held, op.removes)
    case.check_removes(actual, case.covered(case.held.values(), winner) | case.expired)
    if sub.mode == "if_version":
        require({v.dot for v in live} == sub.shown, case, "was done although the key had changed:", live, sub.shown)
    if sub.mode == "if_absent":
        require(not live, case, "was done although the key existed")
    if sub.mode == "blind":
        sub.replaced = first.dot if first else None
    _check_value(case, op, sub.content)
    require((op.attrs or {}).get("confidence") == sub.confidence, case, "wrote another confidence:", op)
    value = case.add(dot, op, Kind.REGISTER, sub.content, ttl_ms=sub.ttl_ms, confidence=sub.confidence)
    case.check_rank(registers, value)
    case.done(actual, value)


def _append(case: Case) -> None:
    dot, op = case.take_op()
    case.check_removes(named(case.held, op.removes), frozenset())
    _check_value(case, op, case.sub.content)
    case.done(frozenset(), case.add(dot, op, Kind.LOG, case.sub.content))


def _remove(case: Case, wanted: frozenset[Dot], optional: frozenset[Dot] = frozenset()) -> None:
    """A removal may take several operations, a range and some dots, and none if there is nothing to remove."""
    actual: frozenset[Dot] = frozenset()
    held = case.held
    while case.has_op and case.ops[0][1].value_hash is None and not wanted <= actual:
        actual |= named(held, case.take_op()[1].removes)
    case.check_removes(actual, wanted, optional)
    case.sub.existed = bool(actual - case.expired)
    if actual:
        case.done(actual, None)


def _delete(case: Case) -> None:
    _remove(case, case.covered(case.held.values(), frozenset(case.held), others=True))


def _trim(case: Case) -> None:
    logged = [value.dot for value in case.live if value.kind == Kind.LOG]
    _remove(case, frozenset(logged[: max(0, len(logged) - case.sub.keep)]))


def _text(case: Case) -> None:
    """An edit of a document, in place of its markers; where others have taken that one in, of what is there now too."""
    sub = case.sub
    document = sub.document
    if document is None and case.live:
        document = groups(case.live, case.schema(sub.key).policy)[0][
            -1
        ].document  # who saw no text edits the one that there is by now
    markers = frozenset(v.dot for v in case.held.values() if v.document == document and v.sub != LINEAGE)
    dot, op = case.take_op()
    actual = named(case.held, op.removes)
    case.check_removes(actual, markers if document is not None else frozenset())
    value = case.add_text(dot, op)
    require(value.document == (document or dot), case, "edits the document", value.document)
    case.done(actual, value)
    assert value.document is not None
    words = case.draft.texts.words(value.document)
    require(sub.word is None or sub.word in words, case, "makes the text", words)
    if case.has_op and case.ops[0][1].kind == Kind.TEXT and document not in {v.document for v in case.live}:
        _rewrite(case)


def _rewrite(case: Case) -> None:
    """Documents become fewer, or smaller: whatever was written into any of them is in those that are left."""
    texts, key = case.draft.texts, case.sub.key
    before = {document: texts.words(document) for document in sorted(texts.of(key))}
    live_before = _documents(case)
    while case.has_op:
        dot, op = case.take_op()
        gone = named(case.held, op.removes)
        require(op.kind == Kind.TEXT and op.value_hash is not None, case, "does not go on with the text")
        strange = [dot for dot in gone if case.held[dot].kind != Kind.TEXT]
        require(not strange, case, "replaces what is no text:", strange)
        case.done(gone, case.add_text(dot, op), by="rewrite")
    live = _documents(case)
    after = {document: texts.words(document) for document in live}
    kept: set[str] = set().union(*after.values())
    wanted: set[str] = set().union(*(before[document] for document in live_before)) - case.cuts
    require(wanted <= kept, case, "loses the words", wanted - kept)
    for document, words in after.items():
        others = set().union(*(held for name, held in before.items() if name != document))
        require(words - before.get(document, set()) <= others, case, "invents words:", words, before)
        lost = before.get(document, set()) - words - case.cuts
        require(not lost, case, "loses words of", document, lost)


def _documents(case: Case) -> set[Dot]:
    return {value.document for value in case.held.values() if value.document is not None}


def _incr(case: Case) -> None:
    """The value goes up by that much, whatever name it is counted under, and other writers' totals stay."""
    dot, op = case.take_op()
    before = count(case.held.values())
    name = dot if op.sub is None else _dot(op.sub)
    own = {v.dot: v.content for v in case.held.values() if v.kind == Kind.COUNTER and v.content.name is not None}
    own = {held: tally for held, tally in own.items() if tally.name.writer == dot.writer}
    require(op.sub is None or name in {tally.name for tally in own.values()}, case, "counts on under", op.sub)
    same = {held: tally for held, tally in own.items() if tally.name == name}
    actual = named(case.held, op.removes)
    case.check_removes(actual, frozenset(same), frozenset(own) | case.expired)
    counted = frozenset().union(*(tally.counted for tally in same.values())) | {Increment(name, dot, case.sub.content)}
    tally = Tally(name, counted)
    _check_value(case, op, tally.totals[name])
    case.done(actual, case.add(dot, op, Kind.COUNTER, tally))
    after = count(case.held.values())
    require(after == before + case.sub.content, case, "took the counter from", before, "to", after)
    case.sub.after = after


def _reset(case: Case) -> None:
    """Takes away every increment that there is, and what the resets before it took of what is still there."""
    tallies = {v.dot: v.content for v in case.held.values() if v.kind == Kind.COUNTER}
    case.sub.before = count(case.held.values())
    if not (case.has_op and case.ops[0][1].sub == "reset"):
        require(case.sub.before == 0, case, "has no operation")
        return
    dot, op = case.take_op()
    resets = {held: tally for held, tally in tallies.items() if tally.name is None}
    names = {tally.name for tally in tallies.values() if tally.name is not None}
    counted = frozenset().union(*(tally.counted for tally in tallies.values()))
    tally = Tally(None, frozenset(increment for increment in counted if increment.name in names))
    actual = named(case.held, op.removes)
    case.check_removes(actual, frozenset(resets), case.expired)
    told = {_dot(name): [*totals] for name, totals in unpack(op.value or b"").items()}
    require(told == tally.totals, case, "records", told, "where it saw", tally.totals)
    case.done(actual, case.add(dot, op, Kind.COUNTER, tally))
    require(count(case.held.values()) == 0, case, "leaves the counter at", count(case.held.values()))


def _add(case: Case) -> None:
    same = _element(case)
    case.sub.before = any(value.dot not in case.expired for value in same)
    dot, op = case.take_op()
    actual = named(case.held, op.removes)
    case.check_removes(actual, frozenset(value.dot for value in same), case.expired)
    _check_value(case, op, case.sub.content)
    case.done(actual, case.add(dot, op, Kind.SET, case.sub.content))
    case.sub.after = case.length


def _discard(case: Case) -> None:
    same = _element(case)
    _remove(case, case.covered(same, frozenset(value.dot for value in same), others=True))
    case.sub.after = case.length


def _element(case: Case) -> list[Value]:
    """The entries of the element that is added or discarded."""
    name = identity(case.sub.content)
    return [v for v in case.held.values() if v.kind == Kind.SET and identity(v.content) == name]


def _merge(case: Case) -> None:
    """Each field is a register of its own."""
    sub = case.sub
    sub.replaced = {}
    left = dict(sub.content)
    while left:
        live = in_order(value for value in case.held.values() if value.dot not in case.expired)
        dot, op = case.take_op()
        require(op.sub in left, case, "writes the field", op.sub, "where there are to be", [*left])
        assert op.sub is not None
        content = left.pop(op.sub)
        same = [value for value in live if value.kind == Kind.MAP and value.sub == op.sub]
        first = case.first(same)
        winner = frozenset({first.dot} if first else ())
        wanted = case.covered(same, winner)
        actual = named(case.held, op.removes)
        case.check_removes(actual, wanted, case.expired)
        _check_value(case, op, content)
        if sub.mode == "blind" and first:
            sub.replaced[op.sub] = first.dot
        require((op.attrs or {}).get("confidence") == sub.confidence, case, "wrote another confidence:", op)
        value = case.add(dot, op, Kind.MAP, content, confidence=sub.confidence)
        case.check_rank(same, value)
        case.done(actual, value)


def _drop(case: Case) -> None:
    same = [value for value in case.held.values() if value.kind == Kind.MAP and value.sub == case.sub.content]
    _remove(case, case.covered(same, frozenset(value.dot for value in same), others=True))


def _resolve(case: Case) -> None:
    """One value instead of all that its author had seen (all that there are, if it never read the key).

    A value that is taken is written anew, or two who take different ones at once would lose both. Of a map only the
    fields with several values are resolved.
    """
    sub = case.sub
    seen = case.covered(case.held.values(), frozenset(case.held), others=True)
    taken: list[Value] = []
    if sub.take is not None:
        taken, seen = _taken(case, groups(case.live, case.schema(sub.key).policy), seen)
    elif sub.content is None:
        if case.has_op:
            _rewrite(case)
        return
    removed: frozenset[Dot] = frozenset()
    added: list[Value] = []
    copies = list(taken)
    held = case.held
    while case.has_op:
        dot, op = case.take_op()
        removed |= named(held, op.removes)
        if op.value_hash is None:
            continue
        if sub.take is not None:
            added.append(_copied(case, dot, op, copies))
        else:
            _check_value(case, op, sub.content)
            added.append(case.add(dot, op, Kind.REGISTER, sub.content))
    if not added and sub.take is not None:
        seen = frozenset()
    case.check_removes(removed, seen, case.expired)
    require(not copies or not added, case, "did not write", copies)
    if removed:
        case.done(removed, None)
    for value in added:
        case.done(frozenset(), value)


def _taken(case: Case, found: list[list[Value]], seen: frozenset[Dot]) -> tuple[list[Value], frozenset[Dot]]:
    """The entries that have to be written anew, and all that they are written in place of."""
    group = next((group for group in found if case.sub.take in {value.dot for value in group}), [])
    others = [other for other in found if other is not group]
    if not group:
        return [], frozenset()
    in_field = {value.sub for other in others for value in other if value.kind == Kind.MAP}
    is_field = group[-1].kind == Kind.MAP and group[-1].sub in in_field and len(group) == 1
    is_field = is_field and group != next(other for other in found if other[-1].kind == Kind.MAP)
    if is_field or (others and group[-1].kind == Kind.MAP and all(other[-1].kind == Kind.MAP for other in others)):
        fields = {group[-1].sub} if is_field else in_field
        group = [value for value in group if value.sub in fields]
        maps = {value.dot for value in case.held.values() if value.kind == Kind.MAP and value.sub in fields}
        chosen = frozenset(value.dot for value in group)
        return group, (seen & maps) | chosen
    take = case.sub.take
    assert take is not None
    return [value for value in group if value.dot in seen or value.dot == take], seen | {take}


def _copied(case: Case, dot: Dot, op: Op, left: list[Value]) -> Value:
    """One of the values that were taken, under a new dot."""
    for value in left:
        if value.kind == op.kind and _is_copy(value, op):
            left.remove(value)
            if value.kind == Kind.TEXT:
                left.clear()  # one marker stands for all
                return case.add_text(dot, op)
            return replace(value, dot=dot, hlc=case.change.hlc, sub=op.sub)
    raise Broken(f"{case} wrote {op}, which is none of {left}")


def _is_copy(value: Value, op: Op) -> bool:
    """Whether an operation writes the same value anew, under the same name."""
    plain = unpack(op.value or b"")
    if value.kind == Kind.TEXT:
        return bool(plain[0] == list(value.document or ()))
    if value.kind != Kind.COUNTER:
        return op.sub == value.sub and identity(plain) == identity(value.content)
    name, totals = value.content.name, value.content.totals
    if name is None:
        return op.sub == "reset" and {_dot(one): pair for one, pair in plain.items()} == totals
    return op.sub is not None and _dot(op.sub) == name and bool(plain == totals[name])


def _compact(case: Case) -> None:
    if case.has_op:
        _rewrite(case)


def _schema_set(case: Case) -> None:
    """Takes the place of all that is declared for the pattern; what is declared already need not be written again."""
    sub, held = case.sub, frozenset(case.held)
    if sub.content is None:
        _remove(case, held)
        return
    if not case.has_op:
        is_same = [identity(value.content) for value in case.held.values()] == [identity(sub.content)]
        require(is_same, case, "has no operation")
        return
    dot, op = case.take_op()
    actual = named(case.held, op.removes)
    case.check_removes(actual, held)
    _check_value(case, op, sub.content)
    case.done(actual, case.add(dot, op, Kind.REGISTER, sub.content))


JUDGES: dict[str, Callable[[Case], None]] = {
    "set": _set,
    "delete": _delete,
    "append": _append,
    "trim": _trim,
    "text": _text,
    "incr": _incr,
    "reset": _reset,
    "add": _add,
    "discard": _discard,
    "merge": _merge,
    "drop": _drop,
    "resolve": _resolve,
    "compact": _compact,
    "schema_set": _schema_set,
}


MayNot = Callable[[Value], str]


class Oracle:
    """Knows every change that any node ever made, from the moment it was made; in an order that is causal."""

    def __init__(self) -> None:
        self.changes: dict[ChangeId, Known] = {}
        self._removers: dict[Dot, list[Known]] = {}
        self.dead: dict[Dot, set[str]] = {}  # the words of documents that somebody has deleted
        self.cuts: set[str] = set()  # words that somebody has cut out of a text
        self.subs: dict[str, str] = {}  # of elements of sets: which value is meant

    def author(self, model: Model, change: Change, request: Any, now_ms: int, may_not: MayNot) -> Known:
        """A node has just made ``change`` for ``request``, on top of ``model``.

        ``may_not`` says of an expired value why this node may not delete it, or nothing if it may.
        """
        where = f"change {change.writer}.{change.seq}"
        require(change.hlc > model.hlc_max, where, "has a clock not above its causal past")
        clock = {**model.vector, change.writer: change.seq}
        known = Known((change.writer, change.seq), change.hash, change.hlc, clock, [], [], request)
        if request is None:
            require(change.agent == DAEMON, where, "was asked for by nobody")
            self._author_by_itself(known, model, change, now_ms, may_not)
        else:
            require(request.change is None, where, "does a request for the second time; first in", request.change)
            request.change = known.id
            self.cuts.update(word for sub in request.subs for word in sub.cut_words)
            case = self._case(known, model, change, now_ms, {sub.key for sub in request.subs})
            for sub in request.subs:
                case.begin(sub)
                JUDGES[sub.operation](case)
            require(not case.ops, where, "has operations that nobody asked for:", [*case.ops])
        for op in change.ops:
            self._note_element(op)
        self._note_dead(known, model)
        self.changes[known.id] = known
        for effect in known.effects:
            for dot in effect.removed:
                self._removers.setdefault(dot, []).append(known)
        return known

    def _note_dead(self, known: Known, model: Model) -> None:
        """Documents that no marker names any more, as their author sees it: in time its node forgets what they held."""
        edited = {edit.document for edit in known.edits}
        for key in sorted({effect.key for effect in known.effects}):
            after = Model()
            after.keys[key] = dict(model.held(key))
            before = {value.document for value in after.keys[key].values() if value.document is not None} | edited
            if not before:
                continue
            for effect in known.effects:
                if effect.key == key:
                    after.keys.setdefault(key, {})
                    after.apply_effect(effect)
            gone = before - {value.document for value in after.held(key).values()}
            texts = model.texts.copy() if gone & edited else model.texts
            for edit in known.edits if gone & edited else ():
                texts.add(edit)
            for document in gone:
                self.dead.setdefault(document, set()).update(texts.words(document))

    def is_text(self, document: Dot, text: str, wanted: str) -> bool:
        """Whether a document holds what it ought to.

        One that was deleted, and revived by an edit from somebody who did not know, may lack what it held then:
        a node that had forgotten it has only what came with the edit.
        """
        if text == wanted or document not in self.dead:
            return text == wanted
        found, words = {*text.split()}, {*wanted.split()}
        return words - found <= self.dead[document] and found - words <= self.cuts

    def is_gone(self, dot: Dot, after: Dot) -> bool:
        """Whether something in the causal past of ``after``, or its own change, has removed ``dot``."""
        if dot[:2] == after[:2]:
            return False  # what a batch has written and removed is told as it was written
        clock = self.changes[after[:2]].clock
        removers = self._removers.get(dot, ())
        held = (known for known in removers if self.changes.get(known.id) is known)  # the others were lost in a crash
        return any(known.id[1] <= clock.get(known.id[0], 0) for known in held)

    def idle(self, model: Model, request: Any, now_ms: int) -> Broken | None:
        """Why ``request``, made on top of ``model``, cannot be done by doing nothing; None if it can."""
        nothing: Any = None
        known = Known((0, 0), b"", 0, {}, [], [], request)
        draft = Model()
        draft.keys = {key: dict(values) for key in {sub.key for sub in request.subs} if (values := model.held(key))}
        case = Case(known, nothing, draft, model.vector, now_ms, deque(), self.cuts, model.schema)
        try:
            for sub in request.subs:
                case.begin(sub)
                JUDGES[sub.operation](case)
        except Broken as broken:
            return broken
        return None

    def _case(self, known: Known, model: Model, change: Change, now_ms: int, keys: Iterable[str]) -> Case:
        draft = Model()
        draft.keys = {key: dict(values) for key in keys if (values := model.held(key))}
        if any(op.kind == Kind.TEXT for op in change.ops):
            draft.texts = model.texts.copy()
        return Case(known, change, draft, model.vector, now_ms, deque(enumerate(change.ops)), self.cuts, model.schema)

    def _author_by_itself(self, known: Known, model: Model, change: Change, now_ms: int, may_not: MayNot) -> None:
        """A node may by itself delete what has expired, if that is its business, and make a text smaller."""
        case = self._case(known, model, change, now_ms, {op.key for op in change.ops})
        while case.ops:
            _, op = case.ops[0]
            if op.kind == Kind.TEXT and op.value_hash is not None:
                case.begin(Sub("rewrite", op.key))
                _rewrite(case)
                continue
            case.begin(Sub("expire", op.key))
            case.take_op()
            gone = named(case.held, op.removes)
            require(
                op.value_hash is None and (op.attrs or {}).get("expired") is True, case, "is nothing that a node does"
            )
            require(gone, case, "removes nothing")
            require(gone <= case.expired, case, "removes what has not expired:", sorted(gone - case.expired))
            for dot in gone:
                why_not = may_not(case.held[dot])
                require(not why_not, case, "deletes an expired value that it should leave to its owner:", why_not)
            case.done(gone, None)

    def _note_element(self, op: Op) -> None:
        """One element, one name: the same on every node."""
        if op.kind == Kind.SET and op.value is not None:
            assert op.sub is not None
            name = identity(unpack(op.value))
            for table, one, other in ((self.subs, op.sub, name), (self.subs, name, op.sub)):
                require(table.setdefault(one, other) == other, "the element", name, "goes by another name:", op.sub)

    def forget(self, ids: list[ChangeId]) -> None:
        """These were lost with a crash before they were on disk: they must never be seen again."""
        for change_id in ids:
            known = self.changes.pop(change_id)
            if known.request is not None:
                known.request.change = None
                for sub in known.request.subs:
                    sub.written = ()

    def arrived(self, host: str, model: Model, change_id: ChangeId, change_hash: bytes) -> Known:
        """``host`` applies a change on top of ``model``: is it one that exists, and is its whole past there?"""
        known = self.changes.get(change_id)
        require(known is not None, f"{host} applied change {change_id}, which nobody has on disk")
        assert known is not None
        require(known.hash == change_hash, f"{host} applied another change {change_id} than its author made")
        writer, seq = change_id
        held = model.vector.get(writer, 0)
        require(held == seq - 1, f"{host} applied number {seq} of writer {writer} after number {held}")
        self._check_past(host, known, model.vector)
        return known

    def jumped(self, host: str, model: Model, vector: Mapping[int, int]) -> list[Known]:
        """``host`` has come to ``vector`` at once, by a snapshot: what is new to it, in causal order."""
        ahead = {writer: seq for writer, seq in vector.items() if seq > model.vector.get(writer, 0)}
        back = {writer: seq for writer, seq in model.vector.items() if seq > vector.get(writer, 0)}
        require(not back, f"{host} has lost changes by a snapshot:", back)
        news = [
            known
            for known in self.changes.values()
            if model.vector.get(known.id[0], 0) < known.id[1] <= vector.get(known.id[0], 0)
        ]
        wanted = sum(seq - model.vector.get(writer, 0) for writer, seq in ahead.items())
        require(len(news) == wanted, f"{host} has come to {ahead} by a snapshot, which nobody has on disk")
        for known in news:
            self._check_past(host, known, vector)
        return news

    def _check_past(self, host: str, known: Known, vector: Mapping[int, int]) -> None:
        lacking = {w: s for w, s in known.clock.items() if w != known.id[0] and vector.get(w, 0) < s}
        require(not lacking, f"{host} shows change {known.id} before its causal past {lacking}")


def named(held: Mapping[Dot, Value], removes: tuple[Dot, ...] | RemoveRange) -> frozenset[Dot]:
    """Which of ``held`` an operation removes."""
    if not isinstance(removes, RemoveRange):
        return frozenset(removes) & frozenset(held)
    return frozenset(
        dot
        for dot, value in held.items()
        if dot.seq <= removes.vector.get(dot.writer, 0) and (removes.bound is None or value.order <= removes.bound)
    )


def _check_value(case: Case, op: Op, content: Any) -> None:
    require(op.value is not None and identity(unpack(op.value)) == identity(content), case, "wrote another value:", op)


def _dot(text: str) -> Dot:
    writer, seq, n = text.split(".")
    return Dot(Writer(int(writer)), int(seq), int(n))


__all__ = ["DAEMON", "Broken", "ChangeId", "Model", "Oracle", "Sub", "Value", "require"]
