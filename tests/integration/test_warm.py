"""What tests start ends with them, also when a test run is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.harness import wait_until

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
