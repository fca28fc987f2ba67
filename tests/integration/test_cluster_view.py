"""``./dev up``: real daemons that start, are shown, come back when killed, and all stop at the end."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from crdtsyncd.devfleet.layout import NodePlace
from crdtsyncd.devfleet.observer import KeyRecord
from crdtsyncd.devfleet.process import DevNode

from crdtsync import Client
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
        ((pid, socket),) = cluster.members()
        cluster.await_line("node-1 ready")
        assert cluster.process.stdout is not None
        cluster.process.stdout.close()
        with Client(socket=socket) as client, suppress(Exception):
            client.set("plan/goal", "ship")  # something to print
        assert cluster.process.wait(WAIT_S) == 0
        assert not is_alive(pid)


@pytest.mark.integration
def test_on_a_terminal_it_draws_a_screen_until_ctrl_c():
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
        os.execv(sys.executable, [*CLUSTER, "--nodes", "2", "--demo"])
    try:
        await_screen(terminal, rb"findings")
        os.write(terminal, b"\x03")
        await_screen(terminal, rb"cluster: stopped 2 nodes")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
        os.close(terminal)


def await_screen(terminal: int, pattern: bytes) -> None:
    """Read what is drawn until the pattern is found in it."""
    drawn = b""
    deadline_s = time.monotonic() + WAIT_S
    while not re.search(pattern, drawn):
        readable, _, _ = select.select([terminal], [], [], max(0, deadline_s - time.monotonic()))
        assert readable, drawn
        drawn += os.read(terminal, 65536)


# -- drawing, without processes --------------------------------------------------------------------------------


def observer(number: int, peers: int, *, is_up: bool = True) -> SimpleNamespace:
    """What the screen is drawn from."""
    member = DevNode(NodePlace(number, Path("/tmp/cs-abcdefgh"), 7420))
    member.pid, member.is_ready = (4000 + number, True) if is_up else (None, False)
    member.fault = "killed by SIGKILL; it last said: " + "something long " * 20
    others = [n for n in range(1, peers + 1) if n != number]
    status = {
        "node": {"state": "ready"},
        "spaces": [{"keys": 12, "log_changes": 1_234_567, "siblings": 1}],
        "peers": [{"name": f"node-{n}", "state": "connected", "behind": {"default": n}} for n in others],
        "alarms": [{"message": "the clocks differ " * 10}],
    }
    now = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
    keys = ["plan/goal", "a/very/long/key/" * 8, *(f"k{n}" for n in range(40))]
    records = {key: KeyRecord(key, '"ship"  ≠  "wait"', True, "researcher", "node-1", now, "v1") for key in keys}
    return SimpleNamespace(member=member, status=status if is_up else None, is_silent=False, records=records)


@pytest.mark.parametrize("nodes", [1, 3, 16])
@pytest.mark.parametrize("width, height", [(60, 24), (80, 24), (120, 40)])
def test_the_screen_fits_and_loses_no_node(nodes: int, width: int, height: int):
    from crdtsyncd.devfleet.screen_view import draw
    from rich.console import Console

    observers = [observer(number, nodes, is_up=number != 2) for number in range(1, nodes + 1)]
    console = Console(width=width, height=height, color_system=None)
    with console.capture() as capture:
        console.print(draw(observers, 61.0, width, height))  # type: ignore[arg-type]
    lines = capture.get().splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert all(any(line.startswith(f"node-{number} ") for line in lines) for number in range(1, nodes + 1))
    assert any("≠" in line for line in lines) or nodes == 16


def test_socket_paths_are_bounded_as_in_the_daemon():
    from crdtsyncd.config import model
    from crdtsyncd.devfleet import layout

    assert layout.SOCKET_PATH_BYTES_MAX == model.SOCKET_PATH_BYTES_MAX
