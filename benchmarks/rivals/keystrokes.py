"""What a recorded editing session takes per keystroke: through three daemons, each edit by itself or typed into
editors, and by pycrdt alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks import editing_traces, make_trace, reference, traces
from benchmarks.daemons import DaemonError
from benchmarks.replay import ReplayError
from benchmarks.rivals.measures import Figure
from benchmarks.traces import Trace

KEYSTROKE = Figure("an edit of a replayed editing session", "µs")
EDITS_A_CHANGE = Figure("edits of a replayed session that one change of an editor holds", "edits")
US = "crdtsync"
ALONE = "pycrdt alone, in one process"
EDITOR = "crdtsync, typed into editors"
DURABLE = "crdtsync, each edit durable by itself"

ROUNDS = 3
"""Of which the medians count: a session of half a second takes twice as long beside anything else."""

ATTEMPTS = 3

Found = dict[Figure, dict[str, float]]


async def measure(paths: Iterable[Path], transactions: int | None = None) -> Found:
    """Microseconds of each edit over all traces: by crdtsync (three nodes), each edit acknowledged by itself; typed
    into editors, all on disk at the end; and by pycrdt alone.

    Without a trace the made-up session is taken.

    :raises DaemonError: a node ended with another text.
    :raises ReplayError: an author of a trace went back to an older text, which no editor does.
    """
    took_s = dict.fromkeys((DURABLE, EDITOR, ALONE), 0.0)
    edits = 0
    changes = 0.0
    for whole in [traces.load(path) for path in paths] or [make_trace.make(0)]:
        trace = whole if transactions is None else whole.shortened(transactions)
        rounds = [await _round(trace) for _ in range(ROUNDS)]
        for name in took_s:
            took_s[name] += median(found[name] for found, _ in rounds)
        changes += median(count for _, count in rounds)
        edits += len(trace.transactions)
    each_us = {name: seconds / edits * 1e6 for name, seconds in took_s.items()}
    return {KEYSTROKE: each_us, EDITS_A_CHANGE: {US: edits / changes}}


async def _round(trace: Trace) -> tuple[dict[str, float], int]:
    """How many seconds a trace takes in each way, and how many changes those in editors were."""
    start_s = perf_counter()
    reference.end_content(trace)
    alone_s = perf_counter() - start_s
    durable = await _replayed(trace, editing_traces.Options())
    typed = await _typed(trace)
    return {ALONE: alone_s, DURABLE: durable.seconds, EDITOR: typed.seconds}, typed.changes


async def _typed(trace: Trace) -> editing_traces.Result:
    """Again, where a daemon that others kept from running told an author of a state, not of each edit."""
    for _ in range(ATTEMPTS - 1):
        try:
            return await _replayed(trace, editing_traces.Options(editors=True))
        except ReplayError:
            continue
    return await _replayed(trace, editing_traces.Options(editors=True))


async def _replayed(trace: Trace, options: editing_traces.Options) -> editing_traces.Result:
    result = await editing_traces.replay(trace, options, quiet=True)
    if not result.is_equal:
        raise DaemonError(f"{trace.name}: {result.verdict.differences[0]}")
    return result
