"""The fuzzers against real daemons, briefly, so that they cannot rot; ``python -m fuzz`` runs them at length."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("target,inputs", [("frames", 1000), ("peer", 100), ("joining", 200), ("hostile-edits", 500)])
def test_a_short_run_finds_nothing(target: str, inputs: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", target, "--inputs", str(inputs), "--seconds", "20"],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "seed" in done.stdout
