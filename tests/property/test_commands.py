"""The commands of the harnesses: what does nothing is refused, and whoever ends them finds nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.shell import Running
from tests.simulator.__main__ import main
from tests.simulator.faults import FAULTS, chosen_by, names

STORY = """
import os, signal, subprocess, sys
from tests.simulator.commands import run_until_stopped

def main():
    try:
        print("runs", flush=True)
        signal.pause()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
            subprocess.run([sys.executable, "-c", f"import os; os.kill(os.getpid(), {number})"], check=True)
        print("cleaned up", flush=True)

sys.exit(run_until_stopped(main))
"""


MIDST = """
import signal, sys, threading
from tests.simulator.commands import run_until_stopped

def main():
    lock = threading.Lock()
    with lock:  # whose end fails, as that of a wait for a condition does that ends between two steps
        lock.release()
        print("runs", flush=True)
        signal.pause()

sys.exit(run_until_stopped(main))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_stopped_cleans_up_undisturbed_and_says_one_line(number: signal.Signals) -> None:
    assert what_is_said_by(STORY, number) == "cleaned up\n"


def test_so_does_one_that_was_stopped_in_the_midst_of_a_lock() -> None:
    assert what_is_said_by(MIDST, signal.SIGTERM) == ""


def what_is_said_by(story: str, number: signal.Signals) -> str:
    """By a command that is stopped: it ends as one that was."""
    with Running([sys.executable, "-c", story], dict(os.environ), Path.cwd()) as run:
        assert run.line() == "runs\n"
        run.process.send_signal(number)
        said, complained = run.process.communicate(timeout=60)
    assert complained.decode() == f"stopped by {number.name}; what ran has been ended\n"
    assert run.process.returncode == 128 + number
    return said.decode()


@pytest.mark.parametrize(
    "words",
    [
        ["--seeds", "0"],
        ["--steps", "-1"],
        ["--jobs", "0"],
        ["--minutes", "0"],
        ["--faults", "--seeds", "0"],
        ["--faults", "--fault", "nosuch"],
        ["--fault", "resets"],
        ["--seed", "17", "--only", "999999"],
        ["--seed", "17", "--only", "3,x"],
        ["--only", "3"],
    ],
    ids=" ".join,
)
def test_a_simulation_of_nothing_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(words)
    assert refused.value.code == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", ["crash kills --count 0", "crash points --cases 0", "crash power --cuts 0", "nemesis --minutes 0"]
)
def test_a_harness_that_would_do_nothing_refuses(words: str) -> None:
    # In a process of its own: the first of them tunes the daemon that it forks.
    harness, *options = words.split()
    done = subprocess.run(
        [sys.executable, "-m", f"tests.{harness}", *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "has to be more than 0, and is 0" in done.stderr


def test_a_campaign_without_time_for_anything_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "1", "--jobs", "1", "--minutes", "1e-12"]) == 1
    assert "nothing was played" in capsys.readouterr().err


def test_faults_are_chosen_by_their_names_as_they_are_written_anywhere() -> None:
    assert len(names()) == len(FAULTS) == len(chosen_by(None))
    for name in names():
        assert name in [fault.name.replace("_", " ") for fault in chosen_by(name)]
        assert chosen_by(name) == chosen_by(name.replace(" ", "_"))
    assert not chosen_by("nosuch")
