"""Over which peer each change came, and when: for people who ask why a node has what it has.

Changes of one writer mostly come in a row over one peer. So the log holds runs, such as "1.5 to 1.90 over beta, from
10:02 on", and not changes. It is in memory alone: nothing is known of what came before this daemon was started.
"""

from __future__ import annotations

from collections.abc import Mapping

from crdtsync.causality import Writer
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import new_row

RUNS_PER_WRITER_MAX = 64
"""Runs of a writer's changes over one peer, remembered to explain how they came; the oldest are forgotten."""
RUN_MS_MAX = 1000
"""Changes that come within that time count as one run, so a time of arrival is exact to that."""


class Arrival(NamedTuple):
    """Changes ``first`` to ``last`` of a writer came over the peer ``node``; the first of them at ``time_ms``.

    ``is_snapshot``: as part of a snapshot.
    """

    first: int
    last: int
    node: str
    time_ms: int
    is_snapshot: bool


class Arrivals:
    """The arrivals of one replica."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: dict[Writer, list[Arrival]] = {}  # a deque takes 700 bytes before anything is in it

    def note(self, writer: Writer, seq: int, node: str, time_ms: int) -> None:
        """A change has come."""
        runs = self._runs.setdefault(writer, [])
        last = runs[-1] if runs else None
        if last is not None and _goes_on(last, seq, node, time_ms):
            runs[-1] = new_row(Arrival, (last.first, seq, node, last.time_ms, False))
        else:
            _add(runs, Arrival(seq, seq, node, time_ms, False))

    def merged(self, before: Mapping[Writer, int], after: Mapping[Writer, int], node: str, time_ms: int) -> None:
        """A snapshot has taken these writers on from ``before`` to ``after``."""
        for writer, seq in after.items():
            if before.get(writer, 0) < seq:
                _add(
                    self._runs.setdefault(writer, []),
                    Arrival(before.get(writer, 0) + 1, seq, node, time_ms, True),
                )

    def of(self, writer: Writer, seq: int) -> Arrival | None:
        """How a change came; None: not known, or it was made here."""
        found = [run for run in self._runs.get(writer, ()) if run.first <= seq <= run.last]
        return found[0] if found else None


def _add(runs: list[Arrival], run: Arrival) -> None:
    if len(runs) >= RUNS_PER_WRITER_MAX:
        del runs[0]
    runs.append(run)


def _goes_on(run: Arrival, seq: int, node: str, time_ms: int) -> bool:
    is_next = run.last == seq - 1 and run.node == node and not run.is_snapshot
    return is_next and time_ms - run.time_ms < RUN_MS_MAX
