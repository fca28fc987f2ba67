"""``doctor`` finds what is wrong, says what to do, and leaves what is right alone; with and without a daemon."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from crdtsync.context import Views
from tests.harness import Daemon, wait_until
from tests.harness.shell import Done, Shell

pytestmark = pytest.mark.integration


def findings(done: Done) -> dict[str, list[dict[str, str]]]:
    """What was found, by check."""
    found: dict[str, list[dict[str, str]]] = {}
    for line in done.out.splitlines():
        finding = json.loads(line)
        assert finding["state"] == "ok" or finding["remedy"], finding
        found.setdefault(finding["check"], []).append(finding)
    return found


def problems(done: Done) -> set[str]:
    return {check for check, found in findings(done).items() if any(each["state"] == "problem" for each in found)}


def test_all_is_well_on_a_running_pair(pair, tmp_path):
    shell = Shell(pair[0].socket, tmp_path)
    done = shell("doctor", "--json", "--config", str(pair[0].base / "crdtsyncd.toml"))
    assert (done.status, problems(done)) == (0, set()), done.out
    assert set(findings(done)) >= {"settings", "daemon", "data", "disk", "clock", "ports", "peers", "alarms"}
    assert "ok" in shell("doctor").out


def test_without_a_daemon_it_looks_all_the_same(daemon: Daemon, tmp_path):
    shell = Shell(daemon.socket, tmp_path)
    daemon.client().set("key", 1)
    daemon.stop()
    where = ("--config", str(daemon.base / "crdtsyncd.toml"))
    done = shell("doctor", "--json", *where)
    assert (done.status, problems(done)) == (1, {"daemon"})
    assert findings(done)["data"][0]["state"] == "ok"
    with closing(sqlite3.connect(daemon.data / "crdtsync.db")) as db:
        db.execute("PRAGMA user_version = 1000")
    assert problems(shell("doctor", "--json", *where)) == {"daemon", "data"}
    (daemon.data / "crdtsync.db").write_bytes(b"no database" * 100)
    assert problems(shell("doctor", "--json", *where)) == {"daemon", "data"}


def test_a_journal_that_does_not_go_with_the_database_is_told_and_giving_it_up_raises_an_alarm(daemon, tmp_path):
    shell = Shell(daemon.socket, tmp_path)
    where = ("--config", str(daemon.base / "crdtsyncd.toml"))
    daemon.client().set("key", 1)
    daemon.kill()
    (daemon.data / "crdtsync.db-commits").rename(tmp_path / "kept")
    daemon.start(wait=False)
    assert daemon.wait_exit() == 65
    said = findings(shell("doctor", "--json", *where))["data"][0]
    assert (said["state"], f"crdtsyncd: {said['message']}" in daemon.log_lines()) == ("problem", True)
    assert "is missing" in said["message"]
    (daemon.data / "crdtsync.db-commits").touch()
    daemon.start()
    (alarm,) = daemon.status()["alarms"]
    assert alarm["code"] == "journal_given_up"
    assert "may be missing here" in alarm["message"]
    assert "journal_given_up" in problems(shell("doctor", "--json"))
    daemon.stop()
    daemon.start()
    assert daemon.alarms() == []


def test_settings_ports_and_rights(daemon: Daemon, tmp_path):
    shell = Shell(daemon.socket, tmp_path)
    bad = tmp_path / "bad.toml"
    bad.write_text('lissten = ["127.0.0.1:1"]\n')
    assert problems(shell("doctor", "--json", "--config", str(bad))) == {"settings"}
    other = tmp_path / "other.toml"
    other.write_text(f'listen = ["{daemon.address}"]\ninsecure_loopback = true\nsocket = "{tmp_path}/s"\n')
    done = shell(
        "doctor", "--json", "--config", str(other), "--socket", str(tmp_path / "s"), "--data-dir", str(tmp_path)
    )
    assert "ports" in problems(done), "another program has that port"
    silent = tmp_path / "silent.toml"
    silent.write_text('listen = ["127.0.0.1:1"]\ninsecure_loopback = true\n')
    assert "ports" in problems(shell("doctor", "--json", "--config", str(silent))), "nothing answers there"
    if os.geteuid() == 0:
        (daemon.data / "left-by-root").touch()
        os.chown(daemon.data / "left-by-root", 65534, 65534)
        assert problems(shell("doctor", "--json")) == {"rights"}
        (daemon.data / "left-by-root").unlink()
    daemon.data.chmod(0o755)
    found = findings(shell("doctor", "--json"))
    assert any("chmod" in each["remedy"] for each in found["data"])


def test_alarms_and_peers_that_are_down(pair, tmp_path):
    first, second = pair
    second.kill()
    wait_until(lambda: first.peer(second.name)["state"] == "down")
    done = Shell(first.socket, tmp_path)("doctor", "--json", "--config", str(first.base / "crdtsyncd.toml"))
    assert done.status == 0
    told = [each for each in findings(done)["peers"] if each["state"] != "ok"]
    (found,) = [each for each in told if second.name in each["message"]]
    assert found["state"] == "warning"
    for url in {peer["url"] for peer in first.status()["peers"]} - {"", None}:
        # An address at which nobody has ever answered may be that of somebody else: it is told, and once.
        assert sum(url in each["message"] for each in told) <= 1
    assert f"{second.name} is down" in found["message"]


def test_a_daemon_that_hangs_is_named_and_nothing_else_is_blamed(daemon: Daemon, tmp_path):
    """It still has its port, its files and its settings: those are no fault."""
    daemon.client().set("key", 1)
    pid = daemon.status()["node"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        done = Shell(daemon.socket, tmp_path)("doctor", "--json", "--config", str(daemon.base / "crdtsyncd.toml"))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert problems(done) == {"daemon"}, done.out
    (found,) = findings(done)["daemon"]
    assert found["message"] == f"pid {pid} listens and has not answered for 5 s: it is stopped"
    assert found["remedy"] == f"let it go on: kill -CONT {pid}"


def test_a_disk_below_the_reserve(make_daemon, tmp_path):
    usage = os.statvfs("/tmp")
    daemon = make_daemon(free_bytes_min=2 * usage.f_bavail * usage.f_frsize)
    wait_until(lambda: "no_space" in daemon.alarms())
    done = Shell(daemon.socket, tmp_path)("doctor", "--json", "--config", str(daemon.base / "crdtsyncd.toml"))
    assert problems(done) == {"disk", "no_space"}


def test_top_prints_a_look_where_no_terminal_is(daemon: Daemon, tmp_path: Path):
    shell = Shell(daemon.socket, tmp_path)
    client = daemon.client()
    client.set("key", 1)
    looks = shell.ok("top", "--json", "-n", "2", "--interval", "100ms").splitlines()
    assert len(looks) == 2
    assert json.loads(looks[1])["node"]["name"] == daemon.name
    assert "HOTTEST KEYS" in shell.ok("top", "--interval", "100ms")


def test_a_view_whose_sources_outgrow_it_is_told_before_it_leaves_something_out(daemon: Daemon, tmp_path):
    shell, ann = Shell(daemon.socket, tmp_path), daemon.client("ann")
    Views(ann).define("planner", "plan/", budget_tokens=300)
    ann.set("plan/0", "a step")
    assert [found["state"] for found in findings(shell("doctor", "--json"))["views"]] == ["ok"]
    for number in range(1, 6):
        ann.set(f"plan/{number}", "a step that takes a while, and some more words")
    (told,) = findings(shell("doctor", "--json"))["views"]
    assert told["state"] == "warning"
    assert "planner" in told["message"]
    assert not Views(ann).named("planner").left_out
    Views(ann).define("planner", "plan/", budget_tokens=300, summarize_after=1)
    assert Views(ann).summarize("planner", lambda _: "eight steps")
    assert [found["state"] for found in findings(shell("doctor", "--json"))["views"]] == ["ok"]
