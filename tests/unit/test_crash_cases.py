"""Which calls of a daemon's life the crash harness disturbs, and in what order."""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.crash.cases import Call, Case, coverage, read_calls, spread

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
