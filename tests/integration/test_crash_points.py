"""Kills and errors of the disk at some of all points, briefly; ``./dev crash`` tries them all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.harness import can_trace

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ROOT = Path(__file__).parents[2]


def crash(*words: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: it forks its daemons, and must have one thread."""
    command = [sys.executable, "-m", "tests.crash", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", [
    ("kills", "--count", "6"), ("points", "--cases", "6"), ("steps", "--cases", "6"), ("errors", "--cases", "6"),
])  # fmt: skip
def test_some_of_all_points(words: tuple[str, ...]) -> None:
    if words[0] != "kills" and not can_trace():
        pytest.skip("needs root and strace (apt-get install strace)")
    done = crash(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no violation" in done.stdout


@pytest.mark.parametrize("words", [
    ("kills", "--count", "6", "--plant", "ack-early"),
    ("points", "--cases", "5", "--only", "write/fdatasync", "--plant", "ack-early"),
    ("steps", "--cases", "3", "--only", "*/fdatasync", "--plant", "ack-early"),
    ("errors", "--cases", "9", "--only", "write/fdatasync/EIO*", "--plant", "ignore-errors"),
])  # fmt: skip
def test_the_control_fails(words: tuple[str, ...]) -> None:
    if words[0] != "kills" and not can_trace():
        pytest.skip("needs root and strace (apt-get install strace)")
    done = crash(*words, "--seed", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert ("FOUND" if words[0] == "steps" else "lacks") in done.stdout
