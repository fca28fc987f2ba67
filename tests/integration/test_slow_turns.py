"""What held up the daemon's event loop can be told from its figures and its log."""

from __future__ import annotations

import json
import re
import shutil
import time
from typing import Any

import pytest

from tests.harness import Daemon, wait_until
from tests.harness.daemon import PROGRAM
from tests.harness.tracing import CannotTraceError, inject, stop

pytestmark = pytest.mark.integration

FLUSH_MS = 80
FROZEN_S = 2.0
"""More than the second after which a timer is due in any case."""
ATTEMPTS = 5
"""To stop it while it has nothing to do."""
SEEN_S = 5.0


def figures(text: str) -> dict[str, float]:
    """Every sample, by its name with labels."""
    return {name: float(value) for name, value in re.findall(r"^([^#\n]\S*(?:\{[^\n]*\})?) (\S+)$", text, re.MULTILINE)}


def slow_turn(daemon: Daemon, what: str) -> dict[str, Any]:
    """The line about one with such requests."""
    return daemon.wait_log(lambda line: line.get("event") == "slow_turn" and what in line.get("requests", {}))


def test_a_slow_disk_shows_in_the_stage_that_waits_for_it(daemon: Daemon) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace, to make system calls slow: apt-get install strace")
    with daemon.client("planner") as client:
        client.set("key", 0)
        before = figures(client.metrics())
        try:
            tracer = inject(strace, daemon, f"fdatasync:delay_enter={FLUSH_MS}000")
        except CannotTraceError as error:
            pytest.skip(f"strace cannot attach here: {error}")
        try:
            client.set("key", 1)
        finally:
            stop(tracer)
        line = slow_turn(daemon, "set")
        after = figures(client.metrics())
    assert (line["agents"], line["requests"]["set"]["count"]) == (["planner"], 1)
    assert line["ms"] >= line["commit_ms"] >= FLUSH_MS
    assert line["cpu_ms_max"] <= line["ms"] - FLUSH_MS / 4, (
        "much of it the daemon waited"
    )  # strace takes processor time, too
    assert line["ms"] == pytest.approx(
        sum(line[f"{stage}_ms"] for stage in ("step", "ready", "commit", "deliver")), abs=1
    )
    assert line["wrote_rows"]["changes"] == 1
    assert line["sent"]["replies"]["count"] == 1

    def more(name: str) -> float:
        return after[name] - before[name]

    kind = line["kind"]
    assert more(f'crdtsync_slow_turns_total{{kind="{kind}"}}') >= 1
    held = "crdtsync_loop_held_seconds"
    assert more(f'{held}_count{{kind="{kind}"}}') > more(f'{held}_bucket{{kind="{kind}",le="0.05"}}')
    assert more('crdtsync_turn_seconds_sum{stage="commit"}') >= FLUSH_MS / 1000
    assert more("crdtsync_commit_seconds_count") == 1


def test_a_batch_at_its_largest_names_itself_and_its_agent(make_daemon: Any) -> None:
    """On a fast machine it takes no 50 ms, and a page of a listing none: so 1 ms counts as slow here."""
    small = "turn_times.SLOW_TURN_S = 0.001; slow_turns.LINES_PER_MINUTE_MAX = 10**6"
    daemon = make_daemon(program=f"from crdtsyncd.telemetry import slow_turns, turn_times; {small}; {PROGRAM}")
    with daemon.client("hasty") as client:
        with client.batch() as batch:
            for number in range(1000):
                batch.set(f"key/{number}", "x" * 3500)
        line = slow_turn(daemon, "batch")
        assert line["agents"] == ["hasty"]
        assert line["requests"]["batch"]["bytes"] > 3_500_000
        assert line["wrote_rows"]["entries"] == 1000
        list(client.items("key/"))
        read = slow_turn(daemon, "scan")
        assert read["kind"] in ("at_once", "full")
        counted = figures(client.metrics())
    assert sum(counted[f'crdtsync_slow_turns_total{{kind="{kind}"}}'] for kind in ("full", "short", "at_once")) >= 2
    assert counted['crdtsync_work_seconds_count{work="metrics"}'] == 0, "one is counted when it is over"


def test_an_alarm_names_what_holds_the_loop_again_and_again(make_daemon: Any) -> None:
    """Any turn of 5 ms counts here, and it is looked at each second, not every 10."""
    small = "turn_times.SLOW_TURN_S = slow_turns.SLOW_TURN_S = 0.005; housekeeping.USAGE_INTERVAL_S = 0.2"
    imports = "from crdtsyncd.loop import housekeeping; from crdtsyncd.telemetry import slow_turns, turn_times"
    daemon = make_daemon(program=f"{imports}; {small}; {PROGRAM}")

    def is_told() -> bool:
        with client.batch() as batch:
            for number in range(1000):
                batch.set(f"key/{number}", "x" * 1000)
        told = [one["message"] for one in daemon.status()["alarms"] if one["code"] == "loop_held"]
        return any("batch of agent hasty" in message for message in told)

    with daemon.client("hasty") as client:
        wait_until(is_told)


def test_a_process_that_does_not_run_is_late_and_no_turn_is_blamed(daemon: Daemon) -> None:
    lines = []
    for _ in range(ATTEMPTS):
        line = stopped(daemon)
        if line is not None:
            lines.append(line)
            if line["kind"] == "unmeasured":
                break
            assert line["cpu_ms_max"] < line["ms"] - 500, (
                "it was stopped in the middle of a turn, which computed little"
            )
    assert lines, "no stop was seen at all"
    assert lines[-1]["kind"] == "unmeasured"
    with daemon.client() as client:
        counted = figures(client.metrics())
    assert counted['crdtsync_slow_turns_total{kind="unmeasured"}'] >= 1
    assert counted["crdtsync_loop_lag_seconds_count"] > counted['crdtsync_loop_lag_seconds_bucket{le="0.2"}']


def stopped(daemon: Daemon) -> dict[str, Any] | None:
    """What it logs when it was stopped for a while; None: between two timers nobody sees that."""
    before = len(daemon.log_lines())
    daemon.freeze()
    time.sleep(FROZEN_S)
    daemon.thaw()
    until = time.monotonic() + SEEN_S
    while time.monotonic() < until:
        for line in map(json.loads, daemon.log_lines()[before:]):
            if line.get("event") == "slow_turn" and line["ms"] >= 500:
                found: dict[str, Any] = line
                return found
        time.sleep(0.05)
    return None
