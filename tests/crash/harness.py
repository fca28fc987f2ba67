"""Kills at random moments, kills and errors at every call in turn; each time what was acknowledged must be there."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic, sleep

from tests.crash.cases import Call, Case, read_calls
from tests.crash.child import Child
from tests.crash.jobs import Budget, Run, Try, run_cases
from tests.crash.report import Life, Report
from tests.crash.steps import Steps
from tests.crash.writes import DEAD, Writes
from tests.harness.daemon import PROGRAM

CALLS = ("write", "pwrite64", "fsync", "fdatasync", "ftruncate", "openat", "fallocate", "unlink")
"""Those that change what is on disk; SQLite uses no others to write."""
ERRORS = {
    "write": ("EIO", "ENOSPC"), "pwrite64": ("EIO", "ENOSPC"), "fsync": ("EIO",), "fdatasync": ("EIO",),
    "ftruncate": ("EIO",), "openat": ("EIO", "EMFILE"), "fallocate": ("EIO", "ENOSPC"), "unlink": ("EIO",),
    "pread64": ("EIO",),
}  # fmt: skip
FAILED = 1
PIPELINED = 12


def _place() -> Path:
    return Path(tempfile.mkdtemp(prefix="csc", dir="/tmp"))


def kills(count: int, seed: int, program: str = PROGRAM) -> Report:
    """So many kills at random moments of writing, and some of starting."""
    report, rng = Report("kills at random"), random.Random(seed)
    child = Child(_place(), program)
    kept: list[Writes] = []
    try:
        child.start()
        for number in range(count):
            if rng.random() < 0.1:
                child.kill()
                child.start()
                sleep(rng.uniform(0, 0.2))
                child.kill()
                report.outcomes["killed while it started"] += 1
                child.start()
            agent = child.attach()
            if agent is None:
                report.found.append(f"kill {number}: it does not start again: {child.tail()}")
                break
            writes = Writes(f"{number}")
            with agent:
                for _ in range(rng.randrange(3)):
                    writes.send(agent, rng.randrange(1, PIPELINED))
                    writes.take(agent)
                writes.send(agent, rng.randrange(1, 60), large_every=rng.choice((0, 0, 0, 7)))
                sleep(rng.choice((0, 0.0005, 0.002, 0.005, 0.02)) * rng.random())
                child.kill()
                writes.take(agent)
            report.outcomes["killed while it wrote"] += 1
            report.note(writes)
            kept.append(writes)
            report.check(child, [writes], f"kill {number}")
        report.check(child, kept, "at the end")
    finally:
        child.close()
    return report


# -- every call in turn ------------------------------------------------------------------------------------------------


class Template:
    """A data directory that a killed daemon has left, with rows in the journal; copied for each run."""

    def __init__(self) -> None:
        self._child = Child(_place())
        self.writes = Writes("before")
        try:
            self._fill()
        except BaseException:
            self.close()
            raise

    def _fill(self) -> None:
        self._child.start()
        agent = self._child.attach()
        assert agent is not None, self._child.tail()
        with agent:
            self.writes.send(agent, 40)
            assert self.writes.take(agent)
            self.writes.send(agent, 4)
            assert self.writes.take(agent)
        self._child.kill()
        self._child.socket.unlink()  # which cannot be copied

    def copy(self, program: str = PROGRAM) -> Child:
        """In the same place each time, where the mark is too: paths are in what strace filters by."""
        shutil.copytree(self._child.base, self._copy)
        return Child(self._copy, program)

    @property
    def _copy(self) -> Path:
        return self._child.base.with_name(self._child.base.name + "r")

    def close(self) -> None:
        """Remove it, and a copy that somebody was making as this process was told to end."""
        self._child.close()
        shutil.rmtree(self._copy, ignore_errors=True)


def write(_child: Child) -> Writes:
    """The life of one that is written to."""
    return Writes("now")


def _drive(child: Child, trace: list[str], life: Life, enter: Callable[[str], object] = str) -> str:
    """Start, live, stop, as far as it gets; what became of it. ``enter`` is told each phase."""
    enter("start")
    child.start(trace)
    agent = child.attach()
    if agent is None:
        return _ending(child, "at the start")
    with suppress(*DEAD), agent:
        if not life.live(agent, enter):
            child.wait()
            return _ending(child, "while it wrote")
        enter("rest")
        sleep(0.15)  # the journal goes into the tables when nothing comes
    enter("stop")
    child.stop()
    return _ending(child, "at the end")


def _ending(child: Child, when: str) -> str:
    status = child.status
    assert status is not None
    return f"killed {when}" if status < 0 else f"status {status} {when}"


def _traced(child: Child) -> list[str]:
    return [word for path in child.files for word in ("-P", path)]


def calls_of_a_life(template: Template, make: Callable[[Child], Life] = write) -> list[Call]:
    """Those that a life makes which nothing disturbs."""
    child = template.copy()
    trace = child.base / "trace"
    phases: list[tuple[str, int]] = []
    try:
        names = ",".join(dict.fromkeys((*CALLS, *ERRORS)))
        enter = lambda phase: phases.append((phase, len(_lines(trace))))  # noqa: E731
        ending = _drive(child, [*_traced(child), "-o", str(trace), "-e", f"trace={names}"], make(child), enter)
        assert ending == "status 0 at the end", f"{ending}: {child.tail()}"
        return read_calls(_lines(trace), phases)
    finally:
        child.close()


def points(run: Run, make: Callable[[Child], Life] = write) -> Report:
    """kill -9 at every call, or at some."""
    with closing(Template()) as template:
        calls = [call for call in calls_of_a_life(template, make) if call.name in CALLS]
    cases = [Case(f"{call.name}:signal=KILL:when={call.number}", (call.phase, call.name)) for call in calls]
    return run_cases(Report("kills at every call"), run, cases, lambda: _trying(run.program, make))


def steps(run: Run) -> Report:
    """The same in a life that puts a blob, and goes through time."""
    return points(run, Steps)


def errors(run: Run) -> Report:
    """Every call fails in turn, once; and from there on, all of its name. Or some of all of these."""
    with closing(Template()) as template:
        cases = [
            Case(f"{call.name}:error={error}:when={call.number}{more}", (call.phase, call.name, f"{error}{more}"))
            for call in calls_of_a_life(template)
            for error in ERRORS.get(call.name, ())
            for more in ("", "+")
        ]
    return run_cases(Report("calls that fail"), run, cases, lambda: _trying(run.program))


def _trying(program: str, make: Callable[[Child], Life] = write) -> tuple[Try, Callable[[], None]]:
    template = Template()

    def attempt(case: Case) -> Report:
        report = Report("")
        _one(report, template, case.fault, template.copy(program), make)
        return report

    return attempt, template.close


def _one(report: Report, template: Template, fault: str, child: Child, make: Callable[[Child], Life]) -> None:
    life = make(child)
    trace = child.base / "trace"
    try:
        name = fault.split(":", 1)[0]
        began = len(child.lines())
        ending = _drive(
            child, [*_traced(child), "-o", str(trace), "-e", f"trace={name}", "-e", f"inject={fault}"], life
        )
        has_come = "killed" in ending or any("(INJECTED)" in line for line in _lines(trace))
        report.note(life)
        report.outcomes[ending if has_come else "the call did not come"] += 1
        report.found += [f"{fault}: {wrong}" for wrong in _rude(child, ending, child.lines()[began:])]
        report.check(child, [template.writes, life], fault)
        status = child.stop()
        if status != 0:
            report.found.append(f"{fault}: after the restart it stops with {status}: {child.tail()}")
    except AssertionError as error:
        report.found.append(f"{fault}: {error}")
    finally:
        child.close()


def _lines(trace: Path) -> list[str]:
    return trace.read_text(errors="replace").splitlines() if trace.exists() else []


def _rude(child: Child, ending: str, lines: list[str]) -> list[str]:
    """What it said that nobody should read, or did not say."""
    text = "\n".join(lines)
    wrong = [f"a bug: {text[-2500:]}"] if "Traceback" in text or '"event": "bug"' in text else []
    if ending.startswith("status") and child.status not in (0, FAILED):
        wrong.append(f"{ending}: {child.tail()}")
    if child.status == FAILED and not (lines and lines[-1].startswith("crdtsyncd: ")):
        wrong.append(f"{ending} without a sentence: {child.tail()}")
    return wrong


def until(seconds: float | None) -> Budget:
    """A budget of time; None: no end."""
    end_s = None if seconds is None else monotonic() + seconds
    return lambda: end_s is None or monotonic() < end_s


def can_trace() -> bool:
    """Whether there is a strace here."""
    return shutil.which("strace") is not None and os.geteuid() == 0
