"""Which calls of a daemon's life the crash harness disturbs, and in what order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.crash.cases import Call, Case, chosen, coverage, read_calls, spread
from tests.crash.jobs import Run, run_cases
from tests.crash.report import Report

TRACE = """\
7 openat(AT_FDCWD, "crdtsync.db", O_RDWR) = 3
7 pwrite64(3, "x", 1, 0) = 1
7 pwrite64(3, "x", 1, 0 <unfinished ...>
9 pwrite64(3, "x", 1, 0) = 1
7 <... pwrite64 resumed>) = 1
9 pwrite64(3, "x", 1, 0) = 1
9 pwrite64(3, "x", 1, 0) = 1
7 +++ exited with 0 +++
""".splitlines()


def test_calls_are_counted_for_each_name_and_thread_as_strace_does() -> None:
    assert read_calls(TRACE, [("start", 0), ("write", 2), ("rest", 2), ("stop", 6)]) == [
        Call("openat", 1, "start"), Call("pwrite64", 1, "start"), Call("pwrite64", 2, "rest"),
        Call("pwrite64", 3, "stop"),
    ]  # fmt: skip


def test_each_beginning_has_as_much_of_every_stratum_while_it_lasts() -> None:
    cases = [
        Case(f"{name} {n}", ("start", name)) for name, count in (("a", 1), ("b", 5), ("c", 20)) for n in range(count)
    ]
    order = spread(cases, Random(3))
    assert sorted(order) == sorted(cases)
    strata = [case.stratum[1] for case in order]
    assert [Counter(strata[:count]) for count in (3, 5, 11)] == [
        {"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 2, "c": 2}, {"a": 1, "b": 5, "c": 5},
    ]  # fmt: skip
    tried = Counter(case.stratum for case in order[:5])
    assert coverage(cases, tried) == ["5 of 26 cases, of 3 of 3 names and phases:", "start: a 1/1, b 2/5, c 2/20"]


def test_cases_are_chosen_by_phase_call_and_error() -> None:
    cases = [Case(f"{call} {error}", ("write", call, error)) for call in ("a", "b") for error in ("EIO", "EIO+")]
    assert chosen(cases, ()) == cases
    assert [case.fault for case in chosen(cases, ("write/a/EIO+", "*/b/*"))] == ["a EIO+", "b EIO", "b EIO+"]


def test_what_was_tried_is_noted_and_not_tried_again(tmp_path: Path) -> None:
    cases = [Case(f"case {n}", ("write", "pwrite64")) for n in range(9)]
    run = Run(1, lambda: True, count=5, jobs=2, noted=tmp_path / "tried")
    assert run_cases(Report("first"), run, cases, make).runs == 5
    second = run_cases(Report("second"), run, cases, make)
    assert second.runs == 4
    assert second.covered[0].startswith("9 of 9 cases")
    assert sorted(second.found) == ["odd"] * len(second.found)
    assert sorted((tmp_path / "tried").read_text().splitlines()) == [case.fault for case in cases]


def make() -> tuple[Callable[[Case], Report], Callable[[], None]]:
    """What finds something in every other case."""
    return lambda case: Report("", runs=1, found=["odd"] if int(case.fault[-1]) % 2 else []), lambda: None
