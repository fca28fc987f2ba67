"""The benchmark beside others, briefly: it measures what it says, of real servers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from benchmarks.rivals import command, floors, large, measures, overwritten, page, report
from benchmarks.rivals.processes import ServerError
from benchmarks.rivals.quiet import LOOK_S, Quiet

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_it_measures_crdtsync_beside_redis(tmp_path: Path) -> None:
    if shutil.which("redis-server") is None and (os.geteuid() != 0 or shutil.which("apt-get") is None):
        pytest.skip("needs redis-server, or root and apt-get to install it")
    systems = ["--system", "crdtsync", "--system", "redis", "--system", "bare", "--system", "bare-rows"]
    systems += ["--out", str(tmp_path)]
    amount = ["--rounds", "1", "--writes", "40", "--kill-after", "0.1", "--missed", "0"]
    amount += ["--keys", "1200", "--overwrites", "1200", "--agents", "0", "--edits", "0", "--wait", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "rivals", *amount, "--json", *systems],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    stores = {"crdtsync", "Redis always", floors.Bare.name}
    assert found[measures.RESTART.name].keys() == stores
    stores.add(floors.BareRows.name)
    for figure in (measures.WRITE_P99, measures.WRITES, measures.READ_P99, measures.SERVER_CPU, measures.CROWD_P99):
        assert found[figure.name].keys() == stores
        assert all(value > 0 for value in found[figure.name].values())
    assert found[large.GROWTH_CPU.name].keys() == {"crdtsync", floors.BareRows.name}
    assert found[measures.LOST_BY_KILL.name]["crdtsync"] == 0
    assert found[large.restart_of(large.MOST).name]["crdtsync"] > 0
    assert found[overwritten.LIVE.name]["crdtsync"] == 1
    assert len(found[measures.DISTANCE_P99.name]) == 3
    assert "crdtsync" in (tmp_path / "rivals.md").read_text()
    assert (tmp_path / "rivals-1.svg").read_text().startswith("<svg")


async def test_a_bare_server_stores_the_state_of_another() -> None:
    with tempfile.TemporaryDirectory(prefix="rival-", ignore_cleanup_errors=True) as directory:  # a short path
        async with asyncio.timeout(60), floors.BareLine().line(Path(directory)) as pair:
            await pair.fill(3, "old")
            await pair.heard()
            await pair.send("k1", "new")
            await pair.heard()
            await pair.fetch(await pair.state_port())
            await pair.heard()
        with closing(sqlite3.connect(Path(directory) / "far" / "crdtsync.db")) as db:
            live = db.execute("SELECT key FROM entries WHERE position IS NULL ORDER BY key").fetchall()
            dead = db.execute("SELECT key FROM entries WHERE position IS NOT NULL").fetchall()
    assert live == [("k0",), ("k1",), ("k2",)]
    assert len(dead) == 4  # the state takes the place of all that was there


async def test_a_step_that_ignores_its_end_is_told_and_left() -> None:
    released = asyncio.Event()

    async def stubborn() -> None:
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()

    with pytest.raises(ServerError, match="the first read"):
        await measures.within("the first read", 0.01, stubborn())
    released.set()


@pytest.mark.slow
def test_a_client_process_that_ends_fails_the_step_and_not_the_benchmark() -> None:
    with pytest.raises(ServerError, match="client processes"):
        measures.crowd(partial(os._exit, 1), 1)


def test_a_table_has_a_row_for_each_figure_and_a_column_for_each_system() -> None:
    found = {
        measures.WRITES: {"crdtsync": 8000.0, "Redis always": 4000.0},
        measures.WRITE_P50: {"crdtsync": 1.0},
        measures.DISTANCE_P50: {"crdtsync, two daemons": 900.0, "y-websocket": 300.0},
        measures.READ_P99: {"crdtsync": 80.04, "Redis always": 90.0, "etcd": 7.125},
    }
    assert report.tables(found).splitlines() == [
        "| | crdtsync | Redis always | etcd |",
        "|---|--:|--:|--:|",
        "| durable writes, 16 in flight, writes/s | 8,000 | 4,000 |  |",
        "| read, one client, p99, µs | 80.0 | 90.0 | 7.12 |",
        "",
        "| | crdtsync, two daemons | y-websocket |",
        "|---|--:|--:|",
        "| write at one client to event at another, p50, µs | 900 | 300 |",
        "",
        "| crdtsync alone | | |",
        "|---|---|---|",
        "| durable write, one client, p50 | 1.00 | µs |",
    ]


@pytest.mark.parametrize(
    "shares,wait_s,looks,busiest",
    [
        ([0.05], 300, 1, 0.05),  # quiet at once
        ([0.8, 0.7, 0.02], 300, 3, 0.02),  # quiet in the end
        ([0.8, 0.7, 0.6], 2 * LOOK_S, 3, 0.6),  # never: it waits no longer than it may
        ([0.8], 0, 1, 0.8),  # told not to wait
    ],
)
async def test_it_waits_for_a_quiet_machine_and_says_if_it_never_was(
    shares: list[float], wait_s: float, looks: int, busiest: float
) -> None:
    told: list[str] = []
    slept_s: list[float] = []
    read = iter([(0, 0), *[ticks for share in shares for ticks in ((round(share * 100), 100), (0, 0))]])

    async def sleep(seconds: float) -> None:
        slept_s.append(seconds)

    quiet = Quiet(wait_s, told.append, lambda: next(read), sleep)
    await quiet.wait()
    assert len(slept_s) == looks
    assert quiet.busiest == busiest
    assert any("not of a quiet machine" in line for line in told) == (busiest > 0.1)


def test_the_page_tells_each_target_with_its_ratio_and_why_it_is_missed() -> None:
    found = {
        measures.WRITE_P50: {"Redis always": 200.0, "crdtsync": 260.0},
        measures.READ_P50: {"Redis always": 90.0, "crdtsync": 80.0},
        large.restart_of(large.MOST): {"crdtsync": 6.25},
        measures.APPENDS_RATE: {"crdtsync": 30_000.0},
        measures.LOST_BY_KILL: {"crdtsync": 0.0, "Redis always": 0.0},
        measures.DISTANCE_P50: {"crdtsync, two daemons": 900.0, "y-websocket": 250.0, floors.BareLine.name: 450.0},
        measures.WRITES: {"crdtsync": 8000.0, "Redis always": 16_000.0, floors.Bare.name: 24_000.0},
    }
    text = page.text(found, page.Run(3, 500, busiest=0.04), [])
    assert "| durable write, one client | ≤ 1× | 1.3× | **missed** |" in text
    assert "| read through the socket | ≤ 1× | 0.89× | met |" in text
    assert "| restart to first read, 1,000 keys | ≤ 4× | not in this run | |" in text
    assert "| restart to first read, 1,000,000 keys | ≤ 5 s | 6.25 s | **missed** |" in text
    assert "| catch-up of appends | ≥ 25,000 changes/s | 30,000 changes/s | met |" in text
    assert "| acknowledged writes lost by kill -9 | ≤ 0 writes | 0 writes | met |" in text
    assert "| write to event over two hosts, beside two bare servers | ≤ 1.3× | 2× | **missed** |" in text
    beside = "| write to event over two hosts, beside y-websocket | ≤ 1.5× | 3.6× "
    assert f"{beside}| below the floor, a bare server: 1.8× |" in text
    assert "| durable writes a second, 16 in flight | ≥ 1× | 0.5× | **missed**, a bare server: 1.5× |" in text
    assert "- **durable write, one client**: Floor" in text
    assert "| catch-up after 20,000 missed appends | 30,000 | changes/s |" in text
    less = command.shortened(command.Options(keys=1500, overwrites=0))
    assert less == "In this run 1,000,000 keys were 1,500, and what is a part of that likewise less."
    assert less in page.text(found, page.Run(3, 500, 0.04, shortened=less), [])
    assert not command.shortened(command.Options())
    assert "60 s; many keys 30 s" in page.text(found, page.Run(3, 500, 0.04, {"rivals": 60, "many keys": 30}), [])
    assert "others took 4% of the processors" in text
    assert "not quiet" not in text
    assert "not quiet" in page.text(found, page.Run(3, 500, busiest=0.5), [])
