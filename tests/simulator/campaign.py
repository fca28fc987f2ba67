"""Many histories, on all cores, with figures."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from time import monotonic, process_time
from typing import NamedTuple

from tests.simulator.clusters.player import plan_cluster
from tests.simulator.commands import leave_to_parent
from tests.simulator.histories import AnyPlan, plan_history
from tests.simulator.model import Broken

CHUNK_SEEDS = 10
PROGRESS_S = 5.0
FAILURES_MAX = 5
LENGTHS = (60, 120, 400)


class Job(NamedTuple):
    """Some seeds for one process."""

    first: int
    seeds: int
    steps: int | None
    kind: str


PLANS: dict[str, Callable[[int, int], AnyPlan]] = {
    "all": plan_history,
    "calm": partial(plan_history, is_troubled=False),
    "members": plan_cluster,
}
"""What makes the plan of a history, by its kind."""


class Figures(NamedTuple):
    """What came of some histories. ``operations``: steps of histories; ``cpu_s``: of all processes together."""

    seeds: int
    operations: int
    events: int
    cpu_s: float
    failed: tuple[int, ...]
    counts: Counter[str]

    def __str__(self) -> str:
        rate = self.operations / self.cpu_s if self.cpu_s else 0.0
        where = ": " + ", ".join(map(str, sorted(self.failed))) if self.failed else ""
        return (
            f"{self.seeds:,} seeds, {self.operations:,} operations, {self.events:,} events, "
            f"{rate:,.0f} operations/s and core, {len(self.failed)} failed{where}"
        )


NOTHING = Figures(0, 0, 0, 0.0, (), Counter())


def sum_of(one: Figures, other: Figures) -> Figures:
    """Both together."""
    return Figures(
        one.seeds + other.seeds,
        one.operations + other.operations,
        one.events + other.events,
        one.cpu_s + other.cpu_s,
        one.failed + other.failed,
        one.counts + other.counts,
    )


def length_of(seed: int, steps: int | None) -> int:
    """How many steps the history of a seed has, where nothing else is asked for."""
    return LENGTHS[seed % len(LENGTHS)] if steps is None else steps


def run_job(job: Job) -> Figures:
    """Play some histories."""
    started, operations, failed = process_time(), 0, []
    counts: Counter[str] = Counter()
    for seed in range(job.first, job.first + job.seeds):
        steps = length_of(seed, job.steps)
        operations += steps
        try:
            counts += PLANS[job.kind](seed, steps).play().counts
        except (Broken, Exception):  # noqa: BLE001  # which is told when it is played again
            failed.append(seed)
    return Figures(job.seeds, operations, counts["event"], process_time() - started, tuple(failed), counts)


def jobs_of(first: int, seeds: int, steps: int | None, kind: str) -> Iterator[Job]:
    """The work in parts."""
    for start in range(first, first + seeds, CHUNK_SEEDS):
        yield Job(start, min(CHUNK_SEEDS, first + seeds - start), steps, kind)


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end at once, with what they are at, if this one is to end."""
    with ProcessPoolExecutor(processes, initializer=leave_to_parent) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def run_campaign(jobs: Iterator[Job], processes: int, seconds_max: float, tell: Callable[[str], None]) -> Figures:
    """Play them all, or as many as fit into the time, and stop when enough have failed."""
    figures, started, told = NOTHING, monotonic(), monotonic()
    with _pool(processes) as pool:
        under_way: dict[Future[Figures], Job] = {}
        while True:
            is_over = monotonic() - started > seconds_max or len(figures.failed) >= FAILURES_MAX
            for job in islice(jobs, 0 if is_over else 2 * processes - len(under_way)):
                under_way[pool.submit(run_job, job)] = job
            if not under_way:
                return figures
            for done in wait(under_way, timeout=PROGRESS_S, return_when=FIRST_COMPLETED).done:
                job = under_way.pop(done)
                try:
                    figures = sum_of(figures, done.result())
                except BrokenProcessPool as error:
                    raise SystemExit(f"a process died in one of the seeds from {job.first} on: {error}") from None
            if monotonic() - told > PROGRESS_S:
                told = monotonic()
                tell(f"{told - started:6.0f} s: {figures}")
