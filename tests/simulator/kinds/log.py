"""Logs: everything that is appended, until it is trimmed."""

from __future__ import annotations

from typing import Any

from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from tests.simulator.cases import Case, Sub, check_value, named
from tests.simulator.kinds.base import UNKNOWN, Chooser, End, Learns, Operation, SimulatedKind, remove
from tests.simulator.model import Value
from tests.simulator.policies import value_number

KEYS = ("log/1", "log/2")


def _append(case: Case) -> None:
    dot, op = case.take_op()
    case.check_removes(named(case.held, op.removes), frozenset())
    check_value(case, op, case.sub.content)
    case.done(frozenset(), case.add(dot, op, Kind.LOG, case.sub.content))


def _trim(case: Case) -> None:
    logged = [value.dot for value in case.live if value.kind == Kind.LOG]
    remove(case, frozenset(logged[: max(0, len(logged) - case.sub.keep)]))


def draw(chooser: Chooser, key: str) -> Sub:
    """An element, or a trim."""
    return Sub("trim", key, keep=int(chooser.draw() * 4)) if chooser.chance(0.25) else Sub("append", key)


def _arguments(sub: Sub, number: Any) -> dict[str, Any]:
    sub.content = value_number(number())
    return {"value": pack(sub.content)}


def _keep(sub: Sub, _number: Any) -> dict[str, Any]:
    return {"keep": sub.keep}


def _all(group: list[Value]) -> list[Any]:
    return [value.content for value in group]


APPEND = Operation(_append, _arguments, learns=Learns.PART, told=lambda content, value: [*content, value])
TRIM = Operation(
    _trim, _keep, end=End.TRIMMED, may_do_nothing=True, has_context=False, told=lambda content, value: UNKNOWN
)
LOG = SimulatedKind(Kind.LOG, KEYS, draw, {"append": APPEND, "trim": TRIM}, shown=_all, empty=[])
