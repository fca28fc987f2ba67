"""The judge of tasks under faults: an honest record passes, and every lie that it could be told is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtsync.coordination import Task
from tests.nemesis.tasks import Record, Run, Trouble, runs_in, violations

FIRST = Run("tasks/1", "a0", "a", 7, True, 20.0, 20.1, 20.15, 25.0)
AGAIN = Run("tasks/1", "b0", "b", 8, True, 20.2, 20.3, 20.35, 25.0)
DONE = Task("tasks/1", "done", 1, attempts=1, result="a0 7")
BOTH = replace(DONE, result="b0 8", crossed=("a0 7",))


def record(*runs: Run, task: Task = DONE, troubles: tuple[Trouble, ...] = ()) -> Record:
    return Record(["tasks/1"], list(runs), list(troubles), finals={"a": [task], "b": [task]})


def test_what_is_done_once_is_right() -> None:
    assert violations(record(FIRST)) == []


@pytest.mark.parametrize("host", ["a", "b", "*"])
def test_hosts_that_do_not_see_each_other_may_both_do_a_task(host: str) -> None:
    assert violations(record(FIRST, AGAIN, task=BOTH, troubles=(Trouble(host, 18.0, 19.0),))) == []


@pytest.mark.parametrize(
    "first",
    [
        replace(FIRST, ended_s=None, over_s=None),
        replace(FIRST, over_s=None),
        replace(FIRST, is_confirmed=False),
        replace(FIRST, held_until_s=20.12, over_s=20.4),
    ],
    ids=["killed at work", "killed before its result is stored", "not confirmed", "slower than its claim"],
)
def test_a_task_is_begun_again_if_its_worker_is_killed_or_too_slow_or_may_be_unknown(first: Run) -> None:
    assert violations(record(first, AGAIN, task=BOTH)) == []


@pytest.mark.parametrize(
    "wrong,complaint",
    [
        (record(FIRST, AGAIN, task=BOTH), "and begun on b"),
        (record(replace(FIRST, over_s=20.4), AGAIN, task=BOTH), "and begun on b"),
        (record(replace(FIRST, held_until_s=20.17), AGAIN, task=BOTH), "and begun on b"),
        (record(FIRST, AGAIN, task=BOTH, troubles=(Trouble("c", 18.0, 30.0),)), "and begun on b"),
        (record(FIRST, AGAIN, task=BOTH, troubles=(Trouble("a", 1.0, 9.0),)), "and begun on b"),
        (record(FIRST, AGAIN, troubles=(Trouble("a", 18.0, 30.0),)), "tells of one attempt"),
        (record(FIRST, task=replace(DONE, state="failed")), "is failed on a"),
        (record(FIRST, task=replace(DONE, result="c0 9")), "that no worker returned"),
        (record(FIRST, task=replace(DONE, key="tasks/2")), "does not have it"),
        (replace(record(FIRST), finals={"a": [DONE], "b": [replace(DONE, attempts=2)]}), "different things"),
    ],
)
def test_each_broken_promise_is_found(wrong: Record, complaint: str) -> None:
    assert any(complaint in found for found in violations(wrong)), violations(wrong)


def test_what_a_worker_said_is_read_up_to_the_line_in_which_it_was_killed() -> None:
    said = (
        '{"begun": "tasks/1", "fence": 7, "confirmed": true, "at_s": 20.0}\n'
        '{"done": "tasks/1", "held_until_s": 25.0, "at_s": 20.1}\n{"stored": "tasks/1", "at_s": 20.15}\n'
        '{"begun": "tasks/2", "fence": 9, "confirmed": true, "at_s": 21.0}\n{"done": "tas'
    )
    assert runs_in(said, "a0", "a") == [FIRST, Run("tasks/2", "a0", "a", 9, True, 21.0, None, None, 0.0)]


def test_what_cannot_be_inflicted_here_is_told():
    assert Record(left_out={"clock": "faketime"}).lines()[-1] == "LEFT OUT: clock, for faketime is not installed"
