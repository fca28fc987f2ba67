"""Sets: elements that are equal are one."""

from __future__ import annotations

from typing import Any

from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from tests.simulator.cases import Case, Sub, check_value, named
from tests.simulator.kinds.base import Chooser, End, Learns, Operation, SimulatedKind, remove
from tests.simulator.model import Value, elements, identity

KEYS = ("set/1", "set/2")
ELEMENTS = (1, 1.0, True, "a", {"b": 1, "a": [None, -1]}, {"a": [None, -1], "b": 1}, "long " * 100)


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
    remove(case, case.covered(same, frozenset(value.dot for value in same), others=True))
    case.sub.after = case.length


def _element(case: Case) -> list[Value]:
    """The entries of the element that is added or discarded."""
    name = identity(case.sub.content)
    return [v for v in case.held.values() if v.kind == Kind.SET and identity(v.content) == name]


def draw(chooser: Chooser, key: str) -> Sub:
    """An element that is added or discarded."""
    return Sub(chooser.pick(("add", "add", "discard")), key, content=chooser.pick(ELEMENTS))


def _arguments(sub: Sub, _number: Any) -> dict[str, Any]:
    return {"value": pack(sub.content)}


def _was_added(sub: Sub, reply: Any, says: Any) -> None:
    says(reply["added"] == (not sub.before) and reply["length"] == sub.after)


def _was_discarded(sub: Sub, reply: Any, says: Any) -> None:
    says(reply["existed"] == sub.existed and reply["length"] == sub.after)


def _without(content: Any, value: Any) -> Any:
    return [item for item in content if identity(item) != identity(value)]


ADD = Operation(_add, _arguments, _was_added, learns=Learns.PART, told=lambda content, value: [*content, value])
DISCARD = Operation(_discard, _arguments, _was_discarded, End.DELETED, may_do_nothing=True, told=_without)
SET = SimulatedKind(Kind.SET, KEYS, draw, {"add": ADD, "discard": DISCARD}, shown=elements, empty=[])
