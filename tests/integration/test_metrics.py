"""The figures of a daemon: what they count, where they are had, and alarms before a bound is reached."""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
import sys
from contextlib import suppress

import pytest

from crdtsync import Client
from crdtsync.errors import NotAllowed
from tests.harness import Daemon, wait_until
from tests.harness.daemon import PROGRAM
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration


def figures(text: str) -> dict[str, float]:
    """Every sample, by its name with labels."""
    return {name: float(value) for name, value in re.findall(r"^([^#\n]\S*(?:\{[^\n]*\})?) (\S+)$", text, re.MULTILINE)}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_requests_changes_and_conflicts_are_counted(pair):
    first, second = (daemon.client() for daemon in pair)
    first.get("key"), second.get("key")
    pair.cut(0, 1)
    first.set("key", 1)
    second.set("key", 2)
    pair.heal()
    wait_until(lambda: second.conflicts("key"), what="the conflict is seen")
    found = figures(second.metrics())
    assert found['crdtsync_writes_total{operation="set"}'] == 1
    assert found['crdtsync_reads_total{operation="get"}'] == 1
    assert found["crdtsync_changes_made_total"] == 1
    assert found["crdtsync_changes_received_total"] == 1
    assert found["crdtsync_conflicts_total"] == 1
    assert found['crdtsync_space_conflicts{space="default"}'] == 1
    assert found["crdtsync_commit_seconds_count"] == second.status()["store"]["commits"]
    node = pair[0].status()["node"]["id"]
    assert found[f'crdtsync_peer_connected{{node="{node}",peer="{pair[0].name}"}}'] == 1
    assert found['crdtsync_alarm_raised{code="divergence"}'] == 0


def test_merged_kinds_make_no_conflicts(daemon):
    client = daemon.client()
    other = daemon.client("other")
    for state in (client, other):
        state.incr("count")
        state.append("log", 1)
        state.add("set", 1)
        state.merge("map", {"a": 1})
    assert figures(client.metrics())["crdtsync_conflicts_total"] == 0


def test_refusals_are_counted_by_code(daemon, tmp_path):
    client = daemon.client()
    client.set("key", 1)
    assert Shell(daemon.socket, tmp_path)("append", "key", "1").status == 4
    assert figures(client.metrics())['crdtsync_refusals_total{code="kind_mismatch"}'] == 1


def test_prometheus_asks_on_loopback(make_daemon):
    often = f"from crdtsyncd.telemetry import metrics_http; metrics_http.RETRY_S = 0.2; {PROGRAM}"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        daemon = make_daemon(metrics_listen=f"127.0.0.1:{port}", program=often)
        assert "no_metrics" in daemon.alarms(), "and it serves agents all the same"
    wait_until(lambda: "no_metrics" not in daemon.alarms(), what="the daemon has the port that is free now")

    def ask(path: str, host: str = "localhost", method: str = "GET") -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request(method, path, headers={"Host": host})
        response = connection.getresponse()
        return response.status, response.read().decode()

    status, text = ask("/metrics")
    assert status == 200
    with daemon.client() as client:
        client.session(space=client.create_space("payroll", private=True).name).set("wage", 1)
        assert 'crdtsync_space_keys{space="payroll"}' in figures(client.metrics())
    private = figures(ask("/metrics")[1])
    assert (private['crdtsync_space_keys{space="_other"}'], private['crdtsync_space_keys{space="default"}']) == (1, 0)
    assert "payroll" not in ask("/metrics")[1]
    assert figures(text)["crdtsync_read_only"] == 0
    assert ask("/other")[0] == 404
    assert ask("/metrics", method="POST")[0] == 405
    assert ask("/other", method="POST")[0] == 404
    assert ask("/metrics", host="evil.example:80")[0] == 403
    assert ask("/metrics", method="HEAD") == (200, "")


def test_an_endless_request_does_not_hold_the_listener(make_daemon):
    port = free_port()
    make_daemon(metrics_listen=f"127.0.0.1:{port}")
    with socket.create_connection(("127.0.0.1", port), 5) as endless:
        endless.sendall(b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 3000)
        endless.settimeout(10)
        with suppress(ConnectionResetError):
            assert endless.recv(1) == b""


@pytest.mark.parametrize("address", ["0.0.0.0:9742", "192.0.2.1:9742", "127.0.0.1"])
def test_metrics_for_other_machines_are_refused(tmp_path, address):
    shell = Shell(tmp_path / "none", tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", "from crdtsyncd.main import main; main()", "--check-config"],
        env={**shell.environment, "CRDTSYNC_METRICS_LISTEN": address},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "metrics_listen" in done.stderr


def test_an_alarm_comes_before_the_bound(make_daemon):
    often = "from crdtsyncd.loop import housekeeping; housekeeping.USAGE_INTERVAL_S = 0.5; " + PROGRAM
    daemon = make_daemon(agents_max=10, program=often)
    clients = [daemon.client(f"agent-{n}") for n in range(7)]
    for client in clients:
        client.get("key")
    wait_until(lambda: "near_limit" in daemon.alarms(), what="the alarm")
    usage = {usage["name"]: usage for usage in daemon.status()["usage"]}
    assert usage["agents"]["bound"] == 10
    for client in clients:
        client.close()
    wait_until(lambda: "near_limit" not in daemon.alarms(), what="it clears")


def test_the_log_level_changes_at_run_time(daemon, tmp_path):
    crdtsync = Shell(daemon.socket, tmp_path)
    assert crdtsync.ok("log-level") == "info"
    assert crdtsync.ok("log-level", "debug") == "debug"
    daemon.wait_log("log_level_changed")
    assert crdtsync.ok("log-level") == "debug"
    daemon.reload()
    daemon.wait_log("reloaded")
    assert crdtsync.ok("log-level") == "info"
    assert crdtsync("log-level", "loud").status == 2


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_only_the_operator_may_change_the_log_level_or_take_a_backup(daemon: Daemon, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    daemon.base.chmod(0o755)
    daemon.run.chmod(0o755)
    daemon.socket.chmod(0o666)
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        try:
            with Client(str(daemon.socket), agent="stranger") as state:
                refused = 0
                for what in (lambda: state.log_level("debug"), lambda: state.backup("/tmp/never")):
                    try:
                        what()
                    except NotAllowed:
                        refused += 1
                os._exit(0 if refused == 2 and state.log_level() == "info" else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
