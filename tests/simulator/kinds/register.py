"""Registers: one value, and siblings of it."""

from __future__ import annotations

from typing import Any

from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.tokens import decode_dot
from tests.simulator.cases import Case, Sub, check_value, named
from tests.simulator.kinds.base import CONFIDENCES, Chooser, End, Learns, Operation, SimulatedKind
from tests.simulator.model import require
from tests.simulator.policies import value_number

KEYS = ("r/1", "r/2", "r/3")
PLAIN_CHANCE = 0.7
"""Of a register's writes: those that say nothing but key and value, for which daemons have a short way."""


def _set(case: Case) -> None:
    sub, live = case.sub, case.live
    registers = [value for value in live if value.kind == Kind.REGISTER]
    first = case.first(registers)
    winner = frozenset({first.dot} if first else ())
    dot, op = case.take_op()
    actual = named(case.held, op.removes)
    wanted = case.covered(case.held.values(), winner) | case.expired
    crowded = case.crowded(registers, wanted)
    case.check_removes(actual, wanted | crowded)
    if sub.mode == "if_version":
        require({v.dot for v in live} == sub.shown, case, "was done although the key had changed:", live, sub.shown)
    if sub.mode == "if_absent":
        require(not live, case, "was done although the key existed")
    if sub.mode == "blind":
        sub.replaced = first.dot if first else None
    sub.lost += tuple(sorted(crowded))
    check_value(case, op, sub.content)
    require((op.attrs or {}).get("confidence") == sub.confidence, case, "wrote another confidence:", op)
    value = case.add(dot, op, Kind.REGISTER, sub.content, ttl_ms=sub.ttl_ms, confidence=sub.confidence)
    case.check_rank(registers, value)
    case.done(actual, value, crowded=crowded)


def draw(chooser: Chooser, key: str) -> Sub:
    """A write of any kind of options."""
    mode = chooser.pick(("blind", "blind", "blind", "blind", "if_version", "if_absent"))
    ttl_ms = 1 + int(chooser.draw() * 5000) if chooser.chance(0.1) else None
    ranked = Sub("set", key, mode, ttl_ms=ttl_ms, confidence=chooser.pick(CONFIDENCES))
    return Sub("set", key) if chooser.chance(PLAIN_CHANCE) else ranked


def _arguments(sub: Sub, number: Any) -> dict[str, Any]:
    sub.content = value_number(number())
    return {"value": pack(sub.content)}


def _check_reply(sub: Sub, reply: Any, says: Any) -> None:
    if "replaced" in reply:
        says((reply["replaced"] and decode_dot(reply["replaced"]["dot"])) == sub.replaced)
        says(sorted(decode_dot(one["dot"]) for one in reply.get("lost", ())) == sorted(sub.lost))


SET = Operation(
    _set,
    _arguments,
    _check_reply,
    end=End.CHOSEN,
    learns=Learns.VALUE,
    is_conditional=True,
    ranked=lambda sub: {None: sub.content},
)
REGISTER = SimulatedKind(Kind.REGISTER, KEYS, draw, {"set": SET}, is_by_content=True)
