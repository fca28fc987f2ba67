"""``./dev up``: real daemons that start, are told of, come back when killed, and all stop at the end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from crdtsync import Client
from tests.harness import wait_until
from tests.harness.shell import Running

WAIT_S = 60.0
CLUSTER = [sys.executable, "-m", "crdtsyncd.devfleet"]


class Cluster:
    """A running cluster whose output is a pipe."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    def await_line(self, pattern: str) -> re.Match[str]:
        """The first line from now on that the pattern is found in."""
        assert self.process.stdout is not None
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            line = self.process.stdout.readline()
            assert line, f"ended before {pattern!r}: {self.lines}"
            self.lines.append(line.rstrip("\n"))
            found = re.search(pattern, line)
            if found is not None:
                return found
        raise AssertionError(f"{pattern!r} did not come: {self.lines}")

    def members(self) -> list[tuple[int, Path]]:
        """Process id and socket of each node, from what is printed at the start."""
        count = int(self.await_line(r"cluster: (\d+) nodes?, ready in")[1])
        found = [self.await_line(r"node-\d, pid (\d+), socket (\S+)") for _ in range(count)]
        return [(int(match[1]), Path(match[2])) for match in found]

    def stop(self, number: signal.Signals) -> int:
        """Send a signal; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)


@contextmanager
def running(*arguments: str):
    environment = {**os.environ, "CRDTSYNC_PEERS": "ws://127.0.0.1:1"}  # meant for another daemon
    process = subprocess.Popen([*CLUSTER, *arguments], stdout=subprocess.PIPE, text=True, bufsize=1, env=environment)
    try:
        yield Cluster(process)
    finally:
        process.terminate()
        try:
            process.wait(WAIT_S)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.integration
def test_a_write_on_one_node_is_read_on_another_and_a_killed_daemon_comes_back_with_it():
    with running("--nodes", "3") as cluster:
        members = cluster.members()
        sockets = [socket for _, socket in members]
        with Client(socket=sockets[0]) as writer, Client(socket=sockets[2]) as reader:
            token = writer.set("plan/goal", "ship")
            assert reader.get("plan/goal", after=token) == "ship"
        os.kill(members[1][0], signal.SIGKILL)
        cluster.await_line(r"node-2 down, killed by SIGKILL")
        pid = int(cluster.await_line(r"node-2 ready, pid (\d+)")[1])
        assert pid != members[1][0]
        with Client(socket=sockets[1]) as client:
            assert client.get("plan/goal", after=token) == "ship"
        assert cluster.stop(signal.SIGINT) == 0
        assert not any(is_alive(pid) for pid in [pid, members[0][0], members[2][0]])
        assert not sockets[0].parent.exists()


@pytest.mark.integration
@pytest.mark.parametrize("after_s", [0.05, 0.2, 0.5])
def test_an_interrupt_is_quiet_however_early_it_comes(after_s: float, tmp_path: Path):
    # Not with -m: what is interrupted before this program begins is Python itself.
    program = [sys.executable, "-c", "from crdtsyncd.devfleet.__main__ import main; print(flush=True); main()"]
    with Running(program, dict(os.environ), tmp_path) as run:
        run.line()
        time.sleep(after_s)
        status, err = run.interrupt()
    assert (status in (0, 130), err) == (True, "")


@pytest.mark.integration
def test_data_stays_in_a_directory_that_was_asked_for(tmp_path: Path):
    directory = tmp_path / "c"
    with running("--nodes", "2", "--dir", str(directory)) as cluster:
        (_, socket), _ = cluster.members()
        with Client(socket=socket) as client:
            client.set("plan/goal", "ship", w="all")
        second = subprocess.run([*CLUSTER, "--dir", str(directory)], capture_output=True, text=True, check=False)
        assert second.returncode == 1
        assert "another cluster runs in" in second.stderr
        assert cluster.stop(signal.SIGTERM) == 0
    with running("--nodes", "2", "--dir", str(directory)) as cluster:
        _, (_, socket) = cluster.members()
        with Client(socket=socket) as client:
            assert client.get("plan/goal") == "ship"


@pytest.mark.integration
def test_a_daemon_that_hangs_is_called_silent_and_is_stopped_like_the_others():
    with running("--nodes", "2") as cluster:
        members = cluster.members()
        cluster.await_line("node-2 ready")
        os.kill(members[1][0], signal.SIGSTOP)
        cluster.await_line("node-2 silent")
        assert cluster.stop(signal.SIGTERM) == 0
        assert not any(is_alive(pid) for pid, _ in members)


@pytest.mark.integration
def test_a_daemon_that_cannot_start_ends_the_cluster_with_its_reason(tmp_path: Path):
    (tmp_path / "2").write_text("where the data of node 2 should be")
    done = subprocess.run([*CLUSTER, "--dir", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.fullmatch(
        r"cluster: node-2 did not start, exit status 1; it last said: .*data directory.*\n", done.stderr
    )


@pytest.mark.integration
def test_it_ends_when_nobody_reads_what_it_prints():
    with running("--nodes", "1") as cluster:
        ((pid, _),) = cluster.members()
        cluster.await_line("node-1 ready")
        assert cluster.process.stdout is not None
        cluster.process.stdout.close()
        os.kill(pid, signal.SIGKILL)  # something to print
        assert cluster.process.wait(WAIT_S) == 0
        assert not is_alive(pid)


@pytest.mark.integration
def test_the_agents_of_a_demo_write_on_every_node():
    with running("--nodes", "2", "--demo") as cluster:
        for _, socket in cluster.members():
            with Client(socket=socket) as client:
                wait_until(lambda: {"plan/goal", "findings", "notes"} <= {*client.keys()}, timeout_s=WAIT_S)
        assert cluster.stop(signal.SIGINT) == 0


def test_socket_paths_are_bounded_as_in_the_daemon():
    from crdtsyncd.config import model
    from crdtsyncd.devfleet import layout

    assert layout.SOCKET_PATH_BYTES_MAX == model.SOCKET_PATH_BYTES_MAX
