"""A queue of tasks on five hosts under faults: workers that are processes, what they say, and its judge.

``./dev soak tests/soak/test_tasks.py`` plays it. Each worker writes a line into a file of its own when it begins a task
and when it has done it, with the time by a clock that is the same for all processes of the machine; hosts' own clocks
are set wrong meanwhile, and workers and daemons are killed.

The promise that is judged: each task is done, and done once while the hosts of its workers see each other and the first
worker stores its result in the time of its claim. What hosts see is known from outside: a host is *in trouble* from the
begin of a fault that cuts or stops it until all hosts are connected again. A clock that is wrong is no trouble.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from time import monotonic
from typing import IO, Any

from crdtsync import Client
from crdtsync.coordination import Job, Task
from crdtsync.errors import CrdtSyncError, VersionMismatch
from tests.harness.cluster import wait_until, wait_until_equal
from tests.harness.workers import beside
from tests.nemesis.faults import FAULTS, Nemesis
from tests.nemesis.history import History
from tests.nemesis.hosts import Hosts

PREFIX = "tasks/"
TTL_S = 6.0
WORK_S = 0.1
"""The longest time that a handler takes."""
ASKED_S = 5.0
"""So long at most, in a fleet without trouble, a task is claimed before it begins, and stored after it has ended."""
ANSWER_S = 10.0
END_S = 300.0
"""All tasks are there so long after the last fault, and so long after that all are done."""
TROUBLES = ("cut", "flap", "partition", "kill", "freeze")
SKEWS_S = (2, 60, 3600, 23 * 3600, -2, -60, -3600, -400 * 86_400)
"""No clock is ahead by more than a day: whoever is believes that everything with a time to live is over."""


# -- a worker ----------------------------------------------------------------------------------------------------------


def _say(**what: Any) -> None:
    os.write(1, json.dumps({**what, "at_s": monotonic()}).encode() + b"\n")


def worker(socket: str, name: str) -> None:
    """Do tasks until SIGTERM, whatever happens to the daemon."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    rng = random.Random(name)

    def do(job: Job) -> str:
        _say(begun=job.key, fence=job.lease.fence, confirmed=job.lease.is_confirmed)
        ended.wait(rng.uniform(0, WORK_S))
        _say(done=job.key, held_until_s=monotonic() + job.lease._left_s)  # renewed no more from now on
        return f"{name} {job.lease.fence}"

    while not ended.is_set():
        with suppress(CrdtSyncError, OSError), Client(socket, agent=name, timeout=ANSWER_S) as state:
            work = state.work(f"{PREFIX}**", do, ttl=TTL_S)
            work.on_end = lambda task: _say(stored=task.key)
            working = beside(work.run)
            while not (ended.wait(0.1) or working.done()):
                pass
            work.stop()
            working.result()
        ended.wait(0.2)


# -- what is judged ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One attempt at a task. ``ended_s``: when the handler was over, None if it never was. ``over_s``: when its worker
    went on afterwards, so that the result was on disk, or refused; None if it was killed before. ``held_until_s``: when
    the claim was over, if the result was not stored by then.
    """

    key: str
    worker: str
    host: str
    fence: int
    is_confirmed: bool
    began_s: float
    ended_s: float | None
    over_s: float | None
    held_until_s: float

    @property
    def result(self) -> str:
        """What its handler returned."""
        return f"{self.worker} {self.fence}"


@dataclass(frozen=True)
class Trouble:
    """So long a host saw some others not, or these did not see it; ``host`` ``*`` stands for all."""

    host: str
    began_s: float
    ended_s: float


@dataclass
class Record:
    """Everything that happened, and what the hosts held in the end."""

    tasks: list[str] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    finals: dict[str, list[Task]] = field(default_factory=dict)
    seconds: float = 0.0
    left_out: dict[str, str] = field(default_factory=dict)
    """Faults that cannot be made here, each with the program that is missing."""

    def lines(self) -> list[str]:
        """The figures."""
        twice = [runs for runs in _by_task(self.runs).values() if len(runs) > 1]
        crossed = sum(len(task.crossed) for task in next(iter(self.finals.values()), []))
        unconfirmed = sum(not run.is_confirmed for run in self.runs)
        what = f"{len(self.tasks):,} tasks in {self.seconds:.0f} s, {len(self.runs):,} attempts"
        beside_others = f"{len(twice)} tasks with more than one, {crossed} results beside others"
        return [
            f"{what}, {beside_others}, {unconfirmed} attempts that not every host had confirmed",
            ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items())),
            *(f"LEFT OUT: {name}, for {needs} is not installed" for name, needs in sorted(self.left_out.items())),
        ]


def violations(record: Record) -> list[str]:
    """Every promise that was broken, in words."""
    return [*_lost(record), *_twice(record), *_unreported(record)]


def _lost(record: Record) -> Iterable[str]:
    results = defaultdict(set)
    for run in record.runs:
        results[run.key].add(run.result)
    for host, tasks in record.finals.items():
        held = {task.key: task for task in tasks}
        for key in record.tasks:
            task = held.get(key)
            if task is None:
                yield f"{key} was put, and {host} does not have it"
            elif task.state != "done":
                yield f"{key} is {task.state} on {host}: {task.error}"
            elif not {task.result, *task.crossed} <= results[key]:
                yield f"{key} has a result on {host} that no worker returned: {task.result}"
    first, *others = record.finals
    for other in others:
        if record.finals[first] != record.finals[other]:
            yield f"{first} and {other} tell different things of tasks"


def _twice(record: Record) -> Iterable[str]:
    for runs in _by_task(record.runs).values():
        for run, later in combinations(runs, 2):
            if not _may_cross(run, later, record.troubles):
                yield (
                    f"{run.key} was done on {run.host} by {run.worker} from {run.began_s:.2f} to {run.ended_s:.2f} s, "
                    f"and begun on {later.host} by {later.worker} at {later.began_s:.2f} s"
                )


def _may_cross(run: Run, later: Run, troubles: Sequence[Trouble]) -> bool:
    if run.ended_s is None or run.over_s is None or not (run.is_confirmed and later.is_confirmed):
        return True
    if run.held_until_s < min(run.over_s, later.began_s):
        return True
    from_s, until_s = run.began_s - ASKED_S, min(run.ended_s, later.began_s) + ASKED_S
    return any(
        trouble.host in ("*", run.host, later.host) and trouble.began_s < until_s and from_s < trouble.ended_s
        for trouble in troubles
    )


def _unreported(record: Record) -> Iterable[str]:
    """Two attempts that were both done are to be seen in the task: as a second attempt, or as a second result."""
    held = {task.key: task for task in next(iter(record.finals.values()), [])}
    for key, runs in _by_task(record.runs).items():
        task = held.get(key)
        done = [run for run in runs if run.over_s is not None]
        if task is not None and len(done) > 1 and task.attempts == 1 and not task.crossed:
            yield f"{key} was done {len(done)} times, and the task tells of one attempt"


def _by_task(runs: Iterable[Run]) -> Mapping[str, list[Run]]:
    found = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.began_s):
        found[run.key].append(run)
    return found


def runs_in(said: str, worker_: str, host: str) -> list[Run]:
    """What one process of a worker said; the last line may be torn, and then so is its last attempt."""
    lines = []
    for line in said.splitlines():
        with suppress(ValueError):
            lines.append(json.loads(line))
    runs = []
    for at, line in enumerate(lines):
        if "begun" in line:
            after = lines[at + 1] if at + 1 < len(lines) else {}
            is_ended = after.get("done") == line["begun"]
            ended_s, held_until_s = (after["at_s"], after["held_until_s"]) if is_ended else (None, 0.0)
            over_s = lines[at + 2]["at_s"] if is_ended and at + 2 < len(lines) else None
            began = line["begun"], worker_, host, line["fence"], line["confirmed"], line["at_s"]
            runs.append(Run(*began, ended_s, over_s, held_until_s))
    return runs


# -- the run -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    seed: int
    tasks: int = 2000
    workers_per_host: int = 4
    seconds: float = 240.0
    hold_s: tuple[float, float] = (1.0, 10.0)
    quiet_s: tuple[float, float] = (1.0, 6.0)


class Workers:
    """The worker processes of all hosts; each can be killed, and another one takes its place."""

    def __init__(self, hosts: Hosts, per_host: int) -> None:
        self._hosts = hosts
        self._names = {f"{host}{number}": host for host in hosts.names for number in range(per_host)}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._said: list[tuple[Path, str, str]] = []
        self._lives = 0
        for name in self._names:
            self._start(name)

    def _start(self, name: str) -> None:
        host = self._names[name]
        self._lives += 1
        path = self._hosts.base / f"worker-{self._lives}"
        program = "import sys; from tests.nemesis.tasks import worker; worker(*sys.argv[1:])"
        command = [sys.executable, "-c", program, str(self._hosts.daemons[host].socket), name]
        with path.open("wb") as said, path.with_suffix(".err").open("wb") as errors:
            self._running[name] = _started(command, said, errors, self._hosts.wrong_clock(host))
        self._said.append((path, name, host))

    def kill_one(self, rng: random.Random) -> None:
        """``kill -9``, and a new one."""
        name = rng.choice(sorted(self._names))
        self._running[name].kill()
        self._running[name].wait()
        self._start(name)

    def end(self) -> None:
        """SIGTERM to all."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.wait(60)

    def runs(self) -> list[Run]:
        """All that they did."""
        return [run for path, name, host in self._said for run in runs_in(path.read_text(), name, host)]

    def errors(self) -> list[str]:
        """What they died of."""
        said = [(name, path.with_suffix(".err").read_text()) for path, name, _ in self._said]
        return [f"{name}: {text[-1500:]}" for name, text in said if "Traceback" in text]

    def close(self) -> None:
        """Kill what runs still."""
        for process in self._running.values():
            if process.poll() is None:
                process.kill()
                process.wait()


def _started(
    command: list[str], said: IO[bytes], errors: IO[bytes], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=said, stderr=errors, env={**os.environ, **environment}
    )


def play(plan: Plan, say: Callable[[str], None] = lambda _: None) -> tuple[Record, list[str]]:
    """Do it; the record, and what was wrong."""
    record, rng = Record(), random.Random(plan.seed)
    with Hosts() as hosts:
        workers = Workers(hosts, plan.workers_per_host)
        try:
            started_s = monotonic()
            feeding = beside(_feed, hosts, plan, record)
            _inflict(hosts, workers, plan, rng, record, say)
            feeding.result(END_S)
            say("all tasks are there, and all faults are over")
            with hosts.daemons["a"].client("judge") as judge:
                wait_until(lambda: all(task.is_over for task in judge.tasks(PREFIX)), END_S, "all tasks are over")
            record.seconds = monotonic() - started_s
            workers.end()
        finally:
            workers.close()
        wait_until_equal([*hosts.daemons.values()], 60)
        for name, daemon in hosts.daemons.items():
            with daemon.client("judge") as judge:
                record.finals[name] = judge.tasks(PREFIX)
        record.runs = workers.runs()
        return record, [*violations(record), *workers.errors()]


def _feed(hosts: Hosts, plan: Plan, record: Record) -> None:
    """Put the tasks, on any host, over the time of the faults."""
    rng = random.Random(f"{plan.seed}/feed")
    waiting = threading.Event()
    for number in range(plan.tasks):
        key = f"{PREFIX}{number:04}"
        while True:
            host = hosts.daemons[rng.choice(hosts.names)]
            try:
                with Client(host.socket, agent="boss", timeout=ANSWER_S) as boss:
                    boss.put_task(key, number, priority=number % 2)
                break
            except VersionMismatch:  # the try before was done, after all
                break
            except (CrdtSyncError, OSError):
                waiting.wait(0.1)
        record.tasks.append(key)
        waiting.wait(plan.seconds / plan.tasks * 0.8)


def _inflict(
    hosts: Hosts, workers: Workers, plan: Plan, rng: random.Random, record: Record, say: Callable[[str], None]
) -> None:
    nemesis = Nemesis(hosts, History(), rng)
    every = (*TROUBLES, "worker", "clock")
    record.left_out = {name: needs for name, needs in nemesis.left_out().items() if name in every}
    can = [name for name in every if name not in record.left_out]
    deck: list[str] = []
    waiting, until_s = threading.Event(), monotonic() + plan.seconds
    while monotonic() < until_s:
        if not deck:
            deck = rng.sample(can, len(can))
        name, host = deck.pop(), rng.choice(hosts.names)
        record.faults[name] += 1
        began_s = monotonic()
        if name == "worker":
            workers.kill_one(rng)
        elif name == "clock":  # it stays wrong
            hosts.set_clock(host, rng.choice(SKEWS_S))
        else:
            end = FAULTS[name](nemesis, host, rng)
            waiting.wait(rng.uniform(*plan.hold_s))
            end()
            wait_until(hosts.are_connected, what="all hosts are connected again")
            record.troubles.append(Trouble("*" if name == "partition" else host, began_s, monotonic()))
        say(f"{name} {host}: {monotonic() - began_s:.1f} s")
        waiting.wait(rng.uniform(*plan.quiet_s))
