"""System calls of a running process that fail, or are slow, by strace."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.harness.cluster import wait_until
from tests.harness.daemon import Daemon


class CannotTraceError(Exception):
    """There is no strace here, or it may not attach."""


def inject(strace: str, daemon: Daemon, *faults: str, paths: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    """Have system calls of a running daemon fail, such as by ``fsync:error=EIO:when=3``; all of its threads.

    :raises CannotTraceError: that does not work here.
    """
    words = [word for fault in faults for word in ("-e", f"inject={fault}")]
    traced = ",".join(fault.split(":", 1)[0] for fault in faults)
    only = [word for path in paths for word in ("-P", path)]
    tracer = subprocess.Popen(
        [strace, "-f", "-qq", "-o", "/dev/null", *only, "-e", f"trace={traced}", *words, "-p", str(daemon.pid)],
        stderr=subprocess.PIPE,
    )
    tasks = Path(f"/proc/{daemon.pid}/task")
    wait_until(lambda: tracer.poll() is not None or _is_attached(tasks, tracer.pid), what="strace is attached")
    if tracer.poll() is not None and daemon.is_running:
        assert tracer.stderr is not None
        with tracer.stderr as stream:
            raise CannotTraceError(stream.read().decode().strip())
    return tracer


def _is_attached(tasks: Path, tracer: int) -> bool:
    try:
        return all(f"TracerPid:\t{tracer}" in (task / "status").read_text() for task in tasks.iterdir())
    except OSError:
        return False  # a thread that has just ended


def stop(tracer: subprocess.Popen[bytes]) -> None:
    """Let the process go on without faults."""
    if tracer.poll() is None:
        tracer.send_signal(signal.SIGTERM)
    tracer.wait(60)
    if tracer.stderr is not None:
        tracer.stderr.close()
