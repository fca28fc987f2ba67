"""The simulator itself: a seed is a run, what fails is made small and told in words, and the command counts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulator.__main__ import main
from tests.simulator.faults import FAULTS
from tests.simulator.faults.planting import catch, planted
from tests.simulator.histories import plan_history, play, run_history
from tests.simulator.shrinking import failure_of, shrink, trace

SEED = 3
PRINT_FINGERPRINT = f"""
from tests.simulator.histories import run_history
print(run_history({SEED}, steps=60).fingerprint)
"""
LOSES_SYNCED = next(fault for fault in FAULTS if fault.name == "commits_are_not_flushed")


@pytest.fixture(scope="module")
def losing() -> int:
    """A seed whose history finds that commits are not flushed."""
    caught = catch(LOSES_SYNCED, range(100))
    assert caught is not None
    return caught.seed


def test_a_seed_says_all_that_happens() -> None:
    """Also in another process, where sets of words have another order and the system another entropy."""
    here = run_history(SEED, steps=60).fingerprint
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    command = [sys.executable, "-c", PRINT_FINGERPRINT]
    there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert int(there.stdout) == here
    assert here != run_history(SEED + 1, steps=60).fingerprint


def test_hosts_whose_clocks_differ_may_differ_in_what_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    """One still has two values where a schema wants them resolved, and refuses to choose; the other shows the one."""
    monkeypatch.setattr("tests.simulator.kinds.register.PLAIN_CHANCE", 0.0)
    world = play(plan_history(357, steps=60).only({41, 50, 54}))
    assert world.counts["refused unresolved"] == 1


@pytest.mark.slow
def test_what_fails_is_made_small_and_told_in_words(losing: int) -> None:
    with planted(LOSES_SYNCED):
        plan = plan_history(losing)
        failure = failure_of(plan)
        assert failure is not None
        small, failure = shrink(plan, failure, seconds_max=600, tries_max=16)
        assert failure.name == "Broken"
        assert len(small.steps) <= len(plan.steps) // 2
        told = trace(small)
    assert any("the power of" in line for line in told)
    assert told[-1] == f"!! {failure.text}"
    assert failure_of(small) is None, "without the fault it is well"


def test_the_command_tells_how_much_it_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3", "--steps", "20", "--jobs", "1"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("3 seeds, 60 operations, ")
    assert "operations/s and core, 0 failed" in printed


def test_the_command_replays_a_seed_in_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "5", "--steps", "20", "--only", "3,4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("-- ") for line in lines) == 3  # and that all is mended
    assert lines[-1] == "all is well"


def test_the_command_fails_where_a_promise_is_broken(losing: int, capsys: pytest.CaptureFixture[str]) -> None:
    with planted(LOSES_SYNCED):
        assert main(["--seed", str(losing), "--steps", "120"]) == 1
    assert "!! " in capsys.readouterr().out
