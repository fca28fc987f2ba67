"""The order of changes: dots, version vectors, frontiers and the hybrid logical clock.

A *dot* ``(writer, seq, n)`` names one written value: operation ``n`` of change ``seq`` of ``writer``. A *version
vector* maps each writer to the highest ``seq`` applied; since changes of one writer are applied in order without gaps,
it names a set of changes exactly (Parker et al., 1983; as dotted version vectors: Preguiça et al., 2010). A
*frontier* adds to each entry a short hash of that head, so that two histories that reused a number are told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NewType

from crdtsync.named_tuple import NamedTuple

Writer = NewType("Writer", int)
"""A writing identity in one space: a random integer, 1 … 2**53 - 1."""

Hlc = NewType("Hlc", int)
"""Hybrid logical time: 48 bits of ms since 1970 UTC, then 16 bits of counter."""

WRITER_MAX = 2**53 - 1
SEQ_MAX = 2**53 - 1
HLC_MAX = 2**64 - 1
TIME_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999: no program writes a later date."""
HLC_AHEAD_MS_MAX = 24 * 3600 * 1000
"""A received clock further ahead of the local one than this is reported and not taken over."""


class Dot(NamedTuple):
    """The name of one written value."""

    writer: Writer
    seq: int
    n: int


VersionVector = dict[Writer, int]
Frontier = dict[Writer, tuple[int, bytes]]


def covers(vector: Mapping[Writer, int], other: Mapping[Writer, int]) -> bool:
    """Whether ``vector`` includes every change that ``other`` names."""
    return all(vector.get(writer, 0) >= seq for writer, seq in other.items())


def merge(vector: VersionVector, other: Mapping[Writer, int]) -> None:
    """Raise ``vector``, in place, to the least vector that includes both."""
    for writer, seq in other.items():
        if seq > vector.get(writer, 0):
            vector[writer] = seq


def missing(vector: Mapping[Writer, int], other: Mapping[Writer, int]) -> int:
    """How many changes ``other`` names that ``vector`` lacks; at most ``SEQ_MAX``, whatever a peer claims."""
    return min(SEQ_MAX, sum(max(0, seq - vector.get(writer, 0)) for writer, seq in other.items()))


def vector_of(dots: Iterable[Dot]) -> VersionVector:
    """The highest ``seq`` per writer among ``dots``."""
    vector: VersionVector = {}
    for writer, seq, _ in dots:
        if seq > vector.get(writer, 0):
            vector[writer] = seq
    return vector


def flatten(vector: Mapping[Writer, int]) -> list[int]:
    """``[writer, seq, writer, seq, …]`` in order of writer: the one form in which vectors are encoded."""
    return [part for pair in sorted(vector.items()) for part in pair]


class HybridClock:
    """A hybrid logical clock (Kulkarni et al., 2014): never behind what it has seen, never far from the wall clock.

    ``last``: the highest time of all; ``heard``: of those that were taken over.
    """

    __slots__ = ("heard", "last")

    def __init__(self) -> None:
        self.last = 0
        self.heard = 0

    def tick(self, now_ms: int) -> Hlc:
        """The time of a new local event, above every time returned or witnessed before."""
        self.last = max(self.last + 1, now_ms << 16)
        return Hlc(self.last)

    def witness(self, hlc: int, now_ms: int) -> bool:
        """Take over a received time. False, and not taken over, if it is over ``HLC_AHEAD_MS_MAX`` ahead."""
        if (hlc >> 16) > now_ms + HLC_AHEAD_MS_MAX:
            return False
        self.heard = max(self.heard, hlc)
        self.last = max(self.last, hlc)
        return True


def hlc_ms(hlc: int) -> int:
    """The wall-clock part of a hybrid time, in ms since 1970 UTC: one that can be written as a date."""
    return min(hlc >> 16, TIME_MS_MAX)
