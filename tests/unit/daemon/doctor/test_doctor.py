"""How findings are shown on terminals of all widths."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest
from crdtsyncd.cli.commands.node.doctor import fitted
from crdtsyncd.doctor.finding import ok, warning
from crdtsyncd.doctor.host import examine_disk
from crdtsyncd.doctor.running_daemon import examine_status

from crdtsync.core.alarm_catalogue import NO_SPACE, alarm_of

PATH = "/a/very/long/path/that/is/to/be/copied/as/it/is/crdtsync.db"
FINDING = warning("data", f"others may look into {PATH}, past all access-rights", f"sudo chmod go-rwx {PATH}")


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_lines_break_between_words_and_nothing_is_lost(width):
    lines = fitted(FINDING, width)
    assert " ".join(" ".join(lines).split()) == f"warning data: {FINDING.message} → {FINDING.remedy}"
    assert all(len(line) <= width or PATH in line for line in lines)
    assert any(PATH in line for line in lines)


def peer_finding(**fields):
    peer = {"name": "b", "state": "connected", "behind": {"default": 7}, "ahead": {}, "last_seen": 1000 * time.time()}
    (found,) = [
        each
        for each in examine_status({"alarms": [], "spaces": [], "peers": [{**peer, **fields}]})
        if each.check == "peers"
    ]
    return found


def test_a_peer_that_is_connected_and_says_nothing_is_told():
    assert peer_finding().state == "ok"
    silent = peer_finding(last_seen=1000 * (time.time() - 200))
    assert (silent.state, "7 changes apart, and has said nothing for 3m 20s" in silent.message) == ("warning", True)
    assert peer_finding(last_seen=None).state == "ok"
    assert peer_finding(last_seen=1, behind={}).state == "ok", "an old one that lacks nothing has nothing to say"


@pytest.mark.parametrize("state, told", [("read-only", "its disk is full"), ("drunk", "says that it is 'drunk'")])
def test_what_a_peer_says_of_itself_is_taken_for_a_full_disk_if_it_says_so(state, told):
    peer = {"name": "b", "state": "connected", "behind": {}, "ahead": {}, "last_seen": 1000 * time.time()}
    *_, found = examine_status({"alarms": [], "spaces": [], "peers": [{**peer, "health": {"state": state}}]})
    assert told in found.message
    assert ("disk" in found.message + found.remedy) is (state == "read-only")


def test_it_says_what_a_peer_of_an_older_version_does_not_know():
    *_, found = examine_status(
        {"alarms": [], "spaces": [], "peers": [{"name": "b", "state": "connected", "lacks": ["new", "votes"]}]}
    )
    assert found.message == "b runs an older version, which does not know: new, quorum claims"


def test_without_a_terminal_each_is_one_line():
    assert [len(fitted(finding, None)) for finding in (ok("disk", "free " * 100), FINDING)] == [1, 2]


def test_an_alarm_comes_with_its_remedy_also_if_only_a_newer_daemon_knows_it():
    def remedy(code):
        alarm = {"code": code, "message": "why", "since": 1000 * time.time()}
        found = next(examine_status({"alarms": [alarm], "spaces": [], "peers": []}))
        return found.check, found.remedy

    assert remedy("no_space") == ("no_space", NO_SPACE.remedy)
    assert remedy("of_tomorrow") == ("of_tomorrow", alarm_of("of_tomorrow").remedy)
    assert "newer daemon" in alarm_of("of_tomorrow").remedy


def only(findings, check):
    (found,) = [each for each in findings if each.check == check]
    return found


@pytest.mark.parametrize(
    "behind, ahead, apart",
    [({"default": 7}, {}, 7), ({}, {"default": 7}, 7), ({"default": 2, "team": 3}, {"team": 4}, 9), ({}, {}, 0),
     (None, None, 0)],
)  # fmt: skip
def test_what_either_side_lacks_makes_two_nodes_differ(behind, ahead, apart):
    """Both ways: who is only ahead of a silent peer has changes that nobody else holds."""
    near = peer_finding(behind=behind, ahead=ahead)
    silent = peer_finding(behind=behind, ahead=ahead, last_seen=1000 * (time.time() - 200))
    for found in (near, silent):
        assert (f"{apart} changes apart" in found.message) is (apart > 0)
        assert ("apart" in found.message) is (apart > 0)
    assert near.state == "ok"
    assert silent.state == ("warning" if apart else "ok")


@pytest.mark.parametrize(
    "state, judged, words",
    [("refused", "problem", "b refuses this node: its key was removed"), ("down", "warning", "b is down"),
     ("connecting", "warning", "b is connecting"), ("indirect", "warning", "b is reached over c"),
     ("connected", "ok", "b is connected"), ("of tomorrow", "warning", "b is of tomorrow")],
)  # fmt: skip
def test_a_peer_is_judged_by_its_state(state, judged, words):
    found = peer_finding(state=state, last_error="its key was removed", via="c", behind={}, ahead={})
    assert (found.state, words in found.message) == (judged, True)
    assert bool(found.remedy) is (judged != "ok")
    if state in ("refused", "down"):
        assert "its key was removed" in found.message


def test_a_peer_that_is_reached_over_another_by_choice_is_fine():
    found = peer_finding(state="indirect", last_error=None, via="c", behind={}, ahead={})
    assert (found.state, found.message) == ("ok", "b is reached over c")


@pytest.mark.parametrize("skew_ms, words", [(5000, "5s ahead of this one"), (-5000, "5s behind this one"), (1000, "")])
def test_a_clock_that_differs_is_told_with_its_direction(skew_ms, words):
    peer = {"name": "b", "state": "connected", "clock_skew_ms": skew_ms}
    found = [one for one in examine_status({"alarms": [], "spaces": [], "peers": [peer]}) if one.check == "clock"]
    assert [words in one.message and one.state == "warning" for one in found] == ([True] if words else [])


def test_changes_that_wait_are_told_by_space():
    spaces = [{"name": "a", "pending_changes": 0}, {"name": "b", "pending_changes": 2}]
    found = only(examine_status({"alarms": [], "spaces": spaces, "peers": []}), "sync")
    assert (found.state, "2 changes of b waiting" in found.message) == ("warning", True)


class Disk:
    """What statvfs says; ``f_favail`` and ``f_files`` count inodes, which some file systems do not have."""

    def __init__(self, free_bytes, inodes=100, inodes_free=50):
        self.f_frsize, self.f_bavail, self.f_bfree = 1000, free_bytes // 1000, 10**9
        self.f_files, self.f_favail = inodes, inodes_free


@pytest.mark.parametrize(
    "disk, state, words",
    [(Disk(999_000), "problem", "writes are refused"), (Disk(1_000_000), "warning", "below 1.0 MB writes are refused"),
     (Disk(9_999_000), "warning", "below"), (Disk(10_000_000), "ok", "10.0 MB free"),
     (Disk(10**9, inodes_free=0), "problem", "no inode left"), (Disk(10**9, inodes=0, inodes_free=0), "ok", "free")],
    ids=["below the reserve", "at the reserve", "soon", "enough", "no inodes", "a file system without inodes"],
)  # fmt: skip
def test_a_disk_is_judged_by_what_a_user_may_still_write(monkeypatch, tmp_path, disk, state, words):
    """By what is available, not by what is free: root's reserve is of no use to the daemon."""
    monkeypatch.setattr(os, "statvfs", lambda _path: disk)
    config: Any = SimpleNamespace(free_bytes_min=1_000_000)
    (found,) = examine_disk(tmp_path / "not" / "there" / "yet", config)
    assert (found.state, words in found.message) == (state, True)
    assert bool(found.remedy) is (state != "ok")


def test_without_settings_there_is_no_reserve_to_judge_by(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "statvfs", lambda _path: Disk(1000))
    (found,) = examine_disk(tmp_path, None)
    assert found.state == "ok"
