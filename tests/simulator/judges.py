"""What each operation may remove and must write: the judges of changes, by the name of the operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from crdtsync.causality import Dot, Writer
from crdtsync.wire.change import Kind, Op
from crdtsync.wire.codec import unpack
from tests.simulator.cases import Case, check_value, named
from tests.simulator.model import (
    Broken,
    Increment,
    Tally,
    Value,
    count,
    groups,
    identity,
    in_order,
    require,
)

LINEAGE = "lineage"
"""The name of entries that tell what a text's document has taken in."""


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
    check_value(case, op, sub.content)
    require((op.attrs or {}).get("confidence") == sub.confidence, case, "wrote another confidence:", op)
    value = case.add(dot, op, Kind.REGISTER, sub.content, ttl_ms=sub.ttl_ms, confidence=sub.confidence)
    case.check_rank(registers, value)
    case.done(actual, value)


def _append(case: Case) -> None:
    dot, op = case.take_op()
    case.check_removes(named(case.held, op.removes), frozenset())
    check_value(case, op, case.sub.content)
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
        rewrite(case)


def rewrite(case: Case) -> None:
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
    check_value(case, op, tally.totals[name])
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
    check_value(case, op, case.sub.content)
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
        check_value(case, op, content)
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
            rewrite(case)
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
            check_value(case, op, sub.content)
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
        rewrite(case)


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
    check_value(case, op, sub.content)
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


def _dot(text: str) -> Dot:
    writer, seq, n = text.split(".")
    return Dot(Writer(int(writer)), int(seq), int(n))
