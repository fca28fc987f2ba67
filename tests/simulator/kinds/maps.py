"""Maps: each field is a register of its own."""

from __future__ import annotations

from typing import Any

from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.tokens import decode_dot
from tests.simulator.cases import Case, Sub, check_value, named
from tests.simulator.kinds.base import CONFIDENCES, Chooser, End, Learns, Operation, SimulatedKind, existed, remove
from tests.simulator.model import Value, in_order, require
from tests.simulator.policies import value_number

KEYS = ("map/1", "map/2")
FIELDS = ("f", "g", "\u00fc")


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
        crowded = case.crowded(same, wanted)
        sub.lost += tuple(sorted(crowded))
        case.check_removes(actual, wanted | crowded, case.expired)
        check_value(case, op, content)
        if sub.mode == "blind" and first:
            sub.replaced[op.sub] = first.dot
        require((op.attrs or {}).get("confidence") == sub.confidence, case, "wrote another confidence:", op)
        value = case.add(dot, op, Kind.MAP, content, confidence=sub.confidence)
        case.check_rank(same, value)
        case.done(actual, value, crowded=crowded)


def _drop(case: Case) -> None:
    same = [value for value in case.held.values() if value.kind == Kind.MAP and value.sub == case.sub.content]
    remove(case, case.covered(same, frozenset(value.dot for value in same), others=True))


def draw(chooser: Chooser, key: str) -> Sub:
    """Fields that are written, or one that is dropped."""
    if chooser.chance(0.25):
        return Sub("drop", key, content=chooser.pick(FIELDS))
    fields = {chooser.pick(FIELDS): 0 for _ in range(1 + int(chooser.draw() * 3))}
    return Sub("merge", key, content=fields, confidence=chooser.pick(CONFIDENCES))


def _fields(sub: Sub, number: Any) -> dict[str, Any]:
    sub.content = {name: value_number(number()) for name in sub.content}
    return {"fields": {name: pack(value) for name, value in sub.content.items()}}


def _field(sub: Sub, _number: Any) -> dict[str, Any]:
    return {"field": sub.content}


def _was_merged(sub: Sub, reply: Any, says: Any) -> None:
    if "replaced" in reply:
        says({name: decode_dot(one["dot"]) for name, one in (reply["replaced"] or {}).items()} == sub.replaced)
        says(sorted(decode_dot(one["dot"]) for one in reply.get("lost", ())) == sorted(sub.lost))


def _without(content: Any, value: Any) -> Any:
    return {name: item for name, item in content.items() if name != value}


def _shown(group: list[Value]) -> dict[str | None, Any]:
    return {value.sub: value.content for value in sorted(group, key=lambda value: str(value.sub))}


MERGE = Operation(
    _merge,
    _fields,
    _was_merged,
    end=End.CHOSEN,
    learns=Learns.CHOICE,
    ranked=lambda sub: dict(sub.content),
    told=lambda content, value: {**content, **value},
)
DROP = Operation(_drop, _field, existed, End.DELETED, may_do_nothing=True, told=_without)
MAP = SimulatedKind(Kind.MAP, KEYS, draw, {"merge": MERGE, "drop": DROP}, _shown, empty={}, is_by_content=True)
