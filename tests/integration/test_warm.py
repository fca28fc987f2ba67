"""What tests start ends with them, also when a test run is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.harness import wait_until
from tests.harness.warm import REQUEST_BYTES_MAX, STAND_IN, run_to_end, stand_in, warm_start

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


def test_a_stand_in_hands_on_what_it_is_told_before_it_knows_to_whom() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(f"\0crdtsync-asked-{os.getpid()}")
        listening.listen()
        command = [sys.executable, "-I", "-S", "-c", STAND_IN, listening.getsockname()[1:].decode(), "", "sleeper"]
        with subprocess.Popen(command) as asking, listening.accept()[0] as asked:
            _, (*streams, status), _, _ = socket.recv_fds(asked, REQUEST_BYTES_MAX, 4)
            asking.terminate()
            with subprocess.Popen(["sleep", "600"]) as sleeper:
                try:
                    os.write(status, sleeper.pid.to_bytes(4, "big"))
                    assert sleeper.wait(60) == -signal.SIGTERM
                    os.write(status, int(signal.SIGTERM).to_bytes(4, "big"))
                    assert asking.wait() == -signal.SIGTERM
                finally:
                    sleeper.kill()
                    asking.kill()
                    for each in (*streams, status):
                        os.close(each)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_what_is_forked_ignores_what_its_test_ignores_and_nothing_else(number: signal.Signals) -> None:
    warm_start(os.environ)
    program = f"import signal; print(repr(signal.getsignal({number:d})))"
    cold = [sys.executable, "-c", program]
    before = signal.getsignal(number)
    try:
        for handler in (signal.SIG_IGN, signal.SIG_DFL):
            signal.signal(number, handler)
            started = subprocess.check_output(cold)
            assert subprocess.check_output(stand_in(program, cold)) == started
            assert run_to_end(program, cold, [], environment=dict(os.environ), timeout_s=60).stdout == started
    finally:
        signal.signal(number, before)


def test_what_programs_of_another_python_import_is_there_for_the_next_one(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.symlink_to(sys.executable)
    program = "import sys; print(*({'colorsys', 'crdtsyncd'} & {*sys.modules}))"
    for imports in (["colorsys", "nowhere_at_all"], []):
        done = run_to_end(
            program, [str(other), "-c", f"import colorsys; {program}"], [],
            environment=dict(os.environ), imports=imports, python=str(other), timeout_s=60,
        )  # fmt: skip
        assert done.stdout == b"colorsys\n", done.stderr
