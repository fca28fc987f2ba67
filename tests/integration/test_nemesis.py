"""Five hosts under every fault, for some seconds; ``./dev nemesis --minutes 10`` does it at length."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.harness.cluster import wait_until
from tests.harness.daemon import Daemon
from tests.harness.lan import has_namespaces
from tests.harness.space import fill
from tests.nemesis.agents import Watcher
from tests.nemesis.history import History
from tests.nemesis.hosts import Disk
from tests.nemesis.plants import PLANTS
from tests.nemesis.run import Plan, run

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not has_namespaces(), reason="needs root and ip netns"),
]
SECONDS = 5.0
PLANTED_RUNS_MAX = 6


@pytest.mark.slow
def test_some_seconds_of_everything_that_goes_wrong() -> None:
    plan = Plan(
        SECONDS, random.SystemRandom().randrange(1_000_000), agents_per_host=2, fault_pause_s=0.2,
        fault_hold_s=(0.3, 1.5), faults_at_once=3, faults_min=4,
    )  # fmt: skip
    report = run(plan)
    assert not report.found, "\n".join([f"./dev nemesis --seed {plan.seed}", *report.lines()])
    assert sum(report.faults.values()) >= 4, report.lines()
    assert sum(op.outcome == "done" for op in report.history.ops) > 200, report.lines()


def test_a_disk_that_was_emptied_is_not_full_after_it_breaks(tmp_path: Path) -> None:
    """As it is for a daemon that flushes while the disk is full, and not after."""
    disk = Disk(tmp_path)
    try:
        fill(disk.place, 0)
        disk.flush()
        disk.empty()
        disk.abort()
        disk.repair()
        assert not list(disk.place.glob("filling"))
    finally:
        disk.close()


def test_a_watcher_whose_daemon_is_down_when_it_begins_follows_it_when_it_comes() -> None:
    with Daemon("a", start=False) as daemon:
        watcher = Watcher("a", daemon.socket, History())
        watcher.start()
        daemon.start()
        try:
            with daemon.client() as client:
                client.set("own/a0", 1)
            wait_until(lambda: watcher.failure or watcher.seen == {"own/a0": 1})
        finally:
            watcher.end()
            watcher.join(60)
        assert watcher.failure is None


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PLANTS))
def test_a_planted_loss_is_found(name: str) -> None:
    """In the end: a fault that meets no write under way does no harm, so there are some runs, each with one fault."""
    told: list[str] = []
    for seed in range(5, 5 + PLANTED_RUNS_MAX):
        plan = Plan(
            120, seed, agents_per_host=2, pause_s=0.005, fault_hold_s=(0.0, 0.1), faults_at_once=1, hosts="ab",
            plant=PLANTS[name], faults_max=1,
        )  # fmt: skip
        report = run(plan)
        assert not [each for each in report.found if "failed" in each], report.found
        if report.lost:
            return
        told += report.lines()
    raise AssertionError(f"nothing was lost in {PLANTED_RUNS_MAX} runs:\n" + "\n".join(told))
