"""What tests start ends with them, also when a test run is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.harness import wait_until
from tests.harness.warm import stand_in

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells"),
]

KILLED = """
import os, pathlib, signal, sys
from tests.harness import Daemon
print(Daemon(base=pathlib.Path(sys.argv[1])).pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_daemon_does_not_outlive_a_test_process_that_is_killed() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "CRDTSYNC_TEST_COLD"}
    with TemporaryDirectory(prefix="cs", dir="/tmp") as base:
        done = subprocess.run(
            [sys.executable, "-c", KILLED, base],
            cwd=Path(__file__).parents[2],
            env=environment,
            stdout=subprocess.PIPE,
            check=False,
        )
        daemon = Path("/proc", str(int(done.stdout)))
        wait_until(lambda: not daemon.exists(), what="the daemon has ended")


def test_an_import_that_fails_ends_nobody_but_who_asked_for_it() -> None:
    for name, status in (("nowhere_at_all", 1), ("json", 0)):
        program = f"import {name}; print({name!r})"
        command = stand_in(program, [sys.executable, "-c", program], name)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, name in done.stdout + done.stderr) == (status, True)
