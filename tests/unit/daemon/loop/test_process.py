"""How much memory is free: the host's, or what a cgroup above this process allows. What only the start needed is given
back, and nothing breaks by it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from crdtsyncd.loop.process import free_memory_bytes

MIB = 1024 * 1024
PROGRAM = """
import sqlite3
from pathlib import Path
import crdtsyncd.serve
from crdtsyncd.loop.process import release_start_pages

def resident_kb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

before = resident_kb()
assert release_start_pages() > 0
after = resident_kb()
import pycrdt
text = pycrdt.Doc().get("t", type=pycrdt.Text)
text += "still here"
assert sqlite3.connect(":memory:").execute("SELECT 1").fetchone() == (1,)
print(before - after, str(text))
"""


def machine(place: Path, limits: dict[str, tuple[str, int]]) -> tuple[Path, Path]:
    """A host with 100 MiB available, and this process in ``a/b``; of each group the most and what is in use."""
    proc, cgroups = place / "proc", place / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 204800 kB\nMemAvailable:  102400 kB\n")
    (proc / "self" / "cgroup").write_text("0::/a/b\n")
    (cgroups / "a" / "b").mkdir(parents=True)
    for group, (most, current) in limits.items():
        (cgroups / group / "memory.max").write_text(f"{most}\n")
        (cgroups / group / "memory.current").write_text(f"{current}\n")
        (cgroups / group / "memory.stat").write_text(f"anon 5\nactive_file {MIB}\ninactive_file {MIB}\n")
    return proc, cgroups


def test_without_a_limit_it_is_what_the_host_has(tmp_path: Path) -> None:
    assert free_memory_bytes(*machine(tmp_path, {"a/b": ("max", 7)})) == 100 * MIB


def test_the_narrowest_limit_counts_without_what_is_cached(tmp_path: Path) -> None:
    limits = {"a": (str(50 * MIB), 30 * MIB), "a/b": (str(80 * MIB), 30 * MIB)}
    assert free_memory_bytes(*machine(tmp_path, limits)) == 22 * MIB


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    assert free_memory_bytes(tmp_path / "none", tmp_path / "none") is None


def test_this_one_says() -> None:
    assert free_memory_bytes() is not None


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")
def test_code_that_only_the_start_needed_is_given_back():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    saved_kb, text = done.stdout.split(maxsplit=1)
    assert int(saved_kb) > 4000
    assert text.strip() == "still here"
