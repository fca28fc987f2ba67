"""What can be done to a key of any kind, and the declaration of a schema."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from crdtsync.causality import Dot
from crdtsync.wire.change import Op
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.tokens import encode_dot
from tests.simulator.cases import Case, Sub, check_value, named
from tests.simulator.kinds.base import End, Learns, Operation, dot_of, existed, remove
from tests.simulator.kinds.text import rewrite
from tests.simulator.model import Broken, Value, groups, identity, require


def _delete(case: Case) -> None:
    remove(case, case.covered(case.held.values(), frozenset(case.held), others=True))


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
        return bool(plain[0] == list(value.document or ())) or op.sub == "lineage"  # of the newest document
    if value.kind != Kind.COUNTER:
        return op.sub == value.sub and identity(plain) == identity(value.content)
    name, totals = value.content.name, value.content.totals
    if name is None:
        return op.sub == "reset" and {dot_of(one): pair for one, pair in plain.items()} == totals
    return op.sub is not None and dot_of(op.sub) == name and bool(plain == totals[name])


def _schema_set(case: Case) -> None:
    """Takes the place of all that is declared for the pattern; what is declared already need not be written again."""
    sub, held = case.sub, frozenset(case.held)
    if sub.content is None:
        remove(case, held)
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


def _resolution(sub: Sub, number: Any) -> dict[str, Any]:
    if sub.take is not None:
        return {"take": encode_dot(sub.take)}
    if sub.content is None:
        return {"merge": True}
    sub.content = number()
    return {"value": pack(sub.content)}


OF_ANY_KIND = {
    "delete": Operation(_delete, check_reply=existed, end=End.DELETED, learns=Learns.ABSENCE, may_do_nothing=True),
    "resolve": Operation(_resolve, _resolution, end=End.UNSURE, learns=Learns.CHOICE, may_do_nothing=True),
    "schema_set": Operation(_schema_set, may_do_nothing=True),
}
