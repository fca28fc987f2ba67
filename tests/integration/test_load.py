"""Many agents, some of whom never read; ``./dev load`` does it with 1,000."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.harness.shell import Running
from tests.load.plants import PLANTS
from tests.load.run import Scale, run

pytestmark = pytest.mark.integration


@pytest.mark.slow
def test_others_are_served_and_memory_stays_within_its_bound() -> None:
    report = run(Scale(agents=200, silent=40, peers=1, spaces=30, large=6, samples=25))
    assert not report.found, "\n".join([*report.lines, *report.found])
    assert sum("meanwhile" in line for line in report.lines) == 4, report.lines
    assert sum("afterwards" in line for line in report.lines) == 4, report.lines


@pytest.mark.slow
def test_rare_slow_commits_are_found() -> None:
    scale = Scale(agents=0, silent=0, peers=0, spaces=0, large=1, samples=100)
    report = run(scale, program=PLANTS["slow-commits"])
    assert any("afterwards: one write in 100 takes" in each for each in report.found), report.lines


@pytest.mark.slow
def test_a_buffer_without_a_bound_is_found() -> None:
    scale = Scale(agents=20, silent=20, peers=0, spaces=0, large=16, samples=1)
    report = run(scale, program=PLANTS["unbounded"])
    assert any("grew by" in each for each in report.found), [*report.lines, *report.found]


@pytest.mark.parametrize(
    "words", ["--samples 0", "--agents 5 --silent 10", "--silent -5",
              "--agents 0 --silent 0 --peers 0 --spaces 0 --large 0 --keys 0"],
)  # fmt: skip
def test_a_load_of_nothing_is_refused(words: str) -> None:
    command = [sys.executable, "-m", "tests.load", *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: " in done.stderr


STORY = """
import runpy, sys, tempfile
place, make = sys.argv.pop(1), tempfile.mkdtemp
tempfile.mkdtemp = lambda prefix=None, dir=None: make(prefix=prefix, dir=place)
runpy.run_module("tests.load", run_name="__main__")
"""


def test_a_load_that_is_stopped_leaves_nothing_behind() -> None:
    place = Path(tempfile.mkdtemp(prefix="csl", dir="/tmp"))
    words = ["--agents", "0", "--silent", "0", "--large", "100000", "--samples", "1"]
    command = [sys.executable, "-u", "-c", STORY, str(place), *words]
    with Running(command, dict(os.environ), Path.cwd()) as run:
        assert run.line().startswith("nothing yet")
        assert len(list(place.iterdir())) == 2
        run.process.send_signal(signal.SIGTERM)
        _, complained = run.process.communicate(timeout=60)
    assert run.process.returncode == 128 + signal.SIGTERM, complained
    assert complained == b"stopped by SIGTERM; what ran has been ended\n"
    place.rmdir()  # as nothing is in it
