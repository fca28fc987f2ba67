"""Commands as workers: each attempt at a task is one run of a command."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING

from crdtsyncd.cli.commands.together.children import Child
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.show import output

from crdtsync.coordination import GiveBack, TaskFailed

if TYPE_CHECKING:
    from crdtsyncd.cli.command import Settings

    from crdtsync.coordination import Job, Task, Worker


class Working:
    """Workers that run one command. ``failed``: the tasks that have failed for good. ``limit_s``: of one run."""

    def __init__(self, settings: Settings, command: tuple[str, ...], limit_s: float | None) -> None:
        self._settings = settings
        self._command = command
        self._limit_s = limit_s
        self._running: set[Child] = set()
        self._lock, self._printing = Lock(), Lock()
        self._is_ending = False
        self.workers: list[Worker] = []
        self.failed: set[str] = set()

    def run(self, *, drain: bool) -> None:
        """Until all workers have ended."""
        with ThreadPoolExecutor(len(self.workers)) as pool:
            ends = [pool.submit(worker.run, drain=drain) for worker in self.workers]
            try:
                for each in ends:
                    each.result()
            finally:
                self.end(0)

    def end(self, _: int) -> None:
        """Let them end, and give back what they are at. From any thread."""
        self._is_ending = True
        for worker in self.workers:
            worker.stop()
        with self._lock:
            running = list(self._running)
        for child in running:
            child.end()

    def handle(self, job: Job) -> object:
        """Run the command for one task; the result."""
        given = {"key": job.key, "input": job.input, "attempt": job.attempt, "fence": job.lease.fence}
        child = Child(self._command, {"CRDTSYNC_TASK": job.key}, f"{output.record(given)}\n".encode())
        with self._lock:
            self._running.add(child)
        if self._is_ending:  # told to end before it was among those that run
            child.end()
        job.lease.on_lost = child.end
        try:
            status = child.wait(self._limit_s)
        finally:
            with self._lock:
                self._running.discard(child)
        if status and self._is_ending and not child.is_late:
            raise GiveBack
        if status:
            how = f"took longer than {self._limit_s:g} s" if child.is_late else f"failed with status {status}"
            raise TaskFailed(f"{self._command[0]!r} {how}")
        try:
            return _result(child.output)
        except UnicodeDecodeError:
            raise TaskFailed(f"{self._command[0]!r} printed what is not UTF-8: print it as JSON") from None

    def tell(self, ended: Task) -> None:
        """Print how an attempt has ended."""
        failure = ended.error if ended.state != "done" else ""
        how = "given back" if ended.state == "open" and not failure else failure or "done"
        if ended.state == "failed":
            self.failed.add(ended.key)
        self._print(ended, how, failure)

    def tell_of_loss(self, task: Task, theirs: Task | None) -> None:
        """Print that what came out of an attempt does not count."""
        how = "lost: the task is gone" if theirs is None else f"lost: it is {theirs.state} by {theirs.worker}"
        self._print(task, how, how)

    def _print(self, task: Task, how: str, error: str) -> None:
        fields = {"key": task.key, "attempt": task.attempts, "state": task.state, "error": error}
        with self._printing:
            output.result(self._settings, f"{task.key}: {how}", fields)
            output.flush()


def _result(printed: bytes) -> object:
    text = printed.decode().strip()
    try:
        return json_values.loads(text) if text else None
    except json_values.NotStorable:  # no JSON, so it is a text
        return text
