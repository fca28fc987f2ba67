"""Runs a target that takes inputs one by one in processes of its own, and watches them.

Whatever a worker is at work on stands in memory that it shares with who watches it: a process that dies or hangs leaves
the input that did it. What gives an outcome that none gave before is kept in ``fuzz/corpus``, and is tried first ever
after.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final

CORPUS: Final = Path(__file__).parent / "corpus"
CORPUS_INPUTS_MAX: Final = 40
CORPUS_INPUT_BYTES_MAX: Final = 600
INPUT_S_MAX: Final = 1.0
"""Of processor time: others may have the processor meanwhile."""
SILENCE_S_MAX: Final = 30.0
GROWTH_BYTES_MAX: Final = 64 * 1024 * 1024
SETTLE_INPUTS: Final = 500
INPUTS_PER_WORKER: Final = 50_000
SHARED_BYTES: Final = 2 * 1024 * 1024
FINDS_MAX: Final = 5


@dataclass
class Totals:
    """The figures of one target."""

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    finds: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    grown_bytes: int = 0
    seconds: float = 0.0
    novel: dict[str, str] = field(default_factory=dict)

    def line(self, name: str) -> str:
        """For people."""
        return (
            f"{name:14} {self.inputs:>9,} inputs in {self.seconds:5.0f} s, slowest {self.slowest_s * 1000:4.0f} ms, "
            f"grew by {self.grown_bytes / 2**20:4.1f} MiB, {len(self.outcomes)} outcomes, {len(self.finds)} finds"
        )


@dataclass(frozen=True)
class Job:
    """What a worker does: ``take`` returns or raises one of ``refuses``."""

    next_input: Callable[[], bytes]
    take: Callable[[bytes], object]
    refuses: tuple[type[BaseException], ...]


def signature(error: BaseException) -> str:
    """What an error says, without what is of this one input."""
    words = re.sub(r"'[^']*'|\"[^\"]*\"|[0-9][0-9,._]*", "#", str(error))
    return f"{type(error).__name__}: {words[:70]}"


_MAKING: Final = b"\xff" * 8
"""Instead of the size of an input: the next one is being made, and whatever happens then is no find."""
_SAID: Final = ("inputs", "outcomes", "finds", "slowest_s", "grown_bytes", "novel")


# -- inside ------------------------------------------------------------------------------------------------------------


def work(job: Job, count: int, seconds: float, corpus: list[bytes], shared: mmap.mmap) -> dict[str, Any]:
    """Try the corpus, then new inputs; the figures as they are printed."""
    totals, base_bytes = Totals(), 0
    deadline = time.monotonic() + seconds
    sizes: dict[str, int] = {}
    while totals.inputs < count and time.monotonic() < deadline and len(totals.finds) < FINDS_MAX:
        shared[8:16] = _MAKING
        data = corpus.pop() if corpus else job.next_input()
        totals.inputs += 1
        place = data[: SHARED_BYTES - 16]
        shared[16 : 16 + len(place)] = place
        shared[:16] = totals.inputs.to_bytes(8, "big") + len(place).to_bytes(8, "big")
        began_s = time.thread_time()
        outcome = "taken"
        try:
            job.take(data)
        except job.refuses as error:
            outcome = signature(error)
        except BaseException as error:  # noqa: BLE001  # just what is looked for
            calls = extract_tb(error.__traceback__)[:-8:-1]
            where = " < ".join(f"{Path(call.filename).name}:{call.lineno}" for call in calls)
            totals.finds.append(f"{type(error).__name__}: {error} at {where} from {data.hex()[:4000]}")
            outcome = f"FOUND {signature(error)}"
        took_s = time.thread_time() - began_s
        totals.slowest_s = max(totals.slowest_s, took_s)
        if took_s > INPUT_S_MAX:
            totals.finds.append(f"it took {took_s:.1f} s for {data.hex()[:4000]}")
        totals.outcomes[outcome] += 1
        if len(data) <= CORPUS_INPUT_BYTES_MAX and len(data) < sizes.get(outcome, CORPUS_INPUT_BYTES_MAX + 1):
            sizes[outcome] = len(data)
            totals.novel[outcome] = data.hex()
        if totals.inputs == SETTLE_INPUTS:
            base_bytes = _rss_bytes()
        elif base_bytes and totals.inputs % 500 == 0:
            totals.grown_bytes = max(totals.grown_bytes, _rss_bytes() - base_bytes)
            if totals.grown_bytes > GROWTH_BYTES_MAX:
                totals.finds.append(f"grew by {totals.grown_bytes:,} bytes, at the latest with {data.hex()[:4000]}")
    return {
        name: getattr(totals, name) for name in ("inputs", "outcomes", "finds", "slowest_s", "grown_bytes", "novel")
    }


def _rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def worker(target: str, seed: int, count: int, seconds: float, path: str) -> None:
    """The process: its figures are one line of JSON."""
    with Path(path).open("r+b") as file:
        shared = mmap.mmap(file.fileno(), SHARED_BYTES)
    print(json.dumps(work(job_of(target, random.Random(seed)), count, seconds, read_corpus(target), shared)))


def job_of(target: str, rng: random.Random) -> Job:
    """The target of that name."""
    if target == "recovery":
        from fuzz.recovery import recovery  # noqa: PLC0415  # each imports what it needs

        return recovery(rng)
    from fuzz.decoders import DECODERS  # noqa: PLC0415

    decoder = DECODERS[target]
    return Job(decoder.make(rng), decoder.take, decoder.refuses)


# -- outside -----------------------------------------------------------------------------------------------------------


def read_corpus(target: str) -> list[bytes]:
    """What was kept of earlier runs."""
    path = CORPUS / f"{target}.txt"
    return [bytes.fromhex(line) for line in path.read_text().split()] if path.exists() else []


def keep(target: str, totals: Totals) -> None:
    """Keep one small input of each outcome."""
    CORPUS.mkdir(exist_ok=True)
    kept = sorted(totals.novel.values(), key=len)[:CORPUS_INPUTS_MAX]
    (CORPUS / f"{target}.txt").write_text("".join(f"{line}\n" for line in sorted(kept)))


def run(target: str, inputs: int, seconds: float, seed: int) -> Totals:
    """So many inputs, or as many as the time allows, in one worker after the other."""
    totals, rng = Totals(), random.Random(f"{seed}/{target}")
    began_s = time.monotonic()
    while totals.inputs < inputs and len(totals.finds) < FINDS_MAX:
        left_s = seconds - (time.monotonic() - began_s)
        if left_s <= 0:
            break
        count = min(INPUTS_PER_WORKER, inputs - totals.inputs)
        _one_worker(target, rng.randrange(2**32), count, left_s, totals)
    totals.seconds = time.monotonic() - began_s
    return totals


def _one_worker(target: str, seed: int, count: int, seconds: float, totals: Totals) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as file:
        file.truncate(SHARED_BYTES)
        words = [sys.executable, "-m", "fuzz", "worker", target, str(seed), str(count), str(seconds), file.name]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                output, errors = _watch(process, Path(file.name), totals)
            except BaseException:
                process.kill()
                raise
        shared = Path(file.name).read_bytes()
    tried, size = int.from_bytes(shared[:8], "big"), int.from_bytes(shared[8:16], "big")
    if process.returncode == -signal.SIGKILL and shared[8:16] == _MAKING:
        totals.inputs += max(tried, 1)
        return
    if process.returncode != 0:
        totals.inputs += max(tried, 1)
        why = f"ended with {process.returncode}" if process.returncode > 0 else f"died of signal {-process.returncode}"
        totals.finds.append(f"a worker {why} over {shared[16 : 16 + size].hex()[:4000]}: {errors[-1000:]}")
        return
    found = json.loads(output.splitlines()[-1])
    totals.inputs += found["inputs"]
    totals.outcomes.update(found["outcomes"])
    totals.finds += found["finds"]
    totals.slowest_s = max(totals.slowest_s, found["slowest_s"])
    totals.grown_bytes = max(totals.grown_bytes, found["grown_bytes"])
    for outcome, data in found["novel"].items():
        if len(data) < len(totals.novel.get(outcome, "x" * 10_000)):
            totals.novel[outcome] = data


def _watch(process: subprocess.Popen[str], path: Path, totals: Totals) -> tuple[str, str]:
    last = b""
    while True:
        try:
            return process.communicate(timeout=SILENCE_S_MAX)
        except subprocess.TimeoutExpired:
            with path.open("rb") as file:
                now = file.read(16)
            if now == last and process.poll() is None:
                if now[8:] != _MAKING:
                    totals.finds.append(f"a worker said nothing for {SILENCE_S_MAX:.0f} s")
                process.kill()
            last = now
