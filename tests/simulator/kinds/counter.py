"""Counters: a set of increments, and sets of those that a reset saw."""

from __future__ import annotations

from typing import Any

from crdtsync.wire.codec import unpack
from crdtsync.wire.kinds import Kind
from tests.simulator.cases import Case, Sub, check_value, named
from tests.simulator.kinds.base import Chooser, Learns, Operation, SimulatedKind, dot_of
from tests.simulator.model import Increment, Tally, count, require

KEYS = ("counter/1", "counter/2")
STEPS = (1, 1, 5, -3, 1000)


def _incr(case: Case) -> None:
    """The value goes up by that much, whatever name it is counted under, and other writers' totals stay."""
    dot, op = case.take_op()
    before = count(case.held.values())
    name = dot if op.sub is None else dot_of(op.sub)
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
    told = {dot_of(name): [*totals] for name, totals in unpack(op.value or b"").items()}
    require(told == tally.totals, case, "records", told, "where it saw", tally.totals)
    case.done(actual, case.add(dot, op, Kind.COUNTER, tally))
    require(count(case.held.values()) == 0, case, "leaves the counter at", count(case.held.values()))


def draw(chooser: Chooser, key: str) -> Sub:
    """An increment, or a reset: more of them where there is nothing but counters."""
    mode = chooser.pick(("blind", "blind", "if_version"))
    chance = getattr(chooser, "reset_chance", 0.2)
    return Sub("reset", key, mode) if chooser.chance(chance) else Sub("incr", key, content=chooser.pick(STEPS))


def _step(sub: Sub, _number: Any) -> dict[str, Any]:
    return {"by": sub.content}


INCR = Operation(_incr, _step, lambda sub, reply, says: says(reply["value"] == sub.after), learns=Learns.PART)
RESET = Operation(
    _reset,
    check_reply=lambda sub, reply, says: says(reply["value"] == sub.before),
    learns=Learns.PART,
    may_do_nothing=True,
    is_conditional=True,
)
COUNTER = SimulatedKind(Kind.COUNTER, KEYS, draw, {"incr": INCR, "reset": RESET}, shown=count)
