"""Many cases, in several processes: each has a data directory of its own to copy, and forks its own daemons."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from time import monotonic

from tests.crash.cases import Case, chosen, coverage, spread
from tests.crash.report import Report
from tests.harness.daemon import PROGRAM
from tests.simulator.commands import leave_to_parent

PROGRESS_S = 30.0
Budget = Callable[[], bool]
Try = Callable[[Case], Report]
"""Tries one case and reports on it."""


@dataclass(frozen=True)
class Run:
    """Which cases are tried, and how. ``only``: patterns of PHASE/NAME/ERROR; ``noted``: a file of those that have been
    tried, which are left out, and to which these are added.
    """

    seed: int
    go_on: Budget
    count: int | None = None
    program: str = PROGRAM
    jobs: int = 1
    only: tuple[str, ...] = ()
    noted: Path | None = None


def run_cases(
    report: Report, run: Run, cases: list[Case], make: Callable[[], tuple[Try, Callable[[], None]]]
) -> Report:
    """Try the cases of a run. ``make`` is called in each process, and returns what tries one and what cleans up."""
    wanted = chosen(cases, run.only)
    done = set(run.noted.read_text().splitlines()) if run.noted is not None and run.noted.exists() else set()
    order = [case for case in spread(wanted, Random(run.seed)) if case.fault not in done][: run.count]
    tried: Counter[tuple[str, ...]] = Counter(case.stratum for case in wanted if case.fault in done)
    told_s = monotonic()
    with _workers(min(run.jobs, len(order)), make) as workers:
        for case, found in _results(workers, iter(order), run.go_on):
            tried[case.stratum] += 1
            report.add(found)
            if run.noted is not None:
                with run.noted.open("a") as file:
                    file.write(case.fault + "\n")
            if found.found:
                print(f"FOUND {found.found[0]}, and {len(found.found) - 1} more of this case", flush=True)
            if monotonic() >= told_s + PROGRESS_S:
                told_s = monotonic()
                print(f"  {report.progress(len(order))}", flush=True)
    report.covered = coverage(wanted, tried)
    return report


def _results(
    workers: list[tuple[int, Connection]], cases: Iterator[Case], go_on: Budget
) -> Iterator[tuple[Case, Report]]:
    busy: dict[Connection, Case] = {}

    def give(conn: Connection) -> None:
        case = next(cases, None) if go_on() else None
        if case is not None:
            conn.send(case)
            busy[conn] = case

    for _, conn in workers:
        give(conn)
    while busy:
        for ready in wait([*busy]):
            assert isinstance(ready, Connection)
            case = busy.pop(ready)
            yield case, ready.recv()  # an end of the process is an error here
            give(ready)


@contextmanager
def _workers(count: int, make: Callable[[], tuple[Try, Callable[[], None]]]) -> Iterator[list[tuple[int, Connection]]]:
    workers: list[tuple[int, Connection]] = []
    is_over = False
    try:
        for _ in range(count):
            here, there = Pipe()
            pid = os.fork()
            if not pid:
                here.close()
                for _, other in workers:
                    other.close()
                _work(there, make)
            there.close()
            workers.append((pid, here))
        yield workers
        is_over = True
    finally:
        for pid, conn in workers:
            conn.close()  # which ends those that wait for a case
            if not is_over:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
        for pid, _ in workers:
            os.waitpid(pid, 0)


def _work(conn: Connection, make: Callable[[], tuple[Try, Callable[[], None]]]) -> None:
    """Never returns. It ends with its parent too, of which the connection tells."""
    leave_to_parent()
    signal.signal(signal.SIGTERM, _end)
    try:
        attempt, close = make()
        try:
            while True:
                conn.send(attempt(conn.recv()))
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            close()
    except (EOFError, OSError, SystemExit):
        os._exit(0)
    finally:
        os._exit(1)


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(0)
