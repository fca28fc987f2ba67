"""The fuzzers against real daemons, briefly, so that they cannot rot; ``python -m fuzz`` runs them at length."""

from __future__ import annotations

import mmap
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fuzz.decoders import DECODERS
from fuzz.workers import SHARED_BYTES, Job, job_of, read_corpus, work

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    "target,inputs", [("frames", 600), ("peer", 100), ("member", 50), ("joining", 150), ("hostile-edits", 300)]
)
def test_a_short_run_finds_nothing(target: str, inputs: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", target, "--inputs", str(inputs), "--seconds", "20"],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "seed" in done.stdout


@pytest.mark.parametrize("target", DECODERS)
def test_a_decoder_takes_what_was_kept_and_some_more(target: str, tmp_path: Path) -> None:
    """``fuzz/corpus`` has inputs of which each once led somewhere else than all others."""
    totals = run_job(job_of(target, random.Random()), tmp_path, 300, read_corpus(target))
    assert totals["inputs"] == 300
    assert not totals["finds"]


def test_a_database_recovers_from_what_was_kept_and_some_more() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "all", "--inputs", "60", "--only", "recovery"],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "60 inputs, 0 finds" in done.stdout


def test_a_find_is_seen(tmp_path: Path) -> None:
    """The control: a target that fails, hangs or dies over one input."""
    totals = run_job(Job(lambda: b"ok", lambda _: 1 // 0, (ValueError,)), tmp_path)
    assert "ZeroDivisionError" in totals["finds"][0]
    totals = run_job(Job(lambda: b"ok", lambda _: compute(1.1), ()), tmp_path, count=1)
    assert "it took" in totals["finds"][0]
    hoard: list[bytes] = []
    totals = run_job(Job(lambda: b"ok", lambda _: hoard.append(os.urandom(100_000)), ()), tmp_path, count=1500)
    assert "grew by" in totals["finds"][0]


def compute(seconds: float) -> None:
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


def run_job(job: Job, place: Path, count: int = 10, corpus: Sequence[bytes] = ()) -> dict[str, Any]:
    with (place / "shared").open("w+b") as file:
        file.truncate(SHARED_BYTES)
        return work(job, count, 30, list(corpus), mmap.mmap(file.fileno(), SHARED_BYTES))
