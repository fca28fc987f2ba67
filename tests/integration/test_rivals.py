"""The benchmark beside others, briefly: it measures what it says, of real servers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.rivals import command, large, measures, overwritten, page, report
from benchmarks.rivals.processes import ServerError

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_it_measures_crdtsync_beside_redis(tmp_path: Path) -> None:
    if shutil.which("redis-server") is None and (os.geteuid() != 0 or shutil.which("apt-get") is None):
        pytest.skip("needs redis-server, or root and apt-get to install it")
    systems = ["--system", "crdtsync", "--system", "redis", "--out", str(tmp_path)]
    amount = ["--rounds", "1", "--writes", "40", "--kill-after", "0.1", "--missed", "0"]
    amount += ["--keys", "1200", "--overwrites", "1200", "--agents", "0", "--edits", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "rivals", *amount, "--json", *systems],
        cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for figure in (measures.WRITE_P50, measures.WRITES, measures.READ_P50, measures.RESTART, measures.DISK):
        assert found[figure.name].keys() == {"crdtsync", "Redis always"}
        assert all(value > 0 for value in found[figure.name].values())
    assert found[measures.LOST_BY_KILL.name]["crdtsync"] == 0
    assert found[large.restart_of(large.MOST).name]["crdtsync"] > 0
    assert found[overwritten.LIVE.name]["crdtsync"] == 1
    assert len(found[measures.DISTANCE_P50.name]) == 2
    assert "crdtsync" in (tmp_path / "rivals.md").read_text()
    assert (tmp_path / "rivals-1.svg").read_text().startswith("<svg")


async def test_a_step_that_ignores_its_end_is_told_and_left() -> None:
    released = asyncio.Event()

    async def stubborn() -> None:
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()

    with pytest.raises(ServerError, match="the first read"):
        await measures.within("the first read", 0.01, stubborn())
    released.set()


def test_the_table_tells_ratios_and_the_best_first() -> None:
    found = {measures.WRITES: {"Redis always": 4000.0, "crdtsync": 8000.0}, measures.WRITE_P50: {"crdtsync": 1.0}}
    lines = report.table(found, 3).splitlines()
    assert lines[4] == "| crdtsync | 8,000 | 1.00 |"
    assert lines[5] == "| Redis always | 4,000 | 2.00 |"


def test_the_page_tells_each_target_with_its_ratio_and_why_it_is_missed() -> None:
    found = {
        measures.WRITE_P50: {"Redis always": 200.0, "crdtsync": 260.0},
        measures.READ_P50: {"Redis always": 90.0, "crdtsync": 80.0},
        large.restart_of(large.MOST): {"crdtsync": 6.25},
        measures.APPENDS_RATE: {"crdtsync": 30_000.0},
        measures.LOST_BY_KILL: {"crdtsync": 0.0, "Redis always": 0.0},
    }
    text = page.text(found, page.Run(3, 500, load_before=0.1, load_after=1.0), [])
    assert "| durable write, one client | ≤ 1× | 1.3× | **missed** |" in text
    assert "| read through the socket | ≤ 1× | 0.89× | met |" in text
    assert "| restart to first read, 1,000 keys | ≤ 1× | not in this run | |" in text
    assert "| restart to first read, 1,000,000 keys | ≤ 5 s | 6.25 s | **missed** |" in text
    assert "| catch-up of appends | ≥ 25,000 changes/s | 30,000 changes/s | met |" in text
    assert "| acknowledged writes lost by kill -9 | ≤ 0 writes | 0 writes | met |" in text
    assert "- **durable write, one client**: Floor" in text
    assert "| catch-up after 20,000 missed appends | 30,000 | changes/s |" in text
    less = command.shortened(command.Options(keys=1500, overwrites=0))
    assert less == "In this run 1,000,000 keys were 1,500, and what is a part of that likewise less."
    assert less in page.text(found, page.Run(3, 500, 0.1, 1.0, shortened=less), [])
    assert not command.shortened(command.Options())
    assert "60 s; many keys 30 s" in page.text(found, page.Run(3, 500, 0.1, 1.0, {"rivals": 60, "many keys": 30}), [])
    assert "not quiet" not in text
    assert "not quiet" in page.text(found, page.Run(3, 500, load_before=100.0, load_after=1.0), [])
