"""What a recorded editing session takes per keystroke, through three daemons and by pycrdt alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from time import perf_counter

from benchmarks import editing_traces, make_trace, reference, traces
from benchmarks.fleet import FleetError
from benchmarks.rivals.measures import Figure

KEYSTROKE = Figure("an edit of a replayed editing session", "µs")
ALONE = "pycrdt alone, in one process"


async def measure(paths: Iterable[Path], transactions: int | None = None) -> dict[str, float]:
    """Microseconds of each edit over all traces, by crdtsync (three nodes, each edit durable) and by pycrdt alone.

    Without a trace the made-up session is taken.

    :raises FleetError: a node ended with another text.
    """
    ours_s = alone_s = 0.0
    edits = 0
    for whole in [traces.load(path) for path in paths] or [make_trace.make(0)]:
        trace = whole if transactions is None else whole.shortened(transactions)
        start_s = perf_counter()
        reference.end_content(trace)
        alone_s += perf_counter() - start_s
        result = await editing_traces.replay(trace, editing_traces.Options(), quiet=True)
        if not result.is_equal:
            raise FleetError(f"{trace.name}: {result.verdict.differences[0]}")
        ours_s += result.seconds
        edits += len(trace.transactions)
    return {"crdtsync": ours_s / edits * 1e6, ALONE: alone_s / edits * 1e6}
