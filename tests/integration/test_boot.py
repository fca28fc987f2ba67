"""As a service of a real systemd: installed from the wheel, killed, frozen, reloaded, stopped and started.

Nothing acknowledged is lost, and nobody is refused. The tests share one machine and follow each other, as its life
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from crdtsyncd.storage.schema import FORMAT

from tests.harness.machine import Machine, install_wheel, lacks

ROOT = Path(__file__).resolve().parents[2]
UNIT = "crdtsyncd.service"
SETTINGS = "/etc/crdtsync/crdtsyncd.toml"
DATABASE = "/var/lib/crdtsync/crdtsync.db"
WHEELS = "/opt/wheels"
WATCHDOG_S = 10.0
GRACE_S = 30.0  # systemd takes a tenth of a second; other tests share the machine

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(bool(lacks()), reason=lacks()),
]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with the wheel of this checkout installed, and the service put in place by its own command."""
    place = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "--wheel-dir", str(place), str(ROOT)], check=True)
    (wheel,) = place.glob("*.whl")
    install_wheel(wheel, place / "opt")
    (place / "opt" / "wheels").mkdir()
    shutil.copy(wheel, place / "opt" / "wheels")
    with Machine(place / "opt") as machine:
        yield machine


def pid(machine: Machine) -> int:
    return int(machine.property(UNIT, "MainPID"))


def wait_restarted(machine: Machine, before: int, timeout_s: float) -> float:
    """Until another process serves and has said so; how long that took."""
    start = monotonic()
    while monotonic() - start < timeout_s:
        if pid(machine) not in (0, before) and machine.property(UNIT, "ActiveState") == "active":
            return monotonic() - start
        sleep(0.05)
    pytest.fail(f"not restarted within {timeout_s} s: {machine.run('systemctl', 'status', UNIT, '--no-pager')}")


def wait_logged(machine: Machine, text: str, times: int = 1) -> None:
    """Until the service has logged it: systemctl reload may return when the signal is sent."""
    deadline = monotonic() + GRACE_S
    while machine.run("journalctl", "--unit", UNIT, "--no-pager", "--output", "cat").count(text) < times:
        assert monotonic() < deadline, text
        sleep(0.1)


def wait_property(machine: Machine, unit: str, name: str, value: str) -> None:
    deadline = monotonic() + GRACE_S
    while machine.property(unit, name) != value:
        assert monotonic() < deadline, f"{unit}: {name} is not {value}"
        sleep(0.1)


def bad_settings(machine: Machine) -> None:
    machine.run("sh", "-c", f"echo 'log_level = 5' > {SETTINGS}")


PAGE = ROOT / "docs" / "how-to" / "run.md"


def page_section(title: str) -> str:
    """A section of the page about the service."""
    return PAGE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def status(machine: Machine) -> dict[str, Any]:
    return json.loads(machine.run("crdtsync", "status", "--json"))


def test_install_says_what_it_did_and_starts_the_service(machine):
    said = machine.run("crdtsync", "service", "install")
    assert "wrote /etc/systemd/system/crdtsyncd.service" in said
    assert "started crdtsyncd.service" in said
    machine.run("crdtsync", "set", "booted", "true")
    assert machine.run("crdtsync", "get", "booted") == "true\n"
    assert re.search(r"ready; \d+ agents?, 0 peer", machine.property(UNIT, "StatusText"))
    assert machine.property(UNIT, "User") == "crdtsync"
    assert status(machine)["store"]["path"] == "/var/lib/crdtsync/crdtsync.db"


def test_install_again_changes_nothing(machine):
    before = pid(machine)
    again = [json.loads(line) for line in machine.run("crdtsync", "service", "install", "--json").splitlines()]
    assert {step["did"] for step in again} == {"unchanged"}
    assert pid(machine) == before


def test_a_service_that_is_killed_loses_nothing_and_refuses_nobody(machine):
    """Writers go on through the kill: the socket is systemd's, so connections wait instead of being refused."""
    writer = machine.start("/opt/crdtsync/bin/python", "-c", _WRITER, "killed", "2000")
    wait_for_length(machine, "killed", 200)
    before = pid(machine)
    machine.run("kill", "-9", str(before))
    wait_restarted(machine, before, GRACE_S)
    out, err = writer.communicate(timeout=100)
    assert writer.returncode == 0, err
    assert json.loads(out) == {"acknowledged": 2000, "refused": 0}
    assert len(machine.run("crdtsync", "log", "killed").splitlines()) == 2000


def test_a_service_that_hangs_is_restarted_by_the_watchdog(machine):
    machine.run("crdtsync", "set", "frozen", '"kept"')
    before = pid(machine)
    stopped_s = float(machine.run("sh", "-c", f"read now _ < /proc/uptime; kill -STOP {before}; echo $now"))
    wait_restarted(machine, before, WATCHDOG_S + GRACE_S)
    started_s = int(machine.property(UNIT, "ExecMainStartTimestampMonotonic")) / 1e6
    assert started_s - stopped_s <= WATCHDOG_S + 3, "by systemd's own clock, when it started another process"
    assert machine.run("crdtsync", "get", "frozen") == '"kept"\n'
    assert machine.property(UNIT, "NRestarts") != "0"


def test_reload_keeps_the_process_and_the_attached_agents(machine):
    before = pid(machine)
    machine.run("sh", "-c", "echo 'log_level = \"debug\"' > /etc/crdtsync/crdtsyncd.toml")
    machine.run("systemctl", "reload", UNIT)
    assert pid(machine) == before
    wait_logged(machine, '"reloaded"')
    assert machine.run("crdtsync", "log-level") == "debug\n"
    bad_settings(machine)
    assert machine.call("systemctl", "reload", UNIT).returncode == 1
    wait_logged(machine, "reload_refused")
    assert pid(machine) == before
    assert machine.run("crdtsync", "log-level") == "debug\n", "what held before holds"
    assert "log_level = 5" in machine.property(UNIT, "StatusText")
    machine.run("sh", "-c", f"rm {SETTINGS} && systemctl reload {UNIT}")
    wait_logged(machine, '"reloaded"', times=2)
    assert "log_level" not in machine.property(UNIT, "StatusText")


def test_what_no_start_heals_is_told_and_ends_by_itself_once_it_is_mended(machine):
    """Settings with a fault, then a database of a newer version, while an agent asks again and again."""
    bad_settings(machine)
    restarts = machine.property(UNIT, "NRestarts")
    assert machine.call("systemctl", "restart", UNIT).returncode == 1
    assert_left_alone(machine, 2, "log_level = 5", "correct the settings")
    assert machine.property(UNIT, "NRestarts") in ("0", restarts)
    failed = machine.call("crdtsync", "service", "install")
    assert (failed.returncode, "log_level = 5" in failed.stderr) == (2, True)
    asking = machine.start("sh", "-c", "until crdtsync get booted --timeout 1s 2> /dev/null; do :; done")
    starts = count_starts(machine)
    sleep(12.0)  # some of the attempts that the agent causes
    assert 1 <= count_starts(machine) - starts <= 4, "each takes its time, so a loop does not eat the machine"
    assert machine.property("crdtsyncd.socket", "ActiveState") == "active"
    machine.run("rm", SETTINGS)
    assert asking.communicate(timeout=GRACE_S)[0] == "true\n", "nobody had to do anything else"
    change = f"import sqlite3; sqlite3.connect('{DATABASE}').execute('PRAGMA user_version = {{}}').connection.close()"
    machine.run("systemctl", "stop", UNIT, "crdtsyncd.socket")
    machine.run("/opt/crdtsync/bin/python", "-c", change.format(1000))
    untouched = machine.run("sha256sum", DATABASE)
    assert machine.call("systemctl", "start", "crdtsyncd.socket", UNIT).returncode == 1
    assert_left_alone(machine, 65, "was written by a newer crdtsyncd", "do what that says")
    machine.run("systemctl", "stop", UNIT, "crdtsyncd.socket")
    assert machine.run("sha256sum", DATABASE) == untouched
    machine.run("/opt/crdtsync/bin/python", "-c", change.format(FORMAT))
    (command,) = re.findall(r"\n    sudo (systemctl start .*)\n", page_section("When it does not start"))
    machine.run("sh", "-c", command)
    assert machine.run("crdtsync", "get", "booted") == "true\n"


def count_starts(machine: Machine) -> int:
    """How often the manager has begun to start the service."""
    return machine.run("journalctl", "--unit", UNIT, "--no-pager", "--output", "cat").count("Starting crdtsyncd")


def test_agents_keep_their_socket_through_more_kills_than_one_can_count(machine):
    """Twenty-one in a row, under load: each new connection starts the service, and none of them is refused."""
    writer = machine.start("/opt/crdtsync/bin/python", "-c", _WRITER, "kills", "4000")
    wait_for_length(machine, "kills", 1)  # it is attached: who has never been is told of a daemon that is gone
    for _ in range(21):
        before = pid(machine)
        machine.run("kill", "-9", str(before))
        wait_restarted(machine, before, GRACE_S)
    out, err = writer.communicate(timeout=100)
    assert writer.returncode == 0, err
    assert json.loads(out) == {"acknowledged": 4000, "refused": 0}
    assert machine.property("crdtsyncd.socket", "ActiveState") == "active"


LOST = ["active", "failed"]
"""The states of the service and of its socket."""


@pytest.mark.parametrize("way", ["remedy", "install"])
def test_a_socket_that_its_manager_gave_up_comes_back(machine, way):
    """As the units of older versions lose it: the service runs on, and nobody reaches it."""
    limit = "/run/systemd/system/crdtsyncd.socket.d/limit.conf"
    lines = "[Socket]\\nTriggerLimitIntervalSec=2min\\nTriggerLimitBurst=1\\n"
    machine.run("sh", "-c", f"mkdir -p {Path(limit).parent} && printf '{lines}' > {limit} && systemctl daemon-reload")
    asking = machine.start("sh", "-c", "rm -f /run/done; until [ -e /run/done ]; do crdtsync ls; done > /dev/null 2>&1")
    deadline = monotonic() + 2 * GRACE_S
    while (states := [machine.property(unit, "ActiveState") for unit in (UNIT, "crdtsyncd.socket")]) != LOST:
        assert monotonic() < deadline, states
        if states[1] != "failed":  # else the service may start, and open it
            machine.call("systemctl", "kill", "--signal=KILL", UNIT)
        elif states[0] in ("failed", "inactive"):  # its manager gave up both: begin anew
            machine.call("systemctl", "start", "crdtsyncd.socket", UNIT)
        sleep(0.3)
    machine.run("sh", "-c", f"rm {limit} && systemctl daemon-reload")
    machine.run("touch", "/run/done")
    asking.communicate(timeout=GRACE_S)
    said = machine.call("crdtsync", "service", "status").stderr
    (remedy,) = re.findall(r"sudo (systemctl .*)", said)
    machine.run("sh", "-c", remedy if way == "remedy" else "crdtsync service install")
    assert machine.run("crdtsync", "get", "booted") == "true\n"
    assert "active" in machine.run("crdtsync", "service", "status")


def assert_left_alone(machine: Machine, status: int, cause: str, remedy: str) -> None:
    """Both commands that look at the service name the cause and the remedy."""
    assert machine.property(UNIT, "ActiveState") == "failed"
    assert machine.property(UNIT, "ExecMainStatus") == str(status)
    said = machine.call("crdtsync", "service", "status")
    assert said.returncode == 3
    found = [json.loads(line) for line in machine.call("crdtsync", "doctor", "--json").stdout.splitlines()]
    (fault,) = [each for each in found if each["check"] == "service" and UNIT in each["message"]]
    for text in (said.stderr, f"{fault['message']}; {fault['remedy']}"):
        assert f"exit status {status}" in text
        assert cause in text
        assert remedy in text
        assert "sudo systemctl start crdtsyncd.socket crdtsyncd.service" in text
        assert "service install" not in text


def test_peers_find_their_port_and_the_daemon_its_key_where_systemd_keeps_them(machine):
    """By the commands of the page, but for what they move."""
    commands = re.findall(r"^    sudo (.*)$", page_section("Peers' port and node key"), re.MULTILINE)
    assert len(commands) == 7
    key, certificate = (machine.run("cat", f"/var/lib/crdtsync/node.{what}") for what in ("key", "crt"))
    machine.run("ip", "address", "add", "10.9.8.7/32", "dev", "lo")  # the only one that others could reach
    for command in commands:
        machine.run("sh", "-c", command)
    assert machine.call("test", "-e", "/var/lib/crdtsync/node.key").returncode != 0
    assert machine.run("cat", "/etc/credstore/crdtsync.node.key") == key
    assert machine.run("crdtsync", "get", "booted") == "true\n"
    assert machine.run("cat", "/var/lib/crdtsync/node.crt") == certificate, "that of the key which was handed over"
    machine.run("crdtsync", "cluster", "init")
    assert json.loads(machine.run("crdtsync", "cluster", "invite", "--json"))["addresses"] == ["10.9.8.7:7420"]
    refused = machine.call("crdtsync", "cluster", "rotate-key")
    assert "service manager" in refused.stderr


def test_stop_and_start_keep_the_data_and_the_writer(machine):
    machine.run("crdtsync", "set", "before", "1")
    writers = set(status(machine)["spaces"][0]["version_vector"])
    machine.run("systemctl", "stop", UNIT, "crdtsyncd.socket")
    assert machine.call("crdtsync", "get", "before").returncode == 3
    assert machine.call("crdtsync", "service", "status").returncode == 3
    machine.run("systemctl", "start", "crdtsyncd.socket")
    assert machine.run("crdtsync", "get", "before") == "1\n"  # the first connection starts the service
    machine.run("crdtsync", "set", "after", "2")
    assert set(status(machine)["spaces"][0]["version_vector"]) == writers
    assert "active" in machine.run("crdtsync", "service", "status")


def test_only_the_group_may_attach(machine):
    machine.run("useradd", "stranger")
    machine.run("useradd", "--groups", "crdtsync", "member")
    refused = machine.call("runuser", "-u", "stranger", "--", "/opt/crdtsync/bin/crdtsync", "get", "booted")
    assert refused.returncode == 3
    assert "crdtsync" in refused.stderr
    assert machine.run("runuser", "-u", "member", "--", "/opt/crdtsync/bin/crdtsync", "get", "booted") == "true\n"


def test_the_unit_is_hardened(machine):
    analysis = machine.run("systemd-analyze", "security", "--offline=true", "--no-pager", f"/etc/systemd/system/{UNIT}")
    exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", analysis)
    assert exposure is not None
    assert float(exposure[1]) <= 1.3


def test_the_how_to_works_as_it_is_written(machine):
    """Every command of the page, in its order, but for the sections that other tests run, and the last."""
    page = PAGE.read_text()
    for title in ("Peers' port and node key", "Back up", "Restore"):
        page = page.replace(page_section(title), "")
    lines = [line.partition("  #")[0].strip() for line in re.findall(r"^    (\S.*)$", page, re.MULTILINE)]
    assert lines.pop() == "sudo crdtsync service uninstall"
    assert len(lines) == 15
    machine.run("sh", "-c", f"useradd --create-home alice && cp {WHEELS}/*.whl . && mv /opt/crdtsync /opt/before")
    for line in lines:
        if line.endswith("--follow"):
            follows(machine, line)
        elif line.endswith("--user") or line.startswith("loginctl"):
            as_alice(machine, line)
        else:
            machine.run(
                "sh", "-c", line.replace("sudo ", "").replace("/pip install", "/pip install --quiet --no-index")
            )
        if " venv " in line:  # what the package asks for, in the place of an index
            packages = "lib/python3*/site-packages"
            machine.run("sh", "-c", f"cp -a /opt/before/{packages}/. /opt/crdtsync/{packages}/")
            machine.run("sh", "-c", f"rm -r /opt/crdtsync/{packages}/crdtsync*")
    assert machine.run("crdtsync", "get", "booted") == "true\n"
    assert "crdtsync" in machine.run("id", "--name", "--groups", "alice").split()
    assert machine.run("readlink", "/usr/local/bin/crdtsync") == "/opt/crdtsync/bin/crdtsync\n"
    assert "alice" in machine.run("loginctl", "list-users")
    as_alice(machine, "crdtsync set mine 1 && test -S $XDG_RUNTIME_DIR/crdtsync/agent.sock")
    assert "crdtsyncd.service  active, enabled" in as_alice(machine, "crdtsync service status --user")
    found = [json.loads(line) for line in as_alice(machine, "crdtsync doctor --json").splitlines()]
    assert [each["message"] for each in found if each["state"] == "problem"] == []
    assert machine.call("crdtsync", "get", "mine").returncode == 1, "the machine's daemon is another one"
    assert "removed" in as_alice(machine, "crdtsync service uninstall --user")


def follows(machine: Machine, line: str) -> None:
    """A command that ends only when somebody stops it says something."""
    with machine.start("sh", "-c", f"exec {line}") as following:
        assert following.stdout is not None
        assert following.stdout.readline()
        following.kill()


def as_alice(machine: Machine, line: str) -> str:
    """What a user who is logged in types; what it prints."""
    login = ("systemd-run", "--quiet", "--pipe", "--wait", "--uid=alice", "--property=PAMName=login")
    return machine.run(*login, "--working-directory=/home/alice", "--", "sh", "-c", line)


def test_a_backup_is_restored_by_the_commands_of_the_page(machine):
    commands = re.findall(r"^    sudo (.*)$", page_section("Restore"), re.MULTILINE)
    (backup,) = {word for command in commands for word in command.split() if word.startswith("/srv/backup/")}
    (nightly,) = re.findall(r"^    30 3 \* \* \*  root  (.*)$", page_section("Back up"), re.MULTILINE)
    machine.run("sh", "-c", f"mkdir /srv/backup && crdtsync backup {backup} && crdtsync set booted false")
    for command in commands:
        machine.run("sh", "-c", command)
    machine.run("systemctl", "start", UNIT)  # the next command would do so too, and not wait for it as long
    assert machine.run("crdtsync", "get", "booted") == "true\n"
    machine.run("sh", "-c", nightly.replace("\\%", "%"))  # as cron reads it
    assert len(machine.run("ls", "/srv/backup").split()) == 2


def test_uninstall_keeps_the_data(machine):
    """The last: the service is gone afterwards."""
    (line,) = re.findall(r"\n    sudo (.*)\n", page_section("Remove"))
    removed = machine.run("sh", "-c", line)
    assert "removed /etc/systemd/system/crdtsyncd.service" in removed
    assert machine.call("test", "-e", "/run/crdtsync/agent.sock").returncode != 0
    assert machine.call("systemctl", "cat", UNIT).returncode != 0
    machine.run("test", "-f", "/var/lib/crdtsync/crdtsync.db")
    assert "kept" in machine.run("crdtsync", "service", "uninstall")
    machine.run("crdtsync", "service", "install")
    assert machine.run("crdtsync", "get", "booted") == "true\n"


def wait_for_length(machine: Machine, key: str, length: int) -> None:
    deadline = monotonic() + 30
    while monotonic() < deadline:
        done = machine.call("crdtsync", "log", key)
        if len(done.stdout.splitlines()) >= length:
            return
    pytest.fail(f"{key} did not reach {length} elements")


_WRITER = """
import json, socket, sys
from crdtsync import Client
key, count = sys.argv[1], int(sys.argv[2])
refused = 0
connect = socket.socket.connect
def counted(self, address):
    global refused
    try:
        return connect(self, address)
    except ConnectionRefusedError:
        refused += 1
        raise
socket.socket.connect = counted
with Client("/run/crdtsync/agent.sock") as state:
    for n in range(count):
        state.append(key, n)
print(json.dumps({"acknowledged": count, "refused": refused}))
"""
