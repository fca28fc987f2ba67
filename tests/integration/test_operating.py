"""The way of an operator, from the first installation to the last, on one booted machine: nothing is lost on it.

Install 0.1.0, upgrade to the build before this one, then to this one; break and mend; become a cluster; remove a member
and let it in again; lose the disk and restore. What a step is to bring is compared after each.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from time import monotonic, sleep
from typing import Any

import pytest

from tests.harness.machine import Machine, install_wheel, lacks
from tests.integration.test_upgrade import ROOT, UNIT, build, has_commit, release

SETTINGS = "/etc/crdtsync/crdtsyncd.toml"
OTHER = "/var/lib/other"
SOCKET = f"{OTHER}/agent.sock"
PATIENCE_S = 60.0
BEFORE = "HEAD~1"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(bool(lacks()), reason=lacks()),
    pytest.mark.skipif(not has_commit(), reason="the history of this checkout does not reach back to the release"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with three builds beside each other in /opt: ``release``, ``before``, ``now``."""
    place = tmp_path_factory.mktemp("operating")
    for name, commit in (("release", release()[1]), ("before", BEFORE), ("now", "")):
        source = ROOT if not commit else place / name / "source"
        (place / name).mkdir()
        if commit:
            source.mkdir()
            files = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=True).stdout
            subprocess.run(["tar", "-x", "-C", str(source)], input=files, check=True)
        install_wheel(build(source, place / name), place / "opt")
        (place / "opt" / "crdtsync").rename(place / "opt" / name)
    with Machine(place / "opt") as machine:
        yield machine


def use(machine: Machine, build: str) -> None:
    """As pip does: another build in the place of the one that is installed."""
    machine.run("sh", "-c", f"rm -rf /opt/crdtsync && cp -a /opt/{build} /opt/crdtsync")


def found(machine: Machine) -> dict[str, list[dict[str, Any]]]:
    """What doctor says that is not well, by check; but for what no machine like this one has."""
    lines = machine.call("crdtsync", "doctor", "--json").stdout.splitlines()
    by_check: dict[str, list[dict[str, Any]]] = {}
    for finding in map(json.loads, lines):
        if finding["state"] != "ok" and finding["check"] not in ("clock", "disk", "disk_filling"):
            by_check.setdefault(finding["check"], []).append(finding)
    return by_check


def until(check: Any, what: str) -> None:
    deadline = monotonic() + PATIENCE_S
    while not check():
        assert monotonic() < deadline, what
        sleep(0.2)


def holds(machine: Machine, count: int, socket: str = "/run/crdtsync/agent.sock") -> bool:
    """Whether all that was written so far is there: the goal, and an element of each stage."""
    got = [
        machine.call("crdtsync", "--socket", socket, *what).stdout for what in (("get", "plan/goal"), ("log", "log"))
    ]
    return got == ['"ship"\n', "".join(f"{n}\n" for n in range(count))]


def append(machine: Machine, stage: int) -> None:
    machine.run("crdtsync", "append", "log", str(stage))


def test_the_way_of_an_operator(machine: Machine) -> None:
    use(machine, "release")
    machine.run("crdtsync", "service", "install")
    machine.run("crdtsync", "set", "plan/goal", '"ship"')
    append(machine, 0)
    upgrade(machine)
    break_and_mend(machine)
    become_a_cluster(machine)
    remove_and_rejoin(machine)
    lose_and_restore(machine)
    assert "kept" in machine.run("crdtsync", "service", "uninstall")


def upgrade(machine: Machine) -> None:
    """Over the build before; doctor sees each upgrade, and what is still to be done."""
    for stage, name in enumerate(("before", "now"), 1):
        use(machine, name)
        (version,) = found(machine)["daemon"]
        assert "and this command is of version" in version["message"]
        machine.run("crdtsync", "service", "install")
        machine.run("systemctl", "restart", UNIT)
        assert holds(machine, stage)
        append(machine, stage)
        assert set(found(machine)) == set()
    node = json.loads(machine.run("crdtsync", "status", "--json"))["node"]
    assert node["version"] == machine.run("crdtsync", "--version").split()[1]


def break_and_mend(machine: Machine) -> None:
    """Settings with a fault: doctor names them, and once they are right, who waited gets through."""
    machine.run("sh", "-c", f"mkdir -p /etc/crdtsync && echo 'log_level = 5' > {SETTINGS}")
    assert machine.call("systemctl", "restart", UNIT).returncode == 1
    assert "log_level = 5" in found(machine)["service"][0]["message"]
    waiting = machine.start("sh", "-c", "until crdtsync append log 3 --timeout 1s 2> /dev/null; do sleep 0.2; done")
    machine.run("rm", SETTINGS)
    waiting.communicate(timeout=PATIENCE_S)
    assert holds(machine, 4)
    assert set(found(machine)) == set()


def become_a_cluster(machine: Machine) -> None:
    """What 0.1.0 wrote comes along; another host joins, and one screen shows both."""
    refused = machine.call("crdtsync", "cluster", "init")
    assert "--merge" in refused.stderr
    machine.run("crdtsync", "cluster", "init", "--merge", "--listen", "127.0.0.1:7420")
    assert holds(machine, 4)
    start_other(machine, 4)
    until(lambda: "?" not in machine.run("crdtsync", "cluster", "status"), "each has said how it is")
    rows = [json.loads(line) for line in machine.run("crdtsync", "cluster", "status", "--json").splitlines()]
    assert [(row["state"], row["alarms"]) for row in rows] == [("ready", [])] * 2
    assert len({row["version"] for row in rows}) == 1


def start_other(machine: Machine, count: int) -> None:
    """A second host: another daemon, which joins and waits until it has got everything."""
    daemon = ("/opt/crdtsync/bin/crdtsyncd", "--data-dir", OTHER, "--socket", SOCKET, "--listen", "127.0.0.1:7421")
    machine.run("mkdir", "--mode=700", OTHER)
    machine.run("systemd-run", "--unit=other", "--collect", *daemon, "--node-name", "host-z")
    until(lambda: machine.call("crdtsync", "--socket", SOCKET, "ls").returncode == 0, "it serves")
    machine.run("sh", "-c", f"crdtsync cluster invite --local | crdtsync --socket {SOCKET} cluster join -")
    until(lambda: holds(machine, count, SOCKET), "it has got everything")


def remove_and_rejoin(machine: Machine) -> None:
    """No screen shows a removed host; with another key it is let in again, and gets what it lacks."""
    machine.run("crdtsync", "cluster", "remove", "host-z")
    until(lambda: machine.run("crdtsync", "peers") == "no peers\n", "it is forgotten")
    append(machine, 4)
    for command in ("status", "top", "doctor", "metrics"):
        assert "host-z" not in machine.call("crdtsync", command).stdout
    machine.run("sh", "-c", f"systemctl stop other.service && mv {OTHER} /var/lib/aside")
    start_other(machine, 5)
    assert "connected" in machine.run("crdtsync", "peers")


def lose_and_restore(machine: Machine) -> None:
    """The disk is lost: the backup brings the node back, and its peer what came after."""
    machine.run("crdtsync", "backup", "/srv/backup")
    append(machine, 5)
    until(
        lambda: machine.run("crdtsync", "--socket", f"{OTHER}/agent.sock", "log", "log").endswith("5\n"), "it is there"
    )
    machine.run("systemctl", "stop", "crdtsyncd.socket", UNIT)
    machine.run("sh", "-c", "rm -r /var/lib/crdtsync/*")
    machine.run("crdtsync", "restore", "/srv/backup")
    machine.run("systemctl", "start", "crdtsyncd.socket", UNIT)
    until(lambda: holds(machine, 6), "all of it is back")
    until(lambda: set(found(machine)) <= {"peers"}, "it is well")
