"""What daemons take up follows the live state, and a new node gets it fast: the benchmarks of both, briefly.

``./dev bench overwrites`` and ``./dev bench new-node`` do it at length, and so does ``./dev soak``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import idle, mcp_sessions, new_node, overwrites, sessions
from benchmarks.gauges import Live, Reading, percentile, slope
from benchmarks.pacing import Answer, Paced
from crdtsync.core.sync.change_feed import CREDIT_BYTES_MAX

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
CAP_BYTES = 1024 * 1024
SHORT = overwrites.Options(
    writes=9_000, keys=100, sample_writes=2000, log_bytes_max=CAP_BYTES, history_bytes_max=CAP_BYTES, timeout_s=100
)


@pytest.mark.slow
async def test_overwrites_leave_no_more_than_their_caps():
    result = await overwrites.run(SHORT, quiet=True)
    assert not result.faults
    assert result.conflicts, "writers at different daemons meet"
    for reading in result.final:
        assert reading.log_bytes > CAP_BYTES / 2, "the cap was reached"
        assert reading.hash_rows > 1000


@pytest.mark.slow
async def test_a_new_node_takes_a_snapshot_and_goes_on_with_it_after_a_cut():
    options = new_node.Options(
        keys=10_000, measure_s=0.3, within_s=60, gap_ms_max=20_000, log_bytes_max=CAP_BYTES // 4, timeout_s=100
    )
    result = await new_node.run(options, quiet=True)
    assert not result.faults
    assert [joined.by_snapshot for joined in result.joined] == [True] * 3
    assert [joined.resumed for joined in result.joined] == [False, False, True]
    assert [joined.cuts for joined in result.joined] == [0, 0, 1]


# -- the judges: what must not be is found ---------------------------------------------------------------------------

MIB = 1024 * 1024


FULL = {"log_bytes": 8 * MIB, "history_bytes": 8 * MIB}
"""At the caps of :class:`overwrites.Options`."""


def reading(writes: int, **changed: object) -> Reading:
    fields = dict.fromkeys(Reading.__dataclass_fields__, 0) | {"node": "a", "digest": "d", "version_vector": {"1": 9}}
    plain = {"rss_bytes": 50 * MIB, "file_bytes": 20 * MIB, "keys": 10, "entries": 10}
    return Reading(**{**fields, **plain, "writes": writes, **changed})  # type: ignore[arg-type]


def found_by_judge(**changed: object) -> list[str]:
    """The faults of a run in which the node ended with something else than it should."""
    result = overwrites.Result(overwrites.Options())
    result.samples = [reading(writes) for writes in range(0, 300_001, 10_000)]
    result.fresh, result.fresh_live = reading(0), Live(10, 1000)
    result.live = {"a": Live(10, 1000)}
    for name, value in changed.items():
        setattr(result, name, value)
    result.final = result.final or [result.samples[-1]]
    overwrites.judge(result)
    return result.faults


def test_a_run_without_faults_has_none():
    assert found_by_judge() == []


@pytest.mark.parametrize(
    "changed,complaint",
    [
        ({"live": {"a": Live(11, 1000)}}, "stores"),
        ({"live": {"a": Live(10, 1001)}}, "stores"),
        ({"fresh": reading(0, entries=9)}, "entries"),
        ({"final": [reading(300_000, log_bytes=9 * MIB)]}, "ends with log_bytes"),
        ({"final": [reading(300_000, history_bytes=9 * MIB)]}, "ends with history_bytes"),
        ({"final": [reading(300_000), reading(300_000, digest="e")]}, "differ in digest"),
        ({"samples": [reading(100_000, log_bytes=20 * MIB)]}, "while the cap was"),
        (
            {"samples": [reading(writes, rss_bytes=50 * MIB + 30 * writes) for writes in (60_000, 100_000, 300_000)]},
            "memory grew",
        ),
        (
            {"samples": [reading(w, file_bytes=20 * MIB + 60 * w, **FULL) for w in (60_000, 300_000)]},
            "database grew",
        ),
    ],
)
def test_each_fault_of_a_run_is_found(changed, complaint):
    faults = found_by_judge(**changed)
    assert any(complaint in fault for fault in faults), faults


def test_growth_of_the_file_for_hashes_of_trimmed_changes_is_no_fault():
    samples = [reading(w, file_bytes=20 * MIB + 60 * w, hash_rows=w, **FULL) for w in (60_000, 200_000)]
    assert found_by_judge(samples=samples) == []


def test_growth_of_the_file_until_log_and_history_are_at_their_caps_is_no_fault():
    for first in ({}, {"wal_bytes": 16 * MIB, **FULL}):
        assert found_by_judge(samples=[reading(60_000, **first), reading(200_000, file_bytes=39 * MIB, **FULL)]) == []


def test_each_fault_of_a_new_node_is_found():
    good = new_node.Joined("x", "new", complete_s=5.0, cuts=1, by_snapshot=True, resumed=True)
    for joined, repeated_bytes, complaint in (
        (good, 0, None),
        (replace(good, complete_s=11.0), 0, "complete after"),
        (replace(good, cuts=0), 0, "not cut"),
        (replace(good, resumed=False), 0, "began anew"),
        (good, CREDIT_BYTES_MAX * 2, "came again"),
    ):
        result = new_node.Result(new_node.Options(), joined=[good, joined], repeated_bytes=repeated_bytes)
        new_node.judge(result)
        assert [str(complaint) in fault for fault in result.faults] == ([True] if complaint else [])


def test_figures():
    assert slope([(0, 5.0), (1, 7.0), (2, 9.0)]) == 2
    assert slope([(3, 1.0)]) == 0
    assert [percentile(range(1, 101), share) for share in (0.5, 0.99, 1.0)] == [50, 99, 100]
    agent = Paced(lambda: None, 1.0)  # type: ignore[arg-type,return-value]
    agent.answers = [Answer(0.0, 1.0), Answer(1.5, 2.0), Answer(2.0, 6.0)]
    latency = agent.latency(0.0, 7.0)
    assert (latency.answers, latency.p50_ms, latency.most_ms, latency.gap_ms) == (3, 1000, 4000, 4000)


async def test_an_idle_daemon_takes_little(monkeypatch):
    """What it takes of a processor needs a minute and a quiet machine: ``./dev soak`` looks at that."""
    monkeypatch.setattr(idle, "SETTLE_S", 0.0)
    monkeypatch.setattr(idle, "KEYS", 20)
    found = await idle.measure(peers=1, agents=2, seconds=0.2)
    assert 10e6 < found.rss_bytes <= idle.RSS_MB_MAX * 1e6
    assert found.private_bytes < found.rss_bytes


@pytest.mark.parametrize("rss_bytes, cpu_percent, status", [(59e6, 0.19, 0), (61e6, 0.19, 1), (59e6, 0.21, 1)])
def test_the_check_of_an_idle_daemon_fails_beyond_its_bounds(monkeypatch, rss_bytes, cpu_percent, status):
    async def measured(*_: object) -> idle.Idle:
        return idle.Idle(rss_bytes, 0, cpu_percent, 5.0)

    monkeypatch.setattr(idle, "measure", measured)
    done = CliRunner().invoke(idle.main, ["--check", "--seconds", "1"])
    assert done.exit_code == status
    assert f"RSS {rss_bytes / 1e6:.1f} MB" in done.output


@pytest.mark.slow
async def test_mcp_sessions_take_little_and_go_with_their_clients():
    found = await mcp_sessions.measure(sessions=2, seconds=2.0, pace_s=0.0)
    assert 30 < found.samples[-1].shared_most < 80  # two share little; a vocabulary of tokens alone takes 37
    assert found.orphans == 0


@pytest.mark.slow
async def test_a_long_session_is_followed_loaded_and_handed_over():
    found = await sessions.measure(size=300_000, begun=200_000, rate=50_000)
    assert found["followed_bytes"] >= 90_000
    assert found["lag_there_p50_s"] > 0
    assert 0 < found["wire_ratio"] < 1
    assert found["handover_cpu_s"] > 0


# -- the commands ------------------------------------------------------------------------------------------------------


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_the_command_says_what_it_measured_and_exits_with_0():
    done = bench("overwrites", "--writes", "600", "--keys", "20", "--nodes", "2", "--sample-writes", "200", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["passed"]
    assert [reading["entries"] for reading in found["final"]] == [20, 20]
    assert found["rss_bytes_per_write"].keys() == {"node-0", "node-1"}


@pytest.mark.slow
def test_the_command_says_what_is_wrong_and_exits_with_1():
    done = bench("new-node", "--keys", "200", "--measure", "0.2", "--within", "0.01")
    assert done.returncode == 1
    assert "FAULT: from both: complete after" in done.stdout
    assert "Traceback" not in done.stderr
