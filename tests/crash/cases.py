"""Which calls a daemon makes in a life, in which phase of it, and in what order they are disturbed.

strace counts for each name and each thread by itself: ``when=3`` is the third ``pwrite64`` of every thread. So a case
is a name and a number, and not a number among all calls.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from fnmatch import fnmatchcase
from random import Random
from typing import NamedTuple


class Call(NamedTuple):
    """The ``number``-th call of that name in some thread; of several threads the first to come that far counts."""

    name: str
    number: int
    phase: str


class Case(NamedTuple):
    """One fault, as strace takes it, and which cases are like it."""

    fault: str
    stratum: tuple[str, ...]


def read_calls(lines: list[str], phases: list[tuple[str, int]]) -> list[Call]:
    """The calls in what strace wrote of a life; ``phases``: their names, and how many lines there were before each."""
    numbers: Counter[tuple[str, str]] = Counter()
    calls: dict[tuple[str, int], Call] = {}
    for at, line in enumerate(lines):
        thread, _, said = line.partition(" ")
        name, is_call, _ = said.strip().partition("(")
        if not is_call or not name.isidentifier():
            continue  # the end of a call that was told before, a signal, an exit
        numbers[thread, name] += 1
        number = numbers[thread, name]
        phase = [name for name, first in phases if first <= at][-1]
        calls.setdefault((name, number), Call(name, number, phase))
    return list(calls.values())


def spread(cases: list[Case], random: Random) -> list[Case]:
    """In such an order that each beginning of it has of every stratum as much as of every other, while it lasts."""
    strata: defaultdict[tuple[str, ...], list[Case]] = defaultdict(list)
    for case in cases:
        strata[case.stratum].append(case)
    rounds: list[tuple[int, float, Case]] = []
    for alike in strata.values():
        random.shuffle(alike)
        rounds += [(number, random.random(), case) for number, case in enumerate(alike)]
    return [case for _, _, case in sorted(rounds)]


def chosen(cases: list[Case], patterns: tuple[str, ...]) -> list[Case]:
    """Those whose phase, name and error are of one of these patterns, as ``write/pwrite64/EIO*``; all for none."""
    if not patterns:
        return cases
    return [case for case in cases if any(fnmatchcase("/".join(case.stratum), pattern) for pattern in patterns)]


def coverage(cases: list[Case], tried: Counter[tuple[str, ...]]) -> list[str]:
    """How many of each name and phase were tried, for people."""
    of, done = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for case in cases:
        of[case.stratum[:2]] += 1
    for stratum, count in tried.items():
        done[stratum[:2]] += count
    lines = [f"{sum(done.values()):,} of {len(cases):,} cases, of {len(done)} of {len(of)} names and phases:"]
    for phase in dict.fromkeys(phase for phase, _ in of):
        told = [f"{name} {done[at, name]}/{count}" for (at, name), count in sorted(of.items()) if at == phase]
        lines.append(f"{phase}: {', '.join(told)}")
    return lines
