"""Atomic appends: many processes on one host append to one log, and each length is handed out once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness import Cluster, Daemon, wait_until_equal
from tests.harness.shell import Shell
from tests.harness.workers import appends, in_processes, in_threads

pytestmark = pytest.mark.integration

PROCESSES, TIMES = 4, 250


def test_every_length_that_append_returns_is_returned_once(daemon: Daemon) -> None:
    jobs = [(str(daemon.socket), "log", f"agent-{n}", TIMES) for n in range(PROCESSES)]
    lengths = in_processes(appends, jobs)
    assert sorted(length for each in lengths for length in each) == list(range(1, PROCESSES * TIMES + 1))
    with daemon.client() as client:
        log = client.log("log")
    assert len(log) == PROCESSES * TIMES
    for number, each in enumerate(lengths):
        assert [log[length - 1] for length in each] == [[f"agent-{number}", n] for n in range(TIMES)]


def test_the_elements_of_two_cut_off_hosts_are_all_kept_in_one_order(pair: Cluster) -> None:
    """Each host counts on from what it holds; when they meet, both have all, and what each appended is in its order."""
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    jobs = [(str(daemon.socket), "log", f"{daemon.name}-{n}", 100) for daemon in pair for n in range(2)]
    lengths = in_processes(appends, jobs)
    for each in (lengths[:2], lengths[2:]):
        assert sorted(length for one in each for length in one) == list(range(1, 201))
    pair.heal()
    wait_until_equal(pair)
    logs = [daemon.client().log("log") for daemon in pair]
    assert logs[0] == logs[1]
    assert len(logs[0]) == 400
    for _, _, name, times in jobs:
        assert [n for who, n in logs[0] if who == name] == list(range(times))


def test_the_command_line_prints_each_length_once(daemon: Daemon, tmp_path: Path) -> None:
    shell = Shell(daemon.socket, tmp_path)
    printed = [
        length
        for start in range(0, 24, 8)
        for length in in_threads(lambda n: shell.ok("append", "log", json.dumps(n)), range(start, start + 8))
    ]
    assert sorted(map(int, printed)) == list(range(1, 25))
    assert sorted(map(int, shell.ok("log", "log").split())) == list(range(24))
