"""The process in which pycrdt is given what the validator has passed, and who watches it: it may die over it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pycrdt

from crdtsync.wire.yjs.validator import InvalidUpdate, Outline, advance, validate_update
from fuzz.yjs_mutation import Reader
from fuzz.yjs_sessions import KINDS, ROOTS, attempt, edit_all

JOB_SECONDS_MAX: Final = 1.0
"""Of processor time: others may have the processor meanwhile."""
SILENCE_S_MAX: Final = 60.0
LOOK_EVERY_S: Final = 0.25
GROWTH_BYTES_MAX: Final = 64 * 1024 * 1024
JOBS_PER_WORKER: Final = 2000


def state_of(doc: Any) -> dict[int, int]:
    """What a document holds: how far of each client."""
    reader = Reader(doc.get_state())
    return {client: clock for client, clock in ((reader.uint(), reader.uint()) for _ in range(reader.uint())) if clock}


def _read_all(doc: Any) -> None:
    for name, kind in ROOTS.items():
        root: Any = doc.get(name, type=kind)
        for read in (str, len, list, dict, repr, lambda r: r.to_py(), lambda r: r.diff(), lambda r: list(r.children)):
            attempt(lambda read=read, root=root: read(root))  # type: ignore[misc]
    attempt(lambda: [str(value) for value in doc.values()])
    attempt(lambda: pycrdt.Snapshot.from_doc(doc).encode())
    attempt(lambda: doc.get_update(b"\x00"))
    attempt(lambda: doc.get_update(doc.get_state()))


def run_job(updates: Iterable[bytes], seed: int) -> str:
    """Apply accepted updates to one document and read it after each. Returns what was found, or ''."""
    doc: Any = pycrdt.Doc(client_id=2**52 + 1)
    roots = {name: doc.get(name, type=kind) for name, kind in ROOTS.items()}
    subscriptions = [root.observe_deep(lambda events: [str(event) for event in events]) for root in roots.values()]
    known = Outline(KINDS)
    note = ""
    for update in updates:
        summary = validate_update(update, known)
        try:
            doc.apply_update(update)
        except Exception as error:  # noqa: BLE001
            note = f"refused by pycrdt: {type(error).__name__}: {re.sub(r'[0-9]+', 'N', str(error))}"
            break
        advance(known, summary)
        if state_of(doc) != known:
            return f"mismatch: the document holds {state_of(doc)}, the validator says {known}"
    _read_all(doc)
    copy: Any = pycrdt.Doc()
    whole = doc.get_update()
    try:
        advance(Outline(KINDS), validate_update(whole, Outline(KINDS)))
    except InvalidUpdate as error:
        note = note or f"unfaithful: get_update() is refused: {re.sub(r'[0-9]+', 'N', str(error))}"
    copy.apply_update(whole)
    if not note and str(copy.get("text", type=pycrdt.Text)) != str(roots["text"]):
        note = "unfaithful: the text changes by a reload"
    pycrdt.merge_updates(*updates)
    edit_all(doc, random.Random(seed))
    _read_all(doc)
    copy.apply_update(doc.get_update(copy.get_state()))
    _read_all(copy)
    for root, subscription in zip(roots.values(), subscriptions, strict=True):
        root.unobserve(subscription)
    return note


def worker() -> None:
    """Read jobs from stdin, a JSON line each; answer each with a line on stdout."""
    sys.setrecursionlimit(10_000)
    for line in sys.stdin:
        seed, *updates = json.loads(line)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            found = run_job([bytes.fromhex(update) for update in updates], seed)
        except BaseException as error:  # noqa: BLE001
            found = f"panic: {type(error).__name__}: {error}"
        growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        if growth > GROWTH_BYTES_MAX:
            found = f"growth: {growth} bytes"
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


def _cpu_s(pid: int) -> float:
    """What a process that has not been waited for has had of the processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Worker:
    """One worker process at a time, replaced when it dies or after many jobs; killed by its pid."""

    def __init__(self, command: Sequence[str] = (sys.executable, str(Path(__file__).resolve()))) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.jobs = 0
        self._command = command

    def run(self, updates: list[bytes], seed: int) -> str:
        """What the worker found in this job, or ''.

        :raises RuntimeError: no worker can be started here.
        """
        if self.process is None or self.jobs >= JOBS_PER_WORKER:
            self.stop()
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            self.jobs = 0
            if found := self._ask(self.process, [], 0):  # so that its imports do not count as part of a job
                raise RuntimeError(f"a new worker: {found}")
        self.jobs += 1
        return self._ask(self.process, updates, seed, JOB_SECONDS_MAX)

    def _ask(self, process: subprocess.Popen[str], updates: list[bytes], seed: int, cpu_s_max: float = inf) -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        answer = ""
        began_s, cpu_s_max = time.monotonic(), _cpu_s(process.pid) + cpu_s_max
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps([seed, *(update.hex() for update in updates)]) + "\n")
            process.stdin.flush()
            while not select.select([process.stdout], [], [], LOOK_EVERY_S)[0]:
                is_silent = time.monotonic() - began_s > SILENCE_S_MAX
                if is_silent or _cpu_s(process.pid) > cpu_s_max:
                    self.stop()
                    return f"hang: more than {SILENCE_S_MAX if is_silent else JOB_SECONDS_MAX} s"
            answer = process.stdout.readline()
        if not answer:
            status = self.stop()
            return f"crash: the worker ended with {signal.Signals(-status).name if status < 0 else status}"
        return str(json.loads(answer))

    def stop(self) -> int:
        """End the worker, by its pid. Returns its exit status, negative for a signal."""
        process, self.process = self.process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.kill()
        with contextlib.suppress(BrokenPipeError):
            process.communicate()
        return process.returncode


if __name__ == "__main__":
    worker()
