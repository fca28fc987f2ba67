"""The fuzzers against real daemons, briefly, so that they cannot rot; ``python -m fuzz`` runs them at length."""

from __future__ import annotations

import mmap
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fuzz import yjs_worker
from fuzz.decoders import DECODERS
from fuzz.workers import SHARED_BYTES, Job, job_of, read_corpus, work
from fuzz.yjs_worker import Worker
from tests.harness import wait_until

pytestmark = pytest.mark.integration

SEED = ("--seed", "1")
"""Here is seen that the fuzzers run, each time alike. What is new is found by those that run long."""
RUN_S_MAX = 240
"""More than any takes: a run ends with its inputs, and not with its time."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "target,inputs",
    [("frames", 600), ("peer", 100), ("member", 50), ("joining", 150), ("hostile-edits", 300), ("slow-edits", 30)],
)
def test_a_short_run_finds_nothing(target: str, inputs: int) -> None:
    limit = ("--limit-s", "5") if target == "slow-edits" else ()  # what is too slow is not for a busy machine to say
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", target, "--inputs", str(inputs), "--seconds", "20", *limit, *SEED],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "seed" in done.stdout


@pytest.mark.parametrize("target", DECODERS)
def test_a_decoder_takes_what_was_kept_and_some_more(target: str, tmp_path: Path) -> None:
    """``fuzz/corpus`` has inputs of which each once led somewhere else than all others."""
    totals = run_job(job_of(target, random.Random(1)), tmp_path, 300, read_corpus(target))
    assert totals["inputs"] == 300
    assert not totals["finds"]


@pytest.mark.slow
def test_a_database_recovers_from_what_was_kept_and_some_more() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "all", "--inputs", "25", "--only", "recovery", *SEED],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "25 inputs, 0 finds" in done.stdout


def fuzz_all(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fuzz", "all", *words],
        cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("words", [("--inputs", "0"), ("--minutes", "0"), ("--minutes", "0.0")])
def test_a_run_that_tries_nothing_is_no_success(words: tuple[str, ...]) -> None:
    with fuzz_all(*words) as process:
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 2, said
    assert "has to be more than 0" in said


def test_sigterm_ends_what_it_has_started() -> None:
    with fuzz_all("--only", "frames") as process:
        try:
            wait_until(lambda: len(descendants(process.pid)) > 1, what="its daemon is up")
            started = descendants(process.pid)
            process.terminate()
            said = process.communicate(timeout=60)[0]
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGTERM, said
    # Whose parent is gone is init's, which has still to take it from the table: killed is not yet gone.
    wait_until(lambda: not [pid for pid in started if Path(f"/proc/{pid}").exists()], what="they have ended")


def descendants(parent: int) -> list[int]:
    with suppress(OSError):
        children = [*map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())]
        return [*children, *(pid for child in children for pid in descendants(child))]
    return []


def test_a_find_is_seen(tmp_path: Path) -> None:
    """The control: a target that fails, hangs or dies over one input."""
    totals = run_job(Job(lambda: b"ok", lambda _: 1 // 0, (ValueError,)), tmp_path)
    assert "ZeroDivisionError" in totals["finds"][0]
    totals = run_job(Job(lambda: b"ok", lambda _: compute(1.1), ()), tmp_path, count=1)
    assert "it took" in totals["finds"][0]
    hoard: list[mmap.mmap] = []  # of pages from the kernel: those that this process has given back would not show

    def keep(_: bytes) -> None:
        hoard.append(mmap.mmap(-1, 100_000))
        hoard[-1].write(b"x" * 100_000)

    totals = run_job(Job(lambda: b"ok", keep, ()), tmp_path, count=1500)
    assert "grew by" in totals["finds"][0]


def compute(seconds: float) -> None:
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


def run_job(job: Job, place: Path, count: int = 10, corpus: Sequence[bytes] = ()) -> dict[str, Any]:
    with (place / "shared").open("w+b") as file:
        file.truncate(SHARED_BYTES)
        return work(job, count, RUN_S_MAX, list(corpus), mmap.mmap(file.fileno(), SHARED_BYTES))


def _answering(first: str, then: str) -> tuple[str, ...]:
    """A worker that does the one over the job that only shows that it is up, and the other over those after it."""
    code = f"""
import sys, time
sys.stdin.readline()
{first}
print('""', flush=True)
sys.stdin.readline()
{then}
print('"found"', flush=True)
"""
    return sys.executable, "-c", code


def test_a_worker_that_cannot_start_is_told() -> None:
    with pytest.raises(RuntimeError, match="a new worker: crash: the worker ended with SIGKILL"):
        Worker(_answering("import os; os.kill(os.getpid(), 9)", "")).run([], 0)


def test_a_job_hangs_by_its_own_time_and_not_while_others_have_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yjs_worker, "JOB_SECONDS_MAX", 0.2)
    waits, turns = Worker(_answering("", "time.sleep(0.5)")), Worker(_answering("", "while True: pass"))
    try:
        assert waits.run([], 0) == "found"
        assert turns.run([], 0) == "hang: more than 0.2 s"
    finally:
        waits.stop()
        turns.stop()
