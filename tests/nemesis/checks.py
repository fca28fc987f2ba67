"""The judge: holds a record against what the hosts held in the end. Pure, so that it can be shown a lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from tests.nemesis.history import Final, History, Op

LOST = "lost: "
"""How the words begin by which an acknowledged write is not there."""
ALARMS_OF_BUGS = ("divergence", "fork", "edit_skipped")


def violations(history: History, finals: Sequence[Final]) -> list[str]:
    """Every promise that was broken, in words."""
    return [found for check in CHECKS for found in check(history, finals)]


def converged(_: History, finals: Sequence[Final]) -> Iterator[str]:
    """All hosts hold the same."""
    first, *others = finals
    for other in others:
        for name in ("digest", "log", "counter", "members", "fields", "text", "own", "siblings"):
            if getattr(first, name) != getattr(other, name):
                yield f"{first.host} and {other.host} differ in {name}"


def appends(history: History, finals: Sequence[Final]) -> Iterator[str]:
    """An acknowledged append is there once; one of which nobody knows at most once; a refused one not at all."""
    for final in finals:
        there = Counter(final.log)
        yield from _elements(history.of("append"), there, final.host, "log")
        yield from _order(history.done("append"), final)


def elements(history: History, finals: Sequence[Final]) -> Iterator[str]:
    """The same of a set's elements."""
    for final in finals:
        yield from _elements(history.of("add"), Counter(final.members), final.host, "set")


def marks(history: History, finals: Sequence[Final]) -> Iterator[str]:
    """And of words in a text, which whole edits put there."""
    for final in finals:
        yield from _elements(history.of("insert"), Counter(final.text.split()), final.host, "text")


def _elements(ops: list[Op], there: Counter[str], host: str, where: str) -> Iterator[str]:
    for op in ops:
        count = there.pop(op.value, 0)
        if op.outcome == "done" and count == 0:
            yield f"{LOST}{op.value} was acknowledged on {op.host} at {op.ended_s:.2f} s, and {host}'s {where} lacks it"
        if op.outcome == "refused" and count:
            yield f"{op.value} was refused ({op.why}), and {host}'s {where} has it"
        if count > 1:
            yield f"{op.value} is {count} times in {host}'s {where} ({op.outcome}: {op.why})"
    for stray in there:
        yield f"{host}'s {where} has {stray}, which nobody wrote"


def _order(done: list[Op], final: Final) -> Iterator[str]:
    """What one agent appended, one after the other on one host, is in that order."""
    at = {value: index for index, value in enumerate(final.log)}
    last: dict[tuple[str, int], Op] = {}
    for op in done:
        before = last.get((op.agent, op.session))
        if before is not None and at.get(op.value, 0) < at.get(before.value, 0):
            yield f"{final.host} has {op.value} before {before.value}, which was acknowledged before it was written"
        last[op.agent, op.session] = op


def counted(history: History, finals: Sequence[Final]) -> Iterator[str]:
    """The counter is what was acknowledged, and what may have been done beside."""
    ops = history.of("incr")
    least = sum(op.value for op in ops if op.outcome == "done")
    most = least + sum(op.value for op in ops if op.outcome == "unknown")
    for final in finals:
        if not least <= final.counter <= most:
            yield f"{final.host} counts {final.counter}, and {least} to {most} were counted"


def newest(history: History, finals: Sequence[Final]) -> Iterator[str]:
    """Of a key with one author: its last acknowledged value, or a later one that nobody knows of."""
    for name, part in (("set", "own"), ("merge", "fields")):
        last: dict[str, int] = {}
        tried: dict[str, set[int]] = {}
        for op in history.of(name):
            if op.outcome == "done":
                last[op.key] = max(last.get(op.key, 0), op.value)
            tried.setdefault(op.key, set()).add(op.value)
        for final in finals:
            held = getattr(final, part)
            for key, value in last.items():
                if held.get(key, 0) < value:
                    yield f"{LOST}{final.host} has {key} = {held.get(key)}, and {value} was acknowledged"
                elif held[key] not in tried[key]:
                    yield f"{final.host} has {key} = {held[key]}, which nobody wrote"


def superseded(history: History, finals: Sequence[Final]) -> Iterator[str]:
    """A value of a key with many authors is alive, unless it was replaced by one who had read it."""
    ops = history.of("replace")
    for final in finals:
        alive = {value for values in final.siblings.values() for value in values}
        gone = {value for op in ops if op.outcome != "refused" for value in op.saw}
        surely_gone = {value for op in ops if op.outcome == "done" for value in op.saw}
        for op in ops:
            if op.outcome == "done" and op.value not in alive and op.value not in gone:
                yield f"{op.value} is gone from {op.key} at {final.host}, and nobody who had read it wrote after it"
            if op.outcome == "refused" and op.value in alive:
                yield f"{op.value} was refused ({op.why}), and is alive at {final.host}"
        for value in sorted(alive & surely_gone):
            yield f"{value} is alive at {final.host}, and was replaced by one who had read it"


def read_your_writes(history: History, _: Sequence[Final]) -> Iterator[str]:
    """An agent reads what it has written, or later; by its session, or by a token on any host."""
    written: dict[tuple[str, str], int] = {}
    for op in history.ops:
        at = (op.agent, op.key)
        if op.outcome != "done":
            continue
        if op.name == "set":
            written[at] = max(written.get(at, 0), op.value)
            continue
        least = written.get(at, 0) if op.name == "get own" else op.value
        if op.name in ("get own", "get after") and (op.result or 0) < least:
            yield f"{op.agent} had written {op.key} = {least}, and read {op.result} on {op.host} ({op.name})"


def monotonic_reads(history: History, _: Sequence[Final]) -> Iterator[str]:
    """What a session has read it never reads in an older state."""
    read: dict[tuple[str, int, str], int] = {}
    for op in history.ops:
        if op.outcome != "done" or op.name not in ("get own", "get", "event"):
            continue
        at = (op.agent, op.session, op.key)
        found = op.result or 0
        if found < read.get(at, 0):
            yield f"{op.agent} read {op.key} = {read[at]} and then {found} on {op.host}"
        read[at] = max(read.get(at, 0), found)


def causal(history: History, _: Sequence[Final]) -> Iterator[str]:
    """Who reads an answer reads what it answers: the second read is never behind what the first implies."""
    for op in history.done("read effect and cause"):
        effect, cause = op.result
        if effect and (cause or 0) < effect:
            yield f"{op.agent} read {op.key} = {effect} on {op.host}, and of its cause {cause}"


def atomic(history: History, _: Sequence[Final]) -> Iterator[str]:
    """A batch is seen whole."""
    for op in history.done("read batch"):
        if len(set(op.result)) > 1:
            yield f"{op.agent} saw a part of a batch on {op.host}: {op.result}"


def held_alone(history: History, _: Sequence[Final]) -> Iterator[str]:
    """A claim by quorum has one holder at a time, by the true time, and fences grow."""
    before: Op | None = None
    for op in sorted(history.done("hold"), key=lambda op: op.began_s):
        if before is not None and op.began_s <= before.ended_s:
            yield f"{op.host} held {op.key} from {op.began_s:.2f} s, and {before.host} until {before.ended_s:.2f} s"
        if before is not None and op.result <= before.result:
            yield f"{op.host} held {op.key} with fence {op.result} after {before.host} with {before.result}"
        before = op if before is None or op.ended_s > before.ended_s else before


def told(history: History, finals: Sequence[Final]) -> Iterator[str]:
    """A watch has brought the last value of every key."""
    seen: dict[str, dict[str, int]] = {}
    for op in history.done("event"):
        keys = seen.setdefault(op.agent, {})
        keys[op.key] = max(keys.get(op.key, 0), op.result)
    for watcher, keys in seen.items():
        for key, value in finals[0].own.items():
            if keys.get(key, 0) < value:
                yield f"{watcher} was told of {key} = {keys.get(key)}, and not of {value}"


def unalarmed(_: History, finals: Sequence[Final]) -> Iterator[str]:
    """No host has met what must never be."""
    for final in finals:
        for code in final.alarms:
            if code in ALARMS_OF_BUGS:
                yield f"{final.host} has the alarm {code}"


CHECKS: tuple[Callable[[History, Sequence[Final]], Iterator[str]], ...] = (
    converged, appends, elements, marks, counted, newest, superseded, read_your_writes, monotonic_reads, causal, atomic,
    held_alone, told, unalarmed,
)  # fmt: skip
