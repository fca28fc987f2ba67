"""Memory that only the start needed is given back, and nothing breaks by it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sqlite3
from pathlib import Path
import crdtsyncd.serve
from crdtsyncd.loop.memory_release import release_start_pages

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


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")
def test_code_that_only_the_start_needed_is_given_back():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    saved_kb, text = done.stdout.split(maxsplit=1)
    assert int(saved_kb) > 4000
    assert text.strip() == "still here"
