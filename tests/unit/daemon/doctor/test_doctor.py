"""How findings are shown on terminals of all widths."""

from __future__ import annotations

import time

import pytest
from crdtsyncd.cli.commands.node.doctor import fitted
from crdtsyncd.doctor.finding import ok, warning
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
