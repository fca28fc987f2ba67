"""From the previous release to this checkout, as a service of a real systemd, with data in place and agents attached.

The release is built out of the commit that its page under docs/releases names; older formats than its own are covered
by fixtures.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from tests.harness.machine import Machine, install_wheel, lacks
from tests.integration.test_boot import _WRITER

ROOT = Path(__file__).resolve().parents[2]
UNIT = "crdtsyncd.service"
DATABASE = "/var/lib/crdtsync/crdtsync.db"


def release() -> tuple[str, str]:
    """Version and commit of the newest release that has a page."""
    pages = sorted(
        (ROOT / "docs" / "releases").glob("*.md"), key=lambda page: [int(part) for part in page.stem.split(".")]
    )
    commit = re.search(r"^- \*\*commit\*\*: `([0-9a-f]{40})`$", pages[-1].read_text(), re.MULTILINE)
    assert commit is not None, f"{pages[-1]} names no commit"
    return pages[-1].stem, commit[1]


def has_commit() -> bool:
    probe = ["git", "-C", str(ROOT), "cat-file", "-e", f"{release()[1]}^{{commit}}"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(bool(lacks()), reason=lacks()),
    pytest.mark.skipif(not has_commit(), reason="the history of this checkout does not reach back to the release"),
]


def build(source: Path, place: Path) -> Path:
    """The wheel of a source tree."""
    program = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*program, "--wheel-dir", str(place), str(source)], check=True)
    return next(place.glob("*.whl"))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with the release in /opt/crdtsync and this checkout beside it, in /opt/new."""
    place = tmp_path_factory.mktemp("upgrade")
    old = subprocess.run(["git", "-C", str(ROOT), "archive", release()[1]], capture_output=True, check=True).stdout
    (place / "source").mkdir()
    subprocess.run(["tar", "-x", "-C", str(place / "source")], input=old, check=True)
    for name in ("old", "new"):
        (place / name).mkdir()
    install_wheel(build(place / "source", place / "old"), place / "opt")
    (place / "opt" / "crdtsync").rename(place / "opt" / "old")
    install_wheel(build(ROOT, place / "new"), place / "opt")
    (place / "opt" / "crdtsync").rename(place / "opt" / "new")
    (place / "opt" / "old").rename(place / "opt" / "crdtsync")
    with Machine(place / "opt") as machine:
        yield machine


def use(machine: Machine, version: str, other: str) -> None:
    """Install in place: what stood in /opt/crdtsync becomes ``other``."""
    machine.run("mv", "/opt/crdtsync", f"/opt/{other}")
    machine.run("mv", f"/opt/{version}", "/opt/crdtsync")


def status(machine: Machine) -> dict[str, Any]:
    return json.loads(machine.run("crdtsync", "status", "--json"))


def an_upgrade_loses_nothing_and_refuses_nobody(machine: Machine) -> None:
    version, _ = release()
    machine.run("crdtsync", "service", "install")
    before = status(machine)
    assert before["node"]["version"] == version
    for command in (
        ["set", "plan/goal", '{"text": "ship"}', "--confidence", "0.5"],
        ["incr", "count", "41"],
        ["add", "tags", '"a"'],
        ["merge", "profile", '{"name": "Ada"}'],
        ["text", "notes", "--insert", "0", "First."],
        ["append", "log", "1"],
    ):
        machine.run("crdtsync", *command)
    writer = machine.start("/opt/crdtsync/bin/python", "-c", _WRITER, "attached", "3000")
    deadline = monotonic() + 60
    while len(machine.call("crdtsync", "log", "attached").stdout.splitlines()) < 100 and monotonic() < deadline:
        sleep(0.05)
    use(machine, "new", "old")
    machine.run("crdtsync", "service", "install")
    machine.run("systemctl", "restart", UNIT)
    out, err = writer.communicate(timeout=100)
    assert writer.returncode == 0, err
    assert json.loads(out) == {"acknowledged": 3000, "refused": 0}
    after = status(machine)
    assert after["node"]["version"] not in ("", version)
    assert after["node"]["id"] == before["node"]["id"]
    assert len(machine.run("crdtsync", "log", "attached").splitlines()) == 3000
    assert machine.run("crdtsync", "get", "plan/goal") == '{"text": "ship"}\n'
    assert machine.run("crdtsync", "incr", "count") == "42\n"
    assert machine.run("crdtsync", "members", "tags") == '"a"\n'
    assert machine.run("crdtsync", "get", "profile") == '{"name": "Ada"}\n'
    assert machine.run("crdtsync", "text", "notes") == "First."
    assert machine.run("crdtsync", "append", "log", "2") == "2\n"


def the_doctor_finds_nothing_wrong_after_it(machine: Machine) -> None:
    found = [json.loads(line) for line in machine.run("crdtsync", "doctor", "--json").splitlines()]
    assert {finding["check"] for finding in found} >= {"settings", "daemon", "data", "disk", "service", "alarms"}
    assert [finding for finding in found if finding["state"] == "problem"] == []


def the_service_is_backed_up_and_restored(machine: Machine) -> None:
    machine.run("crdtsync", "set", "kept", "1")
    machine.run("crdtsync", "backup", "/root/backup")
    machine.run("crdtsync", "set", "kept", "2")
    running = machine.call("crdtsync", "restore", "/root/backup", "--force")
    assert (running.returncode, "stop it first" in running.stderr) == (2, True)
    machine.run("systemctl", "stop", "crdtsyncd.socket", UNIT)
    assert "restored /var/lib/crdtsync/crdtsync.db" in machine.run("crdtsync", "restore", "/root/backup", "--force")
    machine.run("systemctl", "start", "crdtsyncd.socket")
    assert machine.run("crdtsync", "get", "kept") == "1\n"
    machine.run("crdtsync", "set", "kept", "3")
    assert machine.run("stat", "--format", "%U", DATABASE).strip() == "crdtsync"


def the_release_refuses_a_newer_database_and_leaves_it_untouched(machine: Machine) -> None:
    """The last: the release runs, or rather does not, afterwards."""
    machine.run("systemctl", "stop", "crdtsyncd.socket", UNIT)
    newer = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('PRAGMA user_version = 1000')"
    machine.run("/opt/crdtsync/bin/python", "-c", f"{newer}; db.close()", DATABASE)
    before = machine.run("sha256sum", DATABASE)
    use(machine, "old", "new")
    refused = machine.call(
        "/opt/crdtsync/bin/crdtsyncd", "--data-dir", "/var/lib/crdtsync", "--socket", "/run/trial.sock"
    )
    assert refused.returncode == 1
    sentence = refused.stderr.strip().splitlines()[-1]
    assert "was written by a newer crdtsyncd" in sentence
    assert "upgrade crdtsyncd" in sentence
    assert "Traceback" not in refused.stderr
    assert machine.run("sha256sum", DATABASE) == before
    use(machine, "new", "old")
    found = [json.loads(line) for line in machine.call("crdtsync", "doctor", "--json").stdout.splitlines()]
    assert any("newer crdtsyncd" in finding["message"] for finding in found if finding["state"] == "problem")


def test_an_upgrade_as_a_service(machine):
    """One machine, one life: the steps follow each other, and cannot be spread over several test processes."""
    an_upgrade_loses_nothing_and_refuses_nobody(machine)
    the_doctor_finds_nothing_wrong_after_it(machine)
    the_service_is_backed_up_and_restored(machine)
    the_release_refuses_a_newer_database_and_leaves_it_untouched(machine)
